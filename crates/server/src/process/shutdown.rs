//! The wish to stop: said once, by a signal or by the shutdown command, and waited for by the main thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The reason of a wish that came by the shutdown command.
pub const BY_COMMAND: &str = "the shutdown command";

#[derive(Default)]
pub struct Shutdown {
    /// Set with `reason`; shared with whoever opens the database, which gives up when it is set.
    is_requested: Arc<AtomicBool>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    reason: Option<String>,
    /// The server has come up: from here on the main thread answers the wish.
    has_started: bool,
}

impl Shutdown {
    /// A wish that is said by whoever sets the flag.
    pub fn of_flag(flag: Arc<AtomicBool>) -> Shutdown {
        Shutdown {
            is_requested: flag,
            ..Shutdown::default()
        }
    }

    /// Notes the wish; the first reason stays.
    pub fn request(&self, reason: &str) {
        let mut state = self.state.lock();
        state.reason.get_or_insert_with(|| reason.to_owned());
        self.is_requested.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// One load: every connection asks between two of its requests.
    pub fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::Acquire)
    }

    /// The flag that `is_requested` reads.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_requested)
    }

    pub fn reason(&self) -> Option<String> {
        self.state.lock().reason.clone()
    }

    /// Notes that the server is up.
    pub fn note_started(&self) {
        self.state.lock().has_started = true;
        self.changed.notify_all();
    }

    /// Waits until the server is up, for `timeout` at most; says whether it is.
    pub fn wait_started(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        while !state.has_started && !self.changed.wait_until(&mut state, deadline).timed_out() {}
        state.has_started
    }

    /// Waits until it is requested and says by whom.
    pub fn wait(&self) -> String {
        let mut state = self.state.lock();
        loop {
            if let Some(reason) = &state.reason {
                return reason.clone();
            }
            self.changed.wait(&mut state);
        }
    }

    /// Waits for `timeout` at most; true when it is requested.
    pub fn wait_for(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        while state.reason.is_none() && !self.changed.wait_until(&mut state, deadline).timed_out() {
        }
        state.reason.is_some()
    }
}
