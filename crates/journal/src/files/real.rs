//! Files of the operating system in one directory, locked against a second process.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

use super::{File, FileEntry, Files};

const LOCK_NAME: &str = "journal.lock";

/// The lock of an archive's directory.
const ARCHIVE_LOCK_NAME: &str = "archive.lock";

/// A directory of the file system. The lock, if there is one, is held until this value is dropped.
pub struct RealFiles {
    path: PathBuf,
    directory: fs::File,
    is_writable: bool,
    _lock: Option<fs::File>,
}

impl RealFiles {
    /// Opens the directory of a journal, creating it if it is missing. Fails with `WouldBlock` if another process holds it.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        RealFiles::open_locked(path.as_ref(), LOCK_NAME)
    }

    /// Like `open`, for the directory of an archive that is to be written.
    pub fn open_archive(path: impl AsRef<Path>) -> io::Result<Self> {
        RealFiles::open_locked(path.as_ref(), ARCHIVE_LOCK_NAME)
    }

    /// Opens a directory to read files that another process may be writing. Nothing can be changed through it.
    pub fn open_to_read(path: impl AsRef<Path>) -> io::Result<Self> {
        RealFiles::open_unlocked(path.as_ref(), false)
    }

    /// Opens a directory that another process may be writing, to remove what that one needs no more.
    pub fn open_beside(path: impl AsRef<Path>) -> io::Result<Self> {
        RealFiles::open_unlocked(path.as_ref(), true)
    }

    fn open_unlocked(path: &Path, is_writable: bool) -> io::Result<Self> {
        Ok(RealFiles {
            directory: fs::File::open(path)?,
            path: path.to_path_buf(),
            is_writable,
            _lock: None,
        })
    }

    fn open_locked(path: &Path, lock_name: &str) -> io::Result<Self> {
        let path = path.to_path_buf();
        create_durably(&path)?;
        let lock = fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(lock_name))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let directory = fs::File::open(&path)?;
        directory.sync_all()?;
        Ok(RealFiles {
            path,
            directory,
            is_writable: true,
            _lock: Some(lock),
        })
    }
}

impl RealFiles {
    fn check_writable(&self) -> io::Result<()> {
        match self.is_writable {
            true => Ok(()),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

/// Makes the directory and those above it that are missing. The entry of each survives power loss, except in a directory
/// that this process must not read; that of `path` itself even if a process made it that was killed before it could see to that.
pub fn create_durably(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !path.is_dir() {
        create_durably(parent)?;
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    match fs::File::open(parent) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        opened => opened?.sync_all(),
    }
}

impl Files for RealFiles {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name == LOCK_NAME || name == ARCHIVE_LOCK_NAME || !entry.file_type()?.is_file() {
                continue;
            }
            match entry.metadata() {
                Ok(metadata) => entries.push(FileEntry {
                    name,
                    bytes: metadata.len(),
                }),
                // It has gone since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(RealFile(
            fs::File::options()
                .read(true)
                .write(self.is_writable)
                .open(self.path.join(name))?,
        )))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.check_writable()?;
        let file = fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(self.path.join(name))?;
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_writable()?;
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_writable()?;
        fs::remove_file(self.path.join(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.directory.sync_all()
    }
}

struct RealFile(fs::File);

impl File for RealFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        loop {
            match fallocate(&self.0, FallocateFlags::empty(), 0, bytes) {
                Err(Errno::INTR) => {}
                Err(Errno::NOSYS | Errno::OPNOTSUPP) => {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                reserved => return Ok(reserved?),
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
