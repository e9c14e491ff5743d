//! A stop of all writes, for somebody who copies the files: `fsync` with `lock: true`.
//!
//! Writers meet it where they meet an engine that is stalled: a leader is refused before it writes anything, and each writer of its
//! group waits by itself, without the turn, until the stop is over, somebody ends its operation, or its client goes. A commit that
//! meets no stop pays one load a group.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error::{Error, Result};

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

    /// How many ask for it; whoever has this begins and ends it alone. Gives up where somebody has it for longer than `timeout`:
    /// who locks files waits for engine and disk.
    pub fn try_count(&self, timeout: Duration) -> Option<MutexGuard<'_, u64>> {
        self.count.try_lock_for(timeout)
    }

    /// Counts one more, unless the server stops: then the count comes back, and whoever began the stop is to end it.
    pub fn keep<'s>(
        &'s self,
        mut count: MutexGuard<'s, u64>,
    ) -> std::result::Result<u64, MutexGuard<'s, u64>> {
        // Held until the count is free: who begins to close either finds the lock and gives it up, or is seen here.
        let state = self.state.lock();
        if state.is_closing {
            return Err(count);
        }
        *count += 1;
        let locks = *count;
        drop(count);
        drop(state);
        Ok(locks)
    }

    /// From now on no group is begun.
    pub fn begin(&self) {
        self.is_on.store(true, Ordering::SeqCst);
    }

    /// Waits until the checkpoint thread works no more, for `timeout` at most; whether it does not.
    pub fn upkeep_has_ended(&self, timeout: Duration) -> bool {
        self.upkeep.try_lock_for(timeout).is_some()
    }

    /// Lets writers go on.
    pub fn end(&self) {
        self.is_on.store(false, Ordering::SeqCst);
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    /// From now on no stop is begun, because the server stops, and who is just beginning one gives it up.
    pub fn begin_to_close(&self) {
        self.state.lock().is_closing = true;
    }

    /// Whether the server stops.
    pub fn is_closing(&self) -> bool {
        self.state.lock().is_closing
    }

    /// Ends it for good: who waits gets an error, because the server stops.
    pub fn close(&self) {
        self.begin_to_close();
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
