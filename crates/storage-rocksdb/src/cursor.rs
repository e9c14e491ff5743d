//! Cursors: a RocksDB iterator with bounds, borrowed from the pool.
//!
//! The iterator's own bounds keep it inside the range and let RocksDB skip files and deletes beyond
//! it. RocksDB does not say what an iterator does whose lower bound is above its upper, so a cursor
//! over an empty range has none.

use quarry_storage::{CounterCells, Cursor, Result};

use crate::{cache_use, failure::from_text, ffi::OwnedIterator, iterator_pool::IteratorPool};

pub(crate) struct RocksCursor<'s> {
    /// None where the range is empty, and after the drop has given it back.
    entries: Option<OwnedIterator>,
    /// The era of the pool in which the iterator was made or renewed.
    era: u64,
    pool: &'s IteratorPool,
    /// The iterator has failed. It may keep its failure, so that no other cursor is given it.
    has_failed: bool,
    seeks: u64,
    nexts: u64,
    bytes: u64,
    counters: &'s CounterCells,
}

impl<'s> RocksCursor<'s> {
    pub(crate) fn new(
        entries: Option<OwnedIterator>,
        era: u64,
        pool: &'s IteratorPool,
        counters: &'s CounterCells,
    ) -> Self {
        Self {
            entries,
            era,
            pool,
            has_failed: false,
            seeks: 0,
            nexts: 0,
            bytes: 0,
            counters,
        }
    }

    fn seek_with(&mut self, seek: impl FnOnce(&mut OwnedIterator)) -> Result<()> {
        self.seeks += 1;
        self.move_with(seek)
    }

    fn step_with(&mut self, step: impl FnOnce(&mut OwnedIterator)) -> Result<()> {
        self.nexts += 1;
        if !self.valid() {
            return Ok(());
        }
        self.move_with(step)
    }

    /// Moves, then notes where the iterator stands; the end of a range and an error look alike to it.
    fn move_with(&mut self, go: impl FnOnce(&mut OwnedIterator)) -> Result<()> {
        let Some(entries) = &mut self.entries else {
            return Ok(());
        };
        go(entries);
        if let Some((key, value)) = entries.item() {
            self.bytes += (key.len() + value.len()) as u64;
            return Ok(());
        }
        let status = entries.status();
        self.has_failed |= status.is_err();
        status.map_err(from_text)
    }

    #[inline]
    fn item(&self) -> Option<(&[u8], &[u8])> {
        self.entries.as_ref()?.item()
    }
}

impl Cursor for RocksCursor<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_with(|entries| entries.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek_with(|entries| {
            entries.seek_for_prev(key);
            if entries.item().is_some_and(|(found, _)| found == key) {
                entries.prev();
            }
        })
    }

    fn first(&mut self) -> Result<()> {
        self.seek_with(OwnedIterator::seek_to_first)
    }

    fn last(&mut self) -> Result<()> {
        self.seek_with(OwnedIterator::seek_to_last)
    }

    fn next(&mut self) -> Result<()> {
        self.step_with(OwnedIterator::next)
    }

    fn prev(&mut self) -> Result<()> {
        self.step_with(OwnedIterator::prev)
    }

    fn valid(&self) -> bool {
        self.item().is_some()
    }

    fn key(&self) -> &[u8] {
        self.item().map_or(&[], |(key, _)| key)
    }

    fn value(&self) -> &[u8] {
        self.item().map_or(&[], |(_, value)| value)
    }
}

impl Drop for RocksCursor<'_> {
    fn drop(&mut self) {
        if let Some(entries) = self.entries.take().filter(|_| !self.has_failed) {
            self.pool.give_back(entries, self.era);
        }
        self.counters
            .count_cursor(self.seeks, self.nexts, self.bytes);
        cache_use::count(self.counters);
    }
}
