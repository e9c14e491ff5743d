//! A layer over the journal's real files whose syncs can fail and forget, as a kernel's do when it cannot write a page back:
//! readers go on seeing what was written, a killed process's successor among them, and no later sync brings it to the disk.
//!
//! The real files are what a reader sees. Beside them stands what the disk has of each file, and which bytes a sync would
//! still bring there. Names are taken to be on the disk at once; what a power loss does to them the journal's simulated
//! disk tries.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use quarry_journal::{File, FileEntry, Files, RealFiles};
use quarry_storage::copy_directory;

/// One file as the disk has it.
#[derive(Clone, Default)]
struct Inode {
    on_disk: Vec<u8>,
    /// Written since the last sync, whether that succeeded or not.
    dirty: Vec<Range<usize>>,
}

type SharedInode = Arc<Mutex<Inode>>;

/// The system's knowledge of each file, beside what it shows to readers. It outlives the process that wrote, and no power loss.
#[derive(Clone, Default)]
pub struct Kernel {
    inodes: BTreeMap<String, Inode>,
}

pub struct ForgettingFiles {
    real: RealFiles,
    directory: PathBuf,
    inodes: Mutex<BTreeMap<String, SharedInode>>,
    forgets: Arc<AtomicBool>,
}

impl ForgettingFiles {
    /// The files of `directory`. Of those that `kernel` does not know the disk has everything.
    pub fn open(directory: &Path, kernel: &Kernel) -> ForgettingFiles {
        let real = RealFiles::open(directory).unwrap();
        let mut inodes = BTreeMap::new();
        for entry in real.list().unwrap() {
            let inode = kernel.inodes.get(&entry.name).cloned();
            let inode = inode.unwrap_or_else(|| Inode {
                on_disk: fs::read(directory.join(&entry.name)).unwrap(),
                dirty: Vec::new(),
            });
            inodes.insert(entry.name, Arc::new(Mutex::new(inode)));
        }
        ForgettingFiles {
            real,
            directory: directory.to_owned(),
            inodes: Mutex::new(inodes),
            forgets: Arc::default(),
        }
    }

    /// From now on every sync fails and forgets.
    pub fn forget_syncs(&self) {
        self.forgets.store(true, Ordering::SeqCst);
    }

    /// Copies all files to `to`, and gives the system's knowledge of them. Both are of one moment: no file is written, synced or
    /// given another name meanwhile. Else the copy could have one file, and the knowledge another, under the same name.
    pub fn copy(&self, to: &Path) -> quarry_storage::Result<Kernel> {
        let inodes = self.inodes.lock().unwrap();
        let held: Vec<_> = (inodes.iter())
            .map(|(name, inode)| (name.clone(), lock(inode)))
            .collect();
        copy_directory(&self.directory, to)?;
        let copied = held.into_iter().map(|(name, inode)| (name, inode.clone()));
        Ok(Kernel {
            inodes: copied.collect(),
        })
    }

    fn file(&self, name: &str, file: Arc<dyn File>, inode: SharedInode) -> Arc<dyn File> {
        Arc::new(ForgettingFile {
            file,
            inode,
            forgets: Arc::clone(&self.forgets),
            name: self.directory.join(name),
        })
    }
}

impl Kernel {
    /// Whether readers of `directory` see anything that no sync will bring to the disk any more.
    pub fn has_forgotten(&self, directory: &Path) -> bool {
        self.inodes.iter().any(|(name, inode)| {
            let seen = fs::read(directory.join(name));
            seen.is_ok_and(|seen| inode.after_power_loss(&seen) != seen)
        })
    }

    /// Takes from the files of `directory` what the system has forgotten; the rest is what may have arrived.
    pub fn lose_power(&self, directory: &Path) {
        for (name, inode) in &self.inodes {
            let path = directory.join(name);
            let Ok(seen) = fs::read(&path) else {
                continue;
            };
            let left = inode.after_power_loss(&seen);
            if left != seen {
                fs::write(&path, left).unwrap();
            }
        }
    }
}

