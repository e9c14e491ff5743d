//! Snapshots: a RocksDB snapshot that keeps its database open.

use std::{cell::RefCell, sync::Arc};

use quarry_storage::{CounterCells, Cursor, KeyRange, Result, Snapshot};
use rust_rocksdb::{DB, ReadOptions};

use crate::{
    cache_use,
    cursor::RocksCursor,
    failure::{from_rocksdb, from_text},
    ffi::{OwnedIterator, OwnedSnapshot},
    iterator_pool::IteratorPool,
};

pub(crate) struct RocksSnapshot {
    held: Held,
    pool: Arc<IteratorPool>,
    counters: Arc<CounterCells>,
}

/// The engine's snapshot. Most are read by one owner, who allocates nothing beside them.
enum Held {
    Alone(OwnedSnapshot),
    Shared(Arc<OwnedSnapshot>),
    /// Only while `share` makes the one out of the other.
    Changing,
}

impl Held {
    #[inline]
    fn get(&self) -> &OwnedSnapshot {
        match self {
            Held::Alone(snapshot) => snapshot,
            Held::Shared(snapshot) => snapshot,
            Held::Changing => unreachable!("`share` has the snapshot to itself"),
        }
    }

    fn share(&mut self) -> Arc<OwnedSnapshot> {
        let shared = match std::mem::replace(self, Held::Changing) {
            Held::Alone(snapshot) => Arc::new(snapshot),
            Held::Shared(snapshot) => snapshot,
            Held::Changing => unreachable!("`share` has the snapshot to itself"),
        };
        *self = Held::Shared(Arc::clone(&shared));
        shared
    }
}

impl RocksSnapshot {
    pub(crate) fn new(
        db: &Arc<DB>,
        pool: &Arc<IteratorPool>,
        counters: &Arc<CounterCells>,
    ) -> Self {
        Self {
            held: Held::Alone(OwnedSnapshot::new(db)),
            pool: Arc::clone(pool),
            counters: Arc::clone(counters),
        }
    }

    /// An idle iterator, if what it sees after its renewal is this snapshot.
    ///
    /// A renewed iterator sees the newest, and that lies between the snapshot and what is newest
    /// after the renewal: where these two are one, it sees just the snapshot.
    fn renewed(
        &self,
        idle: Option<OwnedIterator>,
        range: &KeyRange,
    ) -> Result<Option<OwnedIterator>> {
        let Some(mut iterator) = idle else {
            return Ok(None);
        };
        if !self.is_newest() {
            return Ok(None);
        }
        iterator.renew(range.clone()).map_err(from_text)?;
        Ok(Some(iterator).filter(|_| self.is_newest()))
    }

    fn is_newest(&self) -> bool {
        let snapshot = self.held.get();
        let newest = snapshot.db().latest_sequence_number();
        snapshot.get().sequence_number() == Some(newest)
    }
}

impl Snapshot for RocksSnapshot {
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        thread_local! {
            static OPTIONS: RefCell<ReadOptions> = RefCell::default();
        }
        let snapshot = self.held.get();
        let db = snapshot.db();
        let value = OPTIONS.with_borrow_mut(|options| {
            options.set_snapshot(snapshot.get());
            db.get_pinned_opt(key, options)
        });
        let value = value.map_err(from_rocksdb)?;
        self.counters
            .count_get(value.as_ref().map_or(0, |value| value.len()));
        cache_use::count(&self.counters);
        Ok(value.map(|value| read(&value)).is_some())
    }

    fn cursor<'s>(&'s self, range: KeyRange) -> Result<Box<dyn Cursor + 's>> {
        let cursor = |iterator, era| {
            let cursor = RocksCursor::new(iterator, era, &self.pool, &self.counters);
            Ok(Box::new(cursor) as Box<dyn Cursor + 's>)
        };
        if range.is_empty() {
            return cursor(None, 0);
        }
        let (era, idle) = self.pool.take();
        let iterator = match self.renewed(idle, &range)? {
            Some(iterator) => iterator,
            None => OwnedIterator::new(self.held.get(), range),
        };
        cursor(Some(iterator), era)
    }

    fn share(&mut self) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(RocksSnapshot {
            held: Held::Shared(self.held.share()),
            pool: Arc::clone(&self.pool),
            counters: Arc::clone(&self.counters),
        }))
    }
}
