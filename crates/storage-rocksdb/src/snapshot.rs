//! Snapshots: a RocksDB snapshot that keeps its database open.

use std::sync::Arc;

use quarry_storage::{CounterCells, Cursor, KeyRange, Result, Snapshot};
use rust_rocksdb::{DB, ReadOptions};

use crate::{cursor::RocksCursor, failure::from_rocksdb, ffi::OwnedSnapshot};

pub(crate) struct RocksSnapshot {
    snapshot: OwnedSnapshot,
    counters: Arc<CounterCells>,
}

impl RocksSnapshot {
    pub(crate) fn new(db: &Arc<DB>, counters: &Arc<CounterCells>) -> Self {
        Self {
            snapshot: OwnedSnapshot::new(db),
            counters: Arc::clone(counters),
        }
    }
}

impl Snapshot for RocksSnapshot {
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.snapshot.get().get_pinned(key).map_err(from_rocksdb)?;
        self.counters
            .count_get(value.as_ref().map_or(0, |value| value.len()));
        Ok(value.map(|value| read(&value)).is_some())
    }

    fn cursor<'s>(&'s self, range: KeyRange) -> Result<Box<dyn Cursor + 's>> {
        let is_empty = range.is_empty();
        let mut options = ReadOptions::default();
        if !is_empty {
            options.set_iterate_lower_bound(range.start);
            if !range.end.is_empty() {
                options.set_iterate_upper_bound(range.end);
            }
        }
        let entries = self.snapshot.get().raw_iterator_opt(options);
        Ok(Box::new(RocksCursor::new(
            entries,
            is_empty,
            &self.counters,
        )))
    }
}
