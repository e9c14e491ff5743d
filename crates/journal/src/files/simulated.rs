//! Files in memory that remember what was not synced, and can lose it.
//!
//! Every mutating call is a numbered step. The machine can be told to stop at a step: that step and all
//! after it fail, and `crash` then makes the files that the next start could find: any choice of the
//! unsynced writes, each whole, torn or lost, and any choice of the unsynced directory changes.
//!
//! A failed sync may forget, as kernels do: what it was to write is seen by every reader, a killed process's successor
//! included, and does not survive power loss, however often the file is synced again.

mod disk;

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use self::disk::{Change, Disk, Inode, NameChange, Random, fault_error};
use super::{File, FileEntry, Files};

/// No file is made longer than this.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The fate of unsynced changes in a crash.
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
    /// Every way in which unsynced changes can fare.
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
    /// A sync fails with EIO and forgets. What was dirty in the file no longer is: readers still see it, and no
    /// later sync brings it to the disk, as a kernel behaves that could not write a page back. Of anything else: as `Io`.
    ForgetfulSync,
}

/// A failure of one call of [`Files`]: a list, an open, a creation, a rename, a removal or a directory sync. The next
/// call passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// The call fails with EIO and changes nothing.
    Io,
    /// As `Io`, with EMFILE: no descriptor is left.
    NoDescriptor,
    /// As `Io`, with ENOSPC.
    NoSpace,
    /// The call fails with EIO, and what it was to change is changed all the same.
    IoButDone,
}

/// A machine's directory. Clones are the same directory.
#[derive(Clone, Default)]
pub struct SimulatedFiles {
    disk: Arc<Mutex<Disk>>,
}

impl SimulatedFiles {
    /// An empty disk.
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

    /// Every sync fails from now on, and forgets what was dirty: see [`Fault::ForgetfulSync`].
    pub fn forget_syncs(&self, forgets: bool) {
        self.disk.lock().forgets_sync = forgets;
    }

    /// Calls of [`Files`] so far.
    pub fn name_calls(&self) -> u64 {
        self.disk.lock().name_calls
    }

    /// Injects a fault at a call of [`Files`]; calls count from 0.
    pub fn inject_name_fault(&self, call: u64, fault: NameFault) {
        self.disk.lock().name_faults.insert(call, fault);
    }

    /// Bytes that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.disk.lock().bytes_read
    }

    /// The bytes that were written into files since they were made.
    pub fn bytes_written(&self) -> u64 {
        self.disk.lock().bytes_written
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
            let found = disk.inodes[inode].after(crash, &mut random);
            after.names.insert(name.clone(), after.inodes.len());
            after.synced_names.insert(name, after.inodes.len());
            after.inodes.push(found);
        }
        SimulatedFiles {
            disk: Arc::new(Mutex::new(after)),
        }
    }
}

impl SimulatedFiles {
    /// Makes a call of `Files` on the disk, unless a fault strikes it.
    fn name_call<T>(&self, call: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        let mut disk = self.disk.lock();
        match disk.name_call() {
            None => call(&mut disk),
            Some(NameFault::Io) => Err(fault_error(Fault::Io)),
            Some(NameFault::NoSpace) => Err(fault_error(Fault::NoSpace)),
            Some(NameFault::NoDescriptor) => {
                let emfile = rustix::io::Errno::MFILE.raw_os_error();
                Err(io::Error::from_raw_os_error(emfile))
            }
            Some(NameFault::IoButDone) => {
                call(&mut disk)?;
                Err(fault_error(Fault::Io))
            }
        }
    }

    fn file(&self, inode: usize) -> Arc<dyn File> {
        Arc::new(SimulatedFile {
            disk: Arc::clone(&self.disk),
            inode,
        })
    }
}

impl Files for SimulatedFiles {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        self.name_call(|disk| {
            disk.done()?;
            let entry = |(name, &inode): (&String, &usize)| FileEntry {
                name: name.clone(),
                bytes: disk.inodes[inode].now.len() as u64,
            };
            Ok(disk.names.iter().map(entry).collect())
        })
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let inode = self.name_call(|disk| {
            disk.done()?;
            disk.inode(name)
        })?;
        Ok(self.file(inode))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let inode = self.name_call(|disk| {
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
            Ok(inode)
        })?;
        Ok(self.file(inode))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.name_call(|disk| {
            disk.whole_step()?;
            let inode = disk.inode(from)?;
            disk.names.remove(from);
            disk.names.insert(to.to_owned(), inode);
            disk.unsynced_names
                .push(NameChange::Rename(from.to_owned(), to.to_owned()));
            disk.done()
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.name_call(|disk| {
            disk.whole_step()?;
            disk.inode(name)?;
            disk.names.remove(name);
            disk.unsynced_names
                .push(NameChange::Unlink(name.to_owned()));
            disk.done()
        })
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.name_call(|disk| {
            disk.whole_step()?;
            disk.done()?;
            disk.synced_names = disk.names.clone();
            disk.unsynced_names.clear();
            Ok(())
        })
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
        let mut disk = self.disk.lock();
        disk.done()?;
        let content = &disk.inodes[self.inode].now;
        let from = content.get(offset as usize..).unwrap_or_default();
        let read = from.len().min(bytes.len());
        bytes[..read].copy_from_slice(&from[..read]);
        disk.bytes_read += read as u64;
        Ok(read)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.lock().sync(self.inode)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.whole_step()?;
        if bytes > FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let inode = &mut disk.inodes[self.inode];
        inode.now.resize(bytes as usize, 0);
        inode.unsynced.push(Change::Length(bytes as usize));
        disk.done()
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        {
            let disk = self.disk.lock();
            let grown = bytes.saturating_sub(disk.inodes[self.inode].now.len() as u64);
            if grown == 0 {
                return disk.done();
            }
            if disk.space.is_some_and(|space| disk.bytes() + grown > space) {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        self.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        let disk = self.disk.lock();
        disk.done()?;
        Ok(disk.inodes[self.inode].now.len() as u64)
    }
}
