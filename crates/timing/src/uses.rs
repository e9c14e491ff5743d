//! How often and how long one namespace was used, by kind, and how its latencies are spread: what MongoDB's `top` and
//! `$collStats: {latencyStats}` show. Small, because it is kept for thousands of namespaces.

use std::time::Duration;

use crate::OperationKind;

/// MongoDB's three sorts of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OperationClass {
    /// Operations that read documents.
    Reads,
    /// Operations that write documents.
    Writes,
    /// All other commands.
    Commands,
}

impl OperationClass {
    /// The classes in MongoDB's order.
    pub const ALL: [OperationClass; 3] = [
        OperationClass::Reads,
        OperationClass::Writes,
        OperationClass::Commands,
    ];

    /// The class that a kind belongs to.
    #[must_use]
    pub fn of(kind: OperationKind) -> OperationClass {
        match kind {
            OperationKind::Find
            | OperationKind::GetMore
            | OperationKind::Aggregate
            | OperationKind::Count
            | OperationKind::Distinct => OperationClass::Reads,
            OperationKind::Insert
            | OperationKind::Update
            | OperationKind::Delete
            | OperationKind::FindAndModify => OperationClass::Writes,
            OperationKind::Catalog | OperationKind::Command => OperationClass::Commands,
        }
    }

    /// The name used in replies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OperationClass::Reads => "reads",
            OperationClass::Writes => "writes",
            OperationClass::Commands => "commands",
        }
    }
}

/// A number of operations and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// The number of operations.
    pub count: u64,
    /// The sum of their times.
    pub ns: u64,
}

impl Use {
    fn add(&mut self, other: Use) {
        self.count += other.count;
        self.ns = self.ns.saturating_add(other.ns);
    }
}

/// Where the ranges of a latency histogram begin, in microseconds: powers of two, with half-steps from 1024 us to a
/// second, as MongoDB's manual describes them.
const RANGES: [u64; 52] = ranges();

const fn ranges() -> [u64; 52] {
    let mut ranges = [0; 52];
    let (mut place, mut micros) = (1, 2);
    while place < 52 {
        ranges[place] = micros;
        place += 1;
        if micros >= 1024 && micros < 2_097_152 && place < 52 {
            ranges[place] = micros + micros / 2;
            place += 1;
        }
        micros *= 2;
    }
    ranges
}

/// The range that holds `micros`.
pub(crate) fn range_of(micros: u64) -> usize {
    let Some(power) = micros.checked_ilog2() else {
        return 0;
    };
    let power = power as usize;
    let place = match power {
        0..10 => power,
        10..21 => 10 + 2 * (power - 10) + ((micros >> (power - 1)) & 1) as usize,
        _ => 32 + power - 21,
    };
    place.min(RANGES.len() - 1)
}

/// How many operations fell into each range. A range begins where a bucket of histograms does.
#[derive(Clone, Debug)]
pub(crate) struct Latencies([u32; RANGES.len()]);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies([0; RANGES.len()])
    }
}

impl Latencies {
    pub fn record(&mut self, range: usize, count: u32) {
        self.0[range] = self.0[range].saturating_add(count);
    }

    fn merge(&mut self, other: &Latencies) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = mine.saturating_add(*theirs);
        }
    }
}

/// How often something that is no operation came to an end, such as a transaction, and how long it took.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    total: Use,
    latencies: Latencies,
}

impl Durations {
    /// Counts one of that length.
    pub fn record(&mut self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.total.add(Use { count: 1, ns });
        self.latencies.record(range_of(ns / 1000), 1);
    }

    /// How many there were, and their time together.
    #[must_use]
    pub fn total(&self) -> Use {
        self.total
    }

    /// How they are spread, as `Uses::latencies` tells it.
    pub fn latencies(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        with_ranges(&self.latencies.0)
    }
}

/// The uses of one namespace since it was first used.
#[derive(Clone, Debug)]
pub struct Uses {
    by_kind: [Use; OperationKind::COUNT],
    latencies: [Option<Box<Latencies>>; 3],
}

impl Default for Uses {
    fn default() -> Uses {
        Uses {
            by_kind: [Use::default(); OperationKind::COUNT],
            latencies: [const { None }; 3],
        }
    }
}

