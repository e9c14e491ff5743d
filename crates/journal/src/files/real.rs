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

/// A directory of the file system. The lock is held until this value is dropped.
pub struct RealFiles {
    path: PathBuf,
    directory: fs::File,
    _lock: fs::File,
}

impl RealFiles {
    /// Opens `path`, creating it if it is missing. Fails with `WouldBlock` if another process holds it.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().to_path_buf();
        create_durably(&path)?;
        let lock = fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(LOCK_NAME))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let directory = fs::File::open(&path)?;
        directory.sync_all()?;
        Ok(RealFiles {
            path,
            directory,
            _lock: lock,
        })
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
            if name != LOCK_NAME && entry.file_type()?.is_file() {
                entries.push(FileEntry {
                    name,
                    bytes: entry.metadata()?.len(),
                });
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(RealFile(
            fs::File::options()
                .read(true)
                .write(true)
                .open(self.path.join(name))?,
        )))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(self.path.join(name))?;
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
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
