//! The operations that ended of late, added up before they go into the tables.
//!
//! Most operations are alike: one kind, one collection, one shape, the same phases. Counting them once here and adding
//! the sums to the three tables costs a fraction of counting each of them three times. Those that are not among the
//! few combinations kept go into the tables one by one.

use crate::clock;
use crate::entry::{Entry, Head};
use crate::histogram::{BUCKETS_MAX, float, index};
use crate::rows::each_ns;
use crate::uses::{Latencies, Use, range_of};
use crate::work::SUMMED_COUNT;

/// Combinations added up at once; each takes some 60 KB.
const COMBINATIONS_MAX: usize = 16;
/// After so many operations that no room was found for, those that are kept have had theirs.
const MISSED_MAX: u32 = 4096;

#[derive(Default)]
pub(crate) struct Tally {
    combinations: Vec<Combination>,
    /// The one that the last entry belonged to: likely the next one's as well.
    last: usize,
    missed: u32,
}

/// Operations of one kind that entered the same phases, with one namespace and one shape.
pub(crate) struct Combination {
    pub head: Head,
    pub count: u64,
    /// By row of the head's.
    lanes: Vec<Lane>,
    pub work: [u64; SUMMED_COUNT],
    pub latencies: Latencies,
}

/// The times of one row.
struct Lane {
    /// In ticks of the clock.
    sum: u64,
    buckets: Box<[u32; BUCKETS_MAX]>,
}

impl Lane {
    fn new() -> Lane {
        Lane {
            sum: 0,
            buckets: Box::new([0; BUCKETS_MAX]),
        }
    }

    #[inline]
    fn record(&mut self, ticks: u64, index: usize) {
        self.sum += ticks;
        match self.buckets.get_mut(index) {
            Some(bucket) => *bucket += 1,
            None => self.buckets[BUCKETS_MAX - 1] += 1,
        }
    }
}

impl Combination {
    fn new(head: Head) -> Combination {
        Combination {
            head,
            count: 0,
            lanes: head.rows().map(|_| Lane::new()).collect(),
            work: [0; SUMMED_COUNT],
            latencies: Latencies::default(),
        }
    }

    #[inline]
    fn record(&mut self, entry: &Entry<'_>, rate: f64) {
        self.count += 1;
        // Two at a time, as the processor's registers hold them.
        let mut lanes = self.lanes.chunks_exact_mut(2);
        let mut times = entry.times.chunks_exact(2);
        for (lanes, times) in lanes.by_ref().zip(times.by_ref()) {
            if let ([one, other], &[a, b]) = (lanes, times) {
                let [at_a, at_b] = [a, b].map(|ticks| index(float(ticks) * rate));
                one.record(a, at_a);
                other.record(b, at_b);
            }
        }
        if let ([lane], &[ticks]) = (lanes.into_remainder(), times.remainder()) {
            lane.record(ticks, index(float(ticks) * rate));
        }
        for (sum, amount) in self.work.iter_mut().zip(entry.amounts) {
            *sum = sum.wrapping_add(*amount);
        }
        self.latencies
            .record(range_of(clock::ns(entry.wall()) / 1000));
    }

    pub fn used(&self) -> Use {
        Use {
            count: self.count,
            ns: clock::ns(self.lanes.first().map_or(0, |wall| wall.sum)),
        }
    }

    /// Calls `each` with every row, its buckets, and its sum in nanoseconds; the sums add up to that of the wall.
    pub fn each_row(&self, mut each: impl FnMut(usize, &[u32; BUCKETS_MAX], u64)) {
        let mut buckets = self.lanes.iter().map(|lane| &lane.buckets);
        each_ns(
            self.head.rows(),
            self.lanes.iter().map(|lane| lane.sum),
            |row, ns| {
                if let Some(buckets) = buckets.next() {
                    each(row, buckets, ns);
                }
            },
        );
    }
}

impl Tally {
    /// What the last entry had in common with its combination, and how many times it had.
    #[inline]
    pub fn last(&self) -> Option<(Head, usize)> {
        let last = self.combinations.get(self.last)?;
        Some((last.head, last.lanes.len()))
    }

    /// Counts the entry; false when it belongs to a combination that there is no room for.
    #[inline]
    pub fn record(&mut self, entry: &Entry<'_>, rate: f64) -> bool {
        let is_last =
            (self.combinations.get(self.last)).is_some_and(|last| last.head == entry.head);
        if !is_last && !self.find(entry.head) {
            return false;
        }
        self.combinations[self.last].record(entry, rate);
        true
    }

    #[inline(never)]
    fn find(&mut self, head: Head) -> bool {
        let found = (self.combinations.iter()).position(|one| one.head == head);
        if found.is_none() && self.combinations.len() == COMBINATIONS_MAX {
            self.missed += 1;
            return false;
        }
        self.last = found.unwrap_or(self.combinations.len());
        if found.is_none() {
            self.combinations.push(Combination::new(head));
        }
        true
    }

    /// Others should have the room.
    pub fn is_overdue(&self) -> bool {
        self.missed >= MISSED_MAX
    }

    /// Gives what was counted to `take` and begins anew. Combinations that nothing was counted for make room.
    pub fn drain(&mut self, mut take: impl FnMut(&Combination)) {
        self.missed = 0;
        self.combinations.retain_mut(|one| {
            if one.count == 0 {
                return false;
            }
            take(one);
            one.count = 0;
            for lane in &mut one.lanes {
                lane.sum = 0;
                lane.buckets.fill(0);
            }
            one.work = [0; SUMMED_COUNT];
            one.latencies = Latencies::default();
            true
        });
    }
}
