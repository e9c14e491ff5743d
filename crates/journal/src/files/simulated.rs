//! Files in memory that remember what was not synced, and can lose it.
//!
//! Every mutating call is a numbered step. The machine can be told to stop at a step: that step and all
//! after it fail, and `crash` then makes the files that the next start could find: any choice of the
//! unsynced writes, each whole, torn or lost, and any choice of the unsynced directory changes.

mod disk;

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use self::disk::{Change, Disk, Inode, NameChange, Random};
use super::{File, FileEntry, Files};

/// What a crash does to what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process was killed: the system still has every write.
    Kill,
    /// Power loss; nothing unsynced survives.
    Drop,
    /// Power loss; a prefix of the unsynced writes survives, the last of them cut at any byte.
    Tear,
    /// Power loss; any sectors of any unsynced writes survive.
    Scatter,
    /// Power loss; any of the unsynced writes survive, whole.
    Reorder,
}

impl Crash {
    pub const ALL: [Crash; 5] = [
        Crash::Kill,
        Crash::Drop,
        Crash::Tear,
        Crash::Scatter,
        Crash::Reorder,
    ];
}

/// A failure to inject at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The step and every later one fail: the machine is off.
    PowerOff,
    /// The step fails with EIO; of a write, the first half arrives.
    Io,
    /// As `Io`, with ENOSPC.
    NoSpace,
    /// A write takes only its first half.
    ShortWrite,
    /// The step fails with EINTR and changes nothing.
    Interrupted,
}

/// A machine's directory. Clones are the same directory.
#[derive(Clone, Default)]
pub struct SimulatedFiles {
    disk: Arc<Mutex<Disk>>,
}

impl SimulatedFiles {
    pub fn new() -> Self {
        SimulatedFiles::default()
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.disk.lock().steps
    }

    /// Injects a fault at a step; steps count from 0.
    pub fn inject(&self, step: u64, fault: Fault) {
        self.disk.lock().faults.insert(step, fault);
    }

    /// Bounds the bytes of all files together; `None` lifts the bound.
    pub fn set_space(&self, bytes: Option<u64>) {
        self.disk.lock().space = bytes;
    }

    /// Every sync fails with EIO from now on.
    pub fn fail_syncs(&self, fails: bool) {
        self.disk.lock().fails_sync = fails;
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.disk.lock().bytes()
    }

    /// The content of a file, as a reader sees it.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let disk = self.disk.lock();
        disk.names
            .get(name)
            .map(|&inode| disk.inodes[inode].now.clone())
    }

    /// Replaces the content of a file, synced: damage from outside.
    pub fn replace(&self, name: &str, content: Vec<u8>) {
        let mut disk = self.disk.lock();
        let inode = disk.inodes.len();
        disk.inodes.push(Inode {
            synced: content.clone(),
            now: content,
            unsynced: Vec::new(),
        });
        disk.names.insert(name.to_owned(), inode);
        disk.synced_names.insert(name.to_owned(), inode);
    }

    /// The files that a start after `crash` finds. The same seed finds the same files.
    #[must_use]
    pub fn crash(&self, crash: Crash, seed: u64) -> SimulatedFiles {
        let disk = self.disk.lock();
        let mut random = Random(seed);
        let names = disk.names_after(crash, &mut random);
        let mut after = Disk::default();
        for (name, inode) in names {
            let content = disk.inodes[inode].after(crash, &mut random);
            after.names.insert(name.clone(), after.inodes.len());
            after.synced_names.insert(name, after.inodes.len());
            after.inodes.push(Inode {
                synced: content.clone(),
                now: content,
                unsynced: Vec::new(),
            });
        }
        SimulatedFiles {
            disk: Arc::new(Mutex::new(after)),
        }
    }
}

impl Files for SimulatedFiles {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        let disk = self.disk.lock();
        disk.done()?;
        let entry = |(name, &inode): (&String, &usize)| FileEntry {
            name: name.clone(),
            bytes: disk.inodes[inode].now.len() as u64,
        };
        Ok(disk.names.iter().map(entry).collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let disk = self.disk.lock();
        disk.done()?;
        let inode = disk.inode(name)?;
        Ok(Arc::new(SimulatedFile {
            disk: Arc::clone(&self.disk),
            inode,
        }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut disk = self.disk.lock();
        disk.whole_step()?;
        if disk.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = disk.inodes.len();
        disk.inodes.push(Inode::default());
        disk.names.insert(name.to_owned(), inode);
        disk.unsynced_names
            .push(NameChange::Link(name.to_owned(), inode));
        disk.done()?;
        Ok(Arc::new(SimulatedFile {
            disk: Arc::clone(&self.disk),
            inode,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.whole_step()?;
        let inode = disk.inode(from)?;
        disk.names.remove(from);
        disk.names.insert(to.to_owned(), inode);
        disk.unsynced_names
            .push(NameChange::Rename(from.to_owned(), to.to_owned()));
        disk.done()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.whole_step()?;
        disk.inode(name)?;
        disk.names.remove(name);
        disk.unsynced_names
            .push(NameChange::Unlink(name.to_owned()));
        disk.done()
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.whole_step()?;
        disk.done()?;
        disk.synced_names = disk.names.clone();
        disk.unsynced_names.clear();
        Ok(())
    }
}

struct SimulatedFile {
    disk: Arc<Mutex<Disk>>,
    inode: usize,
}

impl File for SimulatedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.lock().write(self.inode, bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.disk.lock();
        disk.done()?;
        let content = &disk.inodes[self.inode].now;
        let from = content.get(offset as usize..).unwrap_or_default();
        let read = from.len().min(bytes.len());
        bytes[..read].copy_from_slice(&from[..read]);
        Ok(read)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.lock().sync(self.inode)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.whole_step()?;
        let inode = &mut disk.inodes[self.inode];
        inode.now.resize(bytes as usize, 0);
        inode.unsynced.push(Change::Length(bytes as usize));
        disk.done()
    }

    fn len(&self) -> io::Result<u64> {
        let disk = self.disk.lock();
        disk.done()?;
        Ok(disk.inodes[self.inode].now.len() as u64)
    }
}
