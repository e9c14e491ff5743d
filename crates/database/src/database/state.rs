//! The state of an open database: its engine and journal, its counters, and what is told to whoever runs it.

use std::sync::Arc;

use quarry_journal::Journal;
use quarry_storage::Engine;

use super::Database;
use crate::build::builds::InterruptedBuild;
use crate::commit::refusals::{OnChange, RefusedWrites};
use crate::record_cache::RecordCacheCounters;
use crate::upkeep::checkpoint::OnTrouble;

impl Database {
    /// The engine, with what is still to be written to it.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// The journal, to be looked at and read.
    pub fn journal(&self) -> &Journal {
        self.commits.journal()
    }

    /// The counters of the cache of records; `None` without one.
    pub fn record_cache_counters(&self) -> Option<RecordCacheCounters> {
        self.reads.records().map(|records| records.counters())
    }

    /// Has `on_change` called when writes begin to be refused, and when they are taken again.
    pub fn on_writes_change(&self, on_change: OnChange) {
        self.commits.refusals().on_change(on_change);
    }

    /// Has `on_trouble` called when segments of the journal cannot be freed or made, and when they can again.
    pub fn on_journal_trouble(&self, on_trouble: OnTrouble) {
        self.commits.checkpoints().on_trouble(on_trouble);
    }

    /// How often a background thread panicked and was started again.
    pub fn background_panics(&self) -> u64 {
        self.background.panics()
    }

    /// How many writes were refused since the start, and why they are refused now, if they are.
    pub fn refused_writes(&self) -> RefusedWrites {
        self.commits.refusals().so_far()
    }

    /// The builds that a crash had cut off when the database was opened.
    pub fn interrupted_builds(&self) -> &[InterruptedBuild] {
        &self.interrupted_builds
    }
}

/// The parts that tests of single wings look at.
#[cfg(test)]
impl Database {
    pub(crate) fn commits(&self) -> &crate::commit::commits::Commits {
        &self.commits
    }

    pub(crate) fn writer(&self) -> &crate::write::Writer {
        &self.writer
    }

    pub(crate) fn definitions(&self) -> &crate::catalog::definitions::Definitions {
        &self.definitions
    }

    pub(crate) fn write_locks(&self) -> &crate::locks::WriteLocks {
        self.writer.locks()
    }
}
