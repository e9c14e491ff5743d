//! Counts of what this thread has asked of engines, so that an operation can tell what it did.
//!
//! Whoever takes the counts begins them anew, so that between two operations they are one operation's. A cursor
//! reports when it ends.

use std::cell::Cell;

/// The work that a thread has asked of all engines since its counts were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadWork {
    /// Gets of single keys.
    pub gets: u64,
    /// Cursor positionings.
    pub seeks: u64,
    /// Cursor steps.
    pub nexts: u64,
    /// Bytes of values handed out by gets, and of keys and values stood upon by cursors.
    pub bytes_read: u64,
    /// Bytes of batches.
    pub bytes_written: u64,
    /// Blocks that the engine's cache held, and those that had to be read; of engines that have a cache and count it.
    pub cache_hits: u64,
    /// Blocks that had to be read, by engines that have a cache and count it.
    pub cache_misses: u64,
}

thread_local! {
    static WORK: Cell<ThreadWork> = const { Cell::new(ThreadWork {
        gets: 0,
        seeks: 0,
        nexts: 0,
        bytes_read: 0,
        bytes_written: 0,
        cache_hits: 0,
        cache_misses: 0,
    }) };
}

/// Takes the counts of the calling thread, which are then zero.
#[inline]
pub fn take_thread_work() -> ThreadWork {
    WORK.take()
}

/// Counts for the calling thread what another thread has asked of engines on its behalf, and has taken from its own counts.
pub fn add_thread_work(more: ThreadWork) {
    add(|work| work.add(more));
}

impl ThreadWork {
    /// Adds the counts of other work.
    pub fn add(&mut self, more: ThreadWork) {
        self.gets += more.gets;
        self.seeks += more.seeks;
        self.nexts += more.nexts;
        self.bytes_read += more.bytes_read;
        self.bytes_written += more.bytes_written;
        self.cache_hits += more.cache_hits;
        self.cache_misses += more.cache_misses;
    }
}

#[inline]
pub(crate) fn add(change: impl FnOnce(&mut ThreadWork)) {
    let mut work = WORK.get();
    change(&mut work);
    WORK.set(work);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, KeyRange, Memory, WriteBatch};

    #[test]
    fn a_thread_counts_its_own_calls() {
        let engine = Memory::new();
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"12345");
        take_thread_work();
        engine.write(&batch).unwrap();
        engine.get(b"a", &mut |_| ()).unwrap();
        let snapshot = engine.snapshot().unwrap();
        let mut cursor = snapshot.cursor(KeyRange::new(*b"a", *b"b")).unwrap();
        cursor.first().unwrap();
        cursor.next().unwrap();
        drop(cursor);
        let elsewhere = std::thread::spawn({
            let snapshot = engine.snapshot().unwrap();
            move || {
                assert_eq!(take_thread_work(), ThreadWork::default());
                snapshot.get(b"a", &mut |_| ()).unwrap();
                take_thread_work()
            }
        });
        add_thread_work(elsewhere.join().unwrap());
        let work = take_thread_work();
        assert_eq!((work.gets, work.seeks, work.nexts), (2, 1, 1));
        assert_eq!(work.bytes_read, 5 + 5 + 6);
        assert!(work.bytes_written > 0);
        assert_eq!(take_thread_work(), ThreadWork::default());
    }
}
