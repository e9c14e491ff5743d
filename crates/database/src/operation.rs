//! One running operation as the layers below the commands see it: how it can be interrupted, and what it examined.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::error::{Error, Result};
use crate::plan_summary::PlanSummary;

/// How many steps of a loop may pass between two looks at the clock.
pub const STEPS_BETWEEN_CHECKS: u32 = 128;

/// Shared between the thread that runs the operation and those that list or kill it.
#[derive(Default)]
pub struct Operation {
    killed: AtomicBool,
    awaits_sync: AtomicBool,
    commits_once: AtomicBool,
    deadline: Option<Instant>,
    disconnected: Option<Box<dyn Fn() -> bool + Send + Sync>>,
    pub keys_examined: AtomicU64,
    pub docs_examined: AtomicU64,
    /// Of several reads of one operation the first.
    pub plan: OnceLock<PlanSummary>,
}

impl Operation {
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

    pub fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
    }

    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    /// What the operation commits will be waited for until it is durable, so that its sync may begin early.
    pub fn await_sync(&self) {
        self.awaits_sync.store(true, Ordering::Relaxed);
    }

    /// The same for an operation that commits once and then only waits.
    pub fn await_sync_alone(&self) {
        self.await_sync();
        self.commits_once.store(true, Ordering::Relaxed);
    }

    pub fn awaits_sync(&self) -> bool {
        self.awaits_sync.load(Ordering::Relaxed)
    }

    pub fn commits_once(&self) -> bool {
        self.commits_once.load(Ordering::Relaxed)
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Fails when the operation was killed, has run out of time, or has lost its client.
    pub fn check(&self) -> Result<()> {
        if self.is_killed() {
            return Err(Error::Interrupted);
        }
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            return Err(Error::MaxTimeExpired);
        }
        if self.disconnected.as_ref().is_some_and(|gone| gone()) {
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
