//! Space of dropped collections and indexes comes back in the background, in bounded, restartable steps.
//!
//! A drop leaves a mark for each ident. When every reader and writer has ended that may have asked the catalog before the
//! drop, the range of the ident is given back to the engine a step at a time; the mark goes when the engine has made that
//! durable. The order is: the mark is seen in the engine; the catalog has followed the group that made it; a new epoch
//! begins; the epochs before it end. Whoever enters the new epoch asks a catalog that does not name the ident any more.
//!
//! The multikey marks of a dropped index go with its mark, and not before: a snapshot that has its entries may load its
//! definition only now, and a plan that took it for an index without arrays would answer wrongly.
//!
//! Idents that follow each other are one range: nothing lies between their keys, and nothing that lives can. What a
//! `dropDatabase` of many thousand collections leaves so costs the engine a few steps, where single ones cost one each. A
//! tick ends with the first range that needs another step, and when its time is over.

use std::time::{Duration, Instant};

use quarry_storage::{Engine, KeyRange, WriteBatch};

use crate::catalog::cache::Catalog;
use crate::commit::commits::Commits;
use crate::commit::payload::Header;
use crate::error::Result;
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::locks::epochs::Epochs;
use crate::upkeep::background::Stop;

const STEP_BYTES: u64 = 4 * 1024 * 1024;
/// Idents that wait for one grace period, and for one sync of the engine afterwards.
const IDENTS_AT_ONCE: usize = 16_384;
/// No further range is begun in a tick after this time: a fifth of the time between two ticks.
const TICK_TIME: Duration = Duration::from_millis(100);
/// Marks that one group takes away. Loads into the catalog wait for such a group.
const MARKS_A_GROUP: usize = 1024;

/// The state of the background thread between two steps.
#[derive(Default)]
pub struct Reclaimer {
    /// Marks seen before the grace period that is running, and the version they were seen at.
    waiting: Vec<Ident>,
    /// How many of them, from the first one on, have been reclaimed since.
    reclaimed: usize,
    applied_seen: u64,
}

impl Reclaimer {
    pub fn step(
        &mut self,
        commits: &Commits,
        catalog: &Catalog,
        epochs: &Epochs,
        stop: &Stop,
    ) -> Result<()> {
        let engine: &dyn Engine = commits.late_writes().as_ref();
        if self.waiting.is_empty() {
            let applied = commits.path().applied_lsn();
            if applied == self.applied_seen {
                return Ok(());
            }
            self.waiting = marks(engine)?;
            self.applied_seen = applied;
            // The engine shows a mark before the catalog's cache has forgotten what was dropped.
            catalog.wait_until_applied();
            if self.waiting.is_empty() {
                return Ok(());
            }
            if !epochs.advance() {
                self.waiting.clear();
                self.applied_seen = 0;
                return Ok(());
            }
            // Whoever is in an epoch that began before keeps all of it.
            commits
                .path()
                .note_drops(estimated_bytes(engine, &self.waiting)?);
            return Ok(());
        }
        if !epochs.old_is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        while let Some((range, count)) = first_range(&self.waiting[self.reclaimed..]) {
            // The marks stay: the next start goes on.
            if stop.is_set() || begun.elapsed() > TICK_TIME {
                return Ok(());
            }
            if !engine.reclaim(range, STEP_BYTES)?.done {
                return Ok(());
            }
            self.reclaimed += count;
        }
        engine.sync()?;
        if self.remove_marks(engine, commits)? {
            self.waiting.clear();
            self.reclaimed = 0;
        }
        Ok(())
    }

