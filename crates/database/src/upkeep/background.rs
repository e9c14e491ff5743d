//! The threads that work for an open database, and how they are told to end.
//!
//! A thread that panics is started again: what it works from is what the engine and the journal say, so it begins anew
//! as after a restart. Without its thread a server would free no journal, give back no space, and say nothing of it. A
//! panic inside a commit ends the process before it comes here (`quarry_journal::AbortOnPanic`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long a thread that panicked rests before it is started again.
const RESTART_AFTER: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 1000 });

/// Threads that end with the database. `end` waits for them.
#[derive(Default)]
pub struct Background {
    stop: Arc<Stop>,
    panics: Arc<AtomicU64>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Tells a background thread that it is to end.
#[derive(Default)]
pub struct Stop {
    is_set: Mutex<bool>,
    set: Condvar,
}

impl Background {
    /// Starts a named thread; `work` is to return soon after its `Stop` is set, and is called again when it panics. False
    /// if there is no room for the thread.
    pub fn start(&self, name: &str, work: impl Fn(&Stop) + Send + 'static) -> bool {
        let (stop, panics) = (Arc::clone(&self.stop), Arc::clone(&self.panics));
        let again_and_again = move || {
            // The locks that `work` takes do not poison, and it keeps nothing over a call.
            while catch_unwind(AssertUnwindSafe(|| work(&stop))).is_err() {
                panics.fetch_add(1, Ordering::Relaxed);
                if stop.wait(RESTART_AFTER) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(again_and_again);
        // A machine without room for one more thread serves on; what the thread would do waits for the next start.
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        let is_started = thread.is_ok();
        threads.extend(thread);
        is_started
    }

    /// How often a thread has panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Ends every thread. A panic in one was printed where it happened.
    pub fn end(&self) {
        *self.stop.is_set.lock() = true;
        self.stop.set.notify_all();
        let threads: Vec<JoinHandle<()>> = self.threads.lock().drain(..).collect();
        for thread in threads {
            let _ = thread.join();
        }
    }

    pub fn stop(&self) -> Arc<Stop> {
        Arc::clone(&self.stop)
    }
}

impl Stop {
    pub fn is_set(&self) -> bool {
        *self.is_set.lock()
    }

    /// Waits for `time`; true at once when it is set.
    pub fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut is_set = self.is_set.lock();
        while !*is_set && !self.set.wait_until(&mut is_set, until).timed_out() {}
        *is_set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_thread_ends_at_once() {
        let background = Background::default();
        let began = Instant::now();
        assert!(background.start("test", |stop| while !stop.wait(Duration::from_secs(60)) {}));
        background.end();
        assert!(began.elapsed() < Duration::from_secs(30));
        assert!(background.stop().is_set());
    }

    #[test]
    fn a_thread_that_panics_is_started_again() {
        let (begins, begun) = std::sync::mpsc::channel();
        let background = Background::default();
        background.start("test", move |_| {
            begins.send(()).unwrap();
            panic!("on purpose, printed by this test");
        });
        for _ in 0..3 {
            begun.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        background.end();
        assert!(background.panics() >= 3);
    }
}
