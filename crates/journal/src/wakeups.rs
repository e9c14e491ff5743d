//! Who is woken besides the writers of a group: tailing readers, and the two background threads.
//! The commit path pays one load for each while nobody waits.

use std::time::{Duration, Instant};

use crate::primitives::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::primitives::{Condvar, Mutex};

pub(crate) struct Wakeups {
    applied_lsn: AtomicU64,
    tails: AtomicU32,
    tail_lock: Mutex<()>,
    tail_moved: Condvar,
    sync: Signal,
    space: Signal,
    closing: AtomicBool,
}

impl Wakeups {
    pub fn new(applied_lsn: u64) -> Self {
        Wakeups {
            applied_lsn: AtomicU64::new(applied_lsn),
            tails: AtomicU32::new(0),
            tail_lock: Mutex::new(()),
            tail_moved: Condvar::new(),
            sync: Signal::default(),
            space: Signal::default(),
            closing: AtomicBool::new(false),
        }
    }

    pub fn applied_lsn(&self) -> u64 {
        self.applied_lsn.load(Ordering::SeqCst)
    }

    pub fn note_applied(&self, lsn: u64) {
        self.applied_lsn.store(lsn, Ordering::SeqCst);
        self.notify_tails();
    }

    pub fn notify_tails(&self) {
        if self.tails.load(Ordering::SeqCst) > 0 {
            drop(self.tail_lock.lock());
            self.tail_moved.notify_all();
        }
    }

    /// Sleeps until `is_there` or the time is over; says whether it is there.
    pub fn wait_for(&self, timeout: Duration, is_there: &dyn Fn() -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        self.tails.fetch_add(1, Ordering::SeqCst);
        let mut lock = self.tail_lock.lock();
        while !is_there() && !self.is_closing() {
            if self.tail_moved.wait_until(&mut lock, deadline).timed_out() {
                break;
            }
        }
        drop(lock);
        self.tails.fetch_sub(1, Ordering::SeqCst);
        is_there()
    }

    pub fn request_sync(&self) {
        self.sync.raise();
    }

    pub fn request_space(&self) {
        self.space.raise();
    }

    /// Sleeps until a sync is asked for, at most `interval`; false when the journal closes.
    pub fn wait_sync(&self, interval: Option<Duration>) -> bool {
        self.sync.wait(interval);
        !self.is_closing()
    }

    /// Sleeps until a segment is wanted, at most `interval`; false when the journal closes.
    pub fn wait_space(&self, interval: Option<Duration>) -> bool {
        self.space.wait(interval);
        !self.is_closing()
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    pub fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.sync.raise();
        self.space.raise();
        self.notify_tails();
    }
}

/// A flag that one thread sleeps on. Raising it twice is raising it once.
#[derive(Default)]
struct Signal {
    raised: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Signal {
    fn raise(&self) {
        if !self.raised.swap(true, Ordering::SeqCst) {
            drop(self.lock.lock());
            self.changed.notify_one();
        }
    }

    fn wait(&self, interval: Option<Duration>) {
        let mut lock = self.lock.lock();
        while !self.raised.load(Ordering::SeqCst) {
            match interval {
                None => self.changed.wait(&mut lock),
                Some(interval) => {
                    if self.changed.wait_for(&mut lock, interval).timed_out() {
                        break;
                    }
                }
            }
        }
        self.raised.store(false, Ordering::SeqCst);
    }
}
