//! The engine trait over an open store.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use quarry_storage::{
    BeforeDurable, CounterCells, Engine, EngineCounters, KEY_BYTES_MAX, KeyRange, Readiness,
    Reclaimed, Result, Snapshot, WriteBatch,
};

use crate::{
    Options, SyncMode,
    ffi::ReadTxn,
    snapshot::MdbxSnapshot,
    steady::SteadyThread,
    store::{Store, storable},
};

/// libmdbx in one directory.
pub struct Mdbx {
    store: Arc<Store>,
    /// None in the modes that sync at every commit.
    steady: Option<SteadyThread>,
    counters: Arc<CounterCells>,
}

impl Mdbx {
    /// Opens the store in `directory`, or makes one when the directory is absent or empty.
    pub fn open(directory: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let store = Arc::new(Store::open(directory.as_ref(), options)?);
        let steady = match options.sync_mode {
            SyncMode::Durable | SyncMode::NoMetaSync => None,
            SyncMode::SafeNoSync | SyncMode::UtterlyNoSync => Some(SteadyThread::start(&store)?),
        };
        Ok(Self {
            store,
            steady,
            counters: Arc::default(),
        })
    }

    fn written(&self, batch: &WriteBatch) {
        self.counters.count_write(batch.bytes_len());
        self.wake_when_needed();
    }

    fn wake_when_needed(&self) {
        if let Some(steady) = &self.steady
            && self.store.needs_steady_point()
        {
            steady.wake();
        }
    }
}

impl Engine for Mdbx {
    fn name(&self) -> &'static str {
        "mdbx"
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.store.check_open()?;
        get_with(self.store.readers.take()?.txn(), key, &self.counters, read)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        self.store.check_open()?;
        Ok(Box::new(MdbxSnapshot::new(
            self.store.readers.take()?,
            &self.counters,
        )))
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.store.write(batch)?;
        self.written(batch);
        Ok(())
    }

    fn try_write(&self, batch: &WriteBatch) -> Result<()> {
        self.store.try_write(batch)?;
        self.written(batch);
        Ok(())
    }

    fn syncs_writes(&self) -> bool {
        self.steady.is_none()
    }

    fn ready(&self) -> Readiness {
        self.store.ready()
    }

    /// A page of the tree is written once for each batch that changes it.
    fn bulk_batch_bytes(&self) -> usize {
        4 << 20
    }

    fn begin_sync(&self) {
        if let Some(steady) = &self.steady {
            steady.wake_for_pages();
        }
    }

    fn sync(&self) -> Result<()> {
        self.store.check_open()?;
        self.store.make_steady()
    }

    fn durable_lsn(&self) -> Result<u64> {
        self.store.durable_lsn()
    }

    fn copy_to(&self, directory: &Path) -> Result<()> {
        self.store.copy_to(directory)
    }

    fn reclaim(&self, range: KeyRange, step_bytes: u64) -> Result<Reclaimed> {
        let reclaimed = self.store.reclaim(&range, step_bytes)?;
        self.wake_when_needed();
        Ok(reclaimed)
    }

    fn size_estimate(&self, range: &KeyRange) -> Result<u64> {
        self.store.check_open()?;
        if range.is_empty() {
            return Ok(0);
        }
        let (start, end) = (storable(&range.start), storable(&range.end));
        self.store.readers.take()?.txn().estimate_bytes(start, end)
    }

    fn counters(&self) -> EngineCounters {
        let (disk_bytes, unflushed_bytes) = match self.store.env.info() {
            Ok(info) => (info.file_bytes, info.unsynced_bytes),
            Err(_) => (0, 0),
        };
        EngineCounters {
            flushes: self.store.steady_points.load(Ordering::Relaxed),
            unflushed_bytes,
            disk_bytes,
            ..self.counters.sum()
        }
    }

    fn retired_bytes(&self) -> Option<u64> {
        Some(self.store.retired_bytes.load(Ordering::Relaxed))
    }

    fn close(&self) -> Result<()> {
        if let Some(steady) = &self.steady {
            steady.stop();
        }
        self.store.close()
    }

    fn set_before_durable(&self, hook: BeforeDurable) {
        self.store.set_hook(hook);
    }
}

pub(crate) fn get_with(
    txn: &ReadTxn,
    key: &[u8],
    counters: &CounterCells,
    read: &mut dyn FnMut(&[u8]),
) -> Result<bool> {
    let value = if key.is_empty() || key.len() > KEY_BYTES_MAX {
        None
    } else {
        txn.get(key)?
    };
    counters.count_get(value.map_or(0, <[u8]>::len));
    Ok(value.map(read).is_some())
}
