//! Collection holds: shared by every writer of a collection until its batch is applied, exclusive for DDL.
//!
//! A hold is by ident, not by name: a collection that was dropped and made again is another one. Waiting writers
//! yield to a waiting exclusive holder, so that DDL is not starved. A wait ends when the operation is interrupted.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use quarry_timing::{Phase, Work};
use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::keyspace::ident::Ident;
use crate::keyspace::key_hash::key_hash;
use crate::operation::Operation;

const SHARDS: usize = 64;
/// A waiter looks at its operation's interrupts this often; a release wakes it at once.
pub(crate) const INTERRUPT_TICK: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 20 });

#[derive(Default)]
struct State {
    shared: u32,
    exclusive: bool,
    exclusive_waiting: u32,
    /// The tag of the operation that came last: of several that share, one.
    holder: u64,
}

impl State {
    fn is_idle(&self) -> bool {
        self.shared == 0 && !self.exclusive && self.exclusive_waiting == 0
    }
}

#[derive(Default)]
struct Shard {
    states: Mutex<FxHashMap<Ident, State>>,
    released: Condvar,
}

/// The table of holds. Taken before record locks, never while one is held.
pub struct Holds {
    shards: Box<[Shard]>,
}

/// A hold on one collection, released on drop.
pub struct Hold<'h> {
    holds: &'h Holds,
    ident: Ident,
    exclusive: bool,
}

impl Default for Holds {
    fn default() -> Self {
        Holds {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }
}

/// How long one wait lasts: to the next look at the operation, or to the end of the patience.
fn tick(until: Option<Instant>) -> Duration {
    until.map_or(INTERRUPT_TICK, |until| {
        let left = until.saturating_duration_since(Instant::now());
        left.min(INTERRUPT_TICK)
    })
}

impl Ident {
    /// The ident by which a database or the name of a collection is held: the name's hash, where no collection's ident
    /// is, since those count up from the lowest. Two names with one hash share a hold, which costs a wait.
    pub(super) fn of_name(name: &str) -> Ident {
        Ident(key_hash(name.as_bytes()) | 1 << 63)
    }
}

impl Holds {
    /// Holds a database for a unit of several pieces; whoever drops the database waits for it. A single piece does not
    /// need it: it is visible as a whole before the drop or not at all after it. None where the patience was over first.
    pub fn shared_database_within(
        &self,
        name: &str,
        operation: &Operation,
        patience: Option<Duration>,
    ) -> Result<Option<Hold<'_>>> {
        self.shared_within(Ident::of_name(name), operation, patience)
    }

    /// Holds the name under which nothing is yet, so that nobody else makes a collection there. Taken behind the DDL mutex,
    /// and before the hold of a collection.
    pub fn exclusive_name(&self, namespace: &str, operation: &Operation) -> Result<Hold<'_>> {
        self.exclusive(Ident::of_name(namespace), operation)
    }

    /// Like `exclusive_name`, but gives up after `patience`.
    pub fn exclusive_name_within(
        &self,
        namespace: &str,
        operation: &Operation,
        patience: Duration,
    ) -> Result<Option<Hold<'_>>> {
        self.exclusive_within(Ident::of_name(namespace), operation, patience)
    }

    /// Waits for the units of several pieces that write to a database, and lets no other one in. Taken behind the DDL
    /// mutex and before the hold of a collection.
    pub fn exclusive_database(&self, name: &str, operation: &Operation) -> Result<Hold<'_>> {
        self.exclusive(Ident::of_name(name), operation)
    }

    pub fn shared(&self, ident: Ident, operation: &Operation) -> Result<Hold<'_>> {
        let hold = self.shared_until(ident, operation, None)?;
        Ok(hold.expect("a wait without an end is over only when the hold is there"))
    }

    /// Like `shared`, but gives up after `patience`, if that has an end: two who hold one collection each and wait for the
    /// other's would wait for ever.
    pub fn shared_within(
        &self,
        ident: Ident,
        operation: &Operation,
        patience: Option<Duration>,
    ) -> Result<Option<Hold<'_>>> {
        let until = patience.map(|patience| Instant::now() + patience);
        self.shared_until(ident, operation, until)
    }

    #[inline]
    fn shared_until(
        &self,
        ident: Ident,
        operation: &Operation,
        until: Option<Instant>,
    ) -> Result<Option<Hold<'_>>> {
        let shard = self.shard(ident);
        let mut states = shard.states.lock();
        let mut waits = None;
        loop {
            let state = states.entry(ident).or_default();
            if !state.exclusive && state.exclusive_waiting == 0 {
                state.shared += 1;
                state.holder = quarry_timing::tag();
                return Ok(Some(Hold {
                    holds: self,
                    ident,
                    exclusive: false,
                }));
            }
            waits.get_or_insert_with(|| quarry_timing::phase(Phase::LockWait));
            quarry_timing::name(Work::LockHolder, state.holder);
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(None);
            }
            shard.released.wait_for(&mut states, tick(until));
            operation.check()?;
        }
    }

    pub fn exclusive(&self, ident: Ident, operation: &Operation) -> Result<Hold<'_>> {
        let hold = self.exclusive_until(ident, operation, None)?;
        Ok(hold.expect("a wait without an end is over only when the hold is there"))
    }

    /// Like `exclusive`, but gives up after `patience`.
    pub fn exclusive_within(
        &self,
        ident: Ident,
        operation: &Operation,
        patience: Duration,
    ) -> Result<Option<Hold<'_>>> {
        self.exclusive_until(ident, operation, Some(Instant::now() + patience))
    }

    fn exclusive_until(
        &self,
        ident: Ident,
        operation: &Operation,
        until: Option<Instant>,
    ) -> Result<Option<Hold<'_>>> {
        let shard = self.shard(ident);
        let mut states = shard.states.lock();
        states.entry(ident).or_default().exclusive_waiting += 1;
        let mut waits = None;
        loop {
            let state = states.entry(ident).or_default();
            if state.shared == 0 && !state.exclusive {
                state.exclusive_waiting -= 1;
                state.exclusive = true;
                state.holder = quarry_timing::tag();
                return Ok(Some(Hold {
                    holds: self,
                    ident,
                    exclusive: true,
                }));
            }
            waits.get_or_insert_with(|| quarry_timing::phase(Phase::LockWait));
            quarry_timing::name(Work::LockHolder, state.holder);
            shard.released.wait_for(&mut states, tick(until));
            let checked = operation.check();
            if checked.is_err() || until.is_some_and(|until| Instant::now() >= until) {
                let state = states.entry(ident).or_default();
                state.exclusive_waiting -= 1;
                if state.is_idle() {
                    states.remove(&ident);
                }
                // Those who would share it wait for nobody any more.
                shard.released.notify_all();
                return checked.map(|()| None);
            }
        }
    }

    fn shard(&self, ident: Ident) -> &Shard {
        &self.shards[(ident.0 as usize) % SHARDS]
    }
}

