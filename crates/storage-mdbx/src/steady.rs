//! The thread that makes steady points when much is unsynced.
//!
//! libmdbx uses freed pages again only behind a steady point: without one the file grows with every
//! commit. Whoever owns the engine makes them when it suits, by a sync; this thread makes one when
//! the volume calls for it, on a thread of its own because the hook of the write-ahead rule must not
//! run on a writer's. While the hook refuses, it asks again; after a failed sync it never tries again.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use quarry_storage::{Error, Result};

use crate::store::Store;

const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

pub(crate) struct SteadyThread {
    shared: Arc<Shared>,
    handle: Mutex<Option<thread::JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    wanted: bool,
    pages_wanted: bool,
    stopping: bool,
}

/// The work that the thread is woken for.
enum Wanted {
    SteadyPoint,
    /// Only the pages on the device, for an owner that makes a steady point soon.
    Pages,
    End,
}

impl SteadyThread {
    pub(crate) fn start(store: &Arc<Store>) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let (store, on_thread) = (Arc::clone(store), Arc::clone(&shared));
        let thread = thread::Builder::new().name("mdbx-steady".into());
        let handle = thread.spawn(move || on_thread.run(&store))?;
        Ok(Self {
            shared,
            handle: Mutex::new(Some(handle)),
        })
    }

    /// Asks for a steady point soon.
    pub(crate) fn wake(&self) {
        self.shared.state.lock().wanted = true;
        self.shared.changed.notify_one();
    }

    /// Asks for the pages to go to the device.
    pub(crate) fn wake_for_pages(&self) {
        self.shared.state.lock().pages_wanted = true;
        self.shared.changed.notify_one();
    }

    /// Ends the thread; a steady point being made is made.
    pub(crate) fn stop(&self) {
        self.shared.state.lock().stopping = true;
        self.shared.changed.notify_one();
        if let Some(handle) = self.handle.lock().take() {
            // A panic there was reported there, and there is nothing left to do for the thread.
            let _ = handle.join();
        }
    }
}

impl Drop for SteadyThread {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self, store: &Store) {
        loop {
            match self.wait_until_wanted() {
                Wanted::SteadyPoint => {}
                Wanted::Pages => {
                    // A failure stays with the store, whose next steady point fails.
                    let _ = store.sync_pages();
                    continue;
                }
                Wanted::End => return,
            }
            // A panic, of the hook for example, is one more reason to refuse writes and to ask again.
            let made = catch_unwind(AssertUnwindSafe(|| store.make_steady()));
            let panicked = || Error::Io("making a steady point panicked".to_owned());
            match made.unwrap_or_else(|_| Err(panicked())) {
                Ok(()) => store.set_refusal(None),
                Err(_) if store.has_failed() => return,
                Err(error) => {
                    store.set_refusal(Some(error));
                    self.want_again();
                }
            }
        }
    }

    fn wait_until_wanted(&self) -> Wanted {
        let mut state = self.state.lock();
        while !state.wanted && !state.pages_wanted && !state.stopping {
            self.changed.wait(&mut state);
        }
        if state.stopping {
            return Wanted::End;
        }
        state.pages_wanted = false;
        match std::mem::take(&mut state.wanted) {
            true => Wanted::SteadyPoint,
            false => Wanted::Pages,
        }
    }

    fn want_again(&self) {
        let mut state = self.state.lock();
        if !state.stopping {
            self.changed.wait_for(&mut state, ASK_AGAIN_AFTER);
        }
        state.wanted = true;
    }
}
