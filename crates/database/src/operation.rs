//! One running operation as the layers below the commands see it: how it can be interrupted, and what it examined.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::error::{Error, Result};
use crate::plan_summary::PlanSummary;
use crate::progress::Progress;
use crate::sessions::retryable_write::RetryableWrite;

/// How many steps of a loop may pass between two looks at the clock.
pub const STEPS_BETWEEN_CHECKS: u32 = 128;

/// Nobody wants the operation to end.
const GOES_ON: u8 = 0;
/// killOp, or the end of its session or cursor.
const KILLED: u8 = 1;
/// The server stops.
const STOPPED: u8 = 2;

/// Is told how far a piece of work has come, on the thread that does it.
pub type OnProgress = Box<dyn Fn(&Progress) + Send + Sync>;

/// Shared between the thread that runs the operation and those that list or kill it.
#[derive(Default)]
pub struct Operation {
    /// Why the operation is to end; the first reason stays.
    wish: AtomicU8,
    /// The documents that it writes need not suit the validators of collections.
    bypasses_validation: AtomicBool,
    deadline: Option<Instant>,
    disconnected: Option<Box<dyn Fn() -> bool + Send + Sync>>,
    /// It goes on where its client has gone.
    outlives_client: bool,
    /// Ends a wait of the operation, if it waits for something that may take long.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Index keys that its plans looked at; written by its own thread alone.
    pub keys_examined: AtomicU64,
    /// Documents that its plans looked at; written by its own thread alone.
    pub docs_examined: AtomicU64,
    /// The plan of the operation's first read.
    pub plan: OnceLock<PlanSummary>,
    /// How far its long piece of work has come, if it has one.
    progress: OnceLock<Box<Progress>>,
    /// Is told of each step of that work.
    on_progress: OnceLock<OnProgress>,
    /// The command of a session that this is, where its statements are recorded with what they commit.
    retryable: OnceLock<Box<RetryableWrite>>,
}

impl Operation {
    /// An operation that ends at `deadline`, if there is one.
    #[inline]
    pub fn new(deadline: Option<Instant>) -> Operation {
        Operation {
            deadline,
            ..Operation::default()
        }
    }

    /// `gone` is asked, rarely, whether the client has closed its connection.
    pub fn with_disconnect(mut self, gone: Box<dyn Fn() -> bool + Send + Sync>) -> Operation {
        self.disconnected = Some(gone);
        self
    }

    /// The next operation of the same client, in the place of one that is over and that nobody else has.
    #[inline]
    pub fn renew(&mut self, deadline: Option<Instant>, outlives_client: bool) {
        *self = Operation {
            deadline,
            outlives_client,
            disconnected: self.disconnected.take(),
            ..Operation::default()
        };
    }