impl Hold<'_> {
    /// Leaves the hold to somebody who keeps it longer than a borrow lasts, and who must call `Holds::release` with what
    /// this returns: the collection, and whether it is held exclusively.
    #[inline]
    pub(super) fn into_parts(self) -> (Ident, bool) {
        let parts = (self.ident, self.exclusive);
        std::mem::forget(self);
        parts
    }
}

impl Holds {
    /// Ends a hold.
    #[inline]
    pub(super) fn release(&self, ident: Ident, exclusive: bool) {
        let shard = self.shard(ident);
        let mut states = shard.states.lock();
        let Some(state) = states.get_mut(&ident) else {
            debug_assert!(false, "the state of a hold lasts as long as the hold");
            return;
        };
        if exclusive {
            debug_assert!(
                state.exclusive && state.shared == 0,
                "an exclusive hold is shared with nobody"
            );
            state.exclusive = false;
        } else {
            debug_assert!(
                state.shared > 0 && !state.exclusive,
                "a shared hold stands beside shared ones alone"
            );
            state.shared -= 1;
        }
        let waited_for = exclusive || state.exclusive_waiting > 0;
        if state.is_idle() {
            states.remove(&ident);
        }
        drop(states);
        if waited_for {
            shard.released.notify_all();
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.holds.release(self.ident, self.exclusive);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn exclusive_shuts_out_shared_and_is_not_starved() {
        let holds = Holds::default();
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let _hold = holds.shared(Ident(20), &Operation::default()).unwrap();
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 100);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..50 {
                    let _hold = holds.exclusive(Ident(20), &Operation::default()).unwrap();
                    assert_eq!(inside.fetch_add(100, Ordering::SeqCst), 0);
                    inside.fetch_sub(100, Ordering::SeqCst);
                }
            });
        });
        assert!(
            holds
                .shards
                .iter()
                .all(|shard| shard.states.lock().is_empty())
        );
    }

    #[test]
    fn a_wait_ends_with_the_deadline() {
        let holds = Holds::default();
        let _hold = holds.exclusive(Ident(20), &Operation::default()).unwrap();
        let operation = Operation::new(Some(Instant::now() + Duration::from_millis(30)));
        assert_eq!(
            holds.shared(Ident(20), &operation).err().unwrap().code(),
            50
        );
        assert_eq!(
            holds.exclusive(Ident(20), &operation).err().unwrap().code(),
            50
        );
        let free = Operation::default();
        let tick = Duration::from_millis(1);
        assert!(
            holds
                .exclusive_within(Ident(20), &free, tick)
                .unwrap()
                .is_none()
        );
        drop(_hold);
        // Nobody is remembered as waiting.
        drop(holds.shared(Ident(20), &free).unwrap());
        assert!(
            holds
                .exclusive_within(Ident(20), &free, tick)
                .unwrap()
                .is_some()
        );
    }
}
