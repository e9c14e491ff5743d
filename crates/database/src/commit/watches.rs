//! Who waits for the next commit to a collection: readers at the end of a capped collection, until there is more.
//!
//! A reader registers, looks, and waits if it found nothing; a commit wakes the readers of what it wrote once that can be
//! read. None is missed: the reader's registration comes before its look and the commit's write before its question
//! whether anybody waits, with a fence behind the first of each, so that at least one of the two sees the other.
//!
//! A commit to which nobody listens asks one question, a load. The lock is taken by readers, and by commits while there
//! are any.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;

use crate::keyspace::ident::Ident;

#[derive(Default)]
pub(crate) struct Watches {
    /// How many are registered.
    count: AtomicUsize,
    by_ident: Mutex<FxHashMap<Ident, Arc<Watched>>>,
}

/// A collection with readers.
#[derive(Default)]
struct Watched {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Counts the commits that were told.
    commits: u64,
    readers: usize,
}

/// A reader's registration; ends where it is dropped.
pub struct CommitWatch<'w> {
    watches: &'w Watches,
    watched: Arc<Watched>,
    ident: Ident,
    /// The commits that the reader's last look may not have seen begin behind this one.
    seen: u64,
}

impl Watches {
    pub fn register(&self, ident: Ident) -> CommitWatch<'_> {
        let mut by_ident = self.by_ident.lock();
        let watched = Arc::clone(by_ident.entry(ident).or_default());
        let seen = {
            let mut state = watched.state.lock();
            state.readers += 1;
            state.commits
        };
        self.count.fetch_add(1, Ordering::Relaxed);
        drop(by_ident);
        fence(Ordering::SeqCst);
        CommitWatch {
            watches: self,
            watched,
            ident,
            seen,
        }
    }

    /// Whether a commit that can be read now has anybody to tell.
    #[inline]
    pub fn has_readers(&self) -> bool {
        fence(Ordering::SeqCst);
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Wakes the readers of a collection that was written.
    #[cold]
    pub fn wake(&self, ident: Ident) {
        if let Some(watched) = self.by_ident.lock().get(&ident) {
            watched.wake();
        }
    }

    /// Wakes all readers: their collections may have gone.
    #[cold]
    pub fn wake_all(&self) {
        for watched in self.by_ident.lock().values() {
            watched.wake();
        }
    }
}

impl Watched {
    fn wake(&self) {
        self.state.lock().commits += 1;
        self.changed.notify_all();
    }
}

impl CommitWatch<'_> {
    /// Waits until something was committed since the last wait began to return, or since the registration; false when
    /// `until` comes first. What was committed is looked for after this returns.
    pub fn wait_until(&mut self, until: Instant) -> bool {
        let mut state = self.watched.state.lock();
        while state.commits == self.seen {
            if self
                .watched
                .changed
                .wait_until(&mut state, until)
                .timed_out()
                && state.commits == self.seen
            {
                return false;
            }
        }
        self.seen = state.commits;
        true
    }

    /// Like `wait_until`, for a span of time.
    pub fn wait_for(&mut self, limit: Duration) -> bool {
        self.wait_until(Instant::now() + limit)
    }
}

impl Drop for CommitWatch<'_> {
    fn drop(&mut self) {
        let mut by_ident = self.watches.by_ident.lock();
        let is_last = {
            let mut state = self.watched.state.lock();
            state.readers -= 1;
            state.readers == 0
        };
        if is_last {
            by_ident.remove(&self.ident);
        }
        self.watches.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_commit_between_the_look_and_the_wait_is_not_missed() {
        let watches = Watches::default();
        assert!(!watches.has_readers());
        let mut watch = watches.register(Ident(7));
        assert!(watches.has_readers());
        watches.wake(Ident(7));
        assert!(watch.wait_for(LONG));
        watches.wake(Ident(8));
        assert!(!watch.wait_for(Duration::ZERO));
        watches.wake_all();
        assert!(watch.wait_for(LONG));
        drop(watch);
        assert!(!watches.has_readers());
        assert!(watches.by_ident.lock().is_empty());
    }

    #[test]
    fn every_reader_of_a_collection_meets_every_commit() {
        const COMMITS: u64 = 2000;
        let watches = Watches::default();
        // What a commit writes, in place of an engine.
        let written = std::sync::atomic::AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut met = 0;
                    while met < COMMITS {
                        let mut watch = watches.register(Ident(1));
                        loop {
                            let now = written.load(Ordering::Relaxed);
                            if now > met {
                                met = now;
                                break;
                            }
                            assert!(watch.wait_for(LONG), "nobody was woken at {met}");
                        }
                    }
                });
            }
            scope.spawn(|| {
                for commit in 1..=COMMITS {
                    written.store(commit, Ordering::Relaxed);
                    if watches.has_readers() {
                        watches.wake(Ident(1));
                    }
                    if commit % 16 == 0 {
                        thread::yield_now();
                    }
                }
            });
        });
    }
}
