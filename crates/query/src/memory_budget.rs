//! The memory that all operations of the process may hold together.
//!
//! What one operation may hold is bounded (`memory`), and fifty that are each within their bound can still be more than the
//! machine has. So a thread that is to hold more than `FREE_BYTES` takes from one budget first, in steps of `STEP_BYTES`. Where
//! nothing is left it waits for a moment, as long as its operation may go on, and then fails with an error that says so:
//! it is the one that asks for more that fails, and not the process. Who holds much waits longer than who holds little, so that of
//! many that grow together some give way and the others come to their ends.
//!
//! A thread below `FREE_BYTES`, as nearly all are, asks nobody: it costs a comparison that it makes anyway.
//!
//! Caches, an engine's buffers and copies that nobody counts are not taken from the budget, and it shrinks by them, down to a half,
//! so that the process stays within what it was given. They are known by what is in use in the process beyond what was given out:
//! without the free pages that the allocator keeps for the next one who wants some. What was given out and not yet written hides
//! a part of them, so the most of the last seconds counts.
//!
//! Free pages that the allocator keeps are memory of the process too. Where little is left of what the process is to keep to, whoever
//! looks has the allocator give them to the kernel.
//!
//! Leaves out requests that are being read, which have a bound of their own (the server's `request_memory`).

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// A thread holds so much without asking.
pub(crate) const FREE_BYTES: usize = 1 << 20;
/// The budget is given out in multiples of this.
pub(crate) const STEP_BYTES: usize = 1 << 20;
/// Who waits for the budget looks as often whether its operation is to end.
const LOOK: Duration = Duration::from_millis(20);
/// How long is waited, and how much longer for each MiB that is held already.
const WAIT: Duration = Duration::from_millis(250);
const WAIT_A_MIB: Duration = Duration::from_millis(10);

/// Whatever else the process holds, so large a part of the budget can be given out.
const LEAST_PART: usize = 2;
/// The most that the process holds beside the budget is that of one to two of these.
const WINDOW: Duration = Duration::from_secs(5);
/// The allocator keeps free pages as long as the process holds less than so many sixteenths of what it is to keep to.
const PURGED_ABOVE: usize = 13;
/// Less than this part of it is not worth an order to the allocator.
const KEPT_PART: usize = 64;

/// The budget of this process.
pub static BUDGET: MemoryBudget = MemoryBudget::new();

/// Memory that threads take and give back.
#[derive(Debug)]
pub struct MemoryBudget {
    /// As it was set.
    bytes: AtomicUsize,
    /// May be given out now.
    bytes_max: AtomicUsize,
    allocator: OnceLock<Allocator>,
    process: OnceLock<Process>,
    beside: Mutex<Option<Beside>>,
    /// The part of `used` that finished operations hold for replies, which their clients have not taken yet.
    replies: AtomicUsize,
    used: AtomicUsize,
    waiting: AtomicUsize,
    refused: AtomicU64,
    /// Held by who is about to wait, and by who has given something back while somebody waits.
    gate: Mutex<()>,
    freed: Condvar,
}

/// The process as its budget sees it.
pub struct Process {
    /// The memory that the process is to keep to, in bytes: the budget, and what is counted elsewhere at most.
    pub bytes_max: usize,
    /// The memory of its own that the process has, as the kernel counts it; none where nobody knows.
    pub own_bytes: Box<dyn Fn() -> Option<usize> + Send + Sync>,
    /// The part of it that is counted elsewhere.
    pub counted_bytes: Box<dyn Fn() -> usize + Send + Sync>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("bytes_max", &self.bytes_max)
            .finish_non_exhaustive()
    }
}

/// The allocator of the process, as far as it tells what it keeps and can be told to give it up.
#[derive(Clone, Copy, Debug)]
pub struct Allocator {
    /// The bytes of pages that are free and that the kernel does not have back; none where nobody knows.
    pub kept_bytes: fn() -> Option<usize>,
    /// Gives these pages to the kernel.
    pub purge: fn(),
}

