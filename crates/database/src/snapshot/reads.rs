//! How the database is read: its latest state, or one snapshot of it.
//!
//! Between a reader and the engine stand three things, and `Reads` is where they are put together, so that no reader
//! decides about them for itself:
//! - **The overlay** of a batch that the journal has and the engine has not yet (`late_writes`). It lies over every read,
//!   because the engine that `Reads` asks is the one with the overlay.
//! - **The cache of records** (`record_cache`), in front of the engine for the keys of documents.
//! - **The epoch** (`epochs`). A drop gives the space of a collection or an index up, and some time later the engine
//!   removes it, whatever snapshots there are. It waits for every epoch that began before the drop was visible.
//!
//! Keeps true: a `ReadSnapshot` stands in an epoch from before it was made until after it is gone. Who asks the catalog
//! which prefixes to read enters the epoch before that (`Reads::enter`) and makes the snapshot inside it
//! (`Reads::snapshot_in`); otherwise the space could be reclaimed between the two. A single get of the latest state needs
//! no epoch: a record that a drop took away is answered like one that was never there.
//!
//! Leaves out: the catalog's and the commit path's own keys, which nobody reclaims.

use std::cell::Cell;
use std::sync::Arc;

use quarry_storage::{Cursor, Engine, KeyRange, Snapshot};

use crate::error::Result;
use crate::locks::epochs::{Epoch, Epochs};
use crate::record_cache::{Reader, RecordCache};

/// After this many reads a snapshot puts nothing more into the cache: a long scan does not sweep out what others ask for.
const READS_KEPT_MAX: u32 = 100;

/// The latest state of a database, and where its snapshots come from. A clone reads the same database.
#[derive(Clone)]
pub(crate) struct Reads {
    engine: Arc<dyn Engine>,
    records: Option<Arc<RecordCache>>,
    epochs: Arc<Epochs>,
}

/// The database as it was at one moment. Cheap to make; while it lives, no dropped space is reclaimed that it can see.
pub(crate) struct ReadSnapshot {
    // Dropped in this order: the snapshot before the epoch that protects it.
    snapshot: Box<dyn Snapshot>,
    records: Option<CachedRecords>,
    epoch: Epoch,
}

/// The cache of records as one snapshot reads it.
struct CachedRecords {
    cache: Arc<RecordCache>,
    reader: Reader,
    /// How many more reads may put in what they find.
    left: Cell<u32>,
}

impl Reads {
    pub fn new(engine: Arc<dyn Engine>, records: Option<Arc<RecordCache>>) -> Reads {
        Reads {
            engine,
            records,
            epochs: Arc::default(),
        }
    }

    /// Enters the current epoch. What the catalog says from now on can be read until the epoch is dropped.
    pub fn enter(&self) -> Epoch {
        Epochs::enter(Arc::clone(&self.epochs))
    }

    /// Like `enter`, for a writer, which ends before the database does.
    pub fn enter_to_write(&self) -> Epoch<&Epochs> {
        Epochs::enter(&*self.epochs)
    }

    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    pub fn records(&self) -> Option<&Arc<RecordCache>> {
        self.records.as_ref()
    }

    /// A snapshot of the latest state, for a reader that has not asked the catalog for what it will read, or that holds
    /// its collection exclusively.
    pub fn snapshot(&self) -> Result<ReadSnapshot> {
        self.snapshot_in(self.enter())
    }

    /// Like `snapshot`, for a reader that entered `epoch` before it asked the catalog.
    pub fn snapshot_in(&self, epoch: Epoch) -> Result<ReadSnapshot> {
        // The cache's reader comes first: it must not see a group that the snapshot may lack.
        let records = self.records.as_ref().map(CachedRecords::new);
        Ok(ReadSnapshot {
            snapshot: self.engine.snapshot()?,
            records,
            epoch,
        })
    }

    /// Reads the latest value of an index entry or a system key; false if there is none.
    pub fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.engine.get(key, read)?)
    }

    /// Like `get`, for the key of a record: the cache is asked first.
    pub fn get_record(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let get = |read: &mut dyn FnMut(&[u8])| self.engine.get(key, read);
        Ok(match &self.records {
            Some(cache) => cache.read(key, cache.latest(), read, get)?,
            None => get(read)?,
        })
    }

    /// Calls `found` with the position of each of `keys` that has a value now.
    pub fn find_present(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize)) -> Result<()> {
        Ok(self.engine.find_present(keys, found)?)
    }
}

impl ReadSnapshot {
    /// Another snapshot of the same moment, which may be read on another thread and outlive this one.
    pub fn share(&mut self) -> Result<ReadSnapshot> {
        let records = self.records.as_ref().map(CachedRecords::share);
        Ok(ReadSnapshot {
            snapshot: self.snapshot.share()?,
            records,
            epoch: self.epoch.share(),
        })
    }

    /// Reads the value of an index entry or a system key; false if there is none.
    pub fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.snapshot.get(key, read)?)
    }

    /// Like `get`, for the key of a record: the cache is asked first.
    pub fn get_record(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let get = |read: &mut dyn FnMut(&[u8])| self.snapshot.get(key, read);
        Ok(match &self.records {
            Some(records) => records.cache.read(key, records.next_reader(), read, get)?,
            None => get(read)?,
        })
    }

    /// A cursor over `range`, on no key until it is moved. It does not look into the cache.
    pub fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        Ok(self.snapshot.cursor(range)?)
    }
}

impl CachedRecords {
    fn new(cache: &Arc<RecordCache>) -> CachedRecords {
        CachedRecords {
            cache: Arc::clone(cache),
            reader: cache.snapshot(),
            left: Cell::new(READS_KEPT_MAX),
        }
    }

    fn share(&self) -> CachedRecords {
        CachedRecords {
            cache: Arc::clone(&self.cache),
            reader: self.reader,
            left: Cell::new(READS_KEPT_MAX),
        }
    }

    fn next_reader(&self) -> Reader {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                self.reader
            }
            None => self.reader.without_keeping(),
        }
    }
}
