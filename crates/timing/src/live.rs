//! The running operation of one thread, in a place that other threads can look at.
//!
//! Only the owning thread writes; its writes are relaxed stores, which cost what plain ones do. A reader may meet an
//! operation between two of them: its picture is then a few nanoseconds off, never more than the wall time, and an
//! operation that ended meanwhile is not shown. Places are never freed, but taken again by later threads, so there
//! are as many as threads have run operations at once.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::clock::{self, Counter};
use crate::phase::entered;
use crate::row::{ROW_COUNT, UNATTRIBUTED_ROW};
use crate::work::{WORK_COUNT, Work};
use crate::{Breakdown, IS_COMPILED, PHASE_COUNT, Phase};

/// Stands for no phase: its slot takes the time that no phase covers, so that the slots add up to the wall.
pub(crate) const NO_PHASE: u32 = UNATTRIBUTED_ROW as u32;
/// A power of two, so that finding a slot needs no check.
const SLOTS: usize = 32;
pub(crate) const SLOT_MASK: usize = SLOTS - 1;
const _: () = assert!(ROW_COUNT <= SLOTS && SLOTS.is_power_of_two());
/// A thread asks for its core once in so many operations.
const OPERATIONS_A_LOOK: u32 = 32;
/// How often a reader tries again when the operation changed under its eyes.
const LOOKS_MAX: usize = 4;

thread_local! {
    static PLACE: Cell<Option<&'static Live>> = const { Cell::new(None) };
    /// The place while an operation runs.
    static RUNNING: Cell<Option<&'static Live>> = const { Cell::new(None) };
    /// The place while a timed operation runs, so that opening a scope asks one question.
    static TIMED: Cell<Option<&'static Live>> = const { Cell::new(None) };
}

static FREE: Mutex<Vec<&'static Live>> = Mutex::new(Vec::new());

/// Cache lines come in pairs to the prefetcher, hence 128.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Live {
    /// In ticks of the clock, as all times here; 0 while no operation runs.
    pub start: AtomicU64,
    /// When the running slot was last changed; 0 while no timed operation runs.
    pub since: AtomicU64,
    /// When the operation's time was stopped; 0 while it runs. See [`crate::pause`].
    pub paused: AtomicU64,
    pub running: AtomicU32,
    /// A bit for each slot that the clock has run for, and for each phase that has taken no time: [`Phase::bit`],
    /// [`Phase::passed_bit`].
    pub touched: AtomicU32,
    /// Times by phase, then what no phase covered, and once the operation has ended its wall.
    pub slots: [AtomicU64; SLOTS],
    pub work: [AtomicU64; WORK_COUNT],
    /// Some of `work` may not be 0.
    pub is_counted: AtomicBool,
    pub tag: AtomicU64,
    pub counter: Counter,
    /// The core that the thread runs on, as of a few operations ago.
    pub core: CoreOfThread,
}

/// A thread that has just moved uses the buffer of the core it ran on before for a few operations, which costs no more
/// than asking every time.
#[derive(Debug, Default)]
pub(crate) struct CoreOfThread {
    core: AtomicU32,
    operations_left: AtomicU32,
}

impl CoreOfThread {
    #[inline]
    pub fn get(&self) -> usize {
        match self.operations_left.load(Relaxed).checked_sub(1) {
            Some(left) => {
                self.operations_left.store(left, Relaxed);
                self.core.load(Relaxed) as usize
            }
            None => self.look(),
        }
    }

    #[cold]
    fn look(&self) -> usize {
        let core = rustix::thread::sched_getcpu();
        self.core.store(core as u32, Relaxed);
        self.operations_left.store(OPERATIONS_A_LOOK, Relaxed);
        core
    }
}

impl Live {
    fn new() -> Live {
        Live {
            start: AtomicU64::new(0),
            since: AtomicU64::new(0),
            paused: AtomicU64::new(0),
            running: AtomicU32::new(NO_PHASE),
            touched: AtomicU32::new(0),
            slots: [const { AtomicU64::new(0) }; SLOTS],
            work: [const { AtomicU64::new(0) }; WORK_COUNT],
            is_counted: AtomicBool::new(false),
            tag: AtomicU64::new(0),
            counter: Counter::new(),
            core: CoreOfThread::default(),
        }
    }

    /// The ticks of a slot, which is empty from then on.
    #[inline]
    pub(crate) fn take_slot(&self, slot: usize) -> u64 {
        let slot = &self.slots[slot & SLOT_MASK];
        let ticks = slot.load(Relaxed);
        slot.store(0, Relaxed);
        ticks
    }

