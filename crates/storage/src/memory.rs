//! An engine in memory: small, exact, and gone with the process.
//!
//! One persistent ordered map stands behind a lock; a snapshot is a clone of its root, so it costs
//! the same however much is stored, and a write copies only the path to what it changes while a
//! snapshot shares it. [`Engine::sync`] makes a durable point in name only: the hook of the
//! write-ahead rule runs and the applied LSN counts as durable, so that everything above behaves as
//! it does over files. It keeps no promise after a kill.
//!
//! A [`MemoryImage`] is what tests use in place of a copied directory.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};

use crate::{
    APPLIED_LSN_KEY, BeforeDurable, CounterCells, Cursor, Engine, EngineCounters, Error, KeyRange,
    Op, Readiness, Reclaimed, Result, Snapshot, WriteBatch, memory_cursor::MemoryCursor,
};

pub(crate) type Map = OrdMap<Arc<[u8]>, Arc<[u8]>>;

/// Everything an engine in memory held at one moment.
#[derive(Clone, Default)]
pub struct MemoryImage {
    map: Map,
}

impl MemoryImage {
    /// The applied LSN it holds; 0 when it holds none.
    #[must_use]
    pub fn applied_lsn(&self) -> u64 {
        applied_lsn(&self.map)
    }
}

/// The engine in memory. Lock order: `durable` before `map`.
pub struct Memory {
    map: RwLock<Map>,
    /// Held over a durable point, so that points do not overtake each other.
    durable: Mutex<Durable>,
    unflushed_bytes: AtomicU64,
    closed: AtomicBool,
    counters: Arc<CounterCells>,
}

#[derive(Default)]
struct Durable {
    lsn: u64,
    points: u64,
    hook: Option<BeforeDurable>,
}

impl Memory {
    /// An empty engine.
    #[must_use]
    pub fn new() -> Self {
        Self::from_image(MemoryImage::default())
    }

    /// An engine that begins with what an image holds, all of it durable.
    #[must_use]
    pub fn from_image(image: MemoryImage) -> Self {
        Self {
            durable: Mutex::new(Durable {
                lsn: image.applied_lsn(),
                ..Durable::default()
            }),
            map: RwLock::new(image.map),
            unflushed_bytes: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            counters: Arc::default(),
        }
    }

    /// The whole content of the engine now, durable or not.
    #[must_use]
    pub fn image(&self) -> MemoryImage {
        MemoryImage {
            map: self.map.read().clone(),
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.check_open()?;
        let value = self.map.read().get(key).cloned();
        Ok(hand_out(value.as_deref(), &self.counters, read))
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        self.check_open()?;
        Ok(Box::new(MemorySnapshot {
            map: self.map.read().clone(),
            counters: Arc::clone(&self.counters),
        }))
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.check_open()?;
        batch.check_keys()?;
        let mut map = self.map.write();
        for op in batch {
            match op {
                Op::Put(key, value) => {
                    map.insert(Arc::from(key), Arc::from(value));
                }
                Op::Delete(key) => {
                    map.remove(key);
                }
            }
        }
        drop(map);
        self.unflushed_bytes
            .fetch_add(batch.bytes_len() as u64, Ordering::Relaxed);
        self.counters.count_write(batch.bytes_len());
        Ok(())
    }

    fn ready(&self) -> Readiness {
        match self.check_open() {
            Ok(()) => Readiness::Ready,
            Err(error) => Readiness::Failed(error),
        }
    }

    fn sync(&self) -> Result<()> {
        self.check_open()?;
        let mut durable = self.durable.lock();
        let unflushed_bytes = self.unflushed_bytes.load(Ordering::Relaxed);
        let lsn = applied_lsn(&self.map.read());
        if let Some(hook) = &durable.hook {
            hook(lsn)?;
        }
        durable.lsn = lsn;
        durable.points += 1;
        self.unflushed_bytes
            .fetch_sub(unflushed_bytes, Ordering::Relaxed);
        Ok(())
    }

    fn durable_lsn(&self) -> Result<u64> {
        self.check_open()?;
        Ok(self.durable.lock().lsn)
    }

    fn reclaim(&self, range: KeyRange, step_bytes: u64) -> Result<Reclaimed> {
        self.check_open()?;
        if range.is_empty() {
            return Ok(Reclaimed { done: true });
        }
        let mut map = self.map.write();
        let mut doomed = Vec::new();
        let mut bytes = 0;
        let mut done = true;
        for (key, value) in map.range::<_, [u8]>(crate::memory_cursor::bounds(&range)) {
            if bytes >= step_bytes.max(1) {
                done = false;
                break;
            }
            bytes += (key.len() + value.len()) as u64;
            doomed.push(Arc::clone(key));
        }
        for key in doomed {
            map.remove(&key);
        }
        Ok(Reclaimed { done })
    }

    fn size_estimate(&self, range: &KeyRange) -> Result<u64> {
        self.check_open()?;
        if range.is_empty() {
            return Ok(0);
        }
        let map = self.map.read().clone();
        let entries = map.range::<_, [u8]>(crate::memory_cursor::bounds(range));
        Ok(entries
            .map(|(key, value)| (key.len() + value.len()) as u64)
            .sum())
    }

    fn counters(&self) -> EngineCounters {
        EngineCounters {
            flushes: self.durable.lock().points,
            unflushed_bytes: self.unflushed_bytes.load(Ordering::Relaxed),
            ..self.counters.sum()
        }
    }

    fn close(&self) -> Result<()> {
        if self.check_open().is_ok() {
            self.sync()?;
            self.closed.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn set_before_durable(&self, hook: BeforeDurable) {
        self.durable.lock().hook = Some(hook);
    }
}

struct MemorySnapshot {
    map: Map,
    counters: Arc<CounterCells>,
}

impl Snapshot for MemorySnapshot {
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(hand_out(
            self.map.get(key).map(AsRef::as_ref),
            &self.counters,
            read,
        ))
    }

    fn cursor<'s>(&'s self, range: KeyRange) -> Result<Box<dyn Cursor + 's>> {
        Ok(Box::new(MemoryCursor::new(
            &self.map,
            range,
            &self.counters,
        )))
    }

    fn share(&mut self) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(MemorySnapshot {
            map: self.map.clone(),
            counters: Arc::clone(&self.counters),
        }))
    }
}

fn hand_out(value: Option<&[u8]>, counters: &CounterCells, read: &mut dyn FnMut(&[u8])) -> bool {
    counters.count_get(value.map_or(0, <[u8]>::len));
    value.map(read).is_some()
}

fn applied_lsn(map: &Map) -> u64 {
    let bytes = map
        .get(APPLIED_LSN_KEY)
        .and_then(|value| value.as_ref().try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}
