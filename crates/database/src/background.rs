//! The threads that work for an open database, and how they are told to end.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Threads that end with the database. `end` waits for them.
#[derive(Default)]
pub struct Background {
    stop: Arc<Stop>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Tells a background thread that it is to end.
#[derive(Default)]
pub struct Stop {
    is_set: Mutex<bool>,
    set: Condvar,
}

impl Background {
    /// Starts a named thread; `work` is to return soon after its `Stop` is set. False if there is no room for it.
    pub fn start(&self, name: &str, work: impl FnOnce(&Stop) + Send + 'static) -> bool {
        let stop = Arc::clone(&self.stop);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&stop));
        // A machine without room for one more thread serves on; what the thread would do waits for the next start.
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        let is_started = thread.is_ok();
        threads.extend(thread);
        is_started
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
}
