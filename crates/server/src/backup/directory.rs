//! A repository's files in a directory.
//!
//! Keeps true: a file is written under another name, synced and renamed; many files are written before the first of them is synced. One process
//! changes the directory at a time, and nobody reads it meanwhile.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use quarry_journal::files::real::create_durably;
use rustix::fs::{FlockOperation, flock};

use crate::backup::batch::{Batch, DRAFT_SUFFIX, RealDisk};
use crate::backup::mark::MARK_BYTES_MAX;
use crate::backup::place::{
    Access, CHUNKS, Held, MANIFESTS, MARK_FILE, NewFiles, Place, PlacedFile, Trust,
};
use crate::backup::steps;

/// An open directory.
pub struct Directory {
    path: PathBuf,
    /// The mark's file, locked as long as the directory is used.
    _lock: File,
    mark: Vec<u8>,
}

impl Directory {
    /// Opens the directory, with this mark if it becomes a repository; the error is one line that names it.
    pub fn open(path: &Path, access: Access, new_mark: &str) -> Result<Directory, String> {
        let bad = |why: &dyn std::fmt::Display| format!("`{}`: {why}", path.display());
        let mark = path.join(MARK_FILE);
        if access == Access::Add && !mark.exists() {
            make(path, new_mark).map_err(|error| bad(&error))?;
        }
        let mut lock = File::open(&mark).map_err(|_| bad(&"it is no repository of backups"))?;
        let operation = match access {
            Access::Add | Access::Remove => FlockOperation::NonBlockingLockExclusive,
            Access::Read => FlockOperation::NonBlockingLockShared,
        };
        let in_use = "another process uses it";
        flock(&lock, operation).map_err(|_| bad(&in_use))?;
        // A process that gave the repository another key has put another file in the place of this one since it was opened.
        let inode = |about: io::Result<fs::Metadata>| about.map(|about| about.ino()).ok();
        if inode(fs::metadata(&mark)) != inode(lock.metadata()) {
            return Err(bad(&in_use));
        }
        let mut found = Vec::new();
        steps::read(&mut lock, MARK_BYTES_MAX, &mut found).map_err(|error| bad(&error))?;
        Ok(Directory {
            path: path.to_owned(),
            _lock: lock,
            mark: found,
        })
    }
}

impl Place for Directory {
    fn address(&self) -> String {
        self.path.display().to_string()
    }

    fn mark(&self) -> &[u8] {
        &self.mark
    }

    fn read(&self, name: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path.join(name))?;
        let bytes = file.metadata()?.len().min(bytes_max as u64);
        let mut found = Vec::with_capacity(bytes as usize + 1);
        steps::read(&mut file, bytes_max, &mut found)?;
        Ok(found)
    }

    fn list(&self, part: &str) -> io::Result<Vec<PlacedFile>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.path.join(part))? {
            let entry = entry?;
            let name = format!("{part}/{}", entry.file_name().to_string_lossy());
            if !entry.file_type()?.is_dir() {
                files.push(placed(name, &entry)?);
                continue;
            }
            for within in fs::read_dir(entry.path())? {
                let within = within?;
                let name = format!("{name}/{}", within.file_name().to_string_lossy());
                files.push(placed(name, &within)?);
            }
        }
        Ok(files)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        write_durably(&self.path.join(name), bytes)
    }

    fn begin(&self, _: Trust) -> io::Result<Box<dyn NewFiles + '_>> {
        Ok(Box::new(NewInDirectory {
            directory: self,
            batch: Batch::new(&RealDisk),
        }))
    }

    fn remove(&self, names: &[String]) -> io::Result<()> {
        (names.iter()).try_for_each(|name| fs::remove_file(self.path.join(name)))
    }

    fn sync(&self, part: &str) -> io::Result<()> {
        File::open(self.path.join(part))?.sync_all()
    }
}

/// Files on their way to a directory.
struct NewInDirectory<'d> {
    directory: &'d Directory,
    batch: Batch<'d>,
}

impl NewFiles for NewInDirectory<'_> {
    /// A disk may have lost or changed it.
    fn look_up(&self, _: &str, _: usize) -> Held {
        Held::Unread
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.directory.path.join(name);
        match fs::create_dir(path.parent().unwrap_or(&self.directory.path)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let mut draft = self.batch.create(&path)?;
        draft.write(bytes)?;
        self.batch.add(draft)
    }

    /// A process that was killed may have written it and not synced its name.
    fn keep(&mut self, name: &str) {
        let path = self.directory.path.join(name);
        let directory = path.parent().unwrap_or(&self.directory.path);
        self.batch.sync_directory(directory);
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        let chunks = self.directory.path.join(CHUNKS);
        self.batch.sync_directory(&chunks);
        self.batch.finish()
    }
}

fn placed(name: String, entry: &fs::DirEntry) -> io::Result<PlacedFile> {
    let bytes = entry.metadata()?.len();
    Ok(PlacedFile { name, bytes })
}

/// Makes a repository of the directory, unless another process has done so meanwhile: with the mark in its place that one's files could not be
/// opened any more.
fn make(path: &Path, mark: &str) -> io::Result<()> {
    create_durably(path)?;
    let alone = File::open(path)?;
    flock(&alone, FlockOperation::LockExclusive)?;
    let mark_file = path.join(MARK_FILE);
    if mark_file.exists() {
        return Ok(());
    }
    if !is_unused(path) {
        let why = "it holds files and is no repository of backups";
        return Err(io::Error::other(why));
    }
    for part in [CHUNKS, MANIFESTS] {
        create_durably(&path.join(part))?;
    }
    write_durably(&mark_file, mark.as_bytes())
}

/// Whether the directory is missing or empty, or has nothing but what the making of a repository leaves that is cut off before its mark.
fn is_unused(path: &Path) -> bool {
    let is_left_over = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| match entry.file_name().to_str() {
            Some(CHUNKS | MANIFESTS) => {
                fs::read_dir(entry.path()).is_ok_and(|mut within| within.next().is_none())
            }
            name => name.and_then(|name| name.strip_suffix(DRAFT_SUFFIX)) == Some(MARK_FILE),
        })
    };
    fs::read_dir(path).map_or(true, |mut entries| entries.all(is_left_over))
}

/// Writes a file that has its name only when it is whole, and survives power loss on return.
fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut batch = Batch::new(&RealDisk);
    let mut draft = batch.create(path)?;
    draft.write(bytes)?;
    batch.add(draft)?;
    batch.finish()
}
