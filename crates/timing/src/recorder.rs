//! The running operation of a thread: which phase the clock runs for, and what each has taken.
//!
//! At any moment the clock runs for exactly one phase, or for none. Opening a scope charges the
//! time since the last change to the phase that was running and starts the new one; closing it
//! charges the scope's phase and goes back. So time is exclusive by construction, and what no scope
//! covered is `unattributed`, which has a slot like a phase's. State stands in the thread's `Live`: reaching it costs one
//! thread-local address.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::clock;
use crate::collector;
use crate::labels::{Exemplar, LabelTexts, Labels, NoTexts};
use crate::live::{Live, NO_PHASE, SLOT_MASK, mine, running, set_idle, set_running, timed};
use crate::row::WALL_ROW;
use crate::work::Work;
use crate::{Breakdown, IS_COMPILED, OperationKind, Phase};

static ENABLED: AtomicBool = AtomicBool::new(true);

/// Turns timing on or off for operations that begin from now on. While it is off an operation still
/// has a wall time, and no phases and no place in the histograms.
pub fn set_enabled(enabled: bool) {
    ENABLED.store(enabled, Relaxed);
}

/// Whether operations that begin now are timed.
#[must_use]
#[inline]
pub fn is_enabled() -> bool {
    IS_COMPILED && ENABLED.load(Relaxed)
}

/// Begins this thread's operation, as of `start` (the arrival of the request's first byte). An
/// operation that was begun and never ended is forgotten.
pub fn begin_operation(start: Instant) {
    if IS_COMPILED {
        mine().begin(clock::at(start), is_enabled(), 0, NO_PHASE);
    }
}

/// As [`begin_operation`], as of now and in `phase`: until [`turn`] says otherwise the clock runs for it wherever no
/// scope is open.
#[inline]
pub fn begin_operation_in(phase: Phase) {
    begin_operation_after([], phase);
}

/// As [`begin_operation_in`], when the phases before it have taken no time: they are entered all the same.
#[inline]
pub fn begin_operation_after<const N: usize>(passed: [Phase; N], phase: Phase) {
    if !IS_COMPILED {
        return;
    }
    let live = mine();
    let entered = passed
        .iter()
        .fold(phase.bit(), |bits, one| bits | one.passed_bit());
    live.begin(live.counter.now(), is_enabled(), entered, phase as u32);
}

/// Ends the phase that the clock runs for and goes on with `phase`, with one look at the clock. Within a scope it
/// lasts until the scope ends; outside of all it lasts until the next turn.
#[inline]
pub fn turn(phase: Phase) {
    if let Some(live) = timed() {
        live.enter(phase);
    }
}

