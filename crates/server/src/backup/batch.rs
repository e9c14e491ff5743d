//! Files that are written one after the other, and reach the disk together.
//!
//! A sync of each file alone is a commit of the file system each, and whoever writes to another file meanwhile, such as a server to its journal,
//! waits for it. Here the disk begins to write a file as soon as it is whole, or in parts if it is large, and a sync waits for many of
//! them. A slow disk gets fewer at a time, so that nobody else's sync waits long behind them.
//!
//! Keeps true: a file takes its name only when it is whole and synced, whatever is killed; the names survive a power loss
//! once `finish` returns. What fails leaves no draft. Leaves out what is read, and which names there are.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

use crate::backup::steps::steps;

/// A file that is being written.
pub const DRAFT_SUFFIX: &str = ".new";

/// So much of a file is written before the disk begins with it.
const WRITE_BACK_BYTES: u64 = 1 << 20;
/// The bytes of a batch on the slowest disk, at first, and on a quick one.
const BATCH_BYTES_MIN: u64 = 4 << 20;
const BATCH_BYTES_FIRST: u64 = 16 << 20;
const BATCH_BYTES_MAX: u64 = 64 << 20;
/// The files of a batch, which are open.
const BATCH_FILES_MAX: usize = 64;
/// A batch that fills slowly waits no longer than this for its syncs.
const BATCH_TIME_MAX: Duration = Duration::from_secs(5);
/// A batch whose syncs took longer was too large, and one whose syncs took less than half may grow.
const SETTLE_TIME_MAX: Duration = Duration::from_millis(100);

/// The disk, as far as a batch asks anything of it.
pub trait Disk {
    /// Begins to write a part of the file that the system has in memory. Waits for nothing, and is a wish.
    fn begin_write_back(&self, file: &File, from: u64, bytes: NonZeroU64);

    /// Returns when everything of the file survives a power loss.
    fn sync(&self, file: &File) -> io::Result<()>;
}

/// The disks of this machine.
pub struct RealDisk;

impl Disk for RealDisk {
    fn begin_write_back(&self, file: &File, from: u64, bytes: NonZeroU64) {
        // The system begins to write what it is to forget, and forgets it before what a server has in memory. A file system that takes
        // no advice writes all of it at the sync.
        let _ = fadvise(file, from, Some(bytes), Advice::DontNeed);
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }
}

/// Files on their way to the disk.
pub struct Batch<'d> {
    disk: &'d dyn Disk,
    /// Written, and neither synced nor named.
    drafts: Vec<Draft<'d>>,
    bytes: u64,
    bytes_max: u64,
    /// When the first of the drafts was added.
    since: Instant,
    /// The directories with names that may not survive a power loss yet.
    directories: BTreeSet<PathBuf>,
}

/// A file that is not synced yet. Dropping it removes it.
pub struct Draft<'d> {
    disk: &'d dyn Disk,
    file: File,
    draft_path: PathBuf,
    path: PathBuf,
    bytes: u64,
    /// The disk has begun to write so many of them.
    begun_bytes: u64,
    is_settled: bool,
}

impl<'d> Batch<'d> {
    pub fn new(disk: &'d dyn Disk) -> Batch<'d> {
        Batch {
            disk,
            drafts: Vec::new(),
            bytes: 0,
            bytes_max: BATCH_BYTES_FIRST,
            since: Instant::now(),
            directories: BTreeSet::new(),
        }
    }

    /// Begins a file for this path, in a directory that is there. It may take the place of another one.
    pub fn create(&self, path: &Path) -> io::Result<Draft<'d>> {
        let mut draft_path = path.as_os_str().to_owned();
        draft_path.push(DRAFT_SUFFIX);
        let file = File::create(&draft_path)?;
        Ok(self.draft(file, draft_path.into(), path))
    }

