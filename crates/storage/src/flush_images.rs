//! An engine that can be reopened as of any durable point it ever made.
//!
//! For crash tests. Every durable point leaves an image: the map itself for `Memory`, a copy of
//! the directory for an engine with files. [`FlushImages::reopen`] starts a new life from one of
//! them, older or newer than whatever the journal kept: [`ImagedEngine::leap`] makes a point
//! without the hook of the write-ahead rule, which is the one way to be newer.
//!
//! A directory is copied while writes are held off, and copied again when a background thread of
//! the engine changed it on the way. Lock files and text logs stay behind.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use parking_lot::{Mutex, RwLock};

use crate::{
    BeforeDurable, Engine, EngineCounters, Error, KeyRange, Memory, MemoryImage, Readiness,
    Reclaimed, Result, Snapshot, WriteBatch,
};

const COPY_ATTEMPTS_MAX: usize = 200;

type Open = Box<dyn Fn(&Path) -> Result<Arc<dyn Engine>> + Send + Sync>;

/// The images of one engine over all its lives, oldest first.
pub struct FlushImages {
    source: Source,
    images: Mutex<Vec<Image>>,
    lives: AtomicUsize,
}

enum Source {
    Memory,
    Directories { root: PathBuf, open: Open },
}

struct Image {
    lsn: u64,
    content: Content,
}

#[derive(Clone)]
enum Content {
    Memory(MemoryImage),
    Directory(PathBuf),
}

impl FlushImages {
    /// Images of the engine in memory.
    #[must_use]
    pub fn memory() -> Arc<Self> {
        Self::new(Source::Memory)
    }

    /// Images of an engine with files: its lives and images are directories below `root`, and
    /// `open` opens or creates an engine in one.
    pub fn directories(
        root: impl Into<PathBuf>,
        open: impl Fn(&Path) -> Result<Arc<dyn Engine>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let root = root.into();
        let open = Box::new(open);
        Self::new(Source::Directories { root, open })
    }

    fn new(source: Source) -> Arc<Self> {
        Arc::new(Self {
            source,
            images: Mutex::default(),
            lives: AtomicUsize::new(0),
        })
    }

    /// The applied LSN of each image, in the order they were made.
    #[must_use]
    pub fn lsns(&self) -> Vec<u64> {
        self.images.lock().iter().map(|image| image.lsn).collect()
    }

    /// A first life on nothing; the empty store is image 0.
    pub fn open(self: &Arc<Self>) -> Result<Arc<ImagedEngine>> {
        let engine = match &self.source {
            Source::Memory => self.imaged_memory(Memory::new()),
            Source::Directories { open, .. } => {
                let life = self.next_directory("life")?;
                self.imaged_directory(open(&life)?, life)
            }
        };
        engine.capture()?;
        Ok(engine)
    }

    /// A new life that begins with what image `index` holds. The life before is left as it is;
    /// drop it first where the engine keeps threads.
    pub fn reopen(self: &Arc<Self>, index: usize) -> Result<Arc<ImagedEngine>> {
        let content = self.images.lock()[index].content.clone();
        match (&self.source, content) {
            (Source::Directories { .. }, Content::Directory(image)) => {
                self.reopen_directory(&image)
            }
            (_, Content::Memory(image)) => Ok(self.imaged_memory(Memory::from_image(image))),
            (Source::Memory, Content::Directory(_)) => {
                unreachable!("memory leaves no directories")
            }
        }
    }

    /// The directory of image `index`; none for the engine in memory.
    #[must_use]
    pub fn directory(&self, index: usize) -> Option<PathBuf> {
        match &self.images.lock()[index].content {
            Content::Directory(directory) => Some(directory.clone()),
            Content::Memory(_) => None,
        }
    }

