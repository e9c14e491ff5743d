//! What the histograms say, in microseconds, for replies and metrics.

use crate::histograms::{Histograms, Row, UNATTRIBUTED_ROW, WALL_ROW, global};
use crate::{OperationKind, Phase};

/// The distribution of one figure. Times are microseconds; `p50_us` and `p99_us` carry two
/// significant digits, `mean_us` is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    pub count: u64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

/// One phase of one kind; `count` is the number of operations that entered it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseReport {
    pub phase: Phase,
    pub summary: Summary,
}

/// One kind of operation that has been run at least once.
#[derive(Clone, Debug, PartialEq)]
pub struct KindReport {
    pub kind: OperationKind,
    pub wall: Summary,
    pub unattributed: Summary,
    /// The phases that at least one operation entered, in order.
    pub phases: Vec<PhaseReport>,
}

/// Every kind that has been run since the start of the process, in the order of
/// [`OperationKind::ALL`].
#[must_use]
pub fn report() -> Vec<KindReport> {
    report_of(global())
}

fn report_of(histograms: &Histograms) -> Vec<KindReport> {
    OperationKind::ALL
        .into_iter()
        .filter_map(|kind| kind_report(histograms, kind))
        .collect()
}

fn kind_report(histograms: &Histograms, kind: OperationKind) -> Option<KindReport> {
    let merged = histograms.merged(kind);
    let phases = Phase::ALL
        .into_iter()
        .filter_map(|phase| {
            Some(PhaseReport {
                phase,
                summary: summary(merged.phase(phase)?),
            })
        })
        .collect();
    Some(KindReport {
        kind,
        wall: summary(merged.row(WALL_ROW)?),
        unattributed: summary(merged.row(UNATTRIBUTED_ROW)?),
        phases,
    })
}

fn summary(row: &Row) -> Summary {
    let count = row.histogram.len();
    Summary {
        count,
        mean_us: micros(row.sum_ns) / count as f64,
        p50_us: micros(row.histogram.value_at_quantile(0.50)),
        p99_us: micros(row.histogram.value_at_quantile(0.99)),
    }
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::Breakdown;

    fn operation(plan_ns: u64, wall_ns: u64) -> Breakdown {
        let mut breakdown = Breakdown {
            wall_ns,
            unattributed_ns: wall_ns - plan_ns,
            ..Breakdown::default()
        };
        breakdown.phases[Phase::Plan as usize] = plan_ns;
        breakdown.touched = Phase::Plan.bit();
        breakdown
    }

    #[test]
    fn figures_come_in_microseconds() {
        let histograms = Histograms::new(1);
        for plan_us in 1..=100 {
            histograms.record(OperationKind::Find, &operation(plan_us * 1000, 200_000));
        }
        let [find] = &report_of(&histograms)[..] else {
            panic!("one kind was run")
        };
        assert_eq!(find.kind, OperationKind::Find);
        let [plan] = &find.phases[..] else {
            panic!("one phase was entered")
        };
        assert_eq!(plan.phase, Phase::Plan);
        assert_eq!(plan.summary.count, 100);
        assert!((plan.summary.mean_us - 50.5).abs() < 1e-9);
        assert!((plan.summary.p50_us - 50.0).abs() < 0.6, "{plan:?}");
        assert!((plan.summary.p99_us - 99.0).abs() < 1.1, "{plan:?}");
        assert!((find.wall.mean_us - 200.0).abs() < 1e-9);
        assert!((find.unattributed.mean_us - 149.5).abs() < 1e-9);
    }

    #[test]
    fn threads_on_all_cores_end_up_in_one_report() {
        let histograms = Histograms::new(3);
        thread::scope(|scope| {
            for thread in 1..=8_u64 {
                let histograms = &histograms;
                scope.spawn(move || {
                    for _ in 0..1000 {
                        histograms.record(OperationKind::Insert, &operation(thread, 10));
                    }
                });
            }
        });
        let [insert] = &report_of(&histograms)[..] else {
            panic!("one kind was run")
        };
        assert_eq!(insert.wall.count, 8000);
        let plan = &insert.phases[0].summary;
        assert_eq!(plan.count, 8000);
        assert!((plan.mean_us - 0.0045).abs() < 1e-12);
    }

    #[test]
    fn a_value_beyond_the_histogram_is_counted() {
        let histograms = Histograms::new(1);
        histograms.record(OperationKind::Count, &operation(0, u64::MAX));
        let [count] = &report_of(&histograms)[..] else {
            panic!("one kind was run")
        };
        assert_eq!(count.wall.count, 1);
        assert!(count.wall.p99_us > 1e9);
    }
}
