//! Iterators that wait for their next cursor.
//!
//! To make an iterator takes as long as to seek with it: an arena, a child for each memtable and
//! file, all of it torn down a few microseconds later. Between two flushes or compactions nothing
//! of that changes, and an iterator renewed is as good as a new one.
//!
//! Keeps true: an idle iterator is of the files and memtables of today. Whatever replaces them ends
//! an *era*; iterators of an earlier one are destroyed, at once when idle and otherwise at the end
//! of their cursor, so that no more is held back than cursors in use hold.

use parking_lot::Mutex;

use crate::ffi::OwnedIterator;

/// Iterators kept; more cursors at once make their own.
const IDLE_MAX: usize = 16;

#[derive(Default)]
pub(crate) struct IteratorPool(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    era: u64,
    iterators: Vec<OwnedIterator>,
    is_closed: bool,
}

impl IteratorPool {
    /// The era, which comes back with the iterator, and an idle iterator if there is one.
    pub(crate) fn take(&self) -> (u64, Option<OwnedIterator>) {
        let mut idle = self.0.lock();
        (idle.era, idle.iterators.pop())
    }

    /// Keeps an iterator that was made or renewed in `era`.
    pub(crate) fn give_back(&self, iterator: OwnedIterator, era: u64) {
        let mut idle = self.0.lock();
        if idle.era == era && !idle.is_closed && idle.iterators.len() < IDLE_MAX {
            idle.iterators.push(iterator);
            return;
        }
        // An iterator may be the last user of files and memtables: they go without the lock.
        drop(idle);
        drop(iterator);
    }

    /// Memtables or files have been replaced.
    pub(crate) fn end_era(&self) {
        let old = {
            let mut idle = self.0.lock();
            idle.era += 1;
            std::mem::take(&mut idle.iterators)
        };
        drop(old);
    }

    /// Lets go of the database.
    pub(crate) fn close(&self) {
        self.0.lock().is_closed = true;
        self.end_era();
    }
}