    /// A new life that begins with a copy of `directory`: an image that the caller took or changed.
    pub fn reopen_directory(self: &Arc<Self>, directory: &Path) -> Result<Arc<ImagedEngine>> {
        let Source::Directories { open, .. } = &self.source else {
            return Err(Error::Incompatible(
                "the engine in memory has no directories".into(),
            ));
        };
        let life = self.next_directory("life")?;
        copy_directory(directory, &life)?;
        Ok(self.imaged_directory(open(&life)?, life))
    }

    fn imaged_memory(self: &Arc<Self>, memory: Memory) -> Arc<ImagedEngine> {
        let memory = Arc::new(memory);
        self.imaged(Arc::clone(&memory) as _, Life::Memory(memory))
    }

    fn imaged_directory(
        self: &Arc<Self>,
        inner: Arc<dyn Engine>,
        life: PathBuf,
    ) -> Arc<ImagedEngine> {
        self.imaged(inner, Life::Directory(life))
    }

    fn imaged(self: &Arc<Self>, inner: Arc<dyn Engine>, life: Life) -> Arc<ImagedEngine> {
        Arc::new(ImagedEngine {
            inner,
            life,
            images: Arc::clone(self),
            writes: RwLock::new(()),
            leaping: Arc::default(),
        })
    }

    fn next_directory(&self, kind: &str) -> Result<PathBuf> {
        let Source::Directories { root, .. } = &self.source else {
            unreachable!("memory needs no directories")
        };
        let number = self.lives.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("{kind}-{number:04}"));
        fs::create_dir_all(&path)?;
        Ok(path)
    }
}

/// One life of the engine. Lock: `writes` is shared by writes and taken whole for a copy.
pub struct ImagedEngine {
    inner: Arc<dyn Engine>,
    life: Life,
    images: Arc<FlushImages>,
    writes: RwLock<()>,
    leaping: Arc<AtomicBool>,
}

enum Life {
    Memory(Arc<Memory>),
    Directory(PathBuf),
}

impl ImagedEngine {
    /// A durable point with an image, made without asking the hook of the write-ahead rule: an
    /// engine newer than its journal.
    pub fn leap(&self) -> Result<()> {
        self.leaping.store(true, Ordering::SeqCst);
        let outcome = self.sync();
        self.leaping.store(false, Ordering::SeqCst);
        outcome
    }

    /// Looks at the directory of this life while writes are held off; the engine's own threads go on.
    pub fn while_standing<T>(&self, look: impl FnOnce(Option<&Path>) -> T) -> T {
        let _whole = self.writes.write();
        match &self.life {
            Life::Memory(_) => look(None),
            Life::Directory(life) => look(Some(life)),
        }
    }

    /// Keeps what is durable now as an image. Writes are held off by the caller.
    fn capture(&self) -> Result<()> {
        let lsn = self.inner.durable_lsn()?;
        let content = match &self.life {
            Life::Memory(memory) => Content::Memory(memory.image()),
            Life::Directory(life) => {
                let image = self.images.next_directory("image")?;
                copy_directory(life, &image)?;
                Content::Directory(image)
            }
        };
        self.images.images.lock().push(Image { lsn, content });
        Ok(())
    }
}

impl Engine for ImagedEngine {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.inner.get(key, read)
    }

    fn find_present(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize)) -> Result<()> {
        self.inner.find_present(keys, found)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        self.inner.snapshot()
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        let _shared = self.writes.read();
        self.inner.write(batch)
    }

    fn try_write(&self, batch: &WriteBatch) -> Result<()> {
        let Some(_shared) = self.writes.try_read() else {
            return Err(Error::Stalled("an image is being made".into()));
        };
        self.inner.try_write(batch)
    }

    fn syncs_writes(&self) -> bool {
        self.inner.syncs_writes()
    }

    fn ready(&self) -> Readiness {
        self.inner.ready()
    }

    fn sync(&self) -> Result<()> {
        let _whole = self.writes.write();
        self.inner.sync()?;
        self.capture()
    }

    fn durable_lsn(&self) -> Result<u64> {
        self.inner.durable_lsn()
    }

    fn copy_to(&self, directory: &Path) -> Result<()> {
        let _whole = self.writes.write();
        self.inner.copy_to(directory)
    }

    fn reclaim(&self, range: KeyRange, step_bytes: u64) -> Result<Reclaimed> {
        let _shared = self.writes.read();
        self.inner.reclaim(range, step_bytes)
    }

    fn size_estimate(&self, range: &KeyRange) -> Result<u64> {
        self.inner.size_estimate(range)
    }

    fn counters(&self) -> EngineCounters {
        self.inner.counters()
    }

    fn stop_waiting(&self) {
        self.inner.stop_waiting();
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }

    fn set_before_durable(&self, hook: BeforeDurable) {
        let leaping = Arc::clone(&self.leaping);
        self.inner.set_before_durable(Box::new(move |lsn| {
            if leaping.load(Ordering::SeqCst) {
                Ok(())
            } else {
                hook(lsn)
            }
        }));
    }
}

