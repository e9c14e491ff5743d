//! Files in memory that remember what was not synced, and can lose it.
//!
//! Every mutating call is a numbered step. The machine can be told to stop at a step: that step and all
//! after it fail, and `crash` then makes the files that the next start could find: any choice of the
//! unsynced writes, each whole, torn or lost, and any choice of the unsynced directory changes.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{File, FileEntry, Files};

const SECTOR_BYTES: usize = 512;

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

#[derive(Default)]
struct Disk {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    unsynced_names: Vec<NameChange>,
    steps: u64,
    faults: BTreeMap<u64, Fault>,
    is_off: bool,
    /// Bytes that all files together may hold.
    space: Option<u64>,
    fails_sync: bool,
}

#[derive(Clone, Default)]
struct Inode {
    now: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Clone)]
enum NameChange {
    Link(String, usize),
    Rename(String, String),
    Unlink(String),
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

impl Disk {
    fn bytes(&self) -> u64 {
        self.names
            .values()
            .map(|&inode| self.inodes[inode].now.len() as u64)
            .sum()
    }

    /// Counts a step and gives the fault that strikes it.
    fn step(&mut self) -> io::Result<Option<Fault>> {
        if self.is_off {
            return Err(io::Error::other("the machine is off"));
        }
        let fault = self.faults.remove(&self.steps);
        self.steps += 1;
        if fault == Some(Fault::PowerOff) {
            self.is_off = true;
        }
        Ok(fault)
    }

    /// A step that has no parts: a fault leaves nothing, except that a power cut leaves it in doubt.
    fn whole_step(&mut self) -> io::Result<()> {
        match self.step()? {
            None | Some(Fault::ShortWrite | Fault::PowerOff) => Ok(()),
            Some(fault) => Err(fault_error(fault)),
        }
    }

    fn done(&self) -> io::Result<()> {
        if self.is_off {
            Err(io::Error::other("the machine is off"))
        } else {
            Ok(())
        }
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&mut self, inode: usize, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let fault = self.step()?;
        let mut taken = bytes.len();
        if matches!(fault, Some(Fault::ShortWrite | Fault::Io | Fault::NoSpace)) {
            taken = taken.div_ceil(2);
        }
        if fault == Some(Fault::Interrupted) {
            taken = 0;
        }
        let grown = (offset + taken as u64).saturating_sub(self.inodes[inode].now.len() as u64);
        let room = self
            .space
            .map_or(u64::MAX, |space| space.saturating_sub(self.bytes()));
        let is_full = grown > room;
        if is_full {
            taken = taken.saturating_sub((grown - room) as usize);
        }
        if taken > 0 {
            self.inodes[inode].write(&bytes[..taken], offset as usize);
        }
        self.done()?;
        match fault {
            Some(fault @ (Fault::Io | Fault::NoSpace | Fault::Interrupted)) => {
                Err(fault_error(fault))
            }
            _ if is_full && taken == 0 => Err(fault_error(Fault::NoSpace)),
            _ => Ok(taken),
        }
    }

    fn sync(&mut self, inode: usize) -> io::Result<()> {
        self.whole_step()?;
        self.done()?;
        if self.fails_sync {
            return Err(fault_error(Fault::Io));
        }
        let inode = &mut self.inodes[inode];
        if !inode.unsynced.is_empty() {
            inode.synced.clone_from(&inode.now);
            inode.unsynced.clear();
        }
        Ok(())
    }

    fn names_after(&self, crash: Crash, random: &mut Random) -> BTreeMap<String, usize> {
        let mut names = self.synced_names.clone();
        let prefix = random.below(self.unsynced_names.len() + 1);
        for (index, change) in self.unsynced_names.iter().enumerate() {
            let survives = match crash {
                Crash::Kill => true,
                Crash::Drop => false,
                Crash::Tear => index < prefix,
                Crash::Scatter | Crash::Reorder => random.below(2) == 0,
            };
            if survives {
                change.apply(&mut names);
            }
        }
        names
    }
}

impl Inode {
    fn write(&mut self, bytes: &[u8], offset: usize) {
        apply_write(&mut self.now, bytes, offset);
        self.unsynced.push(Change::Write {
            offset,
            bytes: bytes.to_vec(),
        });
    }

    fn after(&self, crash: Crash, random: &mut Random) -> Vec<u8> {
        if crash == Crash::Kill {
            return self.now.clone();
        }
        let mut content = self.synced.clone();
        let last = random.below(self.unsynced.len() + 1);
        for (index, change) in self.unsynced.iter().enumerate() {
            match (crash, change) {
                (Crash::Kill | Crash::Drop, _) => {}
                (Crash::Tear, _) if index + 1 < last => change.apply(&mut content),
                (Crash::Tear, Change::Write { offset, bytes }) if index + 1 == last => {
                    let cut = random.below(bytes.len() + 1);
                    apply_write(&mut content, &bytes[..cut], *offset);
                }
                (Crash::Tear, _) => {}
                (Crash::Scatter, Change::Write { offset, bytes }) => {
                    scatter(&mut content, bytes, *offset, random);
                }
                (Crash::Scatter | Crash::Reorder, _) => {
                    if random.below(2) == 0 {
                        change.apply(&mut content);
                    }
                }
            }
        }
        content
    }
}

/// Each sector that the write touches survives or not.
fn scatter(content: &mut Vec<u8>, bytes: &[u8], offset: usize, random: &mut Random) {
    let mut at = 0;
    while at < bytes.len() {
        let sector_end = ((offset + at) / SECTOR_BYTES + 1) * SECTOR_BYTES - offset;
        let end = sector_end.min(bytes.len());
        if random.below(2) == 0 {
            apply_write(content, &bytes[at..end], offset + at);
        }
        at = end;
    }
}

fn apply_write(content: &mut Vec<u8>, bytes: &[u8], offset: usize) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => apply_write(content, bytes, *offset),
            Change::Length(bytes) => content.resize(*bytes, 0),
        }
    }
}

impl NameChange {
    /// A change whose own cause did not survive has no effect.
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            NameChange::Link(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            NameChange::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            NameChange::Unlink(name) => {
                names.remove(name);
            }
        }
    }
}

fn fault_error(fault: Fault) -> io::Error {
    match fault {
        Fault::NoSpace => io::ErrorKind::StorageFull.into(),
        Fault::Interrupted => io::ErrorKind::Interrupted.into(),
        Fault::Io | Fault::ShortWrite | Fault::PowerOff => io::Error::other("input/output error"),
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

/// SplitMix64: the simulator needs repeatable choices, not good ones.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}