    /// Takes the work that was counted by name, amounts first, and begins the counts anew.
    pub(crate) fn take_work(&self) -> [u64; WORK_COUNT] {
        self.is_counted.store(false, Relaxed);
        let mut work = [0; WORK_COUNT];
        for (taken, cell) in work.iter_mut().zip(&self.work) {
            *taken = cell.load(Relaxed);
            cell.store(0, Relaxed);
        }
        work
    }

    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        self.is_counted.load(Relaxed)
    }

    #[inline]
    pub(crate) fn count<const N: usize>(&self, amounts: [(Work, u64); N]) {
        self.is_counted.store(true, Relaxed);
        for (work, amount) in amounts {
            let cell = &self.work[work as usize];
            cell.store(cell.load(Relaxed) + amount, Relaxed);
        }
    }

    /// Forgets an operation that was not recorded.
    #[cold]
    pub(crate) fn clear(&self) {
        for slot in &self.slots {
            slot.store(0, Relaxed);
        }
        self.take_work();
    }

    /// Where the time went up to `now`.
    pub(crate) fn breakdown_at(&self, now: u64) -> Breakdown {
        let start = self.start.load(Relaxed);
        if start == 0 {
            return Breakdown::default();
        }
        let wall_ns = clock::ns(now.saturating_sub(start));
        self.breakdown_of(wall_ns, self.since.load(Relaxed) != 0)
    }

    pub(crate) fn breakdown_of(&self, wall_ns: u64, is_timed: bool) -> Breakdown {
        let mut phases = [0; PHASE_COUNT];
        let mut left = wall_ns;
        for (phase, slot) in phases.iter_mut().zip(&self.slots) {
            // Who looks from outside may meet a slot that is ahead of the wall.
            *phase = clock::ns(slot.load(Relaxed)).min(left);
            left -= *phase;
        }
        let mut work = [0; WORK_COUNT];
        for (shown, counted) in work.iter_mut().zip(&self.work) {
            *shown = counted.load(Relaxed);
        }
        Breakdown {
            wall_ns,
            phases,
            unattributed_ns: left,
            work,
            entered: entered(self.touched.load(Relaxed)),
            is_timed,
        }
    }
}

#[cfg(test)]
impl Live {
    /// An operation of `wall` ticks that has taken so many in each phase.
    pub(crate) fn with_ticks(phases: &[(Phase, u64)], wall: u64) -> Live {
        let live = Live::new();
        let mut left = wall;
        for (phase, ticks) in phases {
            live.touched.fetch_or(phase.bit(), Relaxed);
            live.slots[*phase as usize].store(*ticks, Relaxed);
            left -= ticks;
        }
        live.touched.fetch_or(1 << NO_PHASE, Relaxed);
        live.slots[NO_PHASE as usize].store(left, Relaxed);
        live.slots[crate::row::WALL_ROW].store(wall, Relaxed);
        live
    }
}

/// This thread's place, while an operation runs.
#[inline]
pub(crate) fn running() -> Option<&'static Live> {
    if IS_COMPILED { RUNNING.get() } else { None }
}

/// This thread's place, while a timed operation runs.
#[inline]
pub(crate) fn timed() -> Option<&'static Live> {
    if IS_COMPILED { TIMED.get() } else { None }
}

/// Opens the place to those who count, and to scopes if it is timed.
#[inline]
pub(crate) fn set_running(live: &'static Live, is_timed: bool) {
    RUNNING.set(Some(live));
    TIMED.set(is_timed.then_some(live));
}

#[inline]
pub(crate) fn set_idle() {
    RUNNING.set(None);
    TIMED.set(None);
}

/// This thread's place, made or taken at its first use.
#[inline]
pub(crate) fn mine() -> &'static Live {
    PLACE.get().unwrap_or_else(take)
}

#[cold]
fn take() -> &'static Live {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let live = free.unwrap_or_else(|| Box::leak(Box::new(Live::new())));
    PLACE.set(Some(live));
    live
}

/// Ties this thread to a place until the end of the scope, for threads that come and go.
#[must_use = "the place is given back where this is dropped"]
#[derive(Debug)]
pub struct Attached {
    live: &'static Live,
    _stays_on_its_thread: PhantomData<*const ()>,
}

/// Ties this thread to a place that other threads can look at through [`Attached::observer`].
pub fn attach() -> Attached {
    Attached {
        live: mine(),
        _stays_on_its_thread: PhantomData,
    }
}

impl Attached {
    /// A handle with which other threads look at this one's operation.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer(self.live)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.live.start.store(0, Relaxed);
        self.live.since.store(0, Relaxed);
        self.live.paused.store(0, Relaxed);
        set_idle();
        PLACE.set(None);
        FREE.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(self.live);
    }
}