/// The bytes that the process holds beside the budget.
#[derive(Debug)]
struct Beside {
    looked: Instant,
    /// The window began.
    begun: Instant,
    most: usize,
    /// The most of the window before.
    most_before: usize,
}

/// The state of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetUse {
    /// The bytes that may be given out.
    pub bytes_max: usize,
    /// The bytes that running operations and open cursors hold.
    pub operation_bytes: usize,
    /// The bytes of replies that clients have not taken yet.
    pub reply_bytes: usize,
    /// The operations that wait for others to give something back.
    pub waiting: usize,
    /// How often an operation has failed because nothing was left.
    pub refused: u64,
}

impl MemoryBudget {
    const fn new() -> MemoryBudget {
        MemoryBudget {
            bytes: AtomicUsize::new(usize::MAX),
            bytes_max: AtomicUsize::new(usize::MAX),
            allocator: OnceLock::new(),
            process: OnceLock::new(),
            beside: Mutex::new(None),
            replies: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            gate: Mutex::new(()),
            freed: Condvar::new(),
        }
    }

    /// Sets how many bytes may be given out. Until then there is no bound.
    pub fn set_bytes_max(&self, bytes: usize) {
        self.bytes.store(bytes, Relaxed);
        self.bytes_max.store(bytes, Relaxed);
    }

    /// Names the allocator of the process. The first call counts; without one nothing is known of free pages.
    pub fn use_allocator(&self, allocator: Allocator) {
        let _ = self.allocator.set(allocator);
    }

    /// From now on the budget shrinks by what the process holds beside it. The first call counts.
    pub fn shrink_within(&self, process: Process) {
        let _ = self.process.set(process);
    }

    /// The bytes of free pages that the allocator of the process keeps.
    pub fn kept_by_allocator(&self) -> usize {
        let allocator = self.allocator.get();
        allocator
            .and_then(|allocator| (allocator.kept_bytes)())
            .unwrap_or(0)
    }

    /// The state of the budget now.
    pub fn in_use(&self) -> BudgetUse {
        let replies = self.replies.load(Relaxed);
        BudgetUse {
            bytes_max: self.bytes_max.load(Relaxed),
            operation_bytes: self.used.load(Relaxed).saturating_sub(replies),
            reply_bytes: replies,
            waiting: self.waiting.load(Relaxed),
            refused: self.refused.load(Relaxed),
        }
    }

    /// Whether somebody waits for others to give something back.
    pub fn is_wanted(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// Takes `bytes` for somebody who holds `held` already. Waits for a moment where they are not there, for as long as
    /// `goes_on` does not fail.
    pub(crate) fn take(
        &self,
        bytes: usize,
        held: usize,
        goes_on: impl Fn() -> Result<()>,
    ) -> Result<()> {
        if self.try_take(bytes) {
            return Ok(());
        }
        let patience = WAIT + WAIT_A_MIB * u32::try_from(held >> 20).unwrap_or(u32::MAX);
        let deadline = Instant::now() + patience;
        self.waiting.fetch_add(1, Relaxed);
        let taken = self.wait(bytes, deadline, goes_on);
        self.waiting.fetch_sub(1, Relaxed);
        taken
    }

    fn wait(
        &self,
        bytes: usize,
        deadline: Instant,
        goes_on: impl Fn() -> Result<()>,
    ) -> Result<()> {
        loop {
            goes_on()?;
            let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            if self.try_take(bytes) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                break;
            }
            drop(self.freed.wait_timeout(gate, LOOK));
        }
        self.refused.fetch_add(1, Relaxed);
        Err(self.exceeded())
    }