    /// Counts what its plans looked at. Only the thread that runs the operation does.
    #[inline]
    pub fn count_examined(&self, keys: u64, docs: u64) {
        for (counter, more) in [(&self.keys_examined, keys), (&self.docs_examined, docs)] {
            counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
    }

    /// From now on the statements of the operation are recorded with what they commit. Called once, by whoever has the
    /// session for this operation alone.
    pub fn record_statements(&self, write: RetryableWrite) {
        let is_first = self.retryable.set(Box::new(write)).is_ok();
        assert!(is_first, "an operation is one command of one session");
    }

    /// The command whose statements are recorded; none for most operations.
    #[inline]
    pub fn retryable(&self) -> Option<&RetryableWrite> {
        self.retryable.get().map(Box::as_ref)
    }

    /// Has `on_progress` told of each step of the operation's long piece of work. The first call counts.
    pub fn on_progress(&self, on_progress: OnProgress) {
        let _ = self.on_progress.set(on_progress);
    }

    /// How far the operation's long piece of work has come; none where it has not begun one.
    pub fn progress(&self) -> Option<&Progress> {
        self.progress.get().map(Box::as_ref)
    }

    /// The operation begins its long piece of work, of so many steps.
    pub(crate) fn begin_progress(&self, name: &'static str, total: u64) {
        let _ = self.progress.set(Box::new(Progress::new(name, total)));
    }

    /// Counts steps of the work that has begun.
    pub(crate) fn advance(&self, steps: u64) {
        let Some(progress) = self.progress() else {
            return;
        };
        progress.advance(steps);
        if let Some(on_progress) = self.on_progress.get() {
            on_progress(progress);
        }
    }

    /// From now on what the operation writes need not suit the validators of collections.
    pub fn bypass_validation(&self) {
        self.bypasses_validation.store(true, Ordering::Relaxed);
    }

    /// Whether what the operation writes need not suit the validators of collections.
    pub fn bypasses_validation(&self) -> bool {
        self.bypasses_validation.load(Ordering::Relaxed)
    }

    /// Ends the operation for killOp.
    pub fn kill(&self) {
        self.end_for(KILLED);
    }

    /// Ends the operation because the server stops: its client is told so, and asks another server.
    pub fn stop(&self) {
        self.end_for(STOPPED);
    }

    fn end_for(&self, why: u8) {
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = (self.wish).compare_exchange(GOES_ON, why, success, failure);
        // Whoever begins to wait sees the wish, or is seen here.
        fence(Ordering::SeqCst);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// `wake` is called from now on when somebody ends the operation. Whoever is to wait calls this, then `check`, and then
    /// waits for what `wake` ends. The first one stays: an operation waits for one thing, again and again perhaps.
    pub fn wake_with(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = self.wake.set(wake);
        fence(Ordering::SeqCst);
    }

    /// Whether the operation is to end, for killOp or because the server stops.
    pub fn is_killed(&self) -> bool {
        self.wish.load(Ordering::Relaxed) != GOES_ON
    }

    /// When the operation has run out of time.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Fails when the operation was killed, has run out of time, or has lost its client.
    pub fn check(&self) -> Result<()> {
        match self.wish.load(Ordering::Relaxed) {
            GOES_ON => {}
            STOPPED => return Err(Error::Stopped),
            _ => return Err(Error::Interrupted),
        }
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            return Err(Error::MaxTimeExpired);
        }
        if !self.outlives_client && self.disconnected.as_ref().is_some_and(|gone| gone()) {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    /// `check`, every so many steps of a loop.
    #[inline]
    pub fn step(&self, steps: &mut u32) -> Result<()> {
        *steps += 1;
        if *steps < STEPS_BETWEEN_CHECKS {
            return Ok(());
        }
        *steps = 0;
        self.check()
    }
}

thread_local! {
    static RUNNING: RefCell<Option<Arc<Operation>>> = const { RefCell::new(None) };
}

/// Says which operation runs on this thread, until it is dropped: for waits and long work far below the places that know
/// the operation, such as a commit that waits for a stalled engine.
#[must_use = "the operation is forgotten where it is dropped"]
pub struct OperationGuard {
    _stays_on_its_thread: PhantomData<*const ()>,
}

/// Makes the operation the one that runs on this thread, until the guard is dropped.
pub fn run_as(operation: Arc<Operation>) -> OperationGuard {
    RUNNING.set(Some(operation));
    OperationGuard {
        _stays_on_its_thread: PhantomData,
    }
}

impl Drop for OperationGuard {
    fn drop(&mut self) {
        RUNNING.set(None);
    }
}

/// Does work that has to be done although the operation that runs on this thread was killed or is out of time.
pub fn run_unbound<T>(work: impl FnOnce() -> T) -> T {
    let suspended = Suspended(RUNNING.take());
    let done = work();
    drop(suspended);
    done
}

/// An operation that nobody asks for until this is dropped, by a panic too.
struct Suspended(Option<Arc<Operation>>);

impl Drop for Suspended {
    fn drop(&mut self) {
        RUNNING.set(self.0.take());
    }
}

/// Fails when the operation that runs on this thread is to end. Without one nothing ends.
pub fn check_running() -> Result<()> {
    RUNNING.with_borrow(|running| match running {
        Some(operation) => operation.check(),
        None => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_to_be_done_is_not_ended_with_its_operation() {
        let operation = Arc::new(Operation::default());
        let running = run_as(Arc::clone(&operation));
        operation.kill();
        assert!(check_running().is_err());
        assert!(run_unbound(check_running).is_ok());
        assert!(
            check_running().is_err(),
            "it is the operation's thread again"
        );
        drop(running);
        assert!(check_running().is_ok());
    }
}