/// An operation that has ended. Its times stay where they are until it is recorded or the thread begins the next one.
#[derive(Debug)]
pub struct Finished {
    live: Option<&'static Live>,
    wall_ns: u64,
    is_timed: bool,
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl Finished {
    /// The whole time of the operation.
    #[must_use]
    #[inline]
    pub fn wall_ns(&self) -> u64 {
        self.wall_ns
    }

    /// As [`crate::count_all`], for what was not counted before the end.
    pub fn count_all<const N: usize>(&self, amounts: [(Work, u64); N]) {
        if let Some(live) = self.live {
            live.count(amounts);
        }
    }

    /// Whether the operation was timed, and is to be recorded.
    #[must_use]
    #[inline]
    pub fn is_timed(&self) -> bool {
        IS_COMPILED && self.is_timed
    }

    /// Where its time went, and what was counted.
    #[must_use]
    pub fn breakdown(&self) -> Breakdown {
        self.live.map_or_else(Breakdown::default, |live| {
            live.breakdown_of(self.wall_ns, self.is_timed)
        })
    }
}

/// Ends this thread's operation, records it under `kind`, and says where its time went. Without a
/// running operation the breakdown is all zeros and nothing is recorded.
pub fn end_operation(kind: OperationKind) -> Breakdown {
    let finished = finish_operation();
    let breakdown = finished.breakdown();
    record_operation(kind, finished, [], Labels::NONE, || NoTexts);
    breakdown
}

/// Ends this thread's operation; [`record_operation`] follows, before the thread begins another one.
#[must_use = "an operation is counted by `record_operation`"]
#[inline]
pub fn finish_operation() -> Finished {
    let live = running();
    let (wall, is_timed) = live.map_or((0, false), Live::end);
    Finished {
        live,
        wall_ns: live.map_or(0, |live| live.counter.ns(wall)),
        is_timed,
        _stays_on_its_thread: PhantomData,
    }
}

/// Records a finished operation under `kind` and the labels, unless it was not timed. `amounts` are added to what was
/// counted of it before; the texts are asked for when a label is met for the first time.
#[inline]
pub fn record_operation<const N: usize, T: LabelTexts>(
    kind: OperationKind,
    finished: Finished,
    amounts: [(Work, u64); N],
    labels: Labels,
    texts: impl FnOnce() -> T,
) {
    if let Some(live) = finished.live
        && finished.is_timed()
    {
        collector::global().record(kind, live, amounts, labels, texts);
    }
}

/// Shows an operation of this kind with the bucket that its wall time falls into.
pub fn note_exemplar(kind: OperationKind, exemplar: Exemplar) {
    if IS_COMPILED {
        collector::global().note_exemplar(kind, exemplar);
    }
}

/// Gives this thread's operation a name that others can find it by: in [`crate::Glimpse`], and through the locks it
/// holds. 0 is no name.
#[inline]
pub fn tag_operation(tag: u64) {
    if let Some(live) = running() {
        live.tag.store(tag, Relaxed);
    }
}

/// The name that [`tag_operation`] gave the operation that this thread runs; 0 outside one.
#[must_use]
#[inline]
pub fn tag() -> u64 {
    running().map_or(0, |live| live.tag.load(Relaxed))
}

/// Where the time of this thread's operation went so far; scopes stay open.
#[must_use]
pub fn breakdown() -> Breakdown {
    running().map(Live::breakdown).unwrap_or_default()
}

/// Runs the clock for `phase` until the scope is dropped.
#[must_use = "the phase ends where the scope is dropped"]
#[inline]
pub fn phase(phase: Phase) -> Scope {
    let live = timed();
    Scope {
        previous: live.map_or(NO_PHASE, |live| live.enter(phase)),
        live,
        _stays_on_its_thread: PhantomData,
    }
}

/// Stops the clock of this thread's operation until the pause is dropped: for an operation that was asked to wait for
/// something to happen, such as a getMore that awaits data. How long that takes is the client's wish and says nothing
/// of the server, so it is in no phase and not in the wall. No scope is opened or closed and no phase begun in a pause.
#[must_use = "the clock runs again where the pause is dropped"]
#[inline]
pub fn pause() -> Pause {
    let live = running();
    if let Some(live) = live {
        live.pause();
    }
    Pause {
        live,
        _stays_on_its_thread: PhantomData,
    }
}

/// A stopped clock.
#[derive(Debug)]
pub struct Pause {
    live: Option<&'static Live>,
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl Drop for Pause {
    fn drop(&mut self) {
        if let Some(live) = self.live {
            live.go_on();
        }
    }
}

/// Gives `ns` nanoseconds of the time that has passed in the running scope to `phase`: for time
/// that another crate measured and reported. The sum stays the wall time.
#[inline]
pub fn add(phase: Phase, ns: u64) {
    if let Some(live) = timed() {
        live.add(phase, ns);
    }
}

/// An open phase. Scopes close in the reverse order of their opening, as blocks do.
#[derive(Debug)]
pub struct Scope {
    /// None outside a timed operation.
    live: Option<&'static Live>,
    previous: u32,
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        // The operation may have ended inside the scope: there is then no clock to switch.
        if let Some(live) = self.live
            && live.since.load(Relaxed) != 0
        {
            live.switch(self.previous);
        }
    }
}

impl Live {
    #[inline]
    fn begin(&'static self, start: u64, is_timed: bool, entered: u32, running: u32) {
        if self.touched.load(Relaxed) != 0 {
            self.clear();
        }
        self.start.store(start, Relaxed);
        self.since.store(if is_timed { start } else { 0 }, Relaxed);
        self.running.store(running, Relaxed);
        let entered = if is_timed { entered } else { 0 };
        self.touched.store(1 << NO_PHASE | entered, Relaxed);
        set_running(self, is_timed);
    }

