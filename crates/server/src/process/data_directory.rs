//! The data directory: made when missing, locked against a second server, and where `quarry.port` is written.
//!
//! The lock is the kernel's, on an open file: it goes with the process however that ends, so nothing is ever stale.
//! Leaves out whether the directory may be used at all: it is looked at before (`foreign_files.rs`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use quarry_journal::files::real::create_durably;
use rustix::fs::{FlockOperation, flock};

/// The locked file, which names the process that holds it.
pub const LOCK_FILE: &str = "quarry.lock";
/// Holds the server's port, as text, while it serves.
pub const PORT_FILE: &str = "quarry.port";
/// Stands in a directory that a backup is being restored into.
pub const RESTORING_FILE: &str = "quarry.restoring";

/// Why a directory with that file is not used, while nobody restores into it.
pub const RESTORE_CUT_OFF: &str =
    "a backup was being restored into it, and that has not ended: remove it and restore again";

/// Why a copy of the data is not kept in that place.
pub const WITHIN_DBPATH: &str = "it is within the data directory, whose disk and removal it would share: choose a place outside";

/// Whether a path leads into a directory, or is it, wherever links lead. A place that is not made yet is where its parent is.
pub fn leads_into(path: &Path, directory: &Path) -> bool {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut places = absolute.ancestors();
    let place = places.find_map(|place| fs::canonicalize(place).ok());
    let directory = fs::canonicalize(directory).ok();
    place
        .zip(directory)
        .is_some_and(|(place, directory)| place.starts_with(directory))
}

/// A directory that this process alone uses, until drop.
pub struct DataDirectory {
    path: PathBuf,
    _lock: File,
}

impl DataDirectory {
    /// Makes and locks the directory. The error is one line that names it.
    pub fn lock(path: &Path) -> Result<DataDirectory, String> {
        let bad =
            |why: &dyn std::fmt::Display| format!("data directory `{}`: {why}", path.display());
        create_durably(path).map_err(|error| bad(&error))?;
        let mut lock = OpenOptions::new()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .open(path.join(LOCK_FILE))
            .map_err(|error| bad(&format!("cannot write in it: {error}")))?;
        if let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            let mut holder = String::new();
            let _ = (&lock).take(16).read_to_string(&mut holder);
            return Err(match error {
                rustix::io::Errno::WOULDBLOCK => {
                    bad(&format!("in use by process {}", holder.trim()))
                }
                error => bad(&format!("cannot lock it: {error}")),
            });
        }
        if path.join(RESTORING_FILE).exists() {
            return Err(bad(&RESTORE_CUT_OFF));
        }
        let note = |lock: &mut File| -> io::Result<()> {
            lock.set_len(0)?;
            lock.seek(SeekFrom::Start(0))?;
            writeln!(lock, "{}", std::process::id())
        };
        note(&mut lock).map_err(|error| bad(&format!("cannot write in it: {error}")))?;
        let _ = fs::remove_file(path.join(PORT_FILE));
        Ok(DataDirectory {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Says in a file which port is served, as a whole or not at all.
    pub fn write_port(&self, port: u16) -> io::Result<()> {
        let draft = self.path.join("quarry.port.new");
        fs::write(&draft, format!("{port}\n"))?;
        fs::rename(draft, self.path.join(PORT_FILE))
    }

    /// Takes the port file away again; the lock goes with drop.
    pub fn remove_port(&self) {
        let _ = fs::remove_file(self.path.join(PORT_FILE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_is_refused_and_names_the_holder() {
        let path = std::env::temp_dir().join(format!("quarry-directory-{}", std::process::id()));
        let directory = DataDirectory::lock(&path).unwrap();
        directory.write_port(4711).unwrap();
        assert_eq!(fs::read_to_string(path.join(PORT_FILE)).unwrap(), "4711\n");
        let error = DataDirectory::lock(&path).err().unwrap();
        assert!(
            error.contains(&format!("in use by process {}", std::process::id())),
            "{error}"
        );
        drop(directory);
        assert!(DataDirectory::lock(&path).is_ok());
        fs::remove_dir_all(&path).unwrap();
    }
}
