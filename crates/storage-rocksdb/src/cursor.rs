//! Cursors: a RocksDB iterator with bounds.
//!
//! The iterator's own bounds keep it inside the range and let RocksDB skip files and deletes beyond
//! it. RocksDB does not say what an iterator does whose lower bound is above its upper, so a cursor
//! over an empty range never asks it.

use quarry_storage::{CounterCells, Cursor, Result};
use rust_rocksdb::DBRawIterator;

use crate::failure::from_rocksdb;

pub(crate) struct RocksCursor<'s> {
    entries: DBRawIterator<'s>,
    is_empty: bool,
    valid: bool,
    seeks: u64,
    nexts: u64,
    bytes: u64,
    counters: &'s CounterCells,
}

impl<'s> RocksCursor<'s> {
    pub(crate) fn new(
        entries: DBRawIterator<'s>,
        is_empty: bool,
        counters: &'s CounterCells,
    ) -> Self {
        Self {
            entries,
            is_empty,
            valid: false,
            seeks: 0,
            nexts: 0,
            bytes: 0,
            counters,
        }
    }

    fn seek_with(&mut self, seek: impl FnOnce(&mut DBRawIterator<'s>)) -> Result<()> {
        self.seeks += 1;
        if self.is_empty {
            return Ok(());
        }
        seek(&mut self.entries);
        self.settle()
    }

    fn step_with(&mut self, step: impl FnOnce(&mut DBRawIterator<'s>)) -> Result<()> {
        self.nexts += 1;
        if !self.valid {
            return Ok(());
        }
        step(&mut self.entries);
        self.settle()
    }

    /// Notes where the iterator stands; the end of a range and an error look alike to it.
    fn settle(&mut self) -> Result<()> {
        if let Some((key, value)) = self.entries.item() {
            self.valid = true;
            self.bytes += (key.len() + value.len()) as u64;
            return Ok(());
        }
        self.valid = false;
        self.entries.status().map_err(from_rocksdb)
    }
}

impl Cursor for RocksCursor<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_with(|entries| entries.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek_with(|entries| {
            entries.seek_for_prev(key);
            if entries.key() == Some(key) {
                entries.prev();
            }
        })
    }

    fn first(&mut self) -> Result<()> {
        self.seek_with(DBRawIterator::seek_to_first)
    }

    fn last(&mut self) -> Result<()> {
        self.seek_with(DBRawIterator::seek_to_last)
    }

    fn next(&mut self) -> Result<()> {
        self.step_with(DBRawIterator::next)
    }

    fn prev(&mut self) -> Result<()> {
        self.step_with(DBRawIterator::prev)
    }

    fn valid(&self) -> bool {
        self.valid
    }

    fn key(&self) -> &[u8] {
        if self.valid {
            self.entries.key().unwrap_or_default()
        } else {
            &[]
        }
    }

    fn value(&self) -> &[u8] {
        if self.valid {
            self.entries.value().unwrap_or_default()
        } else {
            &[]
        }
    }
}

impl Drop for RocksCursor<'_> {
    fn drop(&mut self) {
        self.counters
            .count_cursor(self.seeks, self.nexts, self.bytes);
    }
}