    fn pause(&self) {
        let now = self.counter.now();
        if self.since.load(Relaxed) != 0 {
            self.charge(now);
        }
        self.paused.store(now, Relaxed);
    }

    /// Moves the operation's beginning by what the pause took.
    fn go_on(&self) {
        let paused = self.paused.load(Relaxed);
        // The operation may have ended in the pause.
        if paused == 0 || self.start.load(Relaxed) == 0 {
            return;
        }
        let now = self.counter.now();
        let start = self.start.load(Relaxed);
        self.start
            .store(start.wrapping_add(now.wrapping_sub(paused)), Relaxed);
        if self.since.load(Relaxed) != 0 {
            self.since.store(now, Relaxed);
        }
        self.paused.store(0, Relaxed);
    }

    /// The wall in ticks, and whether the operation was timed.
    #[inline]
    fn end(&self) -> (u64, bool) {
        let now = self.counter.now();
        let is_timed = self.since.load(Relaxed) != 0;
        if is_timed {
            self.charge(now);
        }
        let wall = now.wrapping_sub(self.start.load(Relaxed));
        self.slots[WALL_ROW].store(wall, Relaxed);
        self.since.store(0, Relaxed);
        self.start.store(0, Relaxed);
        self.tag.store(0, Relaxed);
        self.paused.store(0, Relaxed);
        set_idle();
        (wall, is_timed)
    }

    #[inline]
    fn enter(&self, phase: Phase) -> u32 {
        self.touch(phase);
        self.switch(phase as u32)
    }

    #[inline]
    fn touch(&self, phase: Phase) {
        let touched = self.touched.load(Relaxed) | phase.bit();
        self.touched.store(touched, Relaxed);
    }

    /// Charges the running slot up to now, runs the clock for `slot`, and says which ran before.
    #[inline]
    fn switch(&self, slot: u32) -> u32 {
        let previous = self.charge(self.counter.now());
        self.running.store(slot, Relaxed);
        previous
    }

    /// Charges the running slot up to `now`, and says which it is.
    #[inline]
    fn charge(&self, now: u64) -> u32 {
        let passed = now.wrapping_sub(self.since.load(Relaxed));
        self.since.store(now, Relaxed);
        let running = self.running.load(Relaxed);
        let slot = self.slot(running);
        // The counters of two cores may be a few ticks apart: what passed is then a little less than nothing.
        slot.store(slot.load(Relaxed).wrapping_add(passed), Relaxed);
        running
    }

    fn add(&self, phase: Phase, ns: u64) {
        let running = self.slot(self.charge(self.counter.now()));
        self.touch(phase);
        // A caller that reports more time than has passed cannot break the sum.
        let ticks = clock::ticks(ns).min(running.load(Relaxed));
        running.store(running.load(Relaxed) - ticks, Relaxed);
        let slot = self.slot(phase as u32);
        slot.store(slot.load(Relaxed) + ticks, Relaxed);
    }

    #[inline]
    fn slot(&self, slot: u32) -> &AtomicU64 {
        &self.slots[slot as usize & SLOT_MASK]
    }