/// Copies the files of `from` as they stood at one moment into `to`, an empty directory. Lock files and text logs stay
/// behind, and so do directories.
pub fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    copy_directory_beside(from, to, || Ok(()))
}

/// Like [`copy_directory`], but `from` also stands still until `beside` has returned, which is called again where it did not:
/// so that what `beside` copies is of the same moment.
pub fn copy_directory_beside<T>(
    from: &Path,
    to: &Path,
    mut beside: impl FnMut() -> Result<T>,
) -> Result<T> {
    for attempt in 0..COPY_ATTEMPTS_MAX {
        let before = listing(from)?;
        if copy_files(from, to, &before).is_ok() {
            let made = beside()?;
            if listing(from)? == before {
                return Ok(made);
            }
        }
        fs::remove_dir_all(to)?;
        fs::create_dir_all(to)?;
        std::thread::sleep(Duration::from_millis(attempt as u64 + 1));
    }
    let from = from.display();
    Err(Error::Io(format!(
        "`{from}` did not stand still for a copy"
    )))
}

type Listing = Vec<(PathBuf, u64, SystemTime)>;

fn listing(directory: &Path) -> Result<Listing> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        // A file may go between the two calls; the next listing tells.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_file() && !stays_behind(&name.to_string_lossy()) {
            files.push((PathBuf::from(name), metadata.len(), metadata.modified()?));
        }
    }
    files.sort();
    Ok(files)
}

fn stays_behind(name: &str) -> bool {
    name == "LOCK" || name.starts_with("LOG") || name.ends_with("lck")
}

fn copy_files(from: &Path, to: &Path, files: &Listing) -> Result<()> {
    for (name, _, _) in files {
        fs::copy(from.join(name), to.join(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(engine: &dyn Engine, lsn: u64) {
        let mut batch = WriteBatch::new();
        batch.put(&[b'k', lsn as u8], &[lsn as u8]);
        batch.put_applied_lsn(lsn);
        engine.write(&batch).unwrap();
    }

    #[test]
    fn a_life_begins_at_any_image() {
        let images = FlushImages::memory();
        let engine = images.open().unwrap();
        for lsn in 1..=4 {
            write(engine.as_ref(), lsn);
            if lsn % 2 == 0 {
                engine.sync().unwrap();
            }
        }
        assert_eq!(images.lsns(), [0, 2, 4]);
        let older = images.reopen(1).unwrap();
        assert_eq!(older.durable_lsn(), Ok(2));
        assert!(older.get(b"k\x02", &mut |_| ()).unwrap());
        assert!(!older.get(b"k\x03", &mut |_| ()).unwrap());
    }

    #[test]
    fn a_leap_does_not_ask_the_journal() {
        let images = FlushImages::memory();
        let engine = images.open().unwrap();
        engine.set_before_durable(Box::new(|_| Err(Error::Io("journal is stuck".into()))));
        write(engine.as_ref(), 1);
        assert!(engine.sync().is_err());
        assert_eq!(images.lsns(), [0]);
        engine.leap().unwrap();
        assert_eq!(images.lsns(), [0, 1]);
    }
}
