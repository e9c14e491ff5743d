//! The histograms: one a phase, operation kind and core, merged when they are read.
//!
//! A finished operation locks the shard of the core it runs on and records all its phases under that
//! one lock, so cores do not pull each other's cache lines. Values are nanoseconds with two
//! significant digits; sums are exact. A histogram is made at its first value and grows with the
//! largest one. Nothing is kept per thread.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use hdrhistogram::Histogram;

use crate::{Breakdown, OperationKind, PHASE_COUNT, Phase};

/// Shards beyond this many would only cost memory: a shard is held for well under a microsecond.
const SHARDS_MAX: usize = 32;
const SIGNIFICANT_DIGITS: u8 = 2;
/// Longer values are counted as this one (about 18 minutes), which bounds what a histogram holds.
const VALUE_NS_MAX: u64 = 1 << 40;

/// The row of the wall time, behind those of the phases.
pub(crate) const WALL_ROW: usize = PHASE_COUNT;
/// The row of the time that no phase covered.
pub(crate) const UNATTRIBUTED_ROW: usize = PHASE_COUNT + 1;
const ROW_COUNT: usize = PHASE_COUNT + 2;

pub(crate) fn global() -> &'static Histograms {
    static GLOBAL: OnceLock<Histograms> = OnceLock::new();
    GLOBAL.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Histograms::new(cores.min(SHARDS_MAX))
    })
}

pub(crate) struct Histograms {
    shards: Vec<Shard>,
}

/// Cache lines come in pairs to the prefetcher, hence 128.
#[repr(align(128))]
struct Shard(Mutex<[Option<Box<KindRows>>; OperationKind::COUNT]>);

impl Shard {
    fn new() -> Self {
        Self(Mutex::new([const { None }; OperationKind::COUNT]))
    }

    /// A panic while recording leaves at worst one value out: the shard stays in use.
    fn lock(&self) -> MutexGuard<'_, [Option<Box<KindRows>>; OperationKind::COUNT]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type KindRows = [Option<Row>; ROW_COUNT];

/// The values of one phase of one kind.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) histogram: Histogram<u64>,
    pub(crate) sum_ns: u64,
}

impl Row {
    fn new() -> Self {
        let histogram = Histogram::new(SIGNIFICANT_DIGITS)
            .expect("two significant digits are within what a histogram supports");
        Self {
            histogram,
            sum_ns: 0,
        }
    }

    fn record(&mut self, ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.histogram
            .record(ns.min(VALUE_NS_MAX))
            .expect("an auto-resizing histogram takes every value");
    }

    fn merge(&mut self, other: &Row) {
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.histogram
            .add(&other.histogram)
            .expect("an auto-resizing histogram takes every value");
    }
}

impl Histograms {
    pub(crate) fn new(shard_count: usize) -> Self {
        Self {
            shards: (0..shard_count).map(|_| Shard::new()).collect(),
        }
    }

    pub(crate) fn record(&self, kind: OperationKind, breakdown: &Breakdown) {
        let core = rustix::thread::sched_getcpu();
        let mut kinds = self.shards[core % self.shards.len()].lock();
        let rows =
            kinds[kind as usize].get_or_insert_with(|| Box::new([const { None }; ROW_COUNT]));
        let mut record = |row: usize, ns| rows[row].get_or_insert_with(Row::new).record(ns);
        let mut touched = breakdown.touched;
        while touched != 0 {
            let row = touched.trailing_zeros() as usize;
            record(row, breakdown.phases[row]);
            touched &= touched - 1;
        }
        record(WALL_ROW, breakdown.wall_ns);
        record(UNATTRIBUTED_ROW, breakdown.unattributed_ns);
    }

    /// The rows of `kind` over all cores. Each shard is locked while it is copied, one after the other.
    pub(crate) fn merged(&self, kind: OperationKind) -> Merged {
        let mut rows = [const { None }; ROW_COUNT];
        for shard in &self.shards {
            let kinds = shard.lock();
            let Some(shard_rows) = &kinds[kind as usize] else {
                continue;
            };
            for (merged, row) in rows.iter_mut().zip(shard_rows.iter()) {
                let Some(row) = row else { continue };
                merged.get_or_insert_with(Row::new).merge(row);
            }
        }
        Merged { rows }
    }
}

/// The rows of one kind over all cores.
pub(crate) struct Merged {
    rows: [Option<Row>; ROW_COUNT],
}

impl Merged {
    pub(crate) fn row(&self, row: usize) -> Option<&Row> {
        self.rows[row].as_ref()
    }

    pub(crate) fn phase(&self, phase: Phase) -> Option<&Row> {
        self.row(phase as usize)
    }
}
