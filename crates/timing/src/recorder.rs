//! The running operation of a thread: which phase the clock runs for, and what each has taken.
//!
//! At any moment the clock runs for exactly one phase, or for none. Opening a scope charges the
//! time since the last change to the phase that was running and starts the new one; closing it
//! charges the scope's phase and goes back. So time is exclusive by construction, and what no scope
//! covered is `unattributed`. State is a few cells without a destructor: reaching it costs one
//! thread-local address.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::histograms;
use crate::{OperationKind, PHASE_COUNT, Phase};

static ENABLED: AtomicBool = AtomicBool::new(true);

thread_local! {
    static RECORDER: Recorder = const { Recorder::new() };
}

/// The time of one operation, split over the phases; all figures in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// From the beginning of the operation to its end, or to now while it runs.
    pub wall_ns: u64,
    /// Exclusive time by phase, in the order of [`Phase::ALL`].
    pub phases: [u64; PHASE_COUNT],
    /// What no phase covered: `wall_ns` minus the sum of `phases`.
    pub unattributed_ns: u64,
    pub(crate) touched: u32,
}

impl Breakdown {
    /// The time of one phase.
    #[must_use]
    pub fn phase_ns(&self, phase: Phase) -> u64 {
        self.phases[phase as usize]
    }

    /// The phases that the operation entered, in order, with their time in nanoseconds.
    pub fn entered(&self) -> impl Iterator<Item = (Phase, u64)> + '_ {
        Phase::ALL
            .into_iter()
            .filter(|phase| self.touched & phase.bit() != 0)
            .map(|phase| (phase, self.phase_ns(phase)))
    }
}

/// Turns timing on or off for operations that begin from now on. While it is off an operation still
/// has a wall time, and no phases and no place in the histograms.
pub fn set_enabled(enabled: bool) {
    ENABLED.store(enabled, Ordering::Relaxed);
}

/// Whether operations that begin now are timed.
#[must_use]
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Begins this thread's operation, as of `start` (the arrival of the request's first byte). An
/// operation that was begun and never ended is forgotten.
pub fn begin_operation(start: Instant) {
    RECORDER.with(|recorder| recorder.begin(start, is_enabled()));
}

/// Ends this thread's operation, records it under `kind`, and says where its time went. Without a
/// running operation the breakdown is all zeros and nothing is recorded.
pub fn end_operation(kind: OperationKind) -> Breakdown {
    let (breakdown, recorded) = RECORDER.with(Recorder::end);
    if recorded {
        histograms::global().record(kind, &breakdown);
    }
    breakdown
}

/// Where the time of this thread's operation went so far; scopes stay open.
#[must_use]
pub fn breakdown() -> Breakdown {
    RECORDER.with(Recorder::breakdown)
}

/// Runs the clock for `phase` until the scope is dropped.
#[must_use = "the phase ends where the scope is dropped"]
#[inline]
pub fn phase(phase: Phase) -> Scope {
    RECORDER.with(|recorder| Scope {
        previous: recorder.enter(phase),
    })
}

/// Gives `ns` nanoseconds of the time that has passed in the running scope to `phase`: for time
/// that another crate measured and reported. The sum stays the wall time.
#[inline]
pub fn add(phase: Phase, ns: u64) {
    RECORDER.with(|recorder| recorder.add(phase, ns));
}

/// An open phase. Scopes close in the reverse order of their opening, as blocks do.
#[derive(Debug)]
pub struct Scope {
    previous: Previous,
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        if let Previous::Running(slot) = self.previous {
            RECORDER.with(|recorder| recorder.leave(slot));
        }
    }
}

/// What a scope goes back to. A scope opened outside an operation goes back to nothing.
#[derive(Clone, Copy, Debug)]
enum Previous {
    Outside,
    Running(u8),
}

/// The slot of time that no phase covers, behind those of the phases.
const NO_PHASE: u8 = PHASE_COUNT as u8;