    fn breakdown(&self) -> Breakdown {
        let now = clock::now();
        if self.since.load(Relaxed) != 0 {
            self.charge(now);
        }
        self.breakdown_at(now)
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;
    use crate::live::{count, name};
    use crate::{PHASE_COUNT, WORK_COUNT};

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
        let outer = Instant::now();
        let (inner, outer) = {
            let _execute = phase(Phase::Execute);
            sleep(Duration::from_millis(4));
            let read = phase(Phase::EngineRead);
            let inner = Instant::now();
            sleep(Duration::from_millis(20));
            let inner = inner.elapsed();
            drop(read);
            (inner, outer)
        };
        let outer = outer.elapsed();
        sleep(Duration::from_millis(6));
        let breakdown = end_operation(OperationKind::Command);
        assert_sum(&breakdown);
        assert!(ms(breakdown.phase_ns(Phase::EngineRead)) >= 20);
        // However long the machine let them sleep.
        let execute = Duration::from_nanos(breakdown.phase_ns(Phase::Execute));
        assert!(execute >= Duration::from_millis(4), "{breakdown:?}");
        assert!(
            execute <= (outer - inner).mul_f64(1.01),
            "{breakdown:?} {outer:?} {inner:?}"
        );
        assert!(ms(breakdown.unattributed_ns) >= 6);
        assert!(ms(breakdown.wall_ns) >= 30);
        let entered: Vec<_> = breakdown.entered().map(|(phase, _)| phase).collect();
        assert_eq!(entered, [Phase::Execute, Phase::EngineRead]);
    }

    #[test]
    fn a_turn_ends_one_phase_and_begins_the_next() {
        begin_operation_in(Phase::Auth);
        sleep(Duration::from_millis(5));
        turn(Phase::Execute);
        {
            let _scope = phase(Phase::Decode);
            turn(Phase::Plan);
            sleep(Duration::from_millis(3));
        }
        sleep(Duration::from_millis(2));
        let breakdown = end_operation(OperationKind::Command);
        assert_sum(&breakdown);
        assert!(ms(breakdown.phase_ns(Phase::Auth)) >= 5);
        assert!(ms(breakdown.phase_ns(Phase::Plan)) >= 3);
        assert!(ms(breakdown.phase_ns(Phase::Execute)) >= 2, "{breakdown:?}");
        assert!(breakdown.unattributed_ns < 2_000_000);
    }

    #[test]
    fn work_is_counted_for_the_operation_that_runs() {
        count(Work::EngineGets, 7);
        begin_operation(Instant::now());
        count(Work::EngineGets, 1);
        count(Work::EngineGets, 2);
        name(Work::LockHolder, 5);
        name(Work::LockHolder, 6);
        let breakdown = end_operation(OperationKind::Command);
        assert_eq!(breakdown.work(Work::EngineGets), 3);
        assert_eq!(breakdown.work(Work::LockHolder), 6);
        begin_operation(Instant::now());
        assert_eq!(end_operation(OperationKind::Command).work, [0; WORK_COUNT]);
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
    fn a_pause_is_in_no_phase_and_not_in_the_wall() {
        let attached = crate::attach();
        let observer = attached.observer();
        begin_operation_in(Phase::Execute);
        sleep(Duration::from_millis(2));
        {
            let _pause = pause();
            let first = observer.look().unwrap();
            sleep(Duration::from_millis(50));
            let second = observer.look().unwrap();
            assert!(second.is_paused && second.phase.is_none());
            // Ticks become nanoseconds with an error of a few.
            let moved_ns = first.breakdown.wall_ns.abs_diff(second.breakdown.wall_ns);
            assert!(moved_ns < 1_000, "{moved_ns}");
        }
        let after = Instant::now();
        assert_eq!(observer.look().unwrap().phase, Some(Phase::Execute));
        let breakdown = end_operation(OperationKind::Command);
        assert_sum(&breakdown);
        assert!(breakdown.phase_ns(Phase::Execute) >= 2_000_000);
        // However long the machine let the sleep before the pause take, the pause is not in it.
        let outside = Duration::from_nanos(breakdown.wall_ns).saturating_sub(after.elapsed());
        assert!(outside < Duration::from_millis(50), "{breakdown:?}");
        begin_operation(Instant::now());
        drop(pause());
        assert!(ms(end_operation(OperationKind::Command).wall_ns) < 50);
        // Outside an operation there is no clock to stop.
        drop(pause());
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
        assert!(breakdown.phase_ns(Phase::JournalAppend).abs_diff(4_000_000) < 1_000);
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
        assert!(breakdown.phase_ns(Phase::Read).abs_diff(50_000_000) < 1_000);
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
