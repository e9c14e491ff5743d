//! Space of dropped collections and indexes comes back in the background, in bounded, restartable steps.
//!
//! A drop leaves a mark for each ident. When every reader and writer has ended that may have asked the catalog before the
//! drop, the range of the ident is given back to the engine a step at a time; the mark goes when the engine has made that
//! durable. The order is: the mark is seen in the engine; the catalog has followed the group that made it; a new epoch
//! begins; the epochs before it end. Whoever enters the new epoch asks a catalog that does not name the ident any more.

use quarry_journal::Journal;
use quarry_storage::{Engine, KeyRange, WriteBatch};

use crate::catalog::cache::Catalog;
use crate::commit::CommitPath;
use crate::commit::payload::Header;
use crate::error::Result;
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::snapshot::epochs::Epochs;
use crate::upkeep::background::Stop;

const STEP_BYTES: u64 = 4 * 1024 * 1024;
const IDENTS_AT_ONCE: usize = 256;

/// The state of the background thread between two steps.
#[derive(Default)]
pub struct Reclaimer {
    /// Marks seen before the grace period that is running, and the version they were seen at.
    waiting: Vec<Ident>,
    applied_seen: u64,
}

impl Reclaimer {
    pub fn step(
        &mut self,
        engine: &dyn Engine,
        journal: &Journal,
        commit_path: &CommitPath,
        catalog: &Catalog,
        epochs: &Epochs,
        stop: &Stop,
    ) -> Result<()> {
        if self.waiting.is_empty() {
            let applied = commit_path.applied_lsn();
            if applied == self.applied_seen {
                return Ok(());
            }
            self.waiting = marks(engine)?;
            self.applied_seen = applied;
            // The engine shows a mark before the catalog's cache has forgotten what was dropped.
            catalog.wait_until_applied();
            if !self.waiting.is_empty() && !epochs.advance() {
                self.waiting.clear();
                self.applied_seen = 0;
            }
            return Ok(());
        }
        if !epochs.old_is_empty() {
            return Ok(());
        }
        for ident in &self.waiting {
            // The marks stay: the next start goes on.
            if stop.is_set() {
                return Ok(());
            }
            let range = KeyRange {
                start: ident.prefix().as_bytes().to_vec(),
                end: ident.prefix().end(),
            };
            if !engine.reclaim(range, STEP_BYTES)?.done {
                return Ok(());
            }
        }
        engine.sync()?;
        let mut batch = WriteBatch::new();
        for ident in &self.waiting {
            batch.delete(&layout::dropped_key(*ident));
        }
        let mut record = Vec::new();
        Header::SYSTEM_ONLY.write(&mut record);
        record.extend_from_slice(batch.as_bytes());
        // Refused, the marks stay, and so does the wish to take them away.
        journal.submit(&record)?;
        self.waiting.clear();
        Ok(())
    }
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
