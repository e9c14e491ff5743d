//! The wish to stop: said once, by a signal or by the shutdown command, and waited for by the main thread.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

#[derive(Default)]
pub struct Shutdown {
    reason: Mutex<Option<String>>,
    requested: Condvar,
}

impl Shutdown {
    pub fn request(&self, reason: &str) {
        self.reason.lock().get_or_insert_with(|| reason.to_owned());
        self.requested.notify_all();
    }

    pub fn is_requested(&self) -> bool {
        self.reason.lock().is_some()
    }

    /// Waits until it is requested and says by whom.
    pub fn wait(&self) -> String {
        let mut reason = self.reason.lock();
        loop {
            if let Some(reason) = &*reason {
                return reason.clone();
            }
            self.requested.wait(&mut reason);
        }
    }

    /// Waits for `timeout` at most; true when it is requested.
    pub fn wait_for(&self, timeout: Duration) -> bool {
        let mut reason = self.reason.lock();
        if reason.is_none() {
            self.requested.wait_for(&mut reason, timeout);
        }
        reason.is_some()
    }
}
