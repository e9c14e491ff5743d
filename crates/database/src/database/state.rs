//! The state of an open database: its engine and journal, a copy of both, its counters, and what is told to whoever runs it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quarry_journal::{Journal, RealFiles};
use quarry_storage::Engine;

use super::Database;
use super::files_lock::FilesLock;
use crate::commit::checkpoint::OnTrouble;
use crate::commit::refusals::{OnChange, RefusedWrites};
use crate::definitions::builds::InterruptedBuild;
use crate::error::{Error, Result};
use crate::record_cache::RecordCacheCounters;

/// Where a copy of the data stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The last log position that it holds.
    pub lsn: u64,
    /// It holds every write with this cluster time or an earlier one; 0 where nothing was ever written.
    pub cluster_time: u64,
}

/// Where the time of an opening went, behind that of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayTimes {
    /// To read what the engine may miss, and to cut and sync the journal's end.
    pub read: Duration,
    /// To read it once more, put it into the engine, and begin the journal's next segment meanwhile.
    pub apply: Duration,
    /// To have the engine sync it.
    pub sync: Duration,
}

impl Database {
    /// Where the time went that the opening took.
    pub fn replay_times(&self) -> ReplayTimes {
        self.replay_times
    }

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

    /// Has `on_change` called when writes begin to be refused, and when they are taken again. Damage that was met before is told
    /// immediately.
    pub fn on_writes_change(&self, on_change: OnChange) {
        self.commits.refusals().on_change(on_change);
    }

    /// Has `on_trouble` called when segments of the journal cannot be freed or made, and when they can again.
    pub fn on_journal_trouble(&self, on_trouble: OnTrouble) {
        self.commits.checkpoints().on_trouble(on_trouble);
    }

    /// Copies the data into two directories of the same device that do not exist yet: everything acknowledged before the call,
    /// and perhaps later writes, each as a whole. A database opens on them as it does after a crash. An error leaves what was
    /// copied so far to the caller. Fails where engine or journal are in memory.
    pub fn copy_to(&self, engine_directory: &Path, journal_directory: &Path) -> Result<Copied> {
        // The engine's files are copied first and the end of the journal after them, with the journal pinned at what the engine
        // held durably before: the two together are what a process leaves that is killed between both, and a start on them
        // replays what the engine's copy lacks.
        let (journal, engine) = (self.commits.journal(), self.commits.late_writes());
        let cluster_time = journal.cluster_time();
        let pin = journal.pin(engine.durable_lsn()?);
        engine.copy_to(engine_directory)?;
        let failed = |error: std::io::Error| Error::from(quarry_storage::Error::from(error));
        let files = RealFiles::open(journal_directory).map_err(failed)?;
        let lsn = journal.copy_pinned(&pin, &files)?;
        Ok(Copied { lsn, cluster_time })
    }

    /// Locks the files for somebody who copies them, or locks them once more; how many locks there are. From then on writes wait,
    /// and no file of engine and journal changes. Reads go on. It ends with the operation that runs on this thread, and at the
    /// deadline, if there is one; then nothing is locked.
    pub fn lock_files(&self, deadline: Option<Instant>) -> Result<u64> {
        FilesLock(&self.commits).lock(deadline)
    }

    /// Gives up one lock; how many are left. None where there was none. Writes go on with the last one.
    pub fn unlock_files(&self) -> Result<Option<u64>> {
        FilesLock(&self.commits).unlock()
    }

    /// Whether the files are locked.
    pub fn are_files_locked(&self) -> bool {
        FilesLock(&self.commits).is_locked()
    }

    /// Gives up all locks because the server stops, with an error for the writes that wait; whether there were any.
    pub fn end_files_lock(&self) -> Result<bool> {
        FilesLock(&self.commits).end()
    }

    /// How often a background thread panicked and was started again.
    pub fn background_panics(&self) -> u64 {
        self.background.panics()
    }

    /// How many writes were refused since the start, and why they are refused now, if they are.
    pub fn refused_writes(&self) -> RefusedWrites {
        self.commits.refusals().so_far()
    }

    /// The damage that was met in the background, if any was: no write is taken since.
    pub fn damage(&self) -> Option<String> {
        self.commits.path().damage().reason().map(str::to_owned)
    }

    /// When the engine's durable point last moved, in milliseconds since the epoch: from there a start replays the journal. None
    /// where it has not moved since the database was opened.
    pub fn last_checkpoint_ms(&self) -> Option<u64> {
        self.commits.checkpoints().last_ms()
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

    pub(crate) fn definitions(&self) -> &crate::definitions::changes::Definitions {
        &self.definitions
    }

    pub(crate) fn write_locks(&self) -> &crate::locks::WriteLocks {
        self.writer.locks()
    }
}
