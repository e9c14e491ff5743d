//! The lock and the counters that readers and the leader meet at: the system's, or, with the feature `shuttle`, those of a
//! scheduler that tries their interleavings (`model`).

#[cfg(not(feature = "shuttle"))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(feature = "shuttle"))]
pub(super) use parking_lot::Mutex;

#[cfg(feature = "shuttle")]
pub(super) use shuttle::sync::atomic::{AtomicU64, Ordering};

/// A lock as `parking_lot` has it.
#[cfg(feature = "shuttle")]
pub(super) struct Mutex<T>(shuttle::sync::Mutex<T>);

#[cfg(feature = "shuttle")]
impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        (self.0.lock()).unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
