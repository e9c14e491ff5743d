//! Turns of long reads: no more of them work at the same time than there are processors, and one fewer while short operations are
//! about, which then find a processor that is free.
//!
//! Fifty sorts at once share the processors as fairly as the kernel lets them, and so does everybody else: a point query of some
//! microseconds waits behind a slice of each. An operation that has worked for `LOOKS_BEFORE` looks (`interrupts`) is a long one and
//! takes a turn. It gives the turn to another after `TURN`: to the one that has worked least and waited longest. All of them come to
//! their ends as late as they would have, and some much earlier.
//!
//! Between two turns an operation offers its processor to whoever is ready to run, with each look: while it is not known to be a long
//! one, and later as long as short ones are about. Else a thread that wakes on its processor waits for the kernel's tick, up to four
//! milliseconds; an offer that nobody takes costs half a microsecond.
//!
//! A long operation may have other threads help it while processors are idle (`exec/helper_threads.rs`). Each has a turn, which it gets
//! only where one is left, never waits for, and gives back as soon as somebody waits or fewer may work.
//!
//! Keeps true: whoever waits for a turn holds no lock of a record or a collection, because writes, definitions and reads within
//! transactions take none, and a wait ends with its operation. A turn without a look for `LEASE` is over: its thread waits for
//! something itself, and may be in the way of nobody. An operation that is short pays a comparison when it ends.
//!
//! Leaves out threads of the engines, and the order in which the kernel runs what works.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use quarry_timing::{Phase, phase};

use crate::error::Result;

/// An operation is a long one from this look on: after some ten milliseconds of work.
const LOOKS_BEFORE: u32 = 100;
/// The looks of an operation that takes no turns.
const NO_TURNS: u32 = u32::MAX;
/// A turn, when somebody waits for one.
const TURN: Duration = Duration::from_millis(20);
/// Without a look for so long, a turn is over.
const LEASE: Duration = Duration::from_millis(60);
/// Who waits looks as often whether its operation is to end.
const WAIT: Duration = Duration::from_millis(20);
/// The time over which short operations are counted.
const WINDOW: Duration = Duration::from_millis(250);
/// Short operations are about where more than this begin within a window, and more than there are long ones.
const SHORT_MIN: u64 = 4;

/// The turns of this process.
pub static TURNS: Turns = Turns::new();

thread_local! {
    /// The looks of the operation on this thread.
    static LOOKS: Cell<u32> = const { Cell::new(NO_TURNS) };
    static MINE: RefCell<Option<Mine>> = const { RefCell::new(None) };
}

/// A long operation, as its thread knows it.
struct Mine {
    number: u64,
    worked: Duration,
    /// When the turn began that it has.
    since: Instant,
}

/// Who has a turn, and who waits for one.
pub struct Turns {
    state: Mutex<State>,
    /// Says how many operations the server has begun so far.
    operations: OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>,
    taken: AtomicU64,
    waited_us: AtomicU64,
    helped: AtomicU64,
    helped_us: AtomicU64,
    helped_documents: AtomicU64,
}

struct State {
    /// 0 until it is asked for.
    processors: usize,
    working: Vec<Working>,
    waiting: Vec<Waiting>,
    next_number: u64,
    /// How many helper threads there have been: they are numbered from the other end.
    helpers: u64,
    window: Option<Window>,
    are_short_about: bool,
}

struct Working {
    number: u64,
    looked: Instant,
    is_helper: bool,
}

struct Waiting {
    number: u64,
    thread: Thread,
    worked: Duration,
    since: Instant,
}

/// The counts at the beginning of a window.
struct Window {
    begun: Instant,
    operations: u64,
    long: u64,
}

/// The state of the turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnsUse {
    /// How many may work at the same time now.
    pub limit: usize,
    /// The long operations that have a turn.
    pub working: usize,
    /// The long operations that wait for one.
    pub waiting: usize,
    /// The turns so far.
    pub taken: u64,
    /// The microseconds that operations have waited for them so far.
    pub waited_us: u64,
    /// The helper threads of long operations that work now; they are among those that have a turn.
    pub helping: usize,
    /// The helper threads so far.
    pub helped: u64,
    /// The microseconds that these have worked.
    pub helped_us: u64,
    /// The documents that they have read for operations.
    pub helped_documents: u64,
}

