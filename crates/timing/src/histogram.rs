//! One distribution of nanoseconds, in buckets that grow with the value: 32 to an octave, as HDR histograms do.
//!
//! A value costs one index, which is the same in every histogram: an operation's phases are indexed once and counted
//! in several. Quantiles are exact to 1/64 of the value, sums and counts are exact. The buckets grow with the largest
//! value met, so that a histogram of microseconds takes 3 KB.

const SUB_BITS: u32 = 5;
/// Longer values are counted as this one (about 18 minutes), which bounds what a histogram holds.
const VALUE_NS_MAX: u64 = 1 << 40;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    pub count: u64,
    pub sum_ns: u64,
}

/// The bucket of a value.
#[inline]
pub(crate) fn index(ns: u64) -> usize {
    let ns = ns.min(VALUE_NS_MAX);
    let shift = (u64::BITS - 1 - (ns | 1).leading_zeros()).saturating_sub(SUB_BITS);
    ((shift as usize) << SUB_BITS) + (ns >> shift) as usize
}

/// The smallest value of a bucket; that of the next one is the first above it.
fn lower(index: usize) -> u64 {
    let shift = (index >> SUB_BITS).saturating_sub(1);
    ((index - (shift << SUB_BITS)) as u64) << shift
}

impl Histogram {
    #[inline]
    pub fn record(&mut self, index: usize, ns: u64) {
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, 0);
        }
        self.buckets[index] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Forgets everything and keeps its room.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        self.count = 0;
        self.sum_ns = 0;
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
                let (low, high) = (lower(index) as f64, lower(index + 1) as f64);
                return low + (high - low) * ((wanted - below) / count);
            }
            below += count;
        }
        0.0
    }

    /// The upper end of the highest bucket in use.
    pub fn max_ns(&self) -> u64 {
        let last = self.buckets.iter().rposition(|&count| count > 0);
        last.map_or(0, |index| lower(index + 1))
    }

    /// How many values lie below `2^power` ns: exact, because a bucket ends there.
    pub fn count_below_power(&self, power: u32) -> u64 {
        let end = index(1 << power).min(self.buckets.len());
        self.buckets[..end].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_all_values() {
        for index_of in 0..super::index(VALUE_NS_MAX) {
            assert_eq!(index(lower(index_of)), index_of);
            assert_eq!(index(lower(index_of + 1) - 1), index_of);
        }
        assert_eq!(index(u64::MAX), index(VALUE_NS_MAX));
    }

    #[test]
    fn a_bucket_is_no_wider_than_a_32nd_of_its_values() {
        for power in 6..40 {
            let ns = 1u64 << power;
            let bucket = index(ns);
            assert!((lower(bucket + 1) - lower(bucket)) * 32 <= ns);
        }
    }

    #[test]
    fn what_was_recorded_since_is_what_was_recorded_since() {
        let mut histogram = Histogram::default();
        let record = |histogram: &mut Histogram, ns| histogram.record(index(ns), ns);
        record(&mut histogram, 100);
        let earlier = histogram.clone();
        record(&mut histogram, 5_000_000);
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
            histogram.record(index(ns), ns);
        }
        assert_eq!(histogram.count_below_power(10), 1);
        assert_eq!(histogram.count_below_power(12), 3);
        assert_eq!(histogram.count_below_power(13), 4);
        assert_eq!(histogram.count_below_power(33), 4);
    }
}
