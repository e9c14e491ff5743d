//! Whether writes are refused: a full disk, an engine that fails, a journal that has latched.
//!
//! Damage that was met in the background refuses them for good (`damage`).
//!
//! Each refused write is answered with its error; whoever runs the server hears of it once when it begins and once when
//! it is over. It is over with the first write that is taken a while after the last refused one: on a disk that is
//! nearly full small writes pass between the others.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::Error;

/// So long no write must be refused before it counts as over.
const QUIET: Duration = if cfg!(test) {
    Duration::from_millis(20)
} else {
    Duration::from_secs(1)
};

/// Whether writes are taken, as of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WritesNow {
    /// Writes are refused from now on.
    Refused {
        /// The text says why.
        reason: String,
    },
    /// Writes are refused for good: damage was met in the background.
    Damaged {
        /// The text says where.
        reason: String,
    },
    /// Writes are taken again.
    Taken {
        /// How many were refused meanwhile.
        refused: u64,
    },
}

/// The writes refused since the start, and why writes are refused now, if they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedWrites {
    /// How many writes were refused.
    pub count: u64,
    /// Why writes are refused now; none while they are taken.
    pub reason: Option<String>,
}

/// The function that is told of a change. The writer that it happened to calls it.
pub type OnChange = Box<dyn Fn(&WritesNow) + Send + Sync>;

#[derive(Default)]
pub struct Refusals {
    count: AtomicU64,
    /// Changes under `state`.
    is_refusing: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    refusing: Option<Refusing>,
    /// Why no write is taken ever again, if that is so.
    damage: Option<String>,
    on_change: Option<OnChange>,
}

struct Refusing {
    reason: String,
    count: u64,
    last: Instant,
}

impl Refusals {
    /// Damage that was met before is told immediately.
    pub fn on_change(&self, on_change: OnChange) {
        let mut state = self.state.lock();
        state.on_change = Some(on_change);
        if let Some(reason) = state.damage.clone() {
            state.tell(&WritesNow::Damaged { reason });
        }
    }

    /// Notes that writes are refused from now on, and why. Called once.
    pub fn damaged(&self, reason: &str) {
        let mut state = self.state.lock();
        let reason = reason.to_owned();
        state.damage = Some(reason.clone());
        state.tell(&WritesNow::Damaged { reason });
    }

    pub fn so_far(&self) -> RefusedWrites {
        let state = self.state.lock();
        let refusing = state.refusing.as_ref();
        RefusedWrites {
            count: self.count.load(Ordering::Relaxed),
            reason: (state.damage.clone()).or(refusing.map(|refusing| refusing.reason.clone())),
        }
    }

    /// Notes a write that failed, if that was not its own fault, and passes its error on.
    pub fn failed(&self, error: Error) -> Error {
        if matches!(
            error,
            Error::WritesRefused { .. } | Error::OutcomeUnknown(_)
        ) {
            self.refused(&error);
        }
        error
    }

    #[cold]
    fn refused(&self, error: &Error) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        if state.damage.is_some() {
            return;
        }
        if let Some(refusing) = &mut state.refusing {
            refusing.count += 1;
            refusing.last = Instant::now();
            return;
        }
        let reason = error.to_string();
        state.refusing = Some(Refusing {
            reason: reason.clone(),
            count: 1,
            last: Instant::now(),
        });
        self.is_refusing.store(true, Ordering::Relaxed);
        state.tell(&WritesNow::Refused { reason });
    }

    /// Notes a write that was taken.
    #[inline]
    pub fn taken(&self) {
        if self.is_refusing.load(Ordering::Relaxed) {
            self.end_if_quiet();
        }
    }

    #[cold]
    fn end_if_quiet(&self) {
        let mut state = self.state.lock();
        let over = |refusing: &mut Refusing| refusing.last.elapsed() >= QUIET;
        if let Some(refusing) = state.refusing.take_if(over) {
            self.is_refusing.store(false, Ordering::Relaxed);
            state.tell(&WritesNow::Taken {
                refused: refusing.count,
            });
        }
    }
}

impl State {
    fn tell(&self, now: &WritesNow) {
        if let Some(on_change) = &self.on_change {
            on_change(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn full() -> Error {
        Error::WritesRefused {
            message: "no space left".into(),
            no_space: true,
        }
    }

    #[test]
    fn a_change_is_told_once() {
        let (refusals, told) = (Refusals::default(), Arc::new(Mutex::new(Vec::new())));
        let tells = Arc::clone(&told);
        refusals.on_change(Box::new(move |now| tells.lock().push(now.clone())));
        refusals.taken();
        refusals.failed(Error::ShuttingDown);
        assert_eq!((told.lock().len(), refusals.so_far().count), (0, 0));
        refusals.failed(full());
        refusals.taken();
        refusals.failed(full());
        let reason = full().to_string();
        assert_eq!(refusals.so_far().reason, Some(reason.clone()));
        let begun = WritesNow::Refused { reason };
        let so_far = told.lock().clone();
        assert_eq!(
            so_far,
            std::slice::from_ref(&begun),
            "a write in between is no end"
        );
        let deadline = Instant::now() + Duration::from_secs(20);
        while refusals.so_far().reason.is_some() && Instant::now() < deadline {
            refusals.taken();
        }
        assert_eq!(*told.lock(), [begun, WritesNow::Taken { refused: 2 }]);
        let so_far = RefusedWrites {
            count: 2,
            reason: None,
        };
        assert_eq!(refusals.so_far(), so_far);
    }
}
