//! Idle connections without a thread.
//!
//! A connection whose client has said nothing for a while keeps its place in the table, its login and its encryption, and
//! gives up its thread with the stack and all that the thread holds. One thread, `parking`, waits for the sockets of all of
//! them together. The first byte of the next request, or the end of the stream, makes a socket readable, and the connection
//! is handed to whoever was named at the start (`waking`).
//!
//! Keeps true: a parked connection belongs to this table and to nobody else, so that its socket stays open, and its
//! number, which is never given again, means nothing but it. It is parked only between two messages, with no byte of a
//! request read or decrypted. A socket that is watched reports what it has already, so that nothing is missed that came
//! while its thread let go of it. A stop of the server ends the reading side of every socket, which is an event like any
//! other.
//!
//! Leaves out when a connection is idle (`conversation`), and what becomes of it when it is woken (`waking`).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use rustix::event::epoll::{self, CreateFlags};
use rustix::io::Errno;

use crate::net::connections::Entry;
use crate::threads;

/// The events that are taken from the kernel at a time.
const EVENTS_MAX: usize = 256;

/// The connections that wait without a thread.
#[derive(Default)]
pub struct Parking {
    /// Watches their sockets; none before `start`.
    watch: OnceLock<OwnedFd>,
    parked: Mutex<FxHashMap<i64, Entry>>,
    woken: AtomicU64,
}

impl Parking {
    /// Starts the thread that waits for parked connections and hands each that wakes to `resume`. Before this none is parked.
    pub fn start(&'static self, resume: impl Fn(Entry) + Send + 'static) -> io::Result<()> {
        let watch = epoll::create(CreateFlags::CLOEXEC)?;
        let watch = self.watch.get_or_init(|| watch);
        let mut ids: Vec<i64> = Vec::new();
        let round = move || {
            let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
            match epoll::wait(watch, &mut events, None) {
                Ok((came, _)) => ids.extend(came.iter().map(|event| event.data.u64() as i64)),
                Err(Errno::INTR) => {}
                // Nothing else can go wrong with a descriptor of ours, and these connections would be silent for ever.
                Err(error) => panic!("parked connections cannot be waited for: {error}"),
            }
            // A socket reports once: where a round panics, those behind are left for the next one.
            while let Some(id) = ids.pop() {
                if let Some(entry) = self.take(id) {
                    entry.connection().transport.unwatch(watch);
                    self.woken.fetch_add(1, Relaxed);
                    resume(entry);
                }
            }
            true
        };
        threads::start("parking", || false, round).map(drop)
    }

    /// Parks a connection whose client has said nothing for a while. Gives it back where it cannot be watched: its thread
    /// then waits for it as before.
    pub fn park(&self, entry: Entry) -> Result<(), Entry> {
        let Some(watch) = self.watch.get() else {
            return Err(entry);
        };
        let connection = entry.connection().clone();
        self.parked.lock().insert(connection.id, entry);
        match connection.transport.watch(watch, connection.id as u64) {
            Ok(()) => Ok(()),
            // Nothing is reported of a socket that is not watched: the entry is still there.
            Err(_) => self.take(connection.id).map_or(Ok(()), Err),
        }
    }

    fn take(&self, id: i64) -> Option<Entry> {
        self.parked.lock().remove(&id)
    }

    /// The connections that are parked now.
    pub fn len(&self) -> usize {
        self.parked.lock().len()
    }

    /// How often a parked connection has been woken, by a request or by its end.
    pub fn woken(&self) -> u64 {
        self.woken.load(Relaxed)
    }
}