impl Turns {
    const fn new() -> Turns {
        Turns {
            state: Mutex::new(State {
                processors: 0,
                working: Vec::new(),
                waiting: Vec::new(),
                next_number: 0,
                helpers: 0,
                window: None,
                are_short_about: false,
            }),
            operations: OnceLock::new(),
            taken: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
            helped: AtomicU64::new(0),
            helped_us: AtomicU64::new(0),
            helped_documents: AtomicU64::new(0),
        }
    }

    /// Has short operations told from long ones by `operations`, which says how many the server has begun. The first call counts.
    pub fn count_operations(&self, operations: Box<dyn Fn() -> u64 + Send + Sync>) {
        let _ = self.operations.set(operations);
    }

    /// The state now.
    pub fn in_use(&self) -> TurnsUse {
        let state = self.lock();
        TurnsUse {
            limit: state.limit(),
            working: state.working.len(),
            helping: state.working.iter().filter(|one| one.is_helper).count(),
            waiting: state.waiting.len(),
            taken: self.taken.load(Relaxed),
            waited_us: self.waited_us.load(Relaxed),
            helped: self.helped.load(Relaxed),
            helped_us: self.helped_us.load(Relaxed),
            helped_documents: self.helped_documents.load(Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.processors == 0 {
            state.processors = thread::available_parallelism().map_or(1, usize::from);
        }
        state
    }

    /// A look of a long operation. Returns when it may work on, or with what `goes_on` says when it is to end. True where short
    /// operations are about.
    fn look(&self, mine: &mut Option<Mine>, goes_on: impl FnMut() -> Result<()>) -> Result<bool> {
        let now = Instant::now();
        let mut state = self.lock();
        state.count(now, self.operations.get().map(|count| count()));
        let is_first = mine.is_none();
        let mine = mine.get_or_insert_with(|| Mine {
            number: state.begin(),
            worked: Duration::ZERO,
            since: now,
        });
        let is_over = now - mine.since >= TURN && !state.waiting.is_empty();
        let are_short_about = state.are_short_about;
        if !is_first && !is_over && state.keeps(mine.number, now) {
            return Ok(are_short_about);
        }
        mine.worked += now - mine.since;
        state.end(mine.number);
        state.waiting.push(Waiting {
            number: mine.number,
            thread: thread::current(),
            worked: mine.worked,
            since: now,
        });
        state.hand_on(now);
        let ended = self.wait(state, mine.number, goes_on);
        mine.since = Instant::now();
        self.taken.fetch_add(1, Relaxed);
        let waited = mine.since - now;
        self.waited_us.fetch_add(waited.as_micros() as u64, Relaxed);
        ended.map(|()| are_short_about)
    }

    fn wait<'t>(
        &'t self,
        mut state: MutexGuard<'t, State>,
        number: u64,
        mut goes_on: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        if state.works(number) {
            return Ok(());
        }
        let _wait = phase(Phase::LockWait);
        loop {
            drop(state);
            thread::park_timeout(WAIT);
            let ended = goes_on();
            state = self.lock();
            let now = Instant::now();
            if ended.is_err() {
                state.end(number);
                state.hand_on(now);
                return ended;
            }
            // A turn may be over because its thread no longer looks.
            state.hand_on(now);
            if state.works(number) {
                return Ok(());
            }
        }
    }

    /// The turn of a helper thread, if a processor is idle: nobody waits for a turn, and one is left beside those who have one.
    /// `is_counted` says whether the operation that is to be helped is among them.
    fn help(&self, is_counted: bool) -> Option<u64> {
        let mut state = self.lock();
        let now = Instant::now();
        state.hand_on(now);
        let working = state.working.len() + usize::from(!is_counted);
        if !state.waiting.is_empty() || working >= state.limit() {
            return None;
        }
        let number = u64::MAX - state.helpers;
        state.helpers += 1;
        state.working.push(Working {
            number,
            looked: now,
            is_helper: true,
        });
        self.helped.fetch_add(1, Relaxed);
        Some(number)
    }

    /// A look of a helper thread: whether it keeps its processor.
    fn goes_on_helping(&self, number: u64) -> bool {
        let mut state = self.lock();
        state.waiting.is_empty() && state.keeps(number, Instant::now())
    }

    /// Counts documents that helper threads have read and their operation has taken.
    pub(crate) fn count_helped(&self, documents: u64) {
        self.helped_documents.fetch_add(documents, Relaxed);
    }

    #[cold]
    fn end(&self, mine: Mine) {
        let mut state = self.lock();
        state.end(mine.number);
        state.hand_on(Instant::now());
    }
}

impl State {
    fn limit(&self) -> usize {
        (self.processors - usize::from(self.are_short_about)).max(1)
    }

