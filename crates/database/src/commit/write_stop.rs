//! A stop of all writes, for somebody who copies the files: `fsync` with `lock: true`.
//!
//! Writers meet it where they meet an engine that is stalled: a leader is refused before it writes anything, and each writer of its
//! group waits by itself, without the turn, until the stop is over, somebody ends its operation, or its client goes. A commit that
//! meets no stop pays one load a group.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error::{Error, Result};

/// A stop of the server waits so long for somebody who is just locking files.
const COUNT_WAIT: Duration = Duration::from_secs(1);

/// Lock order: `count`, then `upkeep`; `state` is taken last.
#[derive(Default)]
pub struct WriteStop {
    is_on: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    /// How many have asked for the stop and not given it up. Held while it is begun and ended.
    count: Mutex<u64>,
    /// Held while the checkpoint thread works on files.
    upkeep: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// The server stops: who waits is told so.
    is_closing: bool,
}

impl WriteStop {
    /// Whether writes stand still.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// How many ask for it; whoever has this begins and ends it alone.
    pub fn count(&self) -> MutexGuard<'_, u64> {
        self.count.lock()
    }

    /// Like `count`, but gives up where somebody has it for long: who locks files waits for engine and disk.
    pub fn try_count(&self) -> Option<MutexGuard<'_, u64>> {
        self.count.try_lock_for(COUNT_WAIT)
    }

    /// From now on no group is begun. Returns when the checkpoint thread works no more.
    pub fn begin(&self) {
        self.is_on.store(true, Ordering::SeqCst);
        drop(self.upkeep.lock());
    }

    /// Lets writers go on.
    pub fn end(&self) {
        self.is_on.store(false, Ordering::SeqCst);
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    /// Ends it for good: who waits gets an error, because the server stops.
    pub fn close(&self) {
        self.state.lock().is_closing = true;
        self.end();
    }

    /// Waits for the end of the stop, for `timeout` at most. False where there is none.
    pub fn wait(&self, timeout: Duration) -> Result<bool> {
        if !self.is_on() {
            return Ok(false);
        }
        let mut state = self.state.lock();
        if self.is_on() {
            self.changed.wait_for(&mut state, timeout);
        }
        match state.is_closing {
            true => Err(Error::ShuttingDown),
            false => Ok(true),
        }
    }

    /// The right to work on files, for one tick of the checkpoint thread; none while they are to stand still.
    pub fn upkeep_turn(&self) -> Option<MutexGuard<'_, ()>> {
        let turn = self.upkeep.lock();
        (!self.is_on()).then_some(turn)
    }
}
