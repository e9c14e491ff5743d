//! Reports from the histograms, for replies, metrics and those who watch.

use std::sync::Arc;
use std::time::Instant;

use crate::collector::{Collector, Distribution, global};
use crate::histogram::Histogram;
use crate::interner::{Interner, OTHER};
use crate::labels::Exemplar;
use crate::row::{UNATTRIBUTED_ROW, WALL_ROW};
use crate::rows::RowsPicture;
use crate::uses::Uses;
use crate::windows::Window;
use crate::work::SUMMED_COUNT;
use crate::{OperationKind, Phase, Work};

/// The label under which the figures of all labels stand that are not kept apart.
pub const OTHERS: &str = "(others)";

impl Distribution {
    /// The number of operations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.count
    }

    /// The sum of their times.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.0.sum_ns
    }

    /// The mean of their times; 0 without operations.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        micros(self.0.sum_ns as f64) / (self.0.count as f64).max(1.0)
    }

    /// The time that the share `quantile` of the operations did not exceed, or up to 1/32 more.
    #[must_use]
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.0.quantile_us(quantile)
    }

    /// No operation took longer, and one took at least 31/32 of it.
    #[must_use]
    pub fn max_us(&self) -> f64 {
        self.0.max_us()
    }

    /// How many took less than `2^power` microseconds.
    #[must_use]
    pub fn count_below_power(&self, power: u32) -> u64 {
        self.0.count_below_power(power)
    }
}

/// One phase; its count is the number of operations that entered it.
#[derive(Clone, Debug)]
pub struct PhaseReport {
    /// The phase.
    pub phase: Phase,
    /// The time that operations spent in it.
    pub time: Distribution,
}

/// The times of a set of operations, and what they did.
#[derive(Clone, Debug)]
pub struct Times {
    /// The whole time of the operations.
    pub wall: Distribution,
    /// The part of it that no phase covered.
    pub unattributed: Distribution,
    /// The phases that at least one operation entered, in order.
    pub phases: Vec<PhaseReport>,
    work: [u64; SUMMED_COUNT],
}

impl Times {
    fn of(rows: &RowsPicture) -> Option<Times> {
        let row = |row: usize| rows.row(row).map(|row| Distribution(Arc::clone(row)));
        let phases = Phase::ALL.into_iter().filter_map(|phase| {
            Some(PhaseReport {
                phase,
                time: row(phase as usize)?,
            })
        });
        Some(Times {
            wall: row(WALL_ROW)?,
            // A window may hold a wall and, of time that rounds to nothing, no other row.
            unattributed: row(UNATTRIBUTED_ROW)
                .unwrap_or_else(|| Distribution(Arc::new(Histogram::default()))),
            phases: phases.collect(),
            work: rows.work,
        })
    }

    /// The amounts that are not zero, summed over the operations.
    pub fn work(&self) -> impl Iterator<Item = (Work, u64)> + '_ {
        Work::ALL
            .into_iter()
            .zip(self.work)
            .filter(|(_, amount)| *amount > 0)
    }

    /// The times of one phase, if an operation entered it.
    #[must_use]
    pub fn phase(&self, phase: Phase) -> Option<&Distribution> {
        let found = self.phases.iter().find(|report| report.phase == phase);
        found.map(|report| &report.time)
    }
}

/// One kind of operation that was run in the window.
#[derive(Clone, Debug)]
pub struct KindReport {
    /// The kind.
    pub kind: OperationKind,
    /// How long the window is.
    pub seconds: f64,
    /// The times of its operations.
    pub times: Times,
}

/// One namespace or query shape.
#[derive(Clone, Debug)]
pub struct LabelReport {
    /// The namespace or shape, or [`OTHERS`].
    pub label: String,
    /// The times of its operations.
    pub times: Times,
}

/// Every kind that was run in the window, in the order of [`OperationKind::ALL`].
#[must_use]
pub fn kinds(window: Window) -> Vec<KindReport> {
    kinds_of(global(), window)
}

