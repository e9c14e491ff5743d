//! An engine whose `reclaim` takes the range away from under its snapshots, all of it, immediately.
//!
//! For tests of whoever calls [`Engine::reclaim`]: its contract is that nobody reads the range any more, and a reader that
//! still does silently misses what an engine removed as whole files. Any engine may be wrapped; reads of other ranges are
//! that engine's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::{
    BeforeDurable, Cursor, Engine, EngineCounters, KeyRange, Readiness, Reclaimed, Result,
    Snapshot, WriteBatch,
};

/// Wraps an engine.
pub struct HastyReclaim {
    inner: Arc<dyn Engine>,
    gone: Gone,
    durable_looks: AtomicU64,
    /// The looks before the first reclaim, and those before the latest.
    looks_of_reclaims: Mutex<Option<(u64, u64)>>,
}

/// The ranges that were reclaimed, shared with every snapshot.
#[derive(Clone, Default)]
struct Gone(Arc<RwLock<Vec<KeyRange>>>);

impl Gone {
    fn has(&self, key: &[u8]) -> bool {
        self.0.read().iter().any(|range| range.contains(key))
    }
}

impl HastyReclaim {
    /// Wraps `inner`; nothing is gone at first.
    #[must_use]
    pub fn new(inner: Arc<dyn Engine>) -> Self {
        Self {
            inner,
            gone: Gone::default(),
            durable_looks: AtomicU64::new(0),
            looks_of_reclaims: Mutex::default(),
        }
    }

    /// How many ranges were reclaimed.
    #[must_use]
    pub fn reclaimed(&self) -> usize {
        self.gone.0.read().len()
    }

    /// How often the durable point was asked for. The thread that reclaims asks every time before it does.
    #[must_use]
    pub fn durable_looks(&self) -> u64 {
        self.durable_looks.load(Ordering::Relaxed)
    }

    /// How often the durable point was asked for from the first reclaim to the latest: the ticks of the thread
    /// that reclaims, which asks once or twice in each. Those in which it found nothing to reclaim do not count.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        let looks = *self.looks_of_reclaims.lock();
        looks.map_or(0, |(first, latest)| latest - first)
    }
}

impl Engine for HastyReclaim {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn key_bytes_max(&self) -> usize {
        self.inner.key_bytes_max()
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(!self.gone.has(key) && self.inner.get(key, read)?)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(HastySnapshot {
            inner: self.inner.snapshot()?,
            gone: self.gone.clone(),
        }))
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.inner.write(batch)
    }

    fn syncs_writes(&self) -> bool {
        self.inner.syncs_writes()
    }

    fn ready(&self) -> Readiness {
        self.inner.ready()
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn durable_lsn(&self) -> Result<u64> {
        self.durable_looks.fetch_add(1, Ordering::Relaxed);
        self.inner.durable_lsn()
    }

    fn reclaim(&self, range: KeyRange, step_bytes: u64) -> Result<Reclaimed> {
        let looks = self.durable_looks.load(Ordering::Relaxed);
        let mut of_reclaims = self.looks_of_reclaims.lock();
        of_reclaims.get_or_insert((looks, looks)).1 = looks;
        drop(of_reclaims);
        {
            let mut gone = self.gone.0.write();
            if !gone.contains(&range) {
                gone.push(range.clone());
            }
        }
        self.inner.reclaim(range, step_bytes)
    }

    fn size_estimate(&self, range: &KeyRange) -> Result<u64> {
        self.inner.size_estimate(range)
    }

    fn counters(&self) -> EngineCounters {
        self.inner.counters()
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }

    fn set_before_durable(&self, hook: BeforeDurable) {
        self.inner.set_before_durable(hook);
    }
}

struct HastySnapshot {
    inner: Box<dyn Snapshot>,
    gone: Gone,
}

impl Snapshot for HastySnapshot {
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(!self.gone.has(key) && self.inner.get(key, read)?)
    }

    fn cursor<'s>(&'s self, range: KeyRange) -> Result<Box<dyn Cursor + 's>> {
        Ok(Box::new(HastyCursor {
            inner: self.inner.cursor(range)?,
            gone: &self.gone,
        }))
    }

    fn share(&mut self) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(HastySnapshot {
            inner: self.inner.share()?,
            gone: self.gone.clone(),
        }))
    }
}

struct HastyCursor<'s> {
    inner: Box<dyn Cursor + 's>,
    gone: &'s Gone,
}

impl HastyCursor<'_> {
    /// Moves on until the cursor stands on a key that is still there.
    fn skip(&mut self, step: fn(&mut dyn Cursor) -> Result<()>) -> Result<()> {
        while self.inner.valid() && self.gone.has(self.inner.key()) {
            step(self.inner.as_mut())?;
        }
        Ok(())
    }
}

impl Cursor for HastyCursor<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.inner.seek(key)?;
        self.skip(|cursor| cursor.next())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.inner.seek_before(key)?;
        self.skip(|cursor| cursor.prev())
    }

    fn first(&mut self) -> Result<()> {
        self.inner.first()?;
        self.skip(|cursor| cursor.next())
    }

    fn last(&mut self) -> Result<()> {
        self.inner.last()?;
        self.skip(|cursor| cursor.prev())
    }

    fn next(&mut self) -> Result<()> {
        self.inner.next()?;
        self.skip(|cursor| cursor.next())
    }

    fn prev(&mut self) -> Result<()> {
        self.inner.prev()?;
        self.skip(|cursor| cursor.prev())
    }

    fn valid(&self) -> bool {
        self.inner.valid()
    }

    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    fn value(&self) -> &[u8] {
        self.inner.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    #[test]
    fn a_snapshot_loses_what_is_reclaimed_and_nothing_else() {
        let engine = HastyReclaim::new(Arc::new(Memory::new()));
        let mut batch = WriteBatch::new();
        for key in [b"a1", b"b1", b"b2", b"c1"] {
            batch.put(key, b"v");
        }
        engine.write(&batch).unwrap();
        let snapshot = engine.snapshot().unwrap();
        let keys = || {
            let mut cursor = snapshot.cursor(KeyRange::all()).unwrap();
            cursor.first().unwrap();
            let mut keys = Vec::new();
            while cursor.valid() {
                keys.push(cursor.key().to_vec());
                cursor.next().unwrap();
            }
            keys
        };
        assert_eq!(keys().len(), 4);
        engine.reclaim(KeyRange::prefix(b"b"), 1).unwrap();
        assert_eq!(keys(), [b"a1", b"c1"]);
        assert!(!snapshot.get(b"b1", &mut |_| {}).unwrap());
        assert!(snapshot.get(b"c1", &mut |_| {}).unwrap());
        assert_eq!(engine.reclaimed(), 1);
    }
}
