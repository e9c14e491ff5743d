//! Cursors: libmdbx's, kept inside a range.
//!
//! libmdbx knows no bounds and refuses keys longer than it stores. Such a key stands just above its
//! own first [`KEY_BYTES_MAX`] bytes, and is sought so.

use quarry_storage::{CounterCells, Cursor, KEY_BYTES_MAX, KeyRange, Result};

use crate::ffi::{Entry, Move, ReadCursor};

pub(crate) struct MdbxCursor<'s> {
    cursor: ReadCursor<'s>,
    range: KeyRange,
    at: Option<Entry<'s>>,
    seeks: u64,
    nexts: u64,
    bytes: u64,
    counters: &'s CounterCells,
}

impl<'s> MdbxCursor<'s> {
    pub(crate) fn new(cursor: ReadCursor<'s>, range: KeyRange, counters: &'s CounterCells) -> Self {
        Self {
            cursor,
            range,
            at: None,
            seeks: 0,
            nexts: 0,
            bytes: 0,
            counters,
        }
    }

    fn seek_to(&mut self, to: Move<'_>) -> Result<()> {
        self.seeks += 1;
        if self.range.is_empty() {
            return Ok(());
        }
        let found = self.cursor.read(to)?;
        self.stand_on(found);
        Ok(())
    }

    fn step_to(&mut self, to: Move<'_>) -> Result<()> {
        self.nexts += 1;
        if self.at.is_none() {
            return Ok(());
        }
        let found = self.cursor.read(to)?;
        self.stand_on(found);
        Ok(())
    }

    fn stand_on(&mut self, found: Option<Entry<'s>>) {
        self.at = found.filter(|(key, _)| self.range.contains(key));
        if let Some((key, value)) = self.at {
            self.bytes += (key.len() + value.len()) as u64;
        }
    }
}

impl Cursor for MdbxCursor<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let start = std::mem::take(&mut self.range.start);
        let from = key.max(&start).to_vec();
        self.range.start = start;
        self.seek_to(at_least(&from))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        if self.range.is_before_end(key) {
            return self.seek_to_below(key);
        }
        self.last()
    }

    fn first(&mut self) -> Result<()> {
        let start = self.range.start.clone();
        self.seek_to(at_least(&start))
    }

    fn last(&mut self) -> Result<()> {
        if self.range.end.is_empty() {
            return self.seek_to(Move::Last);
        }
        let end = self.range.end.clone();
        self.seek_to_below(&end)
    }

    fn next(&mut self) -> Result<()> {
        self.step_to(Move::Next)
    }

    fn prev(&mut self) -> Result<()> {
        self.step_to(Move::Prev)
    }

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn key(&self) -> &[u8] {
        self.at.map_or(&[], |(key, _)| key)
    }

    fn value(&self) -> &[u8] {
        self.at.map_or(&[], |(_, value)| value)
    }
}

impl MdbxCursor<'_> {
    /// To the last key below `key`; nothing is below the empty key.
    fn seek_to_below(&mut self, key: &[u8]) -> Result<()> {
        if key.is_empty() {
            self.seeks += 1;
            self.at = None;
            return Ok(());
        }
        self.seek_to(match key.get(..KEY_BYTES_MAX) {
            Some(head) if key.len() > KEY_BYTES_MAX => Move::AtMost(head),
            _ => Move::Below(key),
        })
    }
}

impl Drop for MdbxCursor<'_> {
    fn drop(&mut self) {
        self.counters
            .count_cursor(self.seeks, self.nexts, self.bytes);
    }
}

fn at_least(key: &[u8]) -> Move<'_> {
    match key.get(..KEY_BYTES_MAX) {
        _ if key.is_empty() => Move::First,
        Some(head) if key.len() > KEY_BYTES_MAX => Move::Above(head),
        _ => Move::AtLeast(key),
    }
}
