//! Record locks: a sharded table of key hashes that serialises writers of one record or one unique key.
//!
//! Two keys with one hash share a lock, which costs a wait and nothing else. A writer takes all its record locks in
//! one sorted call, then all its unique-key locks (another table, the second class), so that no two writers can wait
//! for each other. A lock that does not come soon is waited for without those of the same call: a unit of several pieces may
//! hold it for long, and others want what was taken. Locks end after apply and before sync, but for those of one new document (`Until::Synced`).

use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use quarry_timing::{Phase, Work};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::locks::hold::INTERRUPT_TICK;
use crate::operation::Operation;

const SHARDS: usize = 64;
/// So long a writer waits for a lock while it has others of the same call.
const PATIENCE: Duration = Duration::from_millis(40);

#[derive(Default)]
struct Shard {
    /// Who holds each lock, by the tag of its operation. The hashes are seeded (`key_hash`).
    taken: Mutex<FxHashMap<u64, u64>>,
    released: Condvar,
}

pub struct LockTable {
    shards: Box<[Shard]>,
}

/// The locks of one piece of one operation, released on drop.
pub struct Locks<'t> {
    table: &'t LockTable,
    hashes: SmallVec<[u64; 4]>,
}

impl Default for LockTable {
    fn default() -> Self {
        LockTable {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }
}

impl LockTable {
    /// Takes every lock of `hashes`, waiting for other writers.
    pub fn lock(&self, mut hashes: SmallVec<[u64; 4]>, operation: &Operation) -> Result<Locks<'_>> {
        hashes.sort_unstable();
        hashes.dedup();
        let mut locks = Locks {
            table: self,
            hashes: SmallVec::with_capacity(hashes.len()),
        };
        let mut next = 0;
        while let Some(&hash) = hashes.get(next) {
            let patience = (next > 0).then_some(PATIENCE);
            if self.lock_one(hash, operation, patience)? {
                locks.hashes.push(hash);
                next += 1;
                continue;
            }
            // Nothing was read under these locks yet.
            for hash in locks.hashes.drain(..) {
                self.release(hash);
            }
            self.wait_until_free(hash, operation)?;
            next = 0;
        }
        Ok(locks)
    }

    /// Like `lock`, but answers WriteConflict instead of waiting.
    pub fn try_lock(&self, mut hashes: SmallVec<[u64; 4]>) -> Result<Locks<'_>> {
        hashes.sort_unstable();
        hashes.dedup();
        let mut locks = Locks {
            table: self,
            hashes: SmallVec::with_capacity(hashes.len()),
        };
        for hash in hashes {
            match self.shard(hash).taken.lock().entry(hash) {
                Entry::Vacant(free) => free.insert(quarry_timing::tag()),
                Entry::Occupied(_) => return Err(Error::WriteConflict),
            };
            locks.hashes.push(hash);
        }
        Ok(locks)
    }

    /// Ends one lock.
    #[inline]
    pub(super) fn release(&self, hash: u64) {
        let shard = self.shard(hash);
        let held = shard.taken.lock().remove(&hash);
        debug_assert!(held.is_some(), "a lock that ends was held, and ends once");
        shard.released.notify_all();
    }

    /// Takes a lock; false if it did not come within `patience`.
    fn lock_one(
        &self,
        hash: u64,
        operation: &Operation,
        patience: Option<Duration>,
    ) -> Result<bool> {
        let shard = self.shard(hash);
        let mut taken = shard.taken.lock();
        let mut holder = match taken.entry(hash) {
            Entry::Vacant(free) => {
                free.insert(quarry_timing::tag());
                return Ok(true);
            }
            Entry::Occupied(held) => *held.get(),
        };
        let _wait = quarry_timing::phase(Phase::LockWait);
        let until = patience.map(|patience| Instant::now() + patience);
        loop {
            quarry_timing::name(Work::LockHolder, holder);
            shard.released.wait_for(&mut taken, INTERRUPT_TICK);
            holder = match taken.entry(hash) {
                Entry::Vacant(free) => {
                    free.insert(quarry_timing::tag());
                    return Ok(true);
                }
                Entry::Occupied(held) => *held.get(),
            };
            operation.check()?;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
        }
    }

    /// Returns when nobody has a lock, and does not take it.
    fn wait_until_free(&self, hash: u64, operation: &Operation) -> Result<()> {
        let shard = self.shard(hash);
        let mut taken = shard.taken.lock();
        let _wait = quarry_timing::phase(Phase::LockWait);
        while let Some(holder) = taken.get(&hash) {
            quarry_timing::name(Work::LockHolder, *holder);
            shard.released.wait_for(&mut taken, INTERRUPT_TICK);
            operation.check()?;
        }
        Ok(())
    }

    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> 32) as usize % SHARDS]
    }
}