fn kinds_of(collector: &Collector, window: Window) -> Vec<KindReport> {
    let mut tables = collector.collected();
    let picture = tables.in_window(window);
    let now = Instant::now();
    let report = |kind: OperationKind| {
        Some(KindReport {
            kind,
            seconds: tables.windows.length(window, kind, now).as_secs_f64(),
            times: Times::of(&picture.kinds[kind as usize])?,
        })
    };
    OperationKind::ALL.into_iter().filter_map(report).collect()
}

/// The busiest namespaces and, as `(others)`, the rest; the most time first.
#[must_use]
pub fn namespaces(window: Window) -> Vec<LabelReport> {
    let collector = global();
    let picture = collector.collected().in_window(window);
    labelled(&picture.namespaces, &collector.namespaces)
}

/// The busiest query shapes and, as `(others)`, the rest; the most time first.
#[must_use]
pub fn shapes(window: Window) -> Vec<LabelReport> {
    let collector = global();
    let picture = collector.collected().in_window(window);
    labelled(&picture.shapes, &collector.shapes)
}

fn labelled<'a>(
    rows: impl IntoIterator<Item = (&'a u32, &'a RowsPicture)>,
    interner: &Interner,
) -> Vec<LabelReport> {
    let report = |(&id, rows): (&u32, &RowsPicture)| {
        Some(LabelReport {
            label: text(id, interner)?,
            times: Times::of(rows)?,
        })
    };
    let mut reports: Vec<LabelReport> = rows.into_iter().filter_map(report).collect();
    reports.sort_by_key(|report| std::cmp::Reverse(report.times.wall.sum_ns()));
    reports
}

fn text(id: u32, interner: &Interner) -> Option<String> {
    if id == OTHER {
        return Some(OTHERS.to_owned());
    }
    interner.text(id)
}

/// The operations of each namespace since it was first used, by name. Namespaces that are not kept apart are `(others)`.
#[must_use]
pub fn uses() -> Vec<(String, Uses)> {
    let collector = global();
    let tables = collector.collected();
    let mut uses: Vec<(String, Uses)> = tables
        .namespaces
        .uses()
        .filter_map(|(id, uses)| Some((collector.namespaces.text(id)?, uses.clone())))
        .collect();
    if tables.namespaces.other_uses.sum(|_| true).count > 0 {
        uses.push((OTHERS.to_owned(), tables.namespaces.other_uses.clone()));
    }
    uses.sort_by(|a, b| a.0.cmp(&b.0));
    uses
}

/// The operations of the namespace with this hash, or none if it is not kept apart.
#[must_use]
pub fn uses_of(hash: u64) -> Option<Uses> {
    let collector = global();
    let tables = collector.collected();
    let id = collector.namespaces.id_of_hash(hash)?;
    tables.namespaces.uses_of(id).cloned()
}

/// The operations of all namespaces together.
#[must_use]
pub fn all_uses() -> Uses {
    global().collected().uses.clone()
}

/// The namespace is gone: its figures join those of the others.
pub fn forget_namespace(hash: u64) {
    global().forget_namespace(hash);
}

/// Begins the window [`Window::SinceReset`] anew, for one kind or for everything.
pub fn reset(kind: Option<OperationKind>) {
    global().reset(kind);
}

/// The last exemplar of a kind among operations of at least `2^(power - 1)` and less than `2^power` microseconds; for
/// 0, of less than one.
#[must_use]
pub fn exemplar(kind: OperationKind, power: u32) -> Option<Exemplar> {
    let tables = global().collected();
    tables.exemplars.get(&(kind, power)).copied()
}

