//! One distribution of times, in buckets that grow with the value: 32 to an octave, as HDR histograms do.
//!
//! The bucket of a value is the upper bits of its floating-point form, the exponent and what follows it, which costs a
//! few instructions. Buckets end at the powers of two of a microsecond and halfway between them, so that coarser counts
//! of microseconds follow from them. Quantiles are at most 1/32 above the value, sums and counts are exact. The buckets
//! grow with the largest value met, so that a histogram of microseconds takes 4 KB.

const SUB_BITS: u32 = 5;
/// Longer values are counted in the last of them (about 18 minutes), which bounds what a histogram holds.
pub(crate) const BUCKETS_MAX: usize = 40 << SUB_BITS;
/// Bits of a floating-point number below those that tell its bucket.
const LOWER_BITS: u32 = f64::MANTISSA_DIGITS - 1 - SUB_BITS;
/// In microseconds; what is less, about a nanosecond, is counted with it.
const SHORTEST: f64 = 1.0 / 1024.0;
/// Octaves below a microsecond.
const SHORT_OCTAVES: u32 = 10;
/// The upper bits of the shortest one.
const FIRST: u64 = SHORTEST.to_bits() >> LOWER_BITS;
/// A value of the last bucket.
const LONGEST: f64 = f64::from_bits((FIRST + BUCKETS_MAX as u64 - 1) << LOWER_BITS);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    pub count: u64,
    pub sum_ns: u64,
}

/// The bucket of a value; below `BUCKETS_MAX`.
#[inline]
pub(crate) fn index(micros: f64) -> usize {
    // Not `clamp`, which minds what is no number.
    let micros = if micros > SHORTEST { micros } else { SHORTEST };
    let micros = if micros < LONGEST { micros } else { LONGEST };
    ((micros.to_bits() >> LOWER_BITS) - FIRST) as usize
}

/// Where a bucket begins, in microseconds; where the next one does, it ends.
pub(crate) fn lower(index: usize) -> f64 {
    f64::from_bits((index as u64 + FIRST) << LOWER_BITS)
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// Buckets that were filled elsewhere, without the empty ones before and behind them.
#[derive(Clone, Copy)]
pub(crate) struct Used<'a> {
    first: usize,
    buckets: &'a [u32],
}

impl<'a> Used<'a> {
    pub fn of(all: &'a [u32]) -> Used<'a> {
        let first = all.iter().position(|&count| count > 0).unwrap_or(0);
        let last = all.iter().rposition(|&count| count > 0);
        Used {
            first,
            buckets: &all[first..last.map_or(0, |last| last + 1)],
        }
    }
}

impl Histogram {
    pub fn record(&mut self, ns: u64) {
        let index = index(micros(ns));
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, 0);
        }
        self.buckets[index] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Takes `count` values of no time.
    pub fn add_zeros(&mut self, count: u64) {
        if self.buckets.is_empty() {
            self.buckets.push(0);
        }
        self.buckets[0] += count;
        self.count += count;
    }

    /// Takes `count` values that were counted elsewhere.
    pub fn add(&mut self, used: Used<'_>, count: u64, sum_ns: u64) {
        let end = used.first + used.buckets.len();
        if end > self.buckets.len() {
            self.buckets.resize(end, 0);
        }
        for (mine, theirs) in self.buckets[used.first..].iter_mut().zip(used.buckets) {
            *mine += u64::from(*theirs);
        }
        self.count += count;
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
    }

    pub fn merge(&mut self, other: &Histogram) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// The values recorded since `earlier`, which is an older state of this histogram.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut rest = self.clone();
        for (mine, theirs) in rest.buckets.iter_mut().zip(&earlier.buckets) {
            *mine = mine.saturating_sub(*theirs);
        }
        rest.count = rest.count.saturating_sub(earlier.count);
        rest.sum_ns = rest.sum_ns.saturating_sub(earlier.sum_ns);
        rest
    }

    /// The microseconds that the share `quantile` of all values does not exceed; within a bucket, values lie evenly.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        let wanted = (quantile * self.count as f64).max(1.0);
        let mut below = 0.0;
        for (index, &count) in self.buckets.iter().enumerate() {
            let count = count as f64;
            if count > 0.0 && below + count >= wanted {
                let (low, high) = (lower(index), lower(index + 1));
                return low + (high - low) * ((wanted - below) / count);
            }
            below += count;
        }
        0.0
    }

    /// The upper end of the highest bucket in use, in microseconds.
    pub fn max_us(&self) -> f64 {
        let last = self.buckets.iter().rposition(|&count| count > 0);
        last.map_or(0.0, |index| lower(index + 1))
    }

    /// How many values lie below `2^power` microseconds: exact, because a bucket ends there.
    pub fn count_below_power(&self, power: u32) -> u64 {
        let end = (((SHORT_OCTAVES + power) as usize) << SUB_BITS).min(self.buckets.len());
        self.buckets[..end].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_all_values() {
        assert_eq!((index(0.0), index(SHORTEST), lower(0)), (0, 0, SHORTEST));
        assert_eq!(index(-1.0), 0);
        for bucket in 0..BUCKETS_MAX {
            assert_eq!(index(lower(bucket)), bucket);
            assert_eq!(index(lower(bucket + 1).next_down()), bucket);
        }
        assert_eq!(index((1u64 << 40) as f64), BUCKETS_MAX - 1);
        assert_eq!(index(f64::NAN), 0);
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX);
        assert_eq!(histogram.buckets.len(), BUCKETS_MAX);
    }

    #[test]
    fn a_bucket_is_no_wider_than_a_32nd_of_its_values() {
        for power in 0..40 {
            let micros = SHORTEST * (1u64 << power) as f64;
            let bucket = index(micros);
            assert!((lower(bucket + 1) - lower(bucket)) * 32.0 <= micros);
        }
    }

    #[test]
    fn what_was_counted_elsewhere_is_what_was_recorded() {
        let (mut recorded, mut added) = (Histogram::default(), Histogram::default());
        let mut buckets = [0; BUCKETS_MAX];
        for ns in [3, 70, 70, 5_000_000] {
            recorded.record(ns);
            buckets[index(micros(ns))] += 1;
        }
        added.add(Used::of(&buckets), 4, 5_000_143);
        assert_eq!(added, recorded);
        added.add(Used::of(&[0; BUCKETS_MAX]), 0, 0);
        assert_eq!(added, recorded);
    }

    #[test]
    fn what_was_recorded_since_is_what_was_recorded_since() {
        let mut histogram = Histogram::default();
        histogram.record(100);
        let earlier = histogram.clone();
        histogram.record(5_000_000);
        let since = histogram.since(&earlier);
        assert_eq!((since.count, since.sum_ns), (1, 5_000_000));
        assert!((since.quantile_us(0.5) / 5e3 - 1.0).abs() < 0.04);
        let mut merged = earlier.clone();
        merged.merge(&since);
        assert_eq!(merged, histogram);
    }

    #[test]
    fn powers_of_two_split_exactly() {
        let mut histogram = Histogram::default();
        for ns in [999, 1000, 1001, 4000] {
            histogram.record(ns);
        }
        assert_eq!(histogram.count_below_power(0), 1);
        assert_eq!(histogram.count_below_power(2), 3);
        assert_eq!(histogram.count_below_power(3), 4);
        assert_eq!(histogram.count_below_power(33), 4);
    }
}