    /// Like `create`, but the file has its name from the beginning, which nobody else has: for a directory that means nothing until all of
    /// its files are there.
    pub fn create_named(&self, path: &Path) -> io::Result<Draft<'d>> {
        let file = File::create_new(path)?;
        Ok(self.draft(file, path.to_owned(), path))
    }

    fn draft(&self, file: File, draft_path: PathBuf, path: &Path) -> Draft<'d> {
        Draft {
            disk: self.disk,
            file,
            draft_path,
            path: path.to_owned(),
            bytes: 0,
            begun_bytes: 0,
            is_settled: false,
        }
    }

    /// Takes a file that is whole. It gets its name now or later.
    pub fn add(&mut self, mut draft: Draft<'d>) -> io::Result<()> {
        draft.begin_write_back();
        if self.drafts.is_empty() {
            self.since = Instant::now();
        }
        self.bytes += draft.bytes;
        self.drafts.push(draft);
        let is_due = self.bytes >= self.bytes_max
            || self.drafts.len() >= BATCH_FILES_MAX
            || self.since.elapsed() >= BATCH_TIME_MAX;
        match is_due {
            true => self.settle(),
            false => Ok(()),
        }
    }

    /// Has `finish` sync a directory with a name in it that somebody else may not have synced.
    pub fn sync_directory(&mut self, directory: &Path) {
        if !self.directories.contains(directory) {
            self.directories.insert(directory.to_owned());
        }
    }

    /// Names all files. They and their names survive a power loss on return.
    pub fn finish(mut self) -> io::Result<()> {
        self.settle()?;
        for directory in &self.directories {
            self.disk.sync(&File::open(directory)?)?;
        }
        Ok(())
    }

    /// Syncs and names what was added so far.
    fn settle(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        // The first sync commits what all of them need of the file system; the others find it done.
        for draft in &self.drafts {
            self.disk.sync(&draft.file)?;
        }
        self.follow(begun.elapsed());
        for mut draft in self.drafts.drain(..) {
            draft.name()?;
            if let Some(directory) = draft.path.parent() {
                self.directories.insert(directory.to_owned());
            }
        }
        self.bytes = 0;
        Ok(())
    }

    /// Has the next batch be as large as the disk is quick.
    fn follow(&mut self, took: Duration) {
        let is_full = self.bytes >= self.bytes_max;
        let bytes_max = match took {
            took if took > SETTLE_TIME_MAX => self.bytes_max / 2,
            took if took < SETTLE_TIME_MAX / 2 && is_full => self.bytes_max * 2,
            _ => self.bytes_max,
        };
        self.bytes_max = bytes_max.clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX);
    }
}

