//! The disk of the simulated machine: files and names as they are, as they were last synced, and every change between.

use std::collections::BTreeMap;
use std::io;

use super::{Crash, Fault, NameFault};

const SECTOR_BYTES: usize = 512;

#[derive(Default)]
pub(super) struct Disk {
    pub inodes: Vec<Inode>,
    pub names: BTreeMap<String, usize>,
    pub synced_names: BTreeMap<String, usize>,
    pub unsynced_names: Vec<NameChange>,
    pub steps: u64,
    pub faults: BTreeMap<u64, Fault>,
    is_off: bool,
    /// Bytes that all files together may hold.
    pub space: Option<u64>,
    pub fails_sync: bool,
    /// Failing syncs forget, as with `Fault::ForgetfulSync`.
    pub forgets_sync: bool,
    /// Calls of `Files` so far.
    pub name_calls: u64,
    pub name_faults: BTreeMap<u64, NameFault>,
    /// Bytes that readers were given.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
}

/// One file. What is neither in `synced` nor in `unsynced` was forgotten by a sync that failed: readers see it, and nothing
/// brings it to the disk but writing it again.
#[derive(Clone, Default)]
pub(super) struct Inode {
    pub now: Vec<u8>,
    pub synced: Vec<u8>,
    pub unsynced: Vec<Change>,
}

#[derive(Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Clone)]
pub(super) enum NameChange {
    Link(String, usize),
    Rename(String, String),
    Unlink(String),
}

impl Disk {
    pub fn bytes(&self) -> u64 {
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
    pub fn whole_step(&mut self) -> io::Result<()> {
        match self.step()? {
            None | Some(Fault::ShortWrite | Fault::PowerOff) => Ok(()),
            Some(fault) => Err(fault_error(fault)),
        }
    }

    pub fn done(&self) -> io::Result<()> {
        if self.is_off {
            Err(io::Error::other("the machine is off"))
        } else {
            Ok(())
        }
    }

    pub fn inode(&self, name: &str) -> io::Result<usize> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub fn write(&mut self, inode: usize, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let fault = self.step()?;
        let mut taken = bytes.len();
        let is_half = matches!(
            fault,
            Some(Fault::ShortWrite | Fault::Io | Fault::ForgetfulSync | Fault::NoSpace)
        );
        if is_half {
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
            self.bytes_written += taken as u64;
        }
        self.done()?;
        match fault {
            Some(
                fault @ (Fault::Io | Fault::ForgetfulSync | Fault::NoSpace | Fault::Interrupted),
            ) => Err(fault_error(fault)),
            _ if is_full && taken == 0 => Err(fault_error(Fault::NoSpace)),
            _ => Ok(taken),
        }
    }

    pub fn sync(&mut self, inode: usize) -> io::Result<()> {
        let fault = self.step()?;
        self.done()?;
        let is_forgotten = fault == Some(Fault::ForgetfulSync) || self.forgets_sync;
        if is_forgotten {
            self.inodes[inode].unsynced.clear();
        }
        if is_forgotten || self.fails_sync {
            return Err(fault_error(Fault::Io));
        }
        if let Some(fault @ (Fault::Io | Fault::NoSpace | Fault::Interrupted)) = fault {
            return Err(fault_error(fault));
        }
        self.inodes[inode].write_back();
        Ok(())
    }

    /// Counts a call of `Files` and gives the fault that strikes it.
    pub fn name_call(&mut self) -> Option<NameFault> {
        let fault = self.name_faults.remove(&self.name_calls);
        self.name_calls += 1;
        fault
    }

    pub fn names_after(&self, crash: Crash, random: &mut Random) -> BTreeMap<String, usize> {
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
    pub fn write(&mut self, bytes: &[u8], offset: usize) {
        apply_write(&mut self.now, bytes, offset);
        self.unsynced.push(Change::Write {
            offset,
            bytes: bytes.to_vec(),
        });
    }

    /// Writes the dirty bytes to the disk, and nothing else.
    pub fn write_back(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.synced);
        }
    }

    /// The file as the next start finds it.
    pub fn after(&self, crash: Crash, random: &mut Random) -> Inode {
        if crash == Crash::Kill {
            // The system goes on: it writes back what it knows to be dirty, and shows what it forgot.
            let mut after = self.clone();
            after.write_back();
            return after;
        }
        let content = self.content_after(crash, random);
        Inode {
            synced: content.clone(),
            now: content,
            unsynced: Vec::new(),
        }
    }

    fn content_after(&self, crash: Crash, random: &mut Random) -> Vec<u8> {
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

pub(super) fn fault_error(fault: Fault) -> io::Error {
    match fault {
        Fault::NoSpace => io::ErrorKind::StorageFull.into(),
        Fault::Interrupted => io::ErrorKind::Interrupted.into(),
        Fault::Io | Fault::ForgetfulSync | Fault::ShortWrite | Fault::PowerOff => {
            io::Error::other("input/output error")
        }
    }
}

/// SplitMix64: the simulator needs repeatable choices, not good ones.
pub(super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}