    /// Takes `bytes` if they are there.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        self.follow_process(Instant::now());
        let max = self.bytes_max.load(Relaxed);
        let take = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= max);
        self.used.fetch_update(Relaxed, Relaxed, take).is_ok()
    }

    /// Looks what the process holds, if nobody has for a moment: before much memory is written that is counted elsewhere.
    pub fn look(&self) {
        self.follow_process(Instant::now());
    }

    /// Looks what the process holds beside the budget, if nobody has for a moment, and has the allocator give up what it keeps
    /// where the process holds nearly all that it may.
    fn follow_process(&self, now: Instant) {
        let Some(process) = self.process.get() else {
            return;
        };
        // Another thread that looks does it for this one.
        let Ok(mut beside) = self.beside.try_lock() else {
            return;
        };
        let is_fresh = |beside: &Beside| now.saturating_duration_since(beside.looked) < LOOK;
        if beside.as_ref().is_some_and(is_fresh) {
            return;
        }
        let Some(used) = self.bytes_in_use(process) else {
            return;
        };
        let counted = self.used.load(Relaxed) + (process.counted_bytes)();
        let bytes = used.saturating_sub(counted);
        let beside = beside.get_or_insert(Beside {
            looked: now,
            begun: now,
            most: bytes,
            most_before: bytes,
        });
        let max = self.bytes.load(Relaxed);
        let left = max.saturating_sub(beside.look(bytes, now));
        self.bytes_max.store(left.max(max / LEAST_PART), Relaxed);
    }

    /// The memory of the process without the free pages that its allocator keeps, which it gives up where little is left.
    fn bytes_in_use(&self, process: &Process) -> Option<usize> {
        let own = (process.own_bytes)()?;
        let kept = self.kept_by_allocator();
        if own >= process.bytes_max / 16 * PURGED_ABOVE
            && kept >= process.bytes_max / KEPT_PART
            && let Some(allocator) = self.allocator.get()
        {
            (allocator.purge)();
        }
        Some(own.saturating_sub(kept))
    }

    /// Gives back what was taken.
    pub(crate) fn give_back(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "more is given back than was taken");
        if self.is_wanted() {
            drop(self.gate.lock());
            self.freed.notify_all();
        }
    }

    /// Holds what an operation has taken for its reply from now on.
    pub(crate) fn keep_for_reply(&self, bytes: usize) {
        self.replies.fetch_add(bytes, Relaxed);
    }

    /// Counts what is there already and waits with a reply for its client, though nothing be left.
    pub(crate) fn keep_copy(&self, bytes: usize) {
        self.used.fetch_add(bytes, Relaxed);
        self.keep_for_reply(bytes);
    }

    /// Gives back what was held for a reply.
    pub(crate) fn give_back_reply(&self, bytes: usize) {
        let before = self.replies.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "a reply gives back what it held");
        self.give_back(bytes);
    }

    #[cold]
    fn exceeded(&self) -> Error {
        let max = self.bytes_max.load(Relaxed) >> 20;
        let text = format!(
            "the operation needs more memory than is left of the {max} MiB that all operations of this server may hold together"
        );
        Error::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, text)
    }
}

