//! The sums that `dbStats` has found of databases with very many collections, brought up to date from the journal.
//!
//! A walk over a million collections takes half a second of a processor, and whoever watches a server asks again every few
//! seconds. Between two questions mostly documents change, and the journal's records say by how much: the sums follow from those
//! that were committed since, at the cost of reading them. Nothing is done for it by those who write.
//!
//! Keeps true: sums that are handed out are those that a walk over the same state would find. A record that changes a catalog
//! entry of the database, the mark of a dropped one, a gap in the journal, more records than `READ_BYTES_MAX`, and whatever
//! cannot be read end what is remembered, and the caller walks. So does data of which much has changed (`DATA_PARTS`):
//! the counts would still be right, but the collections that the engine is asked for would no longer be the largest.
//!
//! Leaves out: databases that a walk is through with in a millisecond or two, and those that are being dropped, because
//! a writer may still be at work in a collection that has gone.

use parking_lot::Mutex;
use quarry_storage::WriteBatch;

use crate::commit::commits::Commits;
use crate::commit::payload::{Delta, Payload};
use crate::definitions::database_stats::Sums;
use crate::keyspace::layout;

/// A database with fewer collections is walked through each time.
pub(super) const COLLECTIONS_MIN: usize = if cfg!(test) { 8 } else { 4096 };
/// The databases that are remembered, the ones that were asked for last.
const DATABASES_MAX: usize = 16;
/// The bytes of records that are read at most in place of a walk, which takes longer.
const READ_BYTES_MAX: usize = if cfg!(test) { 4096 } else { 8 << 20 };
/// The data may change by one part in so many ...
const DATA_PARTS: u64 = 16;
/// ... and by so many bytes, whatever there is.
const CHANGED_BYTES_MIN: u64 = if cfg!(test) { 1024 } else { 16 << 20 };

/// The sums of databases, each as of the commit that it was asked at last.
#[derive(Default)]
pub(super) struct RememberedSums(Mutex<Vec<(String, Sums)>>);

impl RememberedSums {
    /// The sums of a database as of the commit `lsn`, which the engine shows, or as of a later one that somebody has asked at.
    /// None where they cannot be told without a walk.
    pub fn at(&self, database: &str, lsn: u64, commits: &Commits) -> Option<Sums> {
        let mut sums = {
            let mut remembered = self.0.lock();
            let place = place_of(&remembered, database)?;
            remembered.remove(place).1
        };
        // Without the lock: meanwhile somebody else may walk, and remember what he finds.
        follow(&mut sums, database, lsn, commits)?;
        self.keep(database, &sums);
        Some(sums)
    }

    /// Remembers the sums of a database, unless later ones are.
    pub fn keep(&self, database: &str, sums: &Sums) {
        let mut remembered = self.0.lock();
        if let Some(place) = place_of(&remembered, database) {
            let (_, other) = remembered.remove(place);
            if other.lsn > sums.lsn {
                remembered.push((database.to_owned(), other));
                return;
            }
        }
        if remembered.len() == DATABASES_MAX {
            remembered.remove(0);
        }
        remembered.push((database.to_owned(), sums.clone()));
    }
}

fn place_of(remembered: &[(String, Sums)], database: &str) -> Option<usize> {
    remembered.iter().position(|(name, _)| name == database)
}

/// Adds the records up to `lsn`; none if they do not tell all.
fn follow(sums: &mut Sums, database: &str, lsn: u64, commits: &Commits) -> Option<()> {
    if sums.lsn >= lsn {
        return Some(());
    }
    let mut groups = commits.journal().log().read(sums.lsn + 1).ok()?;
    let mut left = READ_BYTES_MAX;
    while sums.lsn < lsn {
        let payloads = groups.next_group().ok()??;
        for (at, bytes) in &payloads {
            if at != sums.lsn + 1 {
                return None;
            }
            left = left.checked_sub(bytes.len())?;
            follow_record(sums, database, &Payload::parse(bytes).ok()?)?;
            sums.lsn = at;
        }
    }
    Some(())
}

fn follow_record(sums: &mut Sums, database: &str, payload: &Payload<'_>) -> Option<()> {
    let is_told = payload.tells_events();
    if !is_told || (payload.touches_catalog() && redefines(payload.batch, database)) {
        return None;
    }
    for delta in payload.deltas().filter(Delta::counts) {
        let collection = delta.namespace.strip_prefix(database.as_bytes());
        if collection.is_none_or(|collection| collection.first() != Some(&b'.')) {
            continue;
        }
        sums.stats.documents = (sums.stats.documents).checked_add_signed(delta.documents)?;
        sums.stats.data_bytes = (sums.stats.data_bytes).checked_add_signed(delta.bytes)?;
        sums.changed_bytes = (sums.changed_bytes).saturating_add(delta.bytes.unsigned_abs());
    }
    let changed_max = CHANGED_BYTES_MIN.max(sums.stats.data_bytes / DATA_PARTS);
    (sums.changed_bytes <= changed_max).then_some(())
}

/// Whether a batch changes what the catalog has of the database.
fn redefines(batch: &[u8], database: &str) -> bool {
    let (entries, mark) = (
        layout::catalog_key(database, ""),
        layout::dropped_database_key(database),
    );
    WriteBatch::ops_in(batch).any(|op| op.key().starts_with(&entries) || op.key() == mark)
}