impl Inode {
    /// The content on the disk, with what is dirty as `seen` has it.
    fn after_power_loss(&self, seen: &[u8]) -> Vec<u8> {
        let mut left = self.on_disk.clone();
        for range in &self.dirty {
            let end = range.end.min(seen.len());
            if range.start < end {
                put(&mut left, &seen[range.start..end], range.start);
            }
        }
        left
    }
}

fn put(content: &mut Vec<u8>, bytes: &[u8], offset: usize) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

fn lock(inode: &SharedInode) -> MutexGuard<'_, Inode> {
    inode.lock().unwrap()
}

impl Files for ForgettingFiles {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        self.real.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let inodes = self.inodes.lock().unwrap();
        let file = self.real.open(name)?;
        let inode = Arc::clone(inodes.get(name).expect("every file was listed or created"));
        Ok(self.file(name, file, inode))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut inodes = self.inodes.lock().unwrap();
        let file = self.real.create(name)?;
        let inode = SharedInode::default();
        inodes.insert(name.to_owned(), Arc::clone(&inode));
        Ok(self.file(name, file, inode))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inodes = self.inodes.lock().unwrap();
        self.real.rename(from, to)?;
        let inode = inodes.remove(from).expect("every file has one");
        inodes.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inodes = self.inodes.lock().unwrap();
        self.real.remove(name)?;
        inodes.remove(name);
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.real.sync_directory()
    }
}

struct ForgettingFile {
    file: Arc<dyn File>,
    inode: SharedInode,
    forgets: Arc<AtomicBool>,
    name: PathBuf,
}

impl File for ForgettingFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut inode = lock(&self.inode);
        let written = self.file.write_at(bytes, offset)?;
        let offset = offset as usize;
        inode.dirty.push(offset..offset + written);
        Ok(written)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    /// The real file is not synced: what is lost is lost by this layer's hand.
    fn sync(&self) -> io::Result<()> {
        let mut inode = lock(&self.inode);
        let dirty = std::mem::take(&mut inode.dirty);
        if self.forgets.load(Ordering::SeqCst) {
            let what = format!("the sync of {} failed and forgot", self.name.display());
            return Err(io::Error::other(what));
        }
        for range in dirty {
            let mut bytes = vec![0; range.len()];
            let mut read = 0;
            while read < bytes.len() {
                match self
                    .file
                    .read_at(&mut bytes[read..], (range.start + read) as u64)?
                {
                    0 => break,
                    more => read += more,
                }
            }
            put(&mut inode.on_disk, &bytes[..read], range.start);
        }
        Ok(())
    }

    /// A length is on the disk at once, as a name is.
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut inode = lock(&self.inode);
        self.file.set_len(bytes)?;
        inode.on_disk.resize(bytes as usize, 0);
        inode.dirty.retain_mut(|range| {
            range.end = range.end.min(bytes as usize);
            range.start < range.end
        });
        Ok(())
    }

    /// Like `set_len`, but shortens nothing.
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let mut inode = lock(&self.inode);
        self.file.reserve(bytes)?;
        if inode.on_disk.len() < bytes as usize {
            inode.on_disk.resize(bytes as usize, 0);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

/// A journal gives up a segment, makes a longer one, and gives it the name of the first, beside somebody who copies all files.
#[test]
fn a_copy_has_the_files_that_the_knowledge_beside_it_is_of() {
    const ROUNDS: u8 = 100;
    let directory = tempfile::tempdir().unwrap();
    let files = ForgettingFiles::open(directory.path(), &Kernel::default());
    let (name, made) = ("1.segment", "1.new");
    let make = |number: u8| {
        let file = files.create(made).unwrap();
        file.write_at(&[number; 4096], 0).unwrap();
        file.sync().unwrap();
        files.rename(made, name).unwrap();
    };
    make(0);
    let (begin, begins) = std::sync::mpsc::sync_channel(0);
    std::thread::scope(|scope| {
        scope.spawn(|| begins.into_iter().for_each(make));
        for round in 1..ROUNDS {
            let copy = tempfile::tempdir().unwrap();
            begin.send(round).unwrap();
            let kernel = files.copy(copy.path()).unwrap();
            let copied = fs::read(copy.path().join(name)).unwrap();
            let known = &kernel.inodes[name];
            assert!(known.after_power_loss(&copied) == copied, "another file's");
        }
        drop(begin);
    });
}