impl Draft<'_> {
    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for step in steps(bytes) {
            self.file.write_all(step)?;
            self.bytes += step.len() as u64;
            if self.bytes - self.begun_bytes >= WRITE_BACK_BYTES {
                self.begin_write_back();
            }
        }
        Ok(())
    }

    fn begin_write_back(&mut self) {
        if let Some(bytes) = NonZeroU64::new(self.bytes - self.begun_bytes) {
            (self.disk).begin_write_back(&self.file, self.begun_bytes, bytes);
            self.begun_bytes = self.bytes;
        }
    }

    /// Gives the file its name. One that has it keeps it.
    fn name(&mut self) -> io::Result<()> {
        fs::rename(&self.draft_path, &self.path)?;
        self.is_settled = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            // What stays means nothing, by its name.
            let _ = fs::remove_file(&self.draft_path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const MIB: usize = 1 << 20;

    /// A disk that notes what it is asked for, and fails from a sync on.
    struct Watched {
        /// The parts of files that it was to begin with.
        begun: RefCell<Vec<(u64, u64)>>,
        /// The inodes that were synced.
        synced: RefCell<Vec<u64>>,
        syncs_left: Cell<usize>,
    }

    impl Watched {
        fn failing_after(syncs: usize) -> Watched {
            Watched {
                begun: RefCell::default(),
                synced: RefCell::default(),
                syncs_left: Cell::new(syncs),
            }
        }
    }

    impl Disk for Watched {
        fn begin_write_back(&self, file: &File, from: u64, bytes: NonZeroU64) {
            assert_eq!(file.metadata().unwrap().len(), from + bytes.get());
            self.begun.borrow_mut().push((from, bytes.get()));
        }

        fn sync(&self, file: &File) -> io::Result<()> {
            let Some(left) = self.syncs_left.get().checked_sub(1) else {
                return Err(io::Error::other("the disk is gone"));
            };
            self.syncs_left.set(left);
            self.synced
                .borrow_mut()
                .push(file.metadata().unwrap().ino());
            Ok(())
        }
    }

    fn add(batch: &mut Batch<'_>, path: &Path, bytes: usize) -> io::Result<()> {
        let mut draft = batch.create(path)?;
        draft.write(&vec![7; bytes])?;
        batch.add(draft)
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_disk_is_busy_as_a_file_is_written_and_a_sync_waits_for_many() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Watched::failing_after(usize::MAX);
        let mut batch = Batch::new(&disk);
        let path = |number: usize| directory.path().join(number.to_string());
        add(&mut batch, &path(0), 9 * MIB + 5).unwrap();
        let parts = 9 * MIB as u64 / WRITE_BACK_BYTES;
        let part = |number| (number * WRITE_BACK_BYTES, WRITE_BACK_BYTES);
        let mut begun: Vec<_> = (0..parts).map(part).collect();
        begun.push((parts * WRITE_BACK_BYTES, 5));
        assert_eq!(*disk.begun.borrow(), begun);
        assert_eq!(names(directory.path()), ["0.new"]);
        assert_eq!(disk.synced.borrow().len(), 0);
        // The file with which the batch is full has all of them synced and named.
        add(&mut batch, &path(1), 5 * MIB).unwrap();
        add(&mut batch, &path(2), 2 * MIB).unwrap();
        assert_eq!(names(directory.path()), ["0", "1", "2"]);
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        let inodes = [0, 1, 2].map(|number| inode(&path(number)));
        assert_eq!(*disk.synced.borrow(), inodes);
        add(&mut batch, &path(3), 0).unwrap();
        batch.finish().unwrap();
        assert_eq!(names(directory.path()), ["0", "1", "2", "3"]);
        // At the end the last file, and the names of all of them once.
        let last = [inode(&path(3)), inode(directory.path())];
        assert_eq!(disk.synced.borrow()[3..], last);
    }

    #[test]
    fn many_small_files_are_a_batch_too() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Watched::failing_after(usize::MAX);
        let mut batch = Batch::new(&disk);
        for number in 0..BATCH_FILES_MAX {
            assert_eq!(disk.synced.borrow().len(), 0, "at file {number}");
            add(&mut batch, &directory.path().join(number.to_string()), 1).unwrap();
        }
        assert_eq!(disk.synced.borrow().len(), BATCH_FILES_MAX);
    }

    #[test]
    fn what_fails_names_nothing_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        for syncs in 0..3 {
            let disk = Watched::failing_after(syncs);
            let mut batch = Batch::new(&disk);
            for name in ["a", "b", "c"] {
                add(&mut batch, &directory.path().join(name), 10).unwrap();
            }
            assert!(batch.finish().is_err());
            assert!(names(directory.path()).is_empty(), "after {syncs} syncs");
        }
        let disk = Watched::failing_after(usize::MAX);
        let batch = Batch::new(&disk);
        let mut draft = batch.create(&directory.path().join("half")).unwrap();
        draft.write(b"half").unwrap();
        assert_eq!(names(directory.path()), ["half.new"]);
        drop(draft);
        assert!(names(directory.path()).is_empty());
    }

    #[test]
    fn a_name_that_is_taken_from_the_beginning_is_nobody_elses() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let disk = Watched::failing_after(usize::MAX);
        let mut batch = Batch::new(&disk);
        let mut draft = batch.create_named(&path).unwrap();
        draft.write(b"whole").unwrap();
        assert_eq!(names(directory.path()), ["a"]);
        batch.add(draft).unwrap();
        assert!(batch.create_named(&path).is_err());
        batch.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(disk.synced.borrow().len(), 2);
    }

    #[test]
    fn names_that_are_not_synced_are_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Watched::failing_after(1);
        let mut batch = Batch::new(&disk);
        add(&mut batch, &directory.path().join("a"), 10).unwrap();
        assert!(batch.finish().is_err());
        assert_eq!(names(directory.path()), ["a"]);
    }

    #[test]
    fn a_slow_disk_gets_less_at_a_time_and_a_quick_one_more() {
        let disk = Watched::failing_after(0);
        let mut batch = Batch::new(&disk);
        batch.follow(Duration::ZERO);
        assert_eq!(batch.bytes_max, BATCH_BYTES_FIRST, "it was not full");
        let mut after = |took| {
            batch.bytes = batch.bytes_max;
            batch.follow(took);
            batch.bytes_max
        };
        assert_eq!(after(SETTLE_TIME_MAX * 3 / 4), BATCH_BYTES_FIRST);
        assert_eq!(after(SETTLE_TIME_MAX * 2), BATCH_BYTES_FIRST / 2);
        let slow: Vec<u64> = (0..5).map(|_| after(SETTLE_TIME_MAX * 2)).collect();
        assert_eq!(slow.last(), Some(&BATCH_BYTES_MIN));
        let quick: Vec<u64> = (0..9).map(|_| after(SETTLE_TIME_MAX / 9)).collect();
        assert_eq!(quick[0], BATCH_BYTES_MIN * 2);
        assert_eq!(quick.last(), Some(&BATCH_BYTES_MAX));
    }
}
