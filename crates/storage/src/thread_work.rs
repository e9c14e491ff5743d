//! What this thread has asked of engines, for those who want to know what one operation did.
//!
//! Totals only rise; an operation's share is the difference between two looks from its own thread. A cursor reports
//! when it ends.

use std::cell::Cell;

/// What a thread has asked of all engines since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadWork {
    pub gets: u64,
    pub seeks: u64,
    pub nexts: u64,
    /// Bytes of values handed out by gets, and of keys and values stood upon by cursors.
    pub bytes_read: u64,
    /// Bytes of batches.
    pub bytes_written: u64,
}

thread_local! {
    static WORK: Cell<ThreadWork> = const { Cell::new(ThreadWork {
        gets: 0,
        seeks: 0,
        nexts: 0,
        bytes_read: 0,
        bytes_written: 0,
    }) };
}

/// The totals of the calling thread.
#[must_use]
#[inline]
pub fn thread_work() -> ThreadWork {
    WORK.get()
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
        let before = thread_work();
        engine.write(&batch).unwrap();
        engine.get(b"a", &mut |_| ()).unwrap();
        let snapshot = engine.snapshot().unwrap();
        let mut cursor = snapshot.cursor(KeyRange::new(*b"a", *b"b")).unwrap();
        cursor.first().unwrap();
        cursor.next().unwrap();
        drop(cursor);
        let after = thread_work();
        assert_eq!(after.gets - before.gets, 1);
        assert_eq!(
            (after.seeks - before.seeks, after.nexts - before.nexts),
            (1, 1)
        );
        assert_eq!(after.bytes_read - before.bytes_read, 5 + 6);
        assert!(after.bytes_written > before.bytes_written);
        std::thread::spawn(|| assert_eq!(thread_work(), ThreadWork::default()))
            .join()
            .unwrap();
    }
}