impl Beside {
    /// Notes a look; the most of this window and the one before.
    fn look(&mut self, bytes: usize, now: Instant) -> usize {
        self.looked = now;
        let passed = now.saturating_duration_since(self.begun);
        if passed >= WINDOW {
            // Without a look for a whole window nothing is known of it.
            self.most_before = if passed < 2 * WINDOW {
                self.most
            } else {
                bytes
            };
            self.most = bytes;
            self.begun = now;
        }
        self.most = self.most.max(bytes);
        self.most.max(self.most_before)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn nobody_gets_what_is_not_there_and_who_waits_gets_what_comes_back() {
        let budget = MemoryBudget::new();
        budget.set_bytes_max(100);
        budget.take(60, 0, || Ok(())).unwrap();
        let error = budget.take(41, 0, || Ok(())).unwrap_err();
        assert_eq!(error.code(), ErrorCode::EXCEEDED_MEMORY_LIMIT.0);
        assert_eq!(budget.in_use().refused, 1);
        thread::scope(|scope| {
            // It holds much, and so waits for long.
            let waits = scope.spawn(|| budget.take(80, 1 << 34, || Ok(())).is_ok());
            while budget.in_use().waiting == 0 {
                thread::yield_now();
            }
            assert!(!waits.is_finished());
            budget.give_back(60);
            assert!(waits.join().unwrap());
        });
        assert_eq!(budget.in_use().operation_bytes, 80);
        budget.keep_for_reply(30);
        let shown = budget.in_use();
        assert_eq!((shown.operation_bytes, shown.reply_bytes), (50, 30));
        budget.give_back_reply(30);
        budget.give_back(50);
        let shown = budget.in_use();
        assert_eq!((shown.operation_bytes, shown.reply_bytes), (0, 0));
        assert_eq!(shown.waiting, 0);
    }

    #[test]
    fn a_wait_ends_with_its_operation() {
        let budget = MemoryBudget::new();
        budget.set_bytes_max(1);
        let ended = budget.take(2, 1 << 40, || {
            Err(Error::new(ErrorCode::INTERRUPTED, "killed"))
        });
        assert_eq!(ended.unwrap_err().code(), ErrorCode::INTERRUPTED.0);
        assert_eq!(budget.in_use().refused, 0);
    }

    /// A process that holds what `own` says, and `counted` bytes of it for somebody else.
    fn process(bytes_max: usize, own: &Arc<AtomicUsize>, counted: usize) -> Process {
        let own = Arc::clone(own);
        Process {
            bytes_max,
            own_bytes: Box::new(move || Some(own.load(Relaxed))),
            counted_bytes: Box::new(move || counted),
        }
    }

    /// The bytes that its allocator keeps.
    static KEPT: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn the_budget_shrinks_by_what_the_process_holds_beside_it() {
        let (budget, own) = (MemoryBudget::new(), Arc::new(AtomicUsize::new(300)));
        budget.set_bytes_max(1000);
        budget.use_allocator(Allocator {
            kept_bytes: || Some(KEPT.load(Relaxed)),
            purge: || KEPT.store(0, Relaxed),
        });
        budget.shrink_within(process(1600, &own, 100));
        let begun = Instant::now();
        let max_after = |own_bytes: usize, kept: usize, after: Duration| {
            own.store(own_bytes, Relaxed);
            KEPT.store(kept, Relaxed);
            budget.follow_process(begun + after);
            budget.in_use().bytes_max
        };
        // What is counted elsewhere is not beside it.
        assert_eq!(max_after(400, 0, Duration::ZERO), 700);
        assert!(budget.try_take(600));
        // Given out and not yet written: what it hides is held all the same.
        assert_eq!(max_after(400, 0, LOOK), 700);
        // Copies that nobody has counted.
        assert_eq!(max_after(1200, 0, 2 * LOOK), 500);
        budget.give_back(600);
        // Free, and not yet the kernel's: the next one gets it. What was held lately may come again.
        assert_eq!(max_after(1200, 900, 3 * LOOK), 500);
        assert_eq!(max_after(1200, 900, WINDOW), 500);
        assert_eq!(max_after(1200, 900, 2 * WINDOW), 800);
        // Nobody has looked for long; whatever is held, a half is there.
        assert_eq!(max_after(1200, 0, 5 * WINDOW), 500);
        // A look follows a look only after a moment.
        let later = 10 * WINDOW;
        assert_eq!(max_after(100, 0, later), 1000);
        assert_eq!(max_after(1200, 0, later + LOOK / 2), 1000);
        assert_eq!(max_after(1200, 0, later + LOOK), 500);
        // Free pages are kept until the process holds nearly all that it may.
        max_after(1200, 50, later + 2 * LOOK);
        assert_eq!(KEPT.load(Relaxed), 50);
        max_after(1300, 50, later + 3 * LOOK);
        assert_eq!(KEPT.load(Relaxed), 0);
    }
}
