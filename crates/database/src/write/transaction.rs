//! A transaction: a unit of several pieces that one command after the other works in, and that others can end.
//!
//! The commands of a transaction come one at a time; whoever has the session sees to that. Each call of the database takes
//! the unit for as long as it runs, and never for the time between two calls, so that a transaction is ended at once from
//! any thread unless a call runs just then; that call ends it when it returns, and answers NoSuchTransaction.
//! A read that goes on behind the end keeps the snapshot until it is done, and no lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::open_transactions::Entered;
use super::unit::WriteUnit;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// A transaction that is open, or was.
pub struct Transaction {
    /// None once it is committed or has ended.
    state: Mutex<Option<Open>>,
    /// Set before `state` is emptied, and never taken back.
    is_ended: AtomicBool,
    begun: Instant,
    snapshot_lsn: u64,
    replaced_before: u64,
    staged_bytes: AtomicU64,
}

struct Open {
    unit: WriteUnit,
    entered: Entered,
}

impl Transaction {
    pub(super) fn new(unit: WriteUnit, snapshot_lsn: u64, entered: Entered) -> Transaction {
        Transaction {
            begun: entered.begun(),
            replaced_before: entered.replaced_before(),
            state: Mutex::new(Some(Open { unit, entered })),
            is_ended: AtomicBool::new(false),
            snapshot_lsn,
            staged_bytes: AtomicU64::new(0),
        }
    }

    /// When it began.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// The bytes that it has staged.
    pub fn staged_bytes(&self) -> u64 {
        self.staged_bytes.load(Ordering::Relaxed)
    }

    /// Its snapshot has every commit up to this LSN.
    pub fn snapshot_lsn(&self) -> u64 {
        self.snapshot_lsn
    }

    /// The bytes that commits had replaced before its snapshot was made.
    pub(crate) fn replaced_before(&self) -> u64 {
        self.replaced_before
    }

    /// Whether it was committed or ended.
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::SeqCst)
    }

    /// Ends it without a commit, from any thread, as often as anybody likes. What it has staged is gone, and its locks are
    /// free, when this returns, or when the call returns that runs in it. An operation that reads in it must be killed as
    /// well, if it is not to read on.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::SeqCst);
        self.let_go();
    }

    /// Runs a call in the unit. Its own end comes before its outcome.
    pub(crate) fn run<T>(&self, call: impl FnOnce(&mut WriteUnit) -> Result<T>) -> Result<T> {
        let outcome = {
            let mut state = self.state.lock();
            match state.as_mut().filter(|_| !self.is_ended()) {
                Some(open) => open.run(call, &self.staged_bytes),
                None => Err(no_such_transaction()),
            }
        };
        if self.is_ended() {
            self.let_go();
            return Err(no_such_transaction());
        }
        outcome
    }

    /// Takes the unit out, for its commit, and counts it as committed if that succeeds.
    pub(crate) fn commit<T>(&self, commit: impl FnOnce(WriteUnit) -> Result<T>) -> Result<T> {
        let open = self.state.lock().take();
        let was_ended = self.is_ended.swap(true, Ordering::SeqCst);
        let Some(Open { unit, entered }) = open.filter(|_| !was_ended) else {
            return Err(no_such_transaction());
        };
        let committed = commit(unit)?;
        entered.committed();
        Ok(committed)
    }

    /// Drops the unit of a transaction that has ended, unless a call runs in it: that one looks again behind itself.
    fn let_go(&self) {
        let open = self.state.try_lock().and_then(|mut state| state.take());
        drop(open);
    }
}

impl Open {
    fn run<T>(
        &mut self,
        call: impl FnOnce(&mut WriteUnit) -> Result<T>,
        staged_bytes: &AtomicU64,
    ) -> Result<T> {
        let outcome = call(&mut self.unit)?;
        let bytes = self.unit.staged_bytes() as u64;
        staged_bytes.store(bytes, Ordering::Relaxed);
        if self.entered.grown(bytes, self.unit.memory_bytes() as u64) {
            return Ok(outcome);
        }
        // The others end some time: this one may be run again.
        self.unit.run(|_| Err(Error::WriteConflict))
    }
}

fn no_such_transaction() -> Error {
    let message = "the transaction has been aborted or committed";
    Error::invalid(ErrorCode::NO_SUCH_TRANSACTION, message)
}