fn micros(ns: f64) -> f64 {
    ns / 1000.0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;

    use super::*;
    use crate::clock;
    use crate::collector::SHAPES_MAX;
    use crate::labels::{LabelTexts, Labels, NoTexts};
    use crate::live::Live;
    use crate::tracked::BUSIEST_MAX;
    use crate::uses::OperationClass;

    /// An operation that has ended.
    fn operation(plan_ns: u64, wall_ns: u64) -> Live {
        // Rounded up, so that a nanosecond is not lost on the way back.
        let (plan, wall) = (clock::ticks(plan_ns) + 1, clock::ticks(wall_ns) + 2);
        Live::with_ticks(&[(Phase::Plan, plan)], wall)
    }

    fn record(collector: &Collector, kind: OperationKind, live: &Live) {
        collector.record(kind, live, [], Labels::NONE, || NoTexts);
    }

    /// Finds on the namespace with this hash.
    fn find(collector: &Collector, hash: u64, times: usize) {
        struct Text(u64);
        impl LabelTexts for Text {
            fn namespace(&self) -> String {
                format!("db.c{}", self.0)
            }
            fn shape(&self) -> String {
                unreachable!("no operation here has a shape")
            }
        }
        let labels = Labels {
            namespace: hash,
            ..Labels::NONE
        };
        for _ in 0..times {
            let live = operation(1, 1000);
            collector.record(OperationKind::Find, &live, [], labels, || Text(hash));
        }
    }

    #[test]
    fn figures_come_in_microseconds() {
        let collector = Collector::new(1);
        for plan_us in 1..=100 {
            record(
                &collector,
                OperationKind::Find,
                &operation(plan_us * 1000, 200_000),
            );
        }
        let [find] = &kinds_of(&collector, Window::SinceStart)[..] else {
            panic!("one kind was run")
        };
        assert_eq!(find.kind, OperationKind::Find);
        let [plan] = &find.times.phases[..] else {
            panic!("one phase was entered")
        };
        assert_eq!(plan.phase, Phase::Plan);
        assert_eq!(plan.time.count(), 100);
        assert!((plan.time.mean_us() - 50.5).abs() < 0.01);
        assert!((plan.time.quantile_us(0.5) - 50.0).abs() < 1.6, "{plan:?}");
        assert!((plan.time.quantile_us(0.99) - 99.0).abs() < 3.2, "{plan:?}");
        assert!((find.times.wall.mean_us() - 200.0).abs() < 0.01);
        assert!((find.times.unattributed.mean_us() - 149.5).abs() < 0.01);
        assert!(find.times.wall.max_us() >= 200.0);
    }

    #[test]
    fn threads_on_all_cores_end_up_in_one_report() {
        let collector = Collector::new(3);
        thread::scope(|scope| {
            for thread in 1..=8_u64 {
                let collector = &collector;
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        record(collector, OperationKind::Insert, &operation(thread, 10));
                    }
                });
            }
        });
        let [insert] = &kinds_of(&collector, Window::SinceStart)[..] else {
            panic!("one kind was run")
        };
        assert_eq!(insert.times.wall.count(), 160_000);
        let plan = insert.times.phase(Phase::Plan).unwrap();
        assert_eq!(plan.count(), 160_000);
        assert!((plan.mean_us() - 0.0045).abs() < 0.001, "{plan:?}");
    }

    #[test]
    fn what_a_core_adds_up_is_reported_like_the_rest() {
        struct Text;
        impl LabelTexts for Text {
            fn namespace(&self) -> String {
                "db.things".to_owned()
            }
            fn shape(&self) -> String {
                "find db.things".to_owned()
            }
        }
        let labels = Labels {
            namespace: 5,
            shape: 6,
        };
        let collector = Collector::new(1);
        // The first are met often enough for the core to keep their combination, the rest are added up there.
        for rest in 0..10_u64 {
            for number in 1..=100 {
                let live = operation(1000 * number, 200_000);
                live.count([(Work::DocsExamined, rest), (Work::Group, 9)]);
                let amounts = [(Work::DocsExamined, 1), (Work::Returned, 2)];
                collector.record(OperationKind::Find, &live, amounts, labels, || Text);
                assert_eq!(live.touched.load(Relaxed), 0);
                assert!(live.slots.iter().all(|slot| slot.load(Relaxed) == 0));
                assert!(live.work.iter().all(|work| work.load(Relaxed) == 0));
            }
            drop(collector.collected());
        }
        let mut tables = collector.collected();
        let picture = tables.in_window(Window::SinceStart);
        let find = &picture.kinds[OperationKind::Find as usize];
        assert_eq!(find.work[Work::DocsExamined as usize], 5500);
        assert_eq!(find.work[Work::Returned as usize], 2000);
        for reports in [
            labelled(&picture.namespaces, &collector.namespaces),
            labelled(&picture.shapes, &collector.shapes),
        ] {
            let [report] = &reports[..] else {
                panic!("one label was met")
            };
            let times = &report.times;
            assert_eq!(times.wall.count(), 1000);
            assert!((times.wall.mean_us() - 200.0).abs() < 0.01);
            let plan = times.phase(Phase::Plan).unwrap();
            assert_eq!(plan.count(), 1000);
            assert!((plan.mean_us() - 50.5).abs() < 0.01, "{plan:?}");
            assert!((plan.quantile_us(0.5) - 50.0).abs() < 1.6, "{plan:?}");
            assert!((times.unattributed.mean_us() - 149.5).abs() < 0.01);
        }
        let id = collector.namespaces.id_of_hash(5).unwrap();
        let uses = tables.namespaces.uses_of(id).unwrap();
        let latencies: Vec<_> = uses.latencies(OperationClass::Reads).collect();
        assert_eq!(latencies, [(128, 1000)]);
    }

    #[test]
    fn more_combinations_than_a_core_keeps_are_counted() {
        let collector = Collector::new(1);
        for round in 0..4 {
            for hash in 1..=60 {
                find(&collector, hash, 20);
            }
            if round % 2 == 0 {
                drop(collector.collected());
            }
        }
        let tables = collector.collected();
        for hash in 1..=60 {
            let id = collector.namespaces.id_of_hash(hash).unwrap();
            let uses = tables.namespaces.uses_of(id).unwrap();
            assert_eq!(uses.of(OperationKind::Find).count, 80);
        }
    }

    #[test]
    fn a_value_beyond_the_histogram_is_counted() {
        let collector = Collector::new(1);
        record(&collector, OperationKind::Count, &operation(0, 1 << 50));
        let [count] = &kinds_of(&collector, Window::SinceStart)[..] else {
            panic!("one kind was run")
        };
        assert_eq!(count.times.wall.count(), 1);
        assert!(count.times.wall.quantile_us(0.99) > 1e9);
    }

    #[test]
    fn a_reset_begins_its_window_anew_and_no_other() {
        let collector = Collector::new(1);
        record(&collector, OperationKind::Find, &operation(1, 1000));
        record(&collector, OperationKind::Insert, &operation(1, 1000));
        collector.reset(Some(OperationKind::Find));
        record(&collector, OperationKind::Find, &operation(1, 5000));
        let counts = |window| -> Vec<(OperationKind, u64)> {
            let report = kinds_of(&collector, window);
            let count = |kind: &KindReport| (kind.kind, kind.times.wall.count());
            report.iter().map(count).collect()
        };
        assert_eq!(
            counts(Window::SinceReset),
            [(OperationKind::Find, 1), (OperationKind::Insert, 1)]
        );
        assert_eq!(
            counts(Window::SinceStart),
            [(OperationKind::Find, 2), (OperationKind::Insert, 1)]
        );
        collector.reset(None);
        assert_eq!(counts(Window::SinceReset), []);
        assert_eq!(counts(Window::LastMinute), counts(Window::SinceStart));
    }

    #[test]
    fn the_busiest_labels_have_figures_of_their_own_and_all_are_counted() {
        let collector = Collector::new(2);
        let labels = 2 * BUSIEST_MAX as u64;
        for label in 1..=labels {
            find(&collector, label, 4);
        }
        let picture = collector.collected().in_window(Window::SinceStart);
        let reports = labelled(&picture.namespaces, &collector.namespaces);
        assert_eq!(reports.len(), BUSIEST_MAX + 1);
        let sum: u64 = reports.iter().map(|report| report.times.wall.count()).sum();
        assert_eq!(sum, 4 * labels);
        assert_eq!(reports[0].label, OTHERS);
        let id = collector.namespaces.id_of_hash(labels).unwrap();
        let tables = collector.collected();
        let uses = tables.namespaces.uses_of(id).unwrap();
        assert_eq!(uses.of(OperationKind::Find).count, 4);
    }

    #[test]
    fn after_a_reset_a_new_label_finds_a_place_and_the_others_begin_at_nothing() {
        let collector = Collector::new(1);
        for hash in 1..=2 * BUSIEST_MAX as u64 {
            find(&collector, hash, 10);
        }
        collector.reset(None);
        find(&collector, 1000, 3);
        let picture = collector.collected().in_window(Window::SinceReset);
        let reports = labelled(&picture.namespaces, &collector.namespaces);
        let shown: Vec<(&str, u64)> = reports
            .iter()
            .map(|report| (report.label.as_str(), report.times.wall.count()))
            .collect();
        assert_eq!(shown, [("db.c1000", 3)]);
    }

    #[test]
    fn after_a_reset_a_new_shape_finds_a_place_in_a_full_table() {
        struct Text(u64);
        impl LabelTexts for Text {
            fn namespace(&self) -> String {
                unreachable!("no operation here has a namespace")
            }
            fn shape(&self) -> String {
                format!("find db.c {}", self.0)
            }
        }
        let collector = Collector::new(1);
        let find = |shape| {
            let labels = Labels {
                shape,
                ..Labels::NONE
            };
            let live = operation(1, 1000);
            collector.record(OperationKind::Find, &live, [], labels, || Text(shape));
        };
        let new = SHAPES_MAX as u64 + 1;
        (1..new).for_each(find);
        assert!(collector.shapes.is_full());
        collector.reset(None);
        find(new);
        let picture = collector.collected().in_window(Window::SinceReset);
        let reports = labelled(&picture.shapes, &collector.shapes);
        let shown: Vec<(&str, u64)> = reports
            .iter()
            .map(|report| (report.label.as_str(), report.times.wall.count()))
            .collect();
        assert_eq!(shown, [(Text(new).shape().as_str(), 1)]);
    }

    #[test]
    fn a_dropped_namespace_joins_the_others() {
        // Met once, and met so often that the core adds it up.
        for times in [1, 40] {
            let collector = Collector::new(1);
            for _ in 0..2 {
                find(&collector, 9, times);
                drop(collector.collected());
            }
            collector.forget_namespace(9);
            find(&collector, 9, 1);
            let tables = collector.collected();
            let others = tables.namespaces.other_uses.sum(|_| true);
            assert_eq!(others.count, 2 * times as u64);
            let id = collector.namespaces.id_of_hash(9).unwrap();
            let uses = tables.namespaces.uses_of(id).unwrap();
            assert_eq!(uses.of(OperationKind::Find).count, 1);
        }
    }

    #[test]
    fn a_label_that_loses_its_figures_is_not_counted_twice() {
        let collector = Collector::new(1);
        let others = || {
            let picture = collector.collected().in_window(Window::SinceReset);
            let reports = labelled(&picture.namespaces, &collector.namespaces);
            let others = reports.iter().find(|report| report.label == OTHERS);
            others.map_or(0, |others| others.times.wall.count())
        };
        collector.reset(None);
        find(&collector, 9, 7);
        {
            let mut tables = collector.collected();
            let picture = tables.picture();
            tables.windows.reset(Instant::now(), picture);
        }
        find(&collector, 9, 2);
        collector.forget_namespace(9);
        assert_eq!(others(), 2);
    }
}
