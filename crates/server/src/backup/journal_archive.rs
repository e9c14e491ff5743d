//! The archive that a running server keeps of its journal (`--journalArchive`), and what is told of it.
//!
//! It stands in the server and not in a process beside it: the server knows at any moment what is durable, reads nothing twice, and
//! keeps its own segments until the archive has them, with nobody to tell it that a follower has died.
//!
//! Keeps true: writers wait for nothing of it; a round that fails is tried again each second, and told once when it begins and
//! once when it is over; one that nobody waits for any more ends between two parts of a segment. Leaves out the files, which are the journal's, and the thread (`archiving`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use quarry_bson::DateTime;
use quarry_database::Database;
use quarry_journal::archive::{Archive, Archived};
use quarry_journal::{Error, RealFiles};

use crate::observe::log;
use crate::process::data_directory::{WITHIN_DBPATH, leads_into};

/// How often somebody who waits for another round looks whether it is still wanted.
const WAIT_TICK: Duration = Duration::from_millis(20);

/// Why a round did not come to its end.
#[derive(Debug, PartialEq, Eq)]
pub enum RoundError {
    /// The caller did not wait for it.
    GivenUp,
    /// Journal or archive failed, in their words.
    Failed(String),
}

/// The archive, and what became of it so far.
pub struct JournalArchive {
    path: PathBuf,
    /// Held for a round.
    archive: Mutex<Archive>,
    state: Mutex<ArchiveState>,
}

/// The state of the archive as it is told.
#[derive(Clone, Debug, Default)]
pub struct ArchiveState {
    /// Everything up to this record is in the archive.
    pub lsn: u64,
    /// When the last round ended that succeeded, in milliseconds since the epoch; 0 for none.
    pub last_round_ms: i64,
    pub written_bytes: u64,
    /// The bytes of the whole archive.
    pub bytes: u64,
    /// Where something is missing, met since the start.
    pub gaps: u64,
    pub failures: u64,
    /// Why rounds fail now, if they do.
    pub failure: Option<String>,
}

impl JournalArchive {
    /// Opens the archive, or begins it, outside the data directory. The error is one line that names it.
    pub fn open(path: &Path, dbpath: &Path, database: &Database) -> Result<JournalArchive, String> {
        let bad =
            |why: &dyn std::fmt::Display| format!("journalArchive: `{}`: {why}", path.display());
        let Some(identity) = database.journal().identity() else {
            return Err(bad(&"the journal is not in files"));
        };
        if leads_into(path, dbpath) {
            return Err(bad(&WITHIN_DBPATH));
        }
        let files = RealFiles::open_archive(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => bad(&"another process writes it"),
            _ => bad(&error),
        })?;
        let archive = Archive::open(Arc::new(files), identity).map_err(|error| bad(&error))?;
        database.journal().begin_archive(&archive);
        Ok(JournalArchive {
            path: path.to_owned(),
            archive: Mutex::new(archive),
            state: Mutex::default(),
        })
    }

    /// Makes everything that was acknowledged before the call durable, and part of the archive. Gives it up soon after `is_over`
    /// says so.
    pub fn flush(
        &self,
        database: &Database,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Archived, RoundError> {
        self.run(database, true, is_over)
    }

    /// Brings the archive up to what is durable. Gives it up soon after `is_over` says so.
    pub fn round(
        &self,
        database: &Database,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Archived, RoundError> {
        self.run(database, false, is_over)
    }

    pub fn state(&self) -> ArchiveState {
        self.state.lock().clone()
    }

    fn run(
        &self,
        database: &Database,
        syncs: bool,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Archived, RoundError> {
        let mut archive = self.turn(is_over)?;
        let archived = database
            .journal()
            .archive_unless(&mut archive, syncs, is_over);
        let bytes = archive.bytes();
        drop(archive);
        let outcome = match archived {
            Err(Error::Interrupted) => return Err(RoundError::GivenUp),
            archived => archived.map_err(|error| error.to_string()),
        };
        self.note(&outcome, bytes);
        outcome.map_err(RoundError::Failed)
    }

    /// The archive, once no other round has it.
    fn turn(&self, is_over: &dyn Fn() -> bool) -> Result<MutexGuard<'_, Archive>, RoundError> {
        loop {
            if let Some(archive) = self.archive.try_lock_for(WAIT_TICK) {
                return Ok(archive);
            }
            if is_over() {
                return Err(RoundError::GivenUp);
            }
        }
    }

    fn note(&self, outcome: &Result<Archived, String>, bytes: u64) {
        let mut state = self.state.lock();
        let path = || ("archive", self.path.to_string_lossy().into_owned().into());
        match outcome {
            Ok(archived) => {
                if state.failure.take().is_some() {
                    log::info("storage", "the journal is archived again", &[path()]);
                }
                if archived.gaps > 0 {
                    let gaps = ("gaps", archived.gaps.into());
                    log::error(
                        "storage",
                        "the archive of the journal has a gap: nothing can be restored to a moment in it, nor over it from an older backup",
                        &[path(), gaps],
                    );
                }
                state.lsn = archived.lsn;
                state.last_round_ms = DateTime::now().0;
                state.written_bytes += archived.written_bytes;
                state.bytes = bytes;
                state.gaps += archived.gaps;
            }
            Err(reason) => {
                state.failures += 1;
                if state.failure.is_none() {
                    let reason = ("reason", reason.as_str().into());
                    log::error("storage", "the journal is not archived", &[path(), reason]);
                }
                state.failure = Some(reason.clone());
            }
        }
    }
}