/// Looks at the operation that a thread runs now.
#[derive(Clone, Copy, Debug)]
pub struct Observer(&'static Live);

/// An operation that is still running, as another thread sees it.
#[derive(Clone, Copy, Debug)]
pub struct Glimpse {
    /// The phase that the clock runs for; none between phases, while the clock is stopped, and while timing is off.
    pub phase: Option<Phase>,
    /// The operation waits for what it was asked to wait for, and its clock is stopped.
    pub is_paused: bool,
    /// The times so far, the running phase's up to now.
    pub breakdown: Breakdown,
}

impl Observer {
    /// None while the thread runs no operation.
    #[must_use]
    pub fn look(&self) -> Option<Glimpse> {
        let live = self.0;
        for _ in 0..LOOKS_MAX {
            let start = live.start.load(Relaxed);
            if start == 0 {
                return None;
            }
            let running = live.running.load(Relaxed);
            let since = live.since.load(Relaxed);
            let paused = live.paused.load(Relaxed);
            let is_paused = paused != 0;
            let now = if is_paused { paused } else { clock::now() };
            let mut breakdown = live.breakdown_at(now);
            if live.start.load(Relaxed) != start {
                continue;
            }
            let phase = (since != 0 && !is_paused)
                .then(|| Phase::ALL.get(running as usize).copied())
                .flatten();
            if let Some(phase) = phase {
                let ns = clock::ns(now.saturating_sub(since)).min(breakdown.unattributed_ns);
                breakdown.phases[phase as usize] += ns;
                breakdown.unattributed_ns -= ns;
            }
            return Some(Glimpse {
                phase,
                is_paused,
                breakdown,
            });
        }
        None
    }
}

/// Counts `amount` more of `work` for this thread's operation.
#[inline]
pub fn count(work: Work, amount: u64) {
    count_all([(work, amount)]);
}

/// As [`count`], for several at once.
#[inline]
pub fn count_all<const N: usize>(amounts: [(Work, u64); N]) {
    if let Some(live) = running() {
        live.count(amounts);
    }
}

/// Names whom this thread's operation waited for; the last one stands.
#[inline]
pub fn name(work: Work, number: u64) {
    name_all([(work, number)]);
}

/// As [`name`], for several at once.
#[inline]
pub fn name_all<const N: usize>(numbers: [(Work, u64); N]) {
    if let Some(live) = running() {
        live.is_counted.store(true, Relaxed);
        for (work, number) in numbers {
            live.work[work as usize].store(number, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{OperationKind, begin_operation, end_operation, phase};

    #[test]
    fn another_thread_sees_the_running_phase_and_the_times_so_far() {
        let (shown, seen) = channel();
        let (done, go_on) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let attached = attach();
                assert!(attached.observer().look().is_none());
                begin_operation(Instant::now());
                {
                    let _plan = phase(Phase::Plan);
                    thread::sleep(Duration::from_millis(3));
                }
                count(Work::EngineGets, 2);
                name(Work::Group, 9);
                let _wait = phase(Phase::SyncWait);
                shown.send(attached.observer()).unwrap();
                go_on.recv().unwrap();
                end_operation(OperationKind::Command);
                shown.send(attached.observer()).unwrap();
                go_on.recv().unwrap();
            });
            let observer = seen.recv().unwrap();
            let first = observer.look().unwrap();
            assert_eq!(first.phase, Some(Phase::SyncWait));
            assert!(first.breakdown.phase_ns(Phase::Plan) >= 3_000_000);
            assert_eq!(first.breakdown.work(Work::EngineGets), 2);
            assert_eq!(first.breakdown.work(Work::Group), 9);
            let waited = first.breakdown.phase_ns(Phase::SyncWait);
            let second = observer.look().unwrap();
            assert!(second.breakdown.phase_ns(Phase::SyncWait) > waited);
            let sum: u64 = second.breakdown.phases.iter().sum();
            assert_eq!(
                sum + second.breakdown.unattributed_ns,
                second.breakdown.wall_ns
            );
            done.send(()).unwrap();
            assert!(seen.recv().unwrap().look().is_none());
            done.send(()).unwrap();
        });
    }

    #[test]
    fn a_place_is_taken_again_by_a_later_thread() {
        let place = || {
            thread::spawn(|| std::ptr::from_ref(attach().live) as usize)
                .join()
                .unwrap()
        };
        // Other tests take places as well, so that the same one need not come back at once.
        let first = place();
        assert!((0..10_000).any(|_| place() == first));
    }
}
