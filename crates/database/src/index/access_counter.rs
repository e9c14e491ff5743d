//! A counter of accesses, which `$indexStats` shows of an index and `$collStats` of the scans of a collection.
//!
//! It is one number until it is a large one: then it has a number for each shard of threads, so that connections which read by one
//! index do not wait for each other's cache line. Very many indexes are read now and then, and few are read all the time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::thread_shard::{SHARDS, ShardCounter, thread_shard};

/// The accesses with which a counter is parted over the threads: a KiB for an index that is in use.
const FEW_MAX: u64 = if cfg!(test) { 8 } else { 16_384 };

/// Counts since a moment. All counts are taken in the end; one that is made while it is read may not be in what is read.
pub struct AccessCounter {
    few: AtomicU64,
    many: OnceLock<Box<[ShardCounter; SHARDS]>>,
    since_ms: i64,
}

impl AccessCounter {
    /// Counts from a moment on, given in milliseconds since 1970.
    pub fn since(since_ms: i64) -> AccessCounter {
        AccessCounter {
            few: AtomicU64::new(0),
            many: OnceLock::new(),
            since_ms,
        }
    }

    /// Counts one access.
    #[inline]
    pub fn count(&self) {
        match self.many.get() {
            Some(shards) => {
                let shard = &shards[usize::from(thread_shard())];
                shard.0.fetch_add(1, Ordering::Relaxed);
            }
            None if self.few.fetch_add(1, Ordering::Relaxed) + 1 == FEW_MAX => self.part(),
            None => {}
        }
    }

    #[cold]
    fn part(&self) {
        self.many.get_or_init(Box::default);
    }

    /// The accesses that were counted.
    pub fn accesses(&self) -> u64 {
        let shards = self.many.get().into_iter().flat_map(|shards| shards.iter());
        let parted: u64 = shards.map(|shard| shard.0.load(Ordering::Relaxed)).sum();
        self.few.load(Ordering::Relaxed) + parted
    }

    /// The moment since which it counts, in milliseconds since 1970.
    pub fn since_ms(&self) -> i64 {
        self.since_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_count_together_lose_nothing() {
        let counter = AccessCounter::since(7);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counter.count()));
            }
        });
        assert_eq!(counter.accesses(), 4000);
        assert!(counter.many.get().is_some(), "it is parted by then");
        assert_eq!(counter.since_ms(), 7);
    }
}
