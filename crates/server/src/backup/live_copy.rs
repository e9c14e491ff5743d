//! The copy of the data that an open backup cursor keeps: a directory within the data directory, which is one itself.
//!
//! Keeps true: one copy is open at a time; its files do not change as long as its cursor is open, and go with it. A copy whose
//! connection has gone without closing the cursor gives way to the next one. What a killed server leaves goes at the next start.
//!
//! A backup is made when the client that had all files closes their cursor; one that failed leaves that to the end of its connection. When
//! that was stands in a small file, so that a server that was started since can tell.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use quarry_bson::DateTime;
use quarry_database::{Copied, Database, Error, check_running};
use quarry_query::ErrorCode;
use quarry_seal::KEYSTORE_FILE;

use crate::backup::give_way::aside;
use crate::dispatch::error::{CommandError, Result};
use crate::observe::log;
use crate::process::engine::JOURNAL;

/// Where copies stand in the data directory.
const DIRECTORY: &str = "quarry.backup";
/// The file with the time of the last backup, in milliseconds since the epoch. Nothing but what is shown depends on it.
const LAST_FILE: &str = "quarry.lastbackup";
/// A longer file holds no time.
const LAST_BYTES_MAX: u64 = 32;
/// How often somebody who waits for another copy or lock looks whether it is still wanted.
const WAIT_TICK: Duration = Duration::from_millis(20);

/// The server's copies, of which one is open at most.
pub struct LiveCopies {
    /// Where the copies stand, each in a directory of its own.
    directory: PathBuf,
    /// The name of the engine's directory.
    engine: &'static str,
    state: Arc<Mutex<State>>,
    /// Held while files are being locked, or a copy takes its place: one keeps the other out.
    taking: Mutex<()>,
}

#[derive(Default)]
struct State {
    open: Option<Owned>,
    /// Each copy has a directory of its own: one that has to give way may still be being made.
    last_number: u64,
    /// When the last copy had been taken, in milliseconds since the epoch.
    last_taken_ms: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Owned {
    number: u64,
    connection: i64,
}

/// One copy. Dropping it removes the files.
pub struct LiveCopy {
    state: Arc<Mutex<State>>,
    owned: Owned,
    /// Where the time of the last backup stands.
    last_file: PathBuf,
    /// The directory of the copy: a data directory with the engine's and the journal's within it.
    pub directory: PathBuf,
    /// Where the copy ends.
    pub copied: Copied,
    /// The files with their lengths, by name.
    pub files: Vec<(PathBuf, u64)>,
}

/// Removes what a server left that was killed while a copy was open. Called with the data directory locked.
pub fn remove_leftovers(data_directory: &Path) -> io::Result<()> {
    remove(&data_directory.join(DIRECTORY))
}

impl LiveCopies {
    pub fn new(data_directory: &Path, engine: &'static str) -> LiveCopies {
        let state = State {
            last_taken_ms: last_taken(&data_directory.join(LAST_FILE)),
            ..State::default()
        };
        LiveCopies {
            directory: data_directory.join(DIRECTORY),
            engine,
            state: Arc::new(Mutex::new(state)),
            taking: Mutex::default(),
        }
    }

    /// Makes a copy for a cursor of this connection; `is_connected` tells of others whether they are still there.
    pub fn open(
        &self,
        database: &Database,
        connection: i64,
        is_connected: &dyn Fn(i64) -> bool,
    ) -> Result<LiveCopy> {
        let (owned, abandoned) = {
            let _taking = self.take(None)?;
            if database.are_files_locked() {
                let message = "The node is currently fsyncLocked.";
                return Err(CommandError::new(ErrorCode(50_887), message));
            }
            self.begin(connection, is_connected)?
        };
        let mut copy = LiveCopy {
            state: Arc::clone(&self.state),
            owned,
            last_file: self.directory.with_file_name(LAST_FILE),
            directory: self.directory_of(owned),
            copied: Copied {
                lsn: 0,
                cluster_time: 0,
            },
            files: Vec::new(),
        };
        if let Some(abandoned) = abandoned {
            let abandoned = self.directory_of(abandoned);
            aside(|| remove(&abandoned)).map_err(failed)?;
        }
        fs::create_dir_all(&copy.directory).map_err(failed)?;
        // Whoever reads the files may stand elsewhere.
        copy.directory = copy.directory.canonicalize().map_err(failed)?;
        let engine = copy.directory.join(self.engine);
        let journal = copy.directory.join(JOURNAL);
        copy.copied = database.copy_to(&engine, &journal)?;
        for directory in [&engine, &journal] {
            list(directory, &mut copy.files).map_err(failed)?;
        }
        let keystore = copy.directory.join(KEYSTORE_FILE);
        if let Some(bytes) = self.copy_keystore(&keystore).map_err(failed)? {
            copy.files.push((keystore, bytes));
        }
        copy.files.sort();
        Ok(copy)
    }