    /// Refused, or while the engine takes nothing, the rest of the marks stay, and so does the wish to take them away; false then.
    fn remove_marks(&self, engine: &dyn Engine, commits: &Commits) -> Result<bool> {
        for idents in self.waiting.chunks(MARKS_A_GROUP) {
            let mut batch = WriteBatch::new();
            let snapshot = engine.snapshot()?;
            let mut cursor = snapshot.cursor(KeyRange::prefix(layout::MULTIKEY))?;
            for ident in idents {
                batch.delete(&layout::dropped_key(*ident));
                let multikey = layout::multikey_prefix(*ident);
                cursor.seek(&multikey)?;
                while cursor.valid() && cursor.key().starts_with(&multikey) {
                    batch.delete(cursor.key());
                    cursor.next()?;
                }
            }
            if commits.try_commit(&Header::PLAIN, &batch)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The range of the first ident and of those that follow it without a gap, and how many they are.
fn first_range(idents: &[Ident]) -> Option<(KeyRange, usize)> {
    let (first, rest) = idents.split_first()?;
    let following = rest.iter().zip(first.0 + 1..);
    let in_a_row = following.take_while(|(ident, next)| ident.0 == *next);
    let count = 1 + in_a_row.count();
    let range = KeyRange {
        start: first.prefix().as_bytes().to_vec(),
        end: idents[count - 1].prefix().end(),
    };
    Some((range, count))
}

/// The bytes that idents take, as the engine estimates them.
fn estimated_bytes(engine: &dyn Engine, mut idents: &[Ident]) -> Result<u64> {
    let mut bytes = 0;
    while let Some((range, count)) = first_range(idents) {
        bytes += engine.size_estimate(&range)?;
        idents = &idents[count..];
    }
    Ok(bytes)
}

fn marks(engine: &dyn Engine) -> Result<Vec<Ident>> {
    let snapshot = engine.snapshot()?;
    let mut cursor = snapshot.cursor(KeyRange::prefix(layout::DROPPED))?;
    cursor.first()?;
    let mut idents = Vec::new();
    while cursor.valid() && idents.len() < IDENTS_AT_ONCE {
        idents.extend(layout::split_ident(layout::DROPPED, cursor.key()).map(|(ident, _)| ident));
        cursor.next()?;
    }
    Ok(idents)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quarry_bson::doc;
    use quarry_storage::{HastyReclaim, Memory};

    use super::*;
    use crate::{Database, Level, Namespace, Operation, Options};

    const COLLECTIONS: usize = 2000;
    /// From the first range to the last. One range a tick would take a thousand; a machine that is busy with other things
    /// takes some more than the handful that two passes need.
    const TICKS_MAX: u64 = 40;
    const PATIENCE: Duration = Duration::from_secs(60);

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn collection(number: usize) -> Namespace {
        Namespace::new("db", &format!("c{number}")).unwrap()
    }

    /// Makes collections, drops those that `is_dropped`, and waits until their space is taken back; the number of ranges
    /// that took and the ticks from the first one to the last.
    fn drop_and_reclaim(is_dropped: impl Fn(usize) -> bool) -> (usize, u64) {
        let engine = Arc::new(HastyReclaim::new(Arc::new(Memory::new())));
        let database = Database::open(Arc::clone(&engine) as _, Options::default()).unwrap();
        let operation = Operation::default();
        let document = doc! { "_id": 1 };
        for number in 0..COLLECTIONS {
            let documents = [document.as_raw()];
            database
                .insert_piece(
                    &operation,
                    &collection(number),
                    &documents,
                    true,
                    Level::Written,
                )
                .unwrap();
        }
        // Nothing is taken back before the last one is dropped.
        let reader = database.snapshot(&collection(0)).unwrap();
        for number in (0..COLLECTIONS).filter(|number| is_dropped(*number)) {
            database
                .drop_collection(&collection(number), &operation, Level::Written)
                .unwrap();
        }
        assert_eq!(engine.reclaimed(), 0);
        drop(reader);
        wait_until("marks are left", || {
            marks(engine.as_ref()).unwrap().is_empty()
        });
        let ticks = engine.ticks();
        for number in (0..COLLECTIONS).filter(|number| !is_dropped(*number)) {
            let found = database.insert_piece(
                &operation,
                &collection(number),
                &[document.as_raw()],
                true,
                Level::Written,
            );
            assert_eq!(found.unwrap().errors.len(), 1, "{number} lost its document");
        }
        database.close().unwrap();
        (engine.reclaimed(), ticks)
    }

    #[test]
    fn idents_in_a_row_are_taken_back_together() {
        // The marks that were seen first are a range of their own.
        let (ranges, ticks) = drop_and_reclaim(|_| true);
        assert!(ranges <= 2 && ticks <= TICKS_MAX, "{ranges} {ticks}");
    }

    #[test]
    fn idents_between_living_ones_are_taken_back_in_few_ticks() {
        let (ranges, ticks) = drop_and_reclaim(|number| number % 2 == 0);
        assert_eq!(ranges, COLLECTIONS / 2);
        assert!(ticks <= TICKS_MAX, "{ticks}");
    }
}
