//! Counters that many threads bump without meeting on one cache line.
//!
//! A thread adds to one of a few padded cells; a reader sums them. Sums are exact once the threads
//! that counted are done, which is what tests that compare counters rely on. The cells are few, so
//! that a reader is quick and an engine stays small.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::{EngineCounters, thread_work};

const CELLS: usize = 16;

/// The counters that an engine keeps by itself, on the way of every call.
#[derive(Debug, Default)]
pub struct CounterCells {
    cells: [Cell; CELLS],
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell {
    gets: AtomicU64,
    seeks: AtomicU64,
    nexts: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    cache_hits: AtomicU64,
    cache_misses: AtomicU64,
}

impl CounterCells {
    /// Counters at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One get that handed out `bytes`.
    #[inline]
    pub fn count_get(&self, bytes: usize) {
        thread_work::add(|work| {
            work.gets += 1;
            work.bytes_read += bytes as u64;
        });
        let cell = self.cell();
        cell.gets.fetch_add(1, Relaxed);
        cell.bytes_read.fetch_add(bytes as u64, Relaxed);
    }

    /// One applied batch of `bytes`.
    #[inline]
    pub fn count_write(&self, bytes: usize) {
        thread_work::add(|work| work.bytes_written += bytes as u64);
        let cell = self.cell();
        cell.writes.fetch_add(1, Relaxed);
        cell.bytes_written.fetch_add(bytes as u64, Relaxed);
    }

    /// Adds the work of one cursor's whole life. A cursor counts for itself and reports once, when it ends.
    pub fn count_cursor(&self, seeks: u64, nexts: u64, bytes: u64) {
        thread_work::add(|work| {
            work.seeks += seeks;
            work.nexts += nexts;
            work.bytes_read += bytes;
        });
        let cell = self.cell();
        cell.seeks.fetch_add(seeks, Relaxed);
        cell.nexts.fetch_add(nexts, Relaxed);
        cell.bytes_read.fetch_add(bytes, Relaxed);
    }

    /// Blocks that a call found in the engine's cache, and those that it had to read.
    #[inline]
    pub fn count_cache(&self, hits: u64, misses: u64) {
        if hits + misses == 0 {
            return;
        }
        thread_work::add(|work| {
            work.cache_hits += hits;
            work.cache_misses += misses;
        });
        let cell = self.cell();
        cell.cache_hits.fetch_add(hits, Relaxed);
        cell.cache_misses.fetch_add(misses, Relaxed);
    }

    /// The sums, with everything else zero.
    #[must_use]
    pub fn sum(&self) -> EngineCounters {
        let mut sum = EngineCounters::default();
        for cell in &self.cells {
            sum.gets += cell.gets.load(Relaxed);
            sum.seeks += cell.seeks.load(Relaxed);
            sum.nexts += cell.nexts.load(Relaxed);
            sum.writes += cell.writes.load(Relaxed);
            sum.bytes_read += cell.bytes_read.load(Relaxed);
            sum.bytes_written += cell.bytes_written.load(Relaxed);
            sum.cache_hits += cell.cache_hits.load(Relaxed);
            sum.cache_misses += cell.cache_misses.load(Relaxed);
        }
        sum
    }

    #[inline]
    fn cell(&self) -> &Cell {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: usize = NEXT.fetch_add(1, Relaxed) % CELLS;
        }
        &self.cells[MINE.with(|mine| *mine)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_over_threads() {
        let cells = CounterCells::new();
        std::thread::scope(|scope| {
            for _ in 0..2 * CELLS {
                scope.spawn(|| {
                    for _ in 0..100 {
                        cells.count_get(3);
                    }
                    cells.count_write(5);
                    cells.count_cursor(1, 2, 7);
                });
            }
        });
        let sum = cells.sum();
        assert_eq!(sum.gets, 3_200);
        assert_eq!((sum.writes, sum.bytes_written), (32, 160));
        assert_eq!((sum.seeks, sum.nexts), (32, 64));
        assert_eq!(sum.bytes_read, 9_600 + 32 * 7);
    }
}
