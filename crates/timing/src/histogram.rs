//! One distribution of nanoseconds, in buckets that grow with the value: 32 to an octave, as HDR histograms do.
//!
//! The bucket of a value is the upper bits of its floating-point form, the exponent and what follows it, which costs a
//! few instructions. Quantiles are exact to 1/64 of the value, sums and counts are exact. The buckets grow with the
//! largest value met, so that a histogram of microseconds takes 4 KB.

const SUB_BITS: u32 = 5;
/// Longer values are counted in the last of them (about 18 minutes), which bounds what a histogram holds.
pub(crate) const BUCKETS_MAX: usize = 40 << SUB_BITS;
/// Bits of a floating-point number below those that tell its bucket.
const LOWER_BITS: u32 = f64::MANTISSA_DIGITS - 1 - SUB_BITS;
/// The upper bits of 1.0: what is less is counted with it.
const FIRST: u64 = 1.0_f64.to_bits() >> LOWER_BITS;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    pub count: u64,
    pub sum_ns: u64,
}

/// Nanoseconds and other numbers far below 2^52, without the instructions that a whole u64 takes.
#[inline]
pub(crate) fn float(number: u64) -> f64 {
    const TWO_POWER_52: f64 = 4_503_599_627_370_496.0;
    f64::from_bits(TWO_POWER_52.to_bits() | number) - TWO_POWER_52
}

/// The bucket of a value; it may be beyond the last one.
#[inline]
pub(crate) fn index(ns: f64) -> usize {
    // Not `max`, which minds what is no number.
    let ns = if ns < 1.0 { 1.0 } else { ns };
    ((ns.to_bits() >> LOWER_BITS) - FIRST) as usize
}

/// Where a bucket begins; where the next one does, it ends.
fn lower(index: usize) -> f64 {
    f64::from_bits((index as u64 + FIRST) << LOWER_BITS)
}

impl Histogram {
    pub fn record(&mut self, ns: u64) {
        let index = index(ns as f64).min(BUCKETS_MAX - 1);
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, 0);
        }
        self.buckets[index] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Takes `count` values that were counted elsewhere.
    pub fn add(&mut self, buckets: &[u32; BUCKETS_MAX], count: u64, sum_ns: u64) {
        let used = buckets.iter().rposition(|&count| count > 0);
        let used = used.map_or(0, |last| last + 1);
        if used > self.buckets.len() {
            self.buckets.resize(used, 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(buckets) {
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

    /// What was recorded since `earlier`, an older state of this histogram.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut rest = self.clone();
        for (mine, theirs) in rest.buckets.iter_mut().zip(&earlier.buckets) {
            *mine = mine.saturating_sub(*theirs);
        }
        rest.count = rest.count.saturating_sub(earlier.count);
        rest.sum_ns = rest.sum_ns.saturating_sub(earlier.sum_ns);
        rest
    }

    /// The value that the share `quantile` of all values does not exceed; within a bucket, values lie evenly.
    pub fn quantile(&self, quantile: f64) -> f64 {
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

    /// The upper end of the highest bucket in use.
    pub fn max_ns(&self) -> f64 {
        let last = self.buckets.iter().rposition(|&count| count > 0);
        last.map_or(0.0, |index| lower(index + 1))
    }

    /// How many values lie below `2^power` ns: exact, because a bucket ends there.
    pub fn count_below_power(&self, power: u32) -> u64 {
        let end = ((power as usize) << SUB_BITS).min(self.buckets.len());
        self.buckets[..end].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_all_values() {
        assert_eq!((index(0.0), index(1.0), lower(0)), (0, 0, 1.0));
        for bucket in 0..BUCKETS_MAX {
            assert_eq!(index(lower(bucket)), bucket);
            assert_eq!(index(lower(bucket + 1).next_down()), bucket);
        }
        assert_eq!(index(float(1 << 40)), BUCKETS_MAX);
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX);
        assert_eq!(histogram.buckets.len(), BUCKETS_MAX);
    }

    #[test]
    fn a_bucket_is_no_wider_than_a_32nd_of_its_values() {
        for power in 0..40 {
            let ns = float(1 << power);
            let bucket = index(ns);
            assert!((lower(bucket + 1) - lower(bucket)) * 32.0 <= ns);
        }
    }

    #[test]
    fn numbers_become_floats_exactly() {
        for number in [0, 1, 77, 1 << 40, (1 << 52) - 1] {
            assert_eq!(float(number), number as f64);
        }
    }

    #[test]
    fn what_was_counted_elsewhere_is_what_was_recorded() {
        let (mut recorded, mut added) = (Histogram::default(), Histogram::default());
        let mut buckets = [0; BUCKETS_MAX];
        for ns in [3, 70, 70, 5_000_000] {
            recorded.record(ns);
            buckets[index(float(ns))] += 1;
        }
        added.add(&buckets, 4, 5_000_143);
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
        assert!((since.quantile(0.5) / 5e6 - 1.0).abs() < 0.04);
        let mut merged = earlier.clone();
        merged.merge(&since);
        assert_eq!(merged, histogram);
    }

    #[test]
    fn powers_of_two_split_exactly() {
        let mut histogram = Histogram::default();
        for ns in [1023, 1024, 1025, 4096] {
            histogram.record(ns);
        }
        assert_eq!(histogram.count_below_power(10), 1);
        assert_eq!(histogram.count_below_power(12), 3);
        assert_eq!(histogram.count_below_power(13), 4);
        assert_eq!(histogram.count_below_power(33), 4);
    }
}