impl Uses {
    pub(crate) fn record(&mut self, kind: OperationKind, wall_ns: u64) {
        let once = Use {
            count: 1,
            ns: wall_ns,
        };
        self.by_kind[kind as usize].add(once);
        self.latencies_mut(kind).record(range_of(wall_ns / 1000), 1);
    }

    /// Takes uses of one kind that were counted elsewhere.
    pub(crate) fn add(&mut self, kind: OperationKind, uses: Use, latencies: &Latencies) {
        self.by_kind[kind as usize].add(uses);
        self.latencies_mut(kind).merge(latencies);
    }

    fn latencies_mut(&mut self, kind: OperationKind) -> &mut Latencies {
        self.latencies[OperationClass::of(kind) as usize].get_or_insert_default()
    }

    pub(crate) fn merge(&mut self, other: &Uses) {
        for (mine, theirs) in self.by_kind.iter_mut().zip(&other.by_kind) {
            mine.add(*theirs);
        }
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            let Some(theirs) = theirs else { continue };
            mine.get_or_insert_default().merge(theirs);
        }
    }

    /// The use by operations of one kind.
    #[must_use]
    pub fn of(&self, kind: OperationKind) -> Use {
        self.by_kind[kind as usize]
    }

    /// The sum over the kinds that `is_meant` names.
    pub fn sum(&self, is_meant: impl Fn(OperationKind) -> bool) -> Use {
        let mut sum = Use::default();
        for kind in OperationKind::ALL
            .into_iter()
            .filter(|kind| is_meant(*kind))
        {
            sum.add(self.of(kind));
        }
        sum
    }

    /// The use by operations of one class.
    #[must_use]
    pub fn of_class(&self, class: OperationClass) -> Use {
        self.sum(|kind| OperationClass::of(kind) == class)
    }

    /// The latencies of a class: where each range begins, in microseconds, and how many operations fell into it;
    /// empty ranges are left out.
    pub fn latencies(&self, class: OperationClass) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.latencies[class as usize].as_deref();
        with_ranges(counts.map_or(&[][..], |counts| &counts.0[..]))
    }
}

/// Counts with the beginnings of their ranges; empty ranges are left out.
fn with_ranges(counts: &[u32]) -> impl Iterator<Item = (u64, u64)> + '_ {
    RANGES
        .into_iter()
        .zip(counts.iter().map(|&count| u64::from(count)))
        .filter(|(_, count)| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_rise_with_half_steps_in_the_middle() {
        assert!(RANGES.is_sorted_by(|a, b| a < b));
        assert_eq!(&RANGES[..5], &[0, 2, 4, 8, 16]);
        let at = RANGES.iter().position(|&start| start == 1024).unwrap();
        assert_eq!(&RANGES[at..at + 4], &[1024, 1536, 2048, 3072]);
        let last_half = RANGES.iter().rposition(|start| !start.is_power_of_two());
        assert_eq!(RANGES[last_half.unwrap()], 1_572_864);
    }

    #[test]
    fn a_latency_falls_into_the_last_range_that_begins_below_it() {
        for start in RANGES {
            for micros in [start, start + 1, start.saturating_sub(1)] {
                let expected = RANGES.partition_point(|&start| start <= micros) - 1;
                assert_eq!(range_of(micros), expected, "{micros}");
            }
        }
        assert_eq!(range_of(u64::MAX), RANGES.len() - 1);
    }

    #[test]
    fn operations_fall_into_their_kind_class_and_range() {
        let mut uses = Uses::default();
        uses.record(OperationKind::Find, 1_600_000);
        uses.record(OperationKind::Count, 500);
        uses.record(OperationKind::Insert, 3_000);
        let mut twice = uses.clone();
        twice.merge(&uses);
        assert_eq!(uses.of(OperationKind::Find).ns, 1_600_000);
        let reads: Vec<_> = twice.latencies(OperationClass::Reads).collect();
        assert_eq!(reads, [(0, 2), (1536, 2)]);
        assert_eq!(twice.of_class(OperationClass::Writes).count, 2);
        assert_eq!(twice.latencies(OperationClass::Commands).count(), 0);
    }
}
