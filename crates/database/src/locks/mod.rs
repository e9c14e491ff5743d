//! Who waits for whom: the holds of collections, the locks of records and unique keys, the turn of large batches, and the
//! epochs that keep what a reader may still meet.
//!
//! `WriteLocks` belong to those who write documents and index entries; who changes definitions has only holds.
//!
//! A lock knows idents and hashes of keys. It must not know documents, the catalog or the commit path; the writes, the
//! definitions and the builds take them, in the order that the comment at the head of `commit` gives.

pub(crate) mod epochs;
pub(crate) mod hold;
pub(crate) mod large_batches;
#[cfg(test)]
pub(crate) mod mutant;
pub(crate) mod recent_changes;
pub(crate) mod record_locks;
pub(crate) mod unit_locks;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::locks::epochs::Epochs;
use hold::Holds;
use large_batches::LargeBatches;
use recent_changes::RecentChanges;
use record_locks::LockTable;

/// The locks that a writer of documents or index entries takes, in this order: an epoch; in a unit of several pieces the
/// hold of the database; the hold of its collection; record locks,
/// sorted; then unique-key locks, sorted; then the turn of a large batch. A large insert into a capped collection has its turn
/// before the hold; there the waits for either end after a short time (`large_batches`).
pub(crate) struct WriteLocks {
    pub epochs: Arc<Epochs>,
    pub holds: Arc<Holds>,
    pub records: LockTable,
    pub uniques: LockTable,
    pub large_batches: LargeBatches,
    pub recent_changes: RecentChanges,
    /// How long a unit of several pieces waits for the hold of a collection; below zero without an end.
    patience_ms: AtomicI64,
    #[cfg(test)]
    pub mutant: mutant::MutantCell,
}

/// MongoDB's default of `maxTransactionLockRequestTimeoutMillis`.
pub(crate) const PATIENCE: Duration = Duration::from_millis(5);

impl WriteLocks {
    pub fn new(epochs: Arc<Epochs>, holds: Arc<Holds>) -> WriteLocks {
        WriteLocks {
            epochs,
            holds,
            records: LockTable::default(),
            uniques: LockTable::default(),
            large_batches: LargeBatches::default(),
            recent_changes: RecentChanges::default(),
            patience_ms: AtomicI64::new(PATIENCE.as_millis() as i64),
            #[cfg(test)]
            mutant: mutant::MutantCell::default(),
        }
    }

    #[cfg(test)]
    pub fn set_mutant(&self, mutant: mutant::Mutant) {
        self.mutant.set(mutant);
    }

    /// How long a unit of several pieces waits for the hold of a collection; none is without an end.
    pub fn patience(&self) -> Option<Duration> {
        let ms = self.patience_ms.load(Ordering::Relaxed);
        u64::try_from(ms).ok().map(Duration::from_millis)
    }

    pub fn set_patience_ms(&self, ms: i64) {
        self.patience_ms.store(ms, Ordering::Relaxed);
    }
}