struct Recorder {
    start: Cell<Option<Instant>>,
    /// When the running slot was last changed; `None` while no timed operation runs.
    since: Cell<Option<Instant>>,
    running: Cell<u8>,
    touched: Cell<u32>,
    /// Signed: [`add`] may take time from a slot before the clock has charged it.
    slots: [Cell<i64>; PHASE_COUNT + 1],
}

impl Recorder {
    const fn new() -> Self {
        Self {
            start: Cell::new(None),
            since: Cell::new(None),
            running: Cell::new(NO_PHASE),
            touched: Cell::new(0),
            slots: [const { Cell::new(0) }; PHASE_COUNT + 1],
        }
    }

    fn begin(&self, start: Instant, timed: bool) {
        self.start.set(Some(start));
        self.since.set(timed.then_some(start));
        self.running.set(NO_PHASE);
        self.touched.set(0);
        for slot in &self.slots {
            slot.set(0);
        }
    }

    /// The breakdown, and whether it is to be recorded.
    fn end(&self) -> (Breakdown, bool) {
        let breakdown = self.breakdown();
        let timed = self.since.get().is_some();
        self.start.set(None);
        self.since.set(None);
        (breakdown, timed)
    }

    #[inline]
    fn enter(&self, phase: Phase) -> Previous {
        if self.since.get().is_none() {
            return Previous::Outside;
        }
        self.touched.set(self.touched.get() | phase.bit());
        Previous::Running(self.switch(phase as u8))
    }

    #[inline]
    fn leave(&self, previous: u8) {
        // The operation may have ended inside the scope: there is then no clock to switch.
        if self.since.get().is_some() {
            self.switch(previous);
        }
    }

    /// Charges the running slot up to now, runs the clock for `slot`, and says which ran before.
    #[inline]
    fn switch(&self, slot: u8) -> u8 {
        self.charge(Instant::now());
        self.running.replace(slot)
    }

    #[inline]
    fn charge(&self, now: Instant) {
        if let Some(since) = self.since.replace(Some(now)) {
            let ns =
                i64::try_from(now.saturating_duration_since(since).as_nanos()).unwrap_or(i64::MAX);
            self.move_to(self.running.get(), ns);
        }
    }

    #[inline]
    fn add(&self, phase: Phase, ns: u64) {
        if self.since.get().is_none() {
            return;
        }
        let ns = i64::try_from(ns).unwrap_or(i64::MAX);
        self.touched.set(self.touched.get() | phase.bit());
        self.move_to(phase as u8, ns);
        self.move_to(self.running.get(), -ns);
    }

    #[inline]
    fn move_to(&self, slot: u8, ns: i64) {
        let cell = &self.slots[slot as usize];
        cell.set(cell.get().saturating_add(ns));
    }

