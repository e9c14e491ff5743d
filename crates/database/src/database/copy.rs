//! A copy of the data in other directories, made while everybody works on.
//!
//! The engine's files are copied first and the end of the journal after them, with the journal pinned at what the engine held
//! durably before: so the two together are what a process leaves that is killed between both, and a start on them replays what
//! the engine's copy lacks.

use std::path::Path;

use quarry_journal::RealFiles;
use quarry_storage::Engine;

use super::Database;
use crate::error::{Error, Result};

/// Where a copy of the data stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The last log position that it holds.
    pub lsn: u64,
    /// It holds every write with this cluster time or an earlier one; 0 where nothing was ever written.
    pub cluster_time: u64,
}

impl Database {
    /// Copies the data into two directories of the same device that do not exist yet: everything acknowledged before the call,
    /// and perhaps later writes, each as a whole. A database opens on them as it does after a crash. An error leaves what was
    /// copied so far to the caller. Fails where engine or journal are in memory.
    pub fn copy_to(&self, engine_directory: &Path, journal_directory: &Path) -> Result<Copied> {
        let (journal, engine) = (self.commits.journal(), self.commits.late_writes());
        let cluster_time = journal.cluster_time();
        let pin = journal.pin(engine.durable_lsn()?);
        engine.copy_to(engine_directory)?;
        let failed = |error: std::io::Error| Error::from(quarry_storage::Error::from(error));
        let files = RealFiles::open(journal_directory).map_err(failed)?;
        let lsn = journal.copy_pinned(&pin, &files)?;
        Ok(Copied { lsn, cluster_time })
    }
}