    /// Copies the keystore of an encrypted data directory, which nobody changes while a server uses it; its length. Without it nobody could
    /// open the other files.
    fn copy_keystore(&self, to: &Path) -> io::Result<Option<u64>> {
        let data_directory = self.directory.parent().unwrap_or(&self.directory);
        match fs::copy(data_directory.join(KEYSTORE_FILE), to) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Locks the files of the data for somebody who copies them without a cursor; how many locks there are. Not beside an open
    /// copy, whose making needs the engine to work. Fails at the deadline, if there is one.
    pub fn lock_files(
        &self,
        database: &Database,
        is_connected: &dyn Fn(i64) -> bool,
        deadline: Option<Instant>,
    ) -> Result<u64> {
        let _taking = self.take(deadline)?;
        let open = self.state.lock().open;
        if open.is_some_and(|open| is_connected(open.connection)) {
            return Err(CommandError::new(
                ErrorCode(50_884),
                "The existing backup cursor must be closed before fsyncLock can succeed.",
            ));
        }
        Ok(database.lock_files(deadline)?)
    }

    /// The right to begin a copy or to lock files, which somebody may have who waits for engine and disk. The operation that runs
    /// on this thread may be ended meanwhile.
    fn take(&self, deadline: Option<Instant>) -> Result<MutexGuard<'_, ()>> {
        loop {
            if let Some(taking) = self.taking.try_lock_for(WAIT_TICK) {
                return Ok(taking);
            }
            check_running()?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(CommandError::new(
                    ErrorCode::LOCK_TIMEOUT,
                    "Fsync lock timed out",
                ));
            }
        }
    }

    /// Gives up one lock; how many are left, none where there was none.
    pub fn unlock_files(&self, database: &Database) -> Result<Option<u64>> {
        Ok(database.unlock_files()?)
    }

    /// When the last backup was made, in milliseconds since the epoch.
    pub fn last_taken_ms(&self) -> Option<i64> {
        self.state.lock().last_taken_ms
    }

    fn directory_of(&self, copy: Owned) -> PathBuf {
        self.directory.join(copy.number.to_string())
    }

    /// Takes the place of the one open copy; the copy that has lost it, if its connection has gone.
    fn begin(
        &self,
        connection: i64,
        is_connected: &dyn Fn(i64) -> bool,
    ) -> Result<(Owned, Option<Owned>)> {
        let mut state = self.state.lock();
        let open = state.open;
        if open.is_some_and(|open| is_connected(open.connection)) {
            return Err(CommandError::new(
                ErrorCode(50_886),
                "The existing backup cursor must be closed before $backupCursor can succeed.",
            ));
        }
        state.last_number += 1;
        let owned = Owned {
            number: state.last_number,
            connection,
        };
        state.open = Some(owned);
        Ok((owned, open))
    }
}

impl LiveCopy {
    /// Notes that its client has all of it.
    pub fn note_taken(&self) {
        let ms = DateTime::now().0;
        self.state.lock().last_taken_ms = Some(ms);
        // A draft that is cut off is written again by the next backup.
        let draft = self.last_file.with_extension("lastbackup.new");
        let written = fs::write(&draft, format!("{ms}\n"));
        if let Err(error) = written.and_then(|()| fs::rename(&draft, &self.last_file)) {
            log::warning(
                "storage",
                "the time of the last backup could not be written",
                &[("error", error.to_string().into())],
            );
        }
    }
}

impl Drop for LiveCopy {
    fn drop(&mut self) {
        // A file that goes for good costs time for each of its blocks. What stays goes at the next start.
        let _ = aside(|| remove(&self.directory));
        // It stays where another copy stands in it.
        let _ = self.directory.parent().map(fs::remove_dir);
        let mut state = self.state.lock();
        if state.open == Some(self.owned) {
            state.open = None;
        }
    }
}

/// The time of the last backup that was noted in this file; none where it is missing, or holds anything else.
fn last_taken(path: &Path) -> Option<i64> {
    let mut text = String::new();
    let mut file = fs::File::open(path).ok()?.take(LAST_BYTES_MAX);
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Adds the files of a directory, which has no others within it.
fn list(directory: &Path, files: &mut Vec<(PathBuf, u64)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_lock = entry.path().extension().is_some_and(|end| end == "lock");
        if entry.file_type()?.is_file() && !is_lock {
            files.push((entry.path(), entry.metadata()?.len()));
        }
    }
    Ok(())
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn failed(error: io::Error) -> CommandError {
    Error::from(quarry_storage::Error::from(error)).into()
}