    fn begin(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn works(&self, number: u64) -> bool {
        self.working.iter().any(|one| one.number == number)
    }

    /// Whether the operation has its turn still, and may keep it.
    fn keeps(&mut self, number: u64, now: Instant) -> bool {
        let is_one_of_too_many = self.working.len() > self.limit();
        let mine = self.working.iter_mut().find(|one| one.number == number);
        let Some(mine) = mine.filter(|_| !is_one_of_too_many) else {
            return false;
        };
        mine.looked = now;
        true
    }

    /// The operation neither works nor waits any more.
    fn end(&mut self, number: u64) {
        self.working.retain(|one| one.number != number);
        self.waiting.retain(|one| one.number != number);
    }

    /// Gives the turns that are free to those who wait.
    fn hand_on(&mut self, now: Instant) {
        self.working
            .retain(|one| now.saturating_duration_since(one.looked) < LEASE);
        while self.working.len() < self.limit() {
            let first = (self.waiting.iter().enumerate()).min_by_key(|(_, one)| {
                one.worked.as_micros() as i128 - (now - one.since).as_micros() as i128
            });
            let Some((place, _)) = first else {
                break;
            };
            let one = self.waiting.swap_remove(place);
            self.working.push(Working {
                number: one.number,
                looked: now,
                is_helper: false,
            });
            one.thread.unpark();
        }
        debug_assert!(
            self.working.len() >= self.limit() || self.waiting.is_empty(),
            "nobody waits for a turn that is free"
        );
    }

    /// Looks once a window whether short operations are about.
    fn count(&mut self, now: Instant, operations: Option<u64>) {
        let Some(operations) = operations else {
            return;
        };
        let (long, crowd) = (self.next_number, self.working.len() + self.waiting.len());
        let window = self.window.get_or_insert(Window {
            begun: now,
            operations,
            long,
        });
        let passed = now - window.begun;
        if passed < WINDOW {
            return;
        }
        let begun = operations.saturating_sub(window.operations);
        let short = u128::from(begun.saturating_sub(long - window.long));
        // Only long operations look: since the last one did, many short ones may have been without being many at a time.
        let within_a_window = short * WINDOW.as_micros() / passed.as_micros();
        self.are_short_about = within_a_window > u128::from(SHORT_MIN).max(crowd as u128);
        self.window = Some(Window {
            begun: now,
            operations,
            long,
        });
    }
}

/// From now on the operation on this thread takes turns once it is a long one.
pub(crate) fn begin() {
    LOOKS.set(0);
}

/// The operation on this thread is over, or is about to begin.
#[inline]
pub(crate) fn end() {
    let looks = LOOKS.replace(NO_TURNS);
    if looks >= LOOKS_BEFORE
        && looks != NO_TURNS
        && let Some(mine) = MINE.take()
    {
        TURNS.end(mine);
    }
}

/// A look of the operation on this thread.
pub(crate) fn look(goes_on: impl FnMut() -> Result<()>) -> Result<()> {
    let looks = LOOKS.get();
    if looks == NO_TURNS {
        return Ok(());
    }
    let are_short_about = if looks < LOOKS_BEFORE {
        LOOKS.set(looks + 1);
        true
    } else {
        MINE.with_borrow_mut(|mine| TURNS.look(mine, goes_on))?
    };
    if are_short_about {
        thread::yield_now();
    }
    Ok(())
}

/// The turn of a thread that helps a long operation. It is given back when this is dropped.
pub(crate) struct HelpTurn {
    number: u64,
    since: Instant,
}

/// A turn for another thread that helps the operation on this one, if a processor is idle. An operation that takes no turns has no help.
pub(crate) fn help() -> Option<HelpTurn> {
    if LOOKS.get() == NO_TURNS {
        return None;
    }
    let number = TURNS.help(MINE.with_borrow(Option::is_some))?;
    let since = Instant::now();
    Some(HelpTurn { number, since })
}

impl HelpTurn {
    /// Whether nobody else wants the processor. To be asked as often as an operation looks.
    pub(crate) fn goes_on(&self) -> bool {
        TURNS.goes_on_helping(self.number)
    }
}

impl Drop for HelpTurn {
    fn drop(&mut self) {
        let worked = self.since.elapsed().as_micros() as u64;
        TURNS.helped_us.fetch_add(worked, Relaxed);
        let mut state = TURNS.lock();
        state.end(self.number);
        state.hand_on(Instant::now());
    }
}

/// Until it is dropped, the operation on this thread takes no turns, because it holds what others wait for.
pub(crate) struct WithoutTurns(u32);

/// See [`WithoutTurns`]. A turn that it has stays with it until its lease is over.
pub(crate) fn without_turns() -> WithoutTurns {
    WithoutTurns(LOOKS.replace(NO_TURNS))
}

impl Drop for WithoutTurns {
    fn drop(&mut self) {
        LOOKS.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::error::Error;

    fn turns(processors: usize) -> Turns {
        let turns = Turns::new();
        turns.state.lock().unwrap().processors = processors;
        turns
    }

    fn goes_on() -> Result<()> {
        Ok(())
    }

    #[test]
    fn no_more_work_than_may_and_all_come_to_their_ends() {
        let (turns, at_work, most) = (turns(2), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let (mut mine, begun) = (None, Instant::now());
                    let mut worked = Duration::ZERO;
                    while worked < 2 * TURN {
                        turns.look(&mut mine, goes_on).unwrap();
                        let work = Instant::now();
                        most.fetch_max(at_work.fetch_add(1, Relaxed) + 1, Relaxed);
                        while work.elapsed() < Duration::from_micros(200) {
                            std::hint::spin_loop();
                        }
                        at_work.fetch_sub(1, Relaxed);
                        worked += work.elapsed();
                        assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
                    }
                    turns.end(mine.unwrap());
                });
            }
        });
        let state = turns.in_use();
        assert_eq!((state.working, state.waiting), (0, 0));
        assert!(state.taken >= 8, "each has had a turn: {state:?}");
        // A thread that the kernel does not run for longer than its lease may work beside two others.
        assert!(most.load(Relaxed) <= 4, "{most:?}");
    }

    #[test]
    fn a_wait_ends_with_its_operation() {
        let turns = turns(1);
        let (mut first, mut second) = (None, None);
        turns.look(&mut first, goes_on).unwrap();
        // It looks all the time.
        turns.lock().working[0].looked += Duration::from_secs(3600);
        let looks = AtomicUsize::new(0);
        let ended = turns.look(&mut second, || match looks.fetch_add(1, Relaxed) {
            2 => Err(Error::bad_value("killed")),
            _ => Ok(()),
        });
        assert_eq!(ended, Err(Error::bad_value("killed")));
        assert_eq!(looks.load(Relaxed), 3);
        let state = turns.in_use();
        assert_eq!((state.working, state.waiting), (1, 0));
    }

    #[test]
    fn a_turn_goes_on_to_who_waits_and_comes_back() {
        let (turns, mut first) = (turns(1), None);
        turns.look(&mut first, goes_on).unwrap();
        let mut mine = first.take().unwrap();
        mine.since -= TURN;
        let number = mine.number;
        let second = {
            let mut state = turns.lock();
            let second = state.begin();
            state.waiting.push(Waiting {
                number: second,
                thread: thread::current(),
                worked: Duration::ZERO,
                since: mine.since,
            });
            second
        };
        let (mut first, mut had_it) = (Some(mine), Vec::new());
        // The second one never looks: its turn ends with its lease.
        turns
            .look(&mut first, || {
                had_it.extend(turns.lock().working.iter().map(|one| one.number));
                Ok(())
            })
            .unwrap();
        assert_eq!(had_it.first(), Some(&second));
        assert!(turns.lock().works(number));
        assert_eq!(turns.in_use().taken, 2);
    }

    #[test]
    fn a_helper_has_what_is_idle_and_gives_it_back() {
        let (turns, mut own) = (turns(3), None);
        turns.look(&mut own, goes_on).unwrap();
        let helpers = [turns.help(true).unwrap(), turns.help(true).unwrap()];
        assert_eq!(turns.help(true), None, "nobody is idle");
        assert_eq!((turns.in_use().working, turns.in_use().helping), (3, 2));
        assert!(helpers.iter().all(|one| turns.goes_on_helping(*one)));
        // Another long operation waits: each helper that looks leaves, and it gets the place.
        let number = {
            let mut state = turns.lock();
            let number = state.begin();
            state.waiting.push(Waiting {
                number,
                thread: thread::current(),
                worked: Duration::ZERO,
                since: Instant::now(),
            });
            number
        };
        assert!(!turns.goes_on_helping(helpers[0]));
        let mut state = turns.lock();
        state.end(helpers[0]);
        state.hand_on(Instant::now());
        assert!(state.works(number) && state.waiting.is_empty());
        drop(state);
        assert!(turns.goes_on_helping(helpers[1]));
        // A processor is to be left for short operations.
        turns.lock().are_short_about = true;
        assert!(!turns.goes_on_helping(helpers[1]));
        turns.lock().end(helpers[1]);
        assert_eq!(turns.help(true), None);
    }

    #[test]
    fn a_turn_of_somebody_who_no_longer_looks_is_over() {
        let turns = turns(1);
        let (mut first, mut second) = (None, None);
        turns.look(&mut first, goes_on).unwrap();
        let begun = Instant::now();
        turns.look(&mut second, goes_on).unwrap();
        assert!(begun.elapsed() >= LEASE / 2, "the first one had a lease");
        assert_eq!(turns.in_use().working, 1);
        turns.end(second.unwrap());
        turns.end(first.unwrap());
        assert_eq!(turns.in_use().working, 0);
    }

    #[test]
    fn the_one_that_has_worked_least_and_waited_longest_is_next() {
        let (now, turns) = (Instant::now(), turns(1));
        let waiting = |number, worked_ms, waited_ms| Waiting {
            number,
            thread: thread::current(),
            worked: Duration::from_millis(worked_ms),
            since: now - Duration::from_millis(waited_ms),
        };
        let mut state = turns.lock();
        state.waiting.extend([
            waiting(1, 500, 100),
            waiting(2, 30, 10),
            waiting(3, 10, 10),
            waiting(4, 600, 700),
        ]);
        let mut order = Vec::new();
        for _ in 0..4 {
            state.hand_on(now);
            assert_eq!(state.working.len(), 1);
            let number = state.working[0].number;
            order.push(number);
            state.end(number);
        }
        assert_eq!(order, [4, 3, 2, 1]);
    }

    #[test]
    fn a_processor_is_left_to_short_operations_while_they_are_about() {
        let (turns, mut begun) = (turns(2), 0);
        let mut state = turns.lock();
        let mut now = Instant::now();
        let mut pass = |state: &mut State, operations: u64| {
            begun += operations;
            now += WINDOW;
            state.count(now, Some(begun));
            state.limit()
        };
        assert_eq!(pass(&mut state, 1000), 2, "the first window begins");
        assert_eq!(pass(&mut state, 1000), 1);
        assert_eq!(pass(&mut state, SHORT_MIN), 2);
        // Long operations that begin are no short ones.
        for _ in 0..100 {
            state.begin();
        }
        assert_eq!(pass(&mut state, 100), 2);
        assert_eq!(pass(&mut state, 100), 1);
    }

    #[test]
    fn short_operations_are_about_by_how_many_there_are_at_a_time() {
        let turns = turns(2);
        let mut state = turns.lock();
        let begun = Instant::now();
        state.count(begun, Some(0));
        state.count(begun + 100 * WINDOW, Some(100 * SHORT_MIN));
        assert_eq!(state.limit(), 2, "nobody has looked for long");
        state.count(begun + 101 * WINDOW, Some(200 * SHORT_MIN));
        assert_eq!(state.limit(), 1);
    }
}
