//! The threads that serve connections: one for each connection that is not parked, and a few that wait for the next.
//!
//! A thread whose connection has ended, or was parked, waits a while for another connection before it ends itself. A connection
//! that is accepted or woken then costs a hand-off in place of the start of a thread. The waiting ones are few, because each
//! keeps its stack.

use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::net::connections::Entry;

/// Stack of a connection's thread. Only the pages that are touched take memory, so a quiet connection costs a few of
/// them; the deepest filter, expression and document that are accepted must fit (`tests/process/protocol.rs`).
pub const CONNECTION_STACK_BYTES: usize = 2 << 20;
/// Threads without a connection, at most.
const WAITING_MAX: usize = 16;
/// The name of such a thread.
const WAITING: &str = "conn";
/// How long a thread waits for another connection.
const WAIT: Duration = Duration::from_secs(5);

/// The threads without a connection, and the connections that are on their way to one.
#[derive(Default)]
pub struct ConnectionThreads {
    state: Mutex<State>,
    came: Condvar,
    /// A test says that there are no threads.
    #[cfg(test)]
    pub are_exhausted: std::sync::atomic::AtomicBool,
}

#[derive(Default)]
struct State {
    waiting: usize,
    /// Never more than there are threads that wait.
    handed: VecDeque<Entry>,
}

/// The state in which a connection leaves its thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Afterwards {
    /// The thread may serve another one.
    Free,
    /// After a panic nobody knows what the thread still holds.
    Spoiled,
}

/// There is no thread for a connection, and none could be started.
pub struct NoThread {
    /// The connection.
    pub entry: Entry,
    /// Why there is none.
    pub error: io::Error,
}

impl ConnectionThreads {
    /// Has the connection served by a thread that waits for one, or by a new thread. All callers name the same `serve`. Gives the
    /// connection back where there is no room for another thread.
    pub fn serve(
        &'static self,
        entry: Entry,
        serve: impl Fn(Entry) -> Afterwards + Send + 'static,
    ) -> Result<(), NoThread> {
        #[cfg(test)]
        if self
            .are_exhausted
            .load(std::sync::atomic::Ordering::Relaxed)
        {
            let error = io::ErrorKind::WouldBlock.into();
            return Err(NoThread { entry, error });
        }
        let entry = {
            let mut state = self.state.lock();
            if state.waiting > state.handed.len() {
                state.handed.push_back(entry);
                self.came.notify_one();
                return Ok(());
            }
            entry
        };
        // Here the connection is left where no thread comes to take it.
        let begun = Arc::new(Mutex::new(Some(entry)));
        let taken = Arc::clone(&begun);
        let work = move || {
            let mut next = taken.lock().take();
            while let Some(entry) = next {
                name_thread(&format!("conn{}", entry.connection().id));
                next = match serve(entry) {
                    Afterwards::Free => self.next(),
                    Afterwards::Spoiled => None,
                };
            }
        };
        thread::Builder::new()
            .name(WAITING.into())
            .stack_size(CONNECTION_STACK_BYTES)
            .spawn(work)
            .map(drop)
            .or_else(|error| match begun.lock().take() {
                Some(entry) => Err(NoThread { entry, error }),
                None => Ok(()),
            })
    }

    /// The next connection for a thread that has none; none where the thread is not needed.
    fn next(&self) -> Option<Entry> {
        let mut state = self.state.lock();
        if state.waiting >= WAITING_MAX {
            return None;
        }
        state.waiting += 1;
        name_thread(WAITING);
        let until = Instant::now() + WAIT;
        while state.handed.is_empty() && !self.came.wait_until(&mut state, until).timed_out() {}
        let next = state.handed.pop_front();
        state.waiting -= 1;
        debug_assert!(state.handed.len() <= state.waiting);
        next
    }
}

/// Names the thread for those who look at the process from outside.
fn name_thread(name: &str) {
    if let Ok(name) = CString::new(name) {
        let _ = rustix::thread::set_name(&name);
    }
}