    fn breakdown(&self) -> Breakdown {
        let Some(start) = self.start.get() else {
            return Breakdown::default();
        };
        let now = Instant::now();
        if self.since.get().is_some() {
            self.charge(now);
        }
        let wall_ns =
            u64::try_from(now.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX);
        let mut phases = [0; PHASE_COUNT];
        let mut left = wall_ns;
        for (phase, slot) in phases.iter_mut().zip(&self.slots) {
            // A caller that reports more time than has passed cannot break the sum.
            *phase = u64::try_from(slot.get()).unwrap_or(0).min(left);
            left -= *phase;
        }
        Breakdown {
            wall_ns,
            phases,
            unattributed_ns: left,
            touched: self.touched.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    fn ms(ns: u64) -> u64 {
        ns / 1_000_000
    }

    fn assert_sum(breakdown: &Breakdown) {
        let sum: u64 = breakdown.phases.iter().sum();
        assert_eq!(sum + breakdown.unattributed_ns, breakdown.wall_ns);
    }

    #[test]
    fn nested_scopes_count_exclusive_time() {
        begin_operation(Instant::now());
        {
            let _execute = phase(Phase::Execute);
            sleep(Duration::from_millis(4));
            {
                let _read = phase(Phase::EngineRead);
                sleep(Duration::from_millis(20));
            }
        }
        sleep(Duration::from_millis(6));
        let breakdown = end_operation(OperationKind::Command);
        assert_sum(&breakdown);
        assert!(ms(breakdown.phase_ns(Phase::EngineRead)) >= 20);
        assert!(
            (4..20).contains(&ms(breakdown.phase_ns(Phase::Execute))),
            "{breakdown:?}"
        );
        assert!(ms(breakdown.unattributed_ns) >= 6);
        assert!(ms(breakdown.wall_ns) >= 30);
        let entered: Vec<_> = breakdown.entered().map(|(phase, _)| phase).collect();
        assert_eq!(entered, [Phase::Execute, Phase::EngineRead]);
    }

    #[test]
    fn the_same_phase_inside_itself_is_counted_once() {
        begin_operation(Instant::now());
        {
            let _outer = phase(Phase::Match);
            let _inner = phase(Phase::Match);
            sleep(Duration::from_millis(3));
        }
        let breakdown = end_operation(OperationKind::Command);
        assert_sum(&breakdown);
        assert!(breakdown.phase_ns(Phase::Match) <= breakdown.wall_ns);
        assert!(ms(breakdown.phase_ns(Phase::Match)) >= 3);
    }

    #[test]
    fn reported_time_is_taken_from_the_running_scope() {
        begin_operation(Instant::now());
        {
            let _wait = phase(Phase::CommitWait);
            sleep(Duration::from_millis(10));
            add(Phase::JournalAppend, 4_000_000);
        }
        let breakdown = end_operation(OperationKind::Command);
        assert_sum(&breakdown);
        assert_eq!(breakdown.phase_ns(Phase::JournalAppend), 4_000_000);
        assert!(ms(breakdown.phase_ns(Phase::CommitWait)) >= 6);
        assert!(breakdown.unattributed_ns < 4_000_000);
    }

    #[test]
    fn reported_time_beyond_the_wall_cannot_break_the_sum() {
        begin_operation(Instant::now());
        add(Phase::Send, u64::MAX);
        let breakdown = end_operation(OperationKind::Command);
        assert_sum(&breakdown);
    }

    #[test]
    fn time_before_the_first_scope_belongs_to_the_operation() {
        begin_operation(
            Instant::now()
                .checked_sub(Duration::from_millis(50))
                .unwrap(),
        );
        add(Phase::Read, 50_000_000);
        let breakdown = end_operation(OperationKind::Command);
        assert_eq!(breakdown.phase_ns(Phase::Read), 50_000_000);
        assert!(breakdown.unattributed_ns < 40_000_000);
        assert_sum(&breakdown);
    }

    #[test]
    fn a_breakdown_can_be_read_while_scopes_are_open() {
        begin_operation(Instant::now());
        let scope = phase(Phase::Execute);
        sleep(Duration::from_millis(2));
        let so_far = breakdown();
        assert_sum(&so_far);
        assert!(ms(so_far.phase_ns(Phase::Execute)) >= 2);
        drop(scope);
        let whole = end_operation(OperationKind::Command);
        assert!(whole.phase_ns(Phase::Execute) >= so_far.phase_ns(Phase::Execute));
        assert_sum(&whole);
    }

    #[test]
    fn outside_an_operation_nothing_is_counted() {
        {
            let _scope = phase(Phase::Execute);
            add(Phase::Send, 5);
        }
        assert_eq!(end_operation(OperationKind::Command), Breakdown::default());
        begin_operation(Instant::now());
        let breakdown = end_operation(OperationKind::Command);
        assert_eq!(breakdown.phases, [0; PHASE_COUNT]);
    }

    #[test]
    fn a_scope_that_outlives_its_operation_does_not_touch_the_next() {
        begin_operation(Instant::now());
        let scope = phase(Phase::Execute);
        end_operation(OperationKind::Command);
        drop(scope);
        assert_eq!(breakdown(), Breakdown::default());
    }
}
