//! The operations that ended on one core of late, added up where they end.
//!
//! Most operations are alike: one kind, one collection, one shape, the same phases. An operation of a combination that
//! its core keeps adds its times to that combination's sums and buckets, with no copy on the way. The sums go into the
//! tables when somebody reads them and when a picture is due. Which combinations a core keeps is the collector's
//! matter, and so is the memory that they take: an operation allocates none.

use std::sync::atomic::Ordering::Relaxed;

use crate::clock;
use crate::entry::Head;
use crate::histogram::{BUCKETS_MAX, Used, index, lower};
use crate::labels::Labels;
use crate::live::Live;
use crate::row::{ROW_COUNT, each_ns};
use crate::uses::{Latencies, Use, range_of};
use crate::work::{SUMMED_COUNT, Work};

/// Combinations that a core keeps; each takes some 60 KB.
const COMBINATIONS_MAX: usize = 16;

#[derive(Default)]
pub(crate) struct Tally {
    combinations: Vec<Combination>,
    /// The one that the last operation belonged to: likely the next one's as well.
    last: usize,
}

/// The properties that put an operation into a combination, as they are known where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub touched_and_kind: u64,
    pub labels: Labels,
}

/// Operations of one kind that entered the same phases, with one namespace and one shape.
pub(crate) struct Combination {
    key: Key,
    pub head: Head,
    pub count: u64,
    pub work: [u64; SUMMED_COUNT],
    /// The head's, the wall's first.
    rows: Vec<u8>,
    /// The time of each of the rows, in ticks of the clock.
    sums: [u64; ROW_COUNT],
    /// And how it is spread: the buckets of the first row, of the second, and so on.
    buckets: Vec<u32>,
}

impl Combination {
    pub fn new(key: Key, head: Head) -> Combination {
        let rows: Vec<u8> = head.rows().map(|row| row as u8).collect();
        Combination {
            key,
            head,
            count: 0,
            work: [0; SUMMED_COUNT],
            sums: [0; ROW_COUNT],
            buckets: vec![0; BUCKETS_MAX * rows.len()],
            rows,
        }
    }

    #[inline(always)]
    fn record<const N: usize>(&mut self, live: &Live, amounts: [(Work, u64); N], rate: f64) {
        self.count += 1;
        self.add_times(live, rate);
        for (work, amount) in amounts {
            self.work[work as usize] += amount;
        }
        if live.is_counted() {
            self.add_work(live);
        }
        live.touched.store(0, Relaxed);
    }

    /// Apart from the rest, so that it has the processor's registers to itself.
    #[inline(never)]
    fn add_times(&mut self, live: &Live, rate: f64) {
        let buckets = &mut self.buckets[..];
        let mut first = 0;
        for (row, sum) in self.rows.iter().zip(&mut self.sums) {
            let ticks = live.take_slot(usize::from(*row));
            *sum = sum.wrapping_add(ticks);
            buckets[first + index(ticks as i64 as f64 * rate)] += 1;
            first += BUCKETS_MAX;
        }
    }

    #[inline(never)]
    fn add_work(&mut self, live: &Live) {
        for (sum, amount) in self.work.iter_mut().zip(live.take_work()) {
            *sum += amount;
        }
    }

    pub fn used(&self) -> Use {
        Use {
            count: self.count,
            ns: clock::ns(self.sums[0]),
        }
    }

    /// How the walls are spread over MongoDB's ranges.
    pub fn latencies(&self) -> Latencies {
        let walls = self.buckets.iter().take(BUCKETS_MAX).enumerate();
        let mut latencies = Latencies::default();
        for (index, count) in walls.filter(|(_, count)| **count > 0) {
            latencies.record(range_of(lower(index) as u64), *count);
        }
        latencies
    }

    /// Calls `each` with every row, its buckets from the first to the last that is used, and its sum in nanoseconds; the
    /// sums add up to that of the wall.
    pub fn each_row(&self, mut each: impl FnMut(usize, Used<'_>, u64)) {
        let mut buckets = self.buckets.chunks_exact(BUCKETS_MAX);
        each_ns(self.head.rows(), self.sums.into_iter(), |row, ns| {
            if let Some(buckets) = buckets.next() {
                each(row, Used::of(buckets), ns);
            }
        });
    }

    /// As if nothing had been counted.
    pub fn clear(&mut self) {
        self.count = 0;
        self.work = [0; SUMMED_COUNT];
        self.sums = [0; ROW_COUNT];
        self.buckets.fill(0);
    }
}

impl Tally {
    /// Counts the operation that has just ended, unless it is of no combination that is kept. `rate` is microseconds a
    /// tick.
    #[inline(always)]
    pub fn record<const N: usize>(
        &mut self,
        key: &Key,
        live: &Live,
        amounts: [(Work, u64); N],
        rate: f64,
    ) -> bool {
        let is_last = (self.combinations.get(self.last)).is_some_and(|last| last.key == *key);
        if !is_last && !self.find(key) {
            return false;
        }
        self.combinations[self.last].record(live, amounts, rate);
        true
    }

    #[inline(never)]
    fn find(&mut self, key: &Key) -> bool {
        let found = (self.combinations.iter()).position(|one| one.key == *key);
        self.last = found.unwrap_or(self.last);
        found.is_some()
    }

    /// Keeps further combinations, as far as there is room; none of them is kept already.
    pub fn keep(&mut self, combinations: impl IntoIterator<Item = Combination>) {
        let room = COMBINATIONS_MAX.saturating_sub(self.combinations.len());
        self.combinations
            .extend(combinations.into_iter().take(room));
    }

    pub fn keeps(&self, key: &Key) -> bool {
        self.combinations.iter().any(|one| one.key == *key)
    }

    /// Takes the combinations that are meant out of it.
    pub fn take_if(&mut self, is_meant: impl Fn(Head) -> bool) -> Vec<Combination> {
        let all = self.combinations.drain(..);
        let (taken, kept) = all.partition(|one| is_meant(one.head));
        self.combinations = kept;
        taken
    }
}
