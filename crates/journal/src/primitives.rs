//! The locks, atomics and waits that the threads of a commit meet at: the system's, or, with the feature `shuttle`, those of
//! a scheduler that tries their interleavings one after another (`tests/model.rs`).
//!
//! Shuttle rather than loom: what is to be found are lost wake-ups, turns given twice and writers that overtake, which need
//! many steps of several threads; loom tries all schedules of programs much smaller than these. Shuttle knows no weaker
//! order of memory than the sequential one, so that orderings are still argued where they stand.
//!
//! Only what is held or watched while another thread may run is here. Locks that are held over nothing of this module, as
//! those of the segments' table, stay the system's.

#[cfg(not(feature = "shuttle"))]
mod of_the_system {
    pub(crate) use std::sync::atomic;
    pub(crate) use std::thread::yield_now;

    pub(crate) use atomic_wait::{wait, wake_all, wake_one};
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

    /// A number that threads wait for another value of.
    pub(crate) type Word = atomic::AtomicU32;
}

#[cfg(not(feature = "shuttle"))]
pub(crate) use of_the_system::*;

#[cfg(feature = "shuttle")]
mod of_the_models {
    use std::ops::{Deref, DerefMut};
    use std::sync::PoisonError;
    use std::time::{Duration, Instant};

    use shuttle::sync as scheduled;
    pub(crate) use shuttle::sync::atomic;
    pub(crate) use shuttle::thread::yield_now;

    use self::atomic::{AtomicU32, Ordering};

    /// A lock as `parking_lot` has it.
    #[derive(Default)]
    pub(crate) struct Mutex<T>(scheduled::Mutex<T>);

    pub(crate) struct MutexGuard<'m, T>(Option<scheduled::MutexGuard<'m, T>>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Mutex(scheduled::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            let guard = self.0.lock();
            MutexGuard(Some(guard.unwrap_or_else(PoisonError::into_inner)))
        }

        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let guard = self.0.try_lock().ok()?;
            Some(MutexGuard(Some(guard)))
        }

        pub fn get_mut(&mut self) -> &mut T {
            (self.0.get_mut()).unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_deref().expect("it is empty only while it waits")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            (self.0.as_deref_mut()).expect("it is empty only while it waits")
        }
    }

    /// A condition as `parking_lot` has it. No time passes in a model: nobody is woken for it.
    #[derive(Default)]
    pub(crate) struct Condvar(scheduled::Condvar);

    pub(crate) struct Untimed;

    impl Untimed {
        pub fn timed_out(&self) -> bool {
            false
        }
    }

    impl Condvar {
        pub fn new() -> Self {
            Condvar::default()
        }

        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let inner = guard.0.take().expect("it is empty only while it waits");
            let inner = self.0.wait(inner);
            guard.0 = Some(inner.unwrap_or_else(PoisonError::into_inner));
        }

        pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) -> Untimed {
            self.wait(guard);
            Untimed
        }

        pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _deadline: Instant) -> Untimed {
            self.wait(guard);
            Untimed
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// A number that threads wait for another value of, as on a futex: it is compared and slept on in one step.
    #[derive(Default)]
    pub(crate) struct Word {
        value: AtomicU32,
        sleeping: scheduled::Mutex<()>,
        woken: scheduled::Condvar,
    }

    impl Word {
        pub fn new(value: u32) -> Self {
            let word = Word::default();
            word.value.store(value, Ordering::SeqCst);
            word
        }

        pub fn get_mut(&mut self) -> &mut u32 {
            self.value.get_mut()
        }
    }

    impl Deref for Word {
        type Target = AtomicU32;

        fn deref(&self) -> &AtomicU32 {
            &self.value
        }
    }

    pub(crate) fn wait(word: &Word, seen: u32) {
        let sleeping = word.sleeping.lock();
        let sleeping = sleeping.unwrap_or_else(PoisonError::into_inner);
        if word.value.load(Ordering::SeqCst) == seen {
            drop(word.woken.wait(sleeping));
        }
    }

    pub(crate) fn wake_one(word: &Word) {
        drop(word.sleeping.lock());
        word.woken.notify_one();
    }

    pub(crate) fn wake_all(word: &Word) {
        drop(word.sleeping.lock());
        word.woken.notify_all();
    }
}

#[cfg(feature = "shuttle")]
pub(crate) use of_the_models::*;
