//! The cursor of the engine in memory.
//!
//! It keeps a running iterator in the direction it last moved, so that a scan costs a step and not
//! a descent an entry; turning round costs one descent.

use std::{ops::Bound, sync::Arc};

use imbl::{ordmap::RangedIter, shared_ptr::DefaultSharedPtr};

use crate::{CounterCells, Cursor, KeyRange, Result, memory::Map};

type Entries<'m> = RangedIter<'m, Arc<[u8]>, Arc<[u8]>, DefaultSharedPtr>;

pub(crate) struct MemoryCursor<'m> {
    map: &'m Map,
    range: KeyRange,
    at: Option<(&'m [u8], &'m [u8])>,
    run: Run<'m>,
    seeks: u64,
    nexts: u64,
    bytes: u64,
    counters: &'m CounterCells,
}

/// The entries left beyond the current one, in the direction of the last move.
enum Run<'m> {
    Ended,
    Forward(Entries<'m>),
    Backward(Entries<'m>),
}

impl<'m> MemoryCursor<'m> {
    pub(crate) fn new(map: &'m Map, range: KeyRange, counters: &'m CounterCells) -> Self {
        Self {
            map,
            range,
            at: None,
            run: Run::Ended,
            seeks: 0,
            nexts: 0,
            bytes: 0,
            counters,
        }
    }

    /// Entries of the range from `low` on.
    fn run_from(&mut self, low: Bound<&[u8]>) {
        self.run = match low {
            Bound::Included(key) | Bound::Excluded(key) if !self.range.is_before_end(key) => {
                Run::Ended
            }
            _ if self.range.is_empty() => Run::Ended,
            low => Run::Forward(self.map.range::<_, [u8]>((low, upper(&self.range)))),
        };
        self.pull();
    }

    /// Entries of the range before `high`.
    fn run_before(&mut self, high: Bound<&[u8]>) {
        self.run = match high {
            Bound::Included(key) | Bound::Excluded(key) if key <= self.range.start.as_slice() => {
                Run::Ended
            }
            _ if self.range.is_empty() => Run::Ended,
            high => Run::Backward(
                self.map
                    .range::<_, [u8]>((Bound::Included(self.range.start.as_slice()), high)),
            ),
        };
        self.pull();
    }

    fn pull(&mut self) {
        let entry = match &mut self.run {
            Run::Ended => None,
            Run::Forward(entries) => entries.next(),
            Run::Backward(entries) => entries.next_back(),
        };
        self.at = entry.map(|(key, value)| (key.as_ref(), value.as_ref()));
        match self.at {
            Some((key, value)) => self.bytes += (key.len() + value.len()) as u64,
            None => self.run = Run::Ended,
        }
    }
}

impl Cursor for MemoryCursor<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seeks += 1;
        let start = self.range.start.clone();
        self.run_from(Bound::Included(key.max(&start)));
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seeks += 1;
        if self.range.is_before_end(key) {
            self.run_before(Bound::Excluded(key));
        } else {
            let range = self.range.clone();
            self.run_before(upper(&range));
        }
        Ok(())
    }

    fn first(&mut self) -> Result<()> {
        self.seeks += 1;
        let start = self.range.start.clone();
        self.run_from(Bound::Included(&start));
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        self.seeks += 1;
        let range = self.range.clone();
        self.run_before(upper(&range));
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.nexts += 1;
        match (self.at, &self.run) {
            (Some((key, _)), Run::Backward(_)) => self.run_from(Bound::Excluded(key)),
            _ => self.pull(),
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.nexts += 1;
        match (self.at, &self.run) {
            (Some((key, _)), Run::Forward(_)) => self.run_before(Bound::Excluded(key)),
            _ => self.pull(),
        }
        Ok(())
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

impl Drop for MemoryCursor<'_> {
    fn drop(&mut self) {
        self.counters
            .count_cursor(self.seeks, self.nexts, self.bytes);
    }
}

/// The bounds of a range that is not empty.
pub(crate) fn bounds(range: &KeyRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(range.start.as_slice()), upper(range))
}

fn upper(range: &KeyRange) -> Bound<&[u8]> {
    if range.end.is_empty() {
        Bound::Unbounded
    } else {
        Bound::Excluded(range.end.as_slice())
    }
}