impl Locks<'_> {
    /// Leaves the locks to somebody who keeps them longer than a borrow lasts, and who must call `LockTable::release` for
    /// each of them.
    #[inline]
    pub(super) fn into_hashes(mut self) -> SmallVec<[u64; 4]> {
        std::mem::take(&mut self.hashes)
    }
}

impl Drop for Locks<'_> {
    fn drop(&mut self) {
        for &hash in &self.hashes {
            self.table.release(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use smallvec::smallvec;

    use super::*;

    #[test]
    fn crossing_sets_do_not_deadlock_and_exclude_each_other() {
        struct Shared(Cell<u64>);
        // The cell is only touched under lock 7, which is what the test checks.
        let table = LockTable::default();
        let counter = Mutex::new(Shared(Cell::new(0)));
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (table, counter) = (&table, &counter);
                scope.spawn(move || {
                    for i in 0..1000 {
                        let order = if (i + thread) % 2 == 0 {
                            [7, 99, 1 << 40]
                        } else {
                            [1 << 40, 7, 99]
                        };
                        let _locks = table
                            .lock(order.into_iter().collect(), &Operation::default())
                            .unwrap();
                        let counter = counter
                            .try_lock()
                            .expect("lock 7 excludes every other thread");
                        counter.0.set(counter.0.get() + 1);
                    }
                });
            }
        });
        assert_eq!(counter.lock().0.get(), 4000);
    }

    #[test]
    fn a_lock_that_stays_away_is_waited_for_without_the_others() {
        let table = LockTable::default();
        let free = Operation::default();
        let held = table.lock(smallvec![5], &free).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| table.lock(smallvec![1, 5], &free).map(drop));
            // Most of the time it is seen with the first lock; it need not be.
            let begun = Instant::now();
            while table.try_lock(smallvec![1]).is_ok() && begun.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
            let limited = Operation::new(Some(Instant::now() + Duration::from_secs(10)));
            let first = table.lock(smallvec![1], &limited);
            assert!(
                first.is_ok(),
                "the first lock is kept while the second one is away"
            );
            drop(first);
            assert!(!waits.is_finished());
            drop(held);
            waits.join().unwrap().unwrap();
        });
        drop(table.try_lock(smallvec![1, 5]).unwrap());
    }

    #[test]
    fn a_wait_ends_when_the_operation_is_killed() {
        let table = LockTable::default();
        let _locks = table.lock(smallvec![1, 2], &Operation::default()).unwrap();
        let killed = Operation::default();
        killed.kill();
        assert_eq!(
            table.lock(smallvec![2, 3], &killed).err().unwrap().code(),
            11_601
        );
        let late = Operation::new(Some(Instant::now() + Duration::from_millis(30)));
        assert_eq!(table.lock(smallvec![2], &late).err().unwrap().code(), 50);
        assert!(
            table.lock(smallvec![3], &Operation::default()).is_ok(),
            "a failed call lets go of what it took"
        );
    }
}
