//! The changes made while a unit reads a snapshot: the locks of every commit since, by the LSN of the last one.
//!
//! A unit that reads a snapshot must not change a document that somebody has changed since, even if the document is again
//! what it was. The bytes do not tell that, so a writer that commits while such a unit is open notes the hashes of its locks
//! here before it gives them back. While no such unit is open a writer pays for one relaxed load. An index build is such a unit for
//! the time of a piece: what nobody has changed it need not read again under the locks (`build::piece`).
//!
//! Nothing is missed: a unit is counted before it makes its snapshot, so that a commit that the snapshot lacks is applied
//! after the count, and its writer, which asks after that, finds the unit counted. The journal and the engine have
//! ordered the two for both threads by then. A key that was locked and not changed, a hash that two keys share, and a commit
//! during the making of the snapshot can give a conflict too many, and only that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::locks::WriteLocks;

/// Hashes that are kept at most. Beyond it all are forgotten, and every key counts as changed at that time.
const CHANGED_MAX: usize = if cfg!(test) { 64 } else { 1 << 20 };

#[derive(Default)]
pub(crate) struct RecentChanges {
    /// Whether a unit that reads a snapshot is open. Changes under `state`.
    are_noted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many open units read a snapshot that has everything up to this LSN.
    snapshots: BTreeMap<u64, usize>,
    /// The LSN of the last commit of each lock. The hashes are seeded (`key_hash`).
    changed: FxHashMap<u64, u64>,
    /// Every key counts as changed by this commit.
    forgotten: u64,
}

impl State {
    fn is_changed_since(&self, hash: u64, lsn: u64) -> bool {
        let changed = self.changed.get(&hash).copied().unwrap_or(0);
        changed.max(self.forgotten) > lsn
    }
}

/// The open snapshot of a unit, counted until this is dropped.
pub(crate) struct OpenSnapshot {
    tables: Arc<WriteLocks>,
    lsn: u64,
}

impl OpenSnapshot {
    /// Counts a unit whose snapshot is made afterwards and has every commit up to `lsn`.
    pub fn begin(tables: Arc<WriteLocks>, lsn: u64) -> OpenSnapshot {
        tables.recent_changes.open(lsn);
        OpenSnapshot { tables, lsn }
    }

    /// Whether somebody has changed a key since the snapshot. The caller has locked it.
    pub fn is_changed(&self, hash: u64) -> bool {
        #[cfg(test)]
        if (self.tables.mutant).is(crate::locks::mutant::Mutant::IgnoresChanges) {
            return false;
        }
        self.tables.recent_changes.is_changed_since(hash, self.lsn)
    }

    /// The positions of the keys that somebody has changed since the snapshot, rising. The caller has locked them all.
    pub fn changed(&self, hashes: &[u64]) -> Vec<u32> {
        #[cfg(test)]
        if (self.tables.mutant).is(crate::locks::mutant::Mutant::IgnoresChanges) {
            return Vec::new();
        }
        self.tables.recent_changes.changed_since(hashes, self.lsn)
    }
}

impl Drop for OpenSnapshot {
    fn drop(&mut self) {
        self.tables.recent_changes.close(self.lsn);
    }
}

impl RecentChanges {
    /// Whether a commit must be noted.
    #[inline]
    pub fn are_noted(&self) -> bool {
        self.are_noted.load(Ordering::Relaxed)
    }

    /// Notes a commit of a writer that still holds these locks.
    #[cold]
    pub fn note(&self, hashes: impl Iterator<Item = u64>, lsn: u64) {
        let mut state = self.state.lock();
        if state.snapshots.is_empty() {
            return;
        }
        for hash in hashes {
            if state.changed.len() >= CHANGED_MAX {
                let newest = state.changed.values().copied().max();
                state.forgotten = state.forgotten.max(newest.unwrap_or(0));
                state.changed.clear();
            }
            let changed = state.changed.entry(hash).or_insert(lsn);
            *changed = lsn.max(*changed);
        }
    }

    fn open(&self, lsn: u64) {
        let mut state = self.state.lock();
        *state.snapshots.entry(lsn).or_insert(0) += 1;
        self.are_noted.store(true, Ordering::SeqCst);
    }

    fn is_changed_since(&self, hash: u64, lsn: u64) -> bool {
        self.state.lock().is_changed_since(hash, lsn)
    }

    fn changed_since(&self, hashes: &[u64], lsn: u64) -> Vec<u32> {
        let state = self.state.lock();
        if state.changed.is_empty() && state.forgotten <= lsn {
            return Vec::new();
        }
        let changed = (0..)
            .zip(hashes)
            .filter(|(_, hash)| state.is_changed_since(**hash, lsn));
        changed.map(|(position, _)| position).collect()
    }

    fn close(&self, lsn: u64) {
        let mut state = self.state.lock();
        let was_oldest = state.snapshots.keys().next() == Some(&lsn);
        let units = state.snapshots.get_mut(&lsn);
        let units = units.expect("an open snapshot is counted until it is dropped");
        *units -= 1;
        if *units > 0 {
            return;
        }
        state.snapshots.remove(&lsn);
        match state.snapshots.keys().next().copied() {
            None => {
                state.changed = FxHashMap::default();
                state.forgotten = 0;
                self.are_noted.store(false, Ordering::Relaxed);
            }
            Some(oldest) if was_oldest => state.changed.retain(|_, changed| *changed > oldest),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_kept_for_the_oldest_snapshot_that_is_open() {
        let changes = RecentChanges::default();
        assert!(!changes.are_noted());
        changes.open(10);
        changes.open(20);
        changes.note([1, 2].into_iter(), 15);
        changes.note([2].into_iter(), 25);
        let is_changed = |hash| [10, 20].map(|lsn| changes.is_changed_since(hash, lsn));
        assert_eq!(
            [1, 2, 3].map(is_changed),
            [[true, false], [true, true], [false, false]]
        );
        assert_eq!(changes.changed_since(&[3, 2, 1], 10), [1, 2]);
        assert_eq!(changes.changed_since(&[3, 2, 1], 20), [1]);
        changes.close(10);
        assert_eq!(changes.state.lock().changed.len(), 1);
        assert!(changes.is_changed_since(2, 20) && changes.are_noted());
        changes.close(20);
        assert!(!changes.are_noted() && changes.state.lock().changed.is_empty());
        assert!(changes.changed_since(&[1, 2, 3], 0).is_empty());
    }

    #[test]
    fn beyond_its_bound_every_key_counts_as_changed() {
        let changes = RecentChanges::default();
        changes.open(10);
        changes.note(0..=CHANGED_MAX as u64, 11);
        assert!(changes.state.lock().changed.len() <= CHANGED_MAX);
        assert!(changes.is_changed_since(u64::MAX, 10));
        assert!(!changes.is_changed_since(u64::MAX, 11));
        assert_eq!(changes.changed_since(&[u64::MAX, 7], 10), [0, 1]);
        assert!(changes.changed_since(&[u64::MAX, 7], 11).is_empty());
    }
}
