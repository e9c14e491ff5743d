//! The memory for large requests, shared by all connections.
//!
//! A small request is read as it comes. Before a large one is read further its connection takes a share for the whole of
//! it, packed and unpacked, and waits where there is none left, which the client feels as a slow network. So what all
//! connections together hold for requests is bounded by `REQUEST_BYTES_MAX` and a small buffer each, and nobody waits with
//! half a request in hand for another's half. Who came first is served first: a large request is not passed for ever by
//! smaller ones; who has waited for `WAIT_MAX` is turned away. Nobody holds a share while it waits at its client's wish (an
//! awaitable hello, a tailable cursor, a stream of replies): such a command answers immediately. Nor does anybody, while
//! others wait, for a client that sends too slowly (`inbox`: its connection ends) or takes its reply too slowly (`outbox`:
//! the executed request goes, the reply stays). Otherwise the share is kept while the connection's buffers are, and given
//! up at the latest when the connection is idle, or after the request when somebody waits.
//!
//! A request that waits here is no operation yet: nobody knows what it asks for, so that currentOp does not show it and
//! killOp cannot name it. Its wait ends when its client has gone, when the server stops, and after `WAIT_MAX`.
//!
//! Replies are not in it: they are counted with what their operations hold (`quarry_query::memory`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use quarry_query::memory_budget::BUDGET;

/// All large requests together have this share of what clients may make the server hold, and no more than so much.
const BUDGET_SHARE: usize = 4;
const REQUEST_BYTES_MAX: usize = 512 << 20;
/// A request up to this size takes no share.
pub const SMALL_REQUEST_BYTES: usize = 64 << 10;
/// How often one that waits looks whether it still should.
const WAIT_TICK: Duration = Duration::from_millis(100);
/// Who has waited for so long is turned away. Not less than what the largest message takes at the slowest pace that is
/// allowed while others wait (`inbox`), which is 24 s: a share that is being filled may end well.
const WAIT_MAX: Duration = if cfg!(test) {
    Duration::from_secs(2)
} else {
    Duration::from_secs(30)
};

pub struct RequestMemory {
    bytes_max: usize,
    state: Mutex<State>,
    freed: Condvar,
    /// As many as stand in the queue, to be seen without the lock.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct State {
    used: usize,
    last_ticket: u64,
    /// Those who wait, in the order in which they came.
    queue: VecDeque<u64>,
}

/// Memory for one connection's requests; returned where it is dropped.
pub struct Share<'m> {
    memory: &'m RequestMemory,
    bytes: usize,
}

/// Why there is no share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotTaken {
    /// Its client has gone, or the server stops.
    GivenUp,
    /// None became free within `WAIT_MAX`.
    TimedOut,
}

impl RequestMemory {
    /// Its share of `budget` bytes, of which operations have the rest.
    pub fn within(budget: usize) -> RequestMemory {
        RequestMemory::new((budget / BUDGET_SHARE).min(REQUEST_BYTES_MAX))
    }

    pub fn new(bytes_max: usize) -> RequestMemory {
        RequestMemory {
            bytes_max,
            state: Mutex::default(),
            freed: Condvar::new(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// A share of `bytes`, once there is room for it, unless `gives_up` says so before or it takes too long. A single
    /// request that is larger than all memory is let in alone.
    pub fn take(&self, bytes: usize, gives_up: &dyn Fn() -> bool) -> Result<Share<'_>, NotTaken> {
        // It is about to be written.
        BUDGET.look();
        let mut state = self.state.lock();
        if !(state.queue.is_empty() && self.has_room(&state, bytes)) {
            state.last_ticket += 1;
            let ticket = state.last_ticket;
            state.queue.push_back(ticket);
            self.waiting.fetch_add(1, Relaxed);
            let until = Instant::now() + WAIT_MAX;
            let mut not_taken = None;
            let is_next =
                |state: &State| state.queue.front() == Some(&ticket) && self.has_room(state, bytes);
            while not_taken.is_none() && !is_next(&state) {
                if Instant::now() >= until {
                    not_taken = Some(NotTaken::TimedOut);
                } else if self.freed.wait_for(&mut state, WAIT_TICK).timed_out()
                    && parking_lot::MutexGuard::unlocked(&mut state, gives_up)
                {
                    not_taken = Some(NotTaken::GivenUp);
                }
            }
            state.queue.retain(|other| *other != ticket);
            self.waiting.fetch_sub(1, Relaxed);
            // The next in the queue may have room as well.
            self.freed.notify_all();
            if let Some(why) = not_taken {
                return Err(why);
            }
        }
        state.used += bytes;
        Ok(Share {
            memory: self,
            bytes,
        })
    }

    fn has_room(&self, state: &State, bytes: usize) -> bool {
        state.used == 0 || state.used + bytes <= self.bytes_max
    }

    /// How many wait for a share.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// The bytes that all large requests may take together.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub fn used_bytes(&self) -> usize {
        self.state.lock().used
    }
}

impl Share<'_> {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether somebody waits for memory.
    pub fn is_wanted(&self) -> bool {
        self.memory.waiting() > 0
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.memory.state.lock().used -= self.bytes;
        self.memory.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    const NEVER: &dyn Fn() -> bool = &|| false;

    #[test]
    fn what_is_taken_stays_within_the_bound_and_who_came_first_is_served_first() {
        let memory = RequestMemory::new(100);
        let first = memory.take(60, NEVER).unwrap();
        let (done, order) = channel();
        thread::scope(|scope| {
            // One that does not fit, then one that would: it does not pass the other, and both at once do not fit.
            for (place, bytes) in [95, 10].into_iter().enumerate() {
                let (memory, done) = (&memory, done.clone());
                scope.spawn(move || {
                    let share = memory.take(bytes, NEVER).unwrap();
                    assert!(memory.used_bytes() <= 100);
                    done.send(bytes).unwrap();
                    drop(share);
                });
                while memory.waiting() <= place {
                    thread::yield_now();
                }
            }
            assert!(first.is_wanted() && order.try_recv().is_err());
            assert_eq!(memory.used_bytes(), 60);
            drop(first);
            assert_eq!(order.recv().unwrap(), 95);
            assert_eq!(order.recv().unwrap(), 10);
        });
        assert_eq!((memory.used_bytes(), memory.waiting()), (0, 0));
        let alone = memory.take(1000, NEVER).unwrap();
        assert_eq!(alone.bytes(), 1000);
        // Somebody who no longer wants it leaves the queue.
        assert_eq!(memory.take(1, &|| true).err(), Some(NotTaken::GivenUp));
        // Nobody waits for ever.
        assert_eq!(memory.take(1, NEVER).err(), Some(NotTaken::TimedOut));
        assert_eq!((memory.used_bytes(), memory.waiting()), (1000, 0));
    }
}
