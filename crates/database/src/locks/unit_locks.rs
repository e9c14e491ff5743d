//! The locks of one unit of writes: an epoch, holds of collections, locks of records and of unique keys.
//!
//! They end together when this is dropped, on whatever thread that happens. A unit of one piece borrows the tables and
//! waits for what others have. A unit of several pieces shares them, so that it can outlive the command that began it, and
//! the thread; it never waits for a lock, since two such units could wait for each other: it answers WriteConflict. For
//! the hold of a collection, which only a change of its definition keeps from it, it waits a few milliseconds
//! (`WriteLocks::patience`), and then answers LockTimeout.

use std::ops::Deref;
use std::time::Duration;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::keyspace::ident::Ident;
use crate::keyspace::namespace::Namespace;
use crate::locks::epochs::Epochs;
use crate::locks::hold::Hold;
#[cfg(test)]
use crate::locks::mutant::Mutant;
use crate::locks::record_locks::LockTable;
use crate::locks::{PATIENCE, WriteLocks};
use crate::operation::Operation;

/// Records that a unit of several pieces may lock, and as many unique keys.
const UNIT_LOCKS_MAX: usize = if cfg!(test) { 1000 } else { 1 << 20 };

/// The locks of a unit. `L` is a borrow of the tables, or a share in them.
pub(crate) struct UnitLocks<L: Deref<Target = WriteLocks>> {
    tables: L,
    /// Generation and shard of its epoch.
    epoch: (u8, u8),
    /// Collections, and whether they are held exclusively.
    holds: SmallVec<[(Ident, bool); 1]>,
    records: Hashes,
    uniques: Hashes,
}

/// The hashes of locked keys.
enum Hashes {
    /// Taken by one call.
    Once(SmallVec<[u64; 4]>),
    /// Taken by several calls, of which each leaves out what is there. The hashes are seeded (`key_hash`).
    Growing(FxHashSet<u64>),
}

impl<L: Deref<Target = WriteLocks>> UnitLocks<L> {
    /// For a unit of one piece: it waits for locks that others have.
    pub fn of_one_piece(tables: L) -> UnitLocks<L> {
        UnitLocks::new(tables, || Hashes::Once(SmallVec::new()))
    }

    /// For a unit of several pieces: a lock that another unit has is a WriteConflict.
    pub fn of_many_pieces(tables: L) -> UnitLocks<L> {
        UnitLocks::new(tables, || Hashes::Growing(FxHashSet::default()))
    }

    #[inline]
    fn new(tables: L, hashes: impl Fn() -> Hashes) -> UnitLocks<L> {
        let epoch = Epochs::enter(&*tables.epochs).into_parts();
        UnitLocks {
            tables,
            epoch,
            holds: SmallVec::new(),
            records: hashes(),
            uniques: hashes(),
        }
    }

    /// Shares the collection and its database with other writers; for a unit of several pieces, at most once each.
    pub fn hold_within_patience(
        &mut self,
        database: &str,
        ident: Ident,
        operation: &Operation,
    ) -> Result<()> {
        if self.holds_collection(ident) {
            return Ok(());
        }
        self.hold_database(database, operation)?;
        let (holds, patience) = (&self.tables.holds, self.tables.patience());
        let held = holds.shared_within(ident, operation, patience)?;
        let held = held.ok_or_else(|| lock_timeout(patience))?.into_parts();
        self.holds.push(held);
        Ok(())
    }

    /// Whether the unit holds a collection.
    pub fn holds_collection(&self, ident: Ident) -> bool {
        self.holds.iter().any(|(held, _)| *held == ident)
    }

    /// Keeps others from making a collection of that name, in which there is none. The wait has an end even where that for
    /// a collection has none: two units that make a collection each and want the other's would wait for ever.
    pub fn hold_name(&mut self, namespace: &Namespace, operation: &Operation) -> Result<()> {
        self.hold_database(namespace.database(), operation)?;
        let patience = self.tables.patience().unwrap_or(PATIENCE);
        let held =
            (self.tables.holds).exclusive_name_within(namespace.as_str(), operation, patience)?;
        // Only somebody who makes the collection can be in the way.
        let held = held.ok_or(Error::WriteConflict)?.into_parts();
        self.holds.push(held);
        Ok(())
    }

    /// Shares the database with other writers, at most once: a second hold would wait for a dropDatabase that waits for
    /// the first one.
    pub fn hold_database(&mut self, database: &str, operation: &Operation) -> Result<()> {
        if self.holds_collection(Ident::of_name(database)) {
            return Ok(());
        }
        let (holds, patience) = (&self.tables.holds, self.tables.patience());
        let held = holds.shared_database_within(database, operation, patience)?;
        let held = held.ok_or_else(|| lock_timeout(patience))?.into_parts();
        self.holds.push(held);
        Ok(())
    }

    /// Keeps a hold that was taken from the same tables.
    pub fn keep(&mut self, hold: Hold<'_>) {
        self.holds.push(hold.into_parts());
    }

    /// The number of records and unique keys that the unit has locked.
    pub fn keys_len(&self) -> usize {
        self.records.len() + self.uniques.len()
    }

    /// Locks records, before any unique key.
    #[inline]
    pub fn lock_records(
        &mut self,
        hashes: SmallVec<[u64; 4]>,
        operation: &Operation,
    ) -> Result<()> {
        #[cfg(test)]
        if self.is_mutant(Mutant::SkipsLocks) {
            return Ok(());
        }
        self.records.lock(&self.tables.records, hashes, operation)
    }

    /// Whether a test has made units of several pieces do this wrongly.
    #[cfg(test)]
    pub fn is_mutant(&self, mutant: Mutant) -> bool {
        matches!(self.records, Hashes::Growing(_)) && self.tables.mutant.is(mutant)
    }

    /// Tells units that read a snapshot what was committed at this LSN, before the locks end.
    #[inline]
    pub fn note_commit(&self, lsn: u64) {
        let changes = &self.tables.recent_changes;
        if changes.are_noted() {
            changes.note(self.records.iter().chain(self.uniques.iter()), lsn);
        }
    }

    /// Locks unique keys, behind all records.
    #[inline]
    pub fn lock_uniques(
        &mut self,
        hashes: SmallVec<[u64; 4]>,
        operation: &Operation,
    ) -> Result<()> {
        self.uniques.lock(&self.tables.uniques, hashes, operation)
    }
}

fn lock_timeout(patience: Option<Duration>) -> Error {
    let ms = patience.map_or(0, |patience| patience.as_millis());
    let message = format!(
        "Unable to acquire the lock of a collection within a max lock request timeout of '{ms}ms' milliseconds."
    );
    Error::invalid(ErrorCode::LOCK_TIMEOUT, message)
}

impl Hashes {
    #[inline]
    fn lock(
        &mut self,
        table: &LockTable,
        mut hashes: SmallVec<[u64; 4]>,
        operation: &Operation,
    ) -> Result<()> {
        match self {
            Hashes::Once(once) => {
                debug_assert!(once.is_empty(), "a unit of one piece locks once");
                *once = table.lock(hashes, operation)?.into_hashes();
            }
            Hashes::Growing(known) => {
                hashes.retain(|hash| !known.contains(hash));
                if known.len() + hashes.len() > UNIT_LOCKS_MAX {
                    let message = format!("a transaction locks at most {UNIT_LOCKS_MAX} keys");
                    return Err(Error::invalid(ErrorCode::TRANSACTION_TOO_LARGE, message));
                }
                known.extend(table.try_lock(hashes)?.into_hashes());
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        match self {
            Hashes::Once(once) => once.len(),
            Hashes::Growing(known) => known.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let (once, growing) = match self {
            Hashes::Once(once) => (Some(once), None),
            Hashes::Growing(known) => (None, Some(known)),
        };
        let once = once.into_iter().flatten().copied();
        once.chain(growing.into_iter().flatten().copied())
    }

    #[inline]
    fn release_from(&self, table: &LockTable) {
        match self {
            Hashes::Once(once) => once.iter().for_each(|&hash| table.release(hash)),
            Hashes::Growing(known) => known.iter().for_each(|&hash| table.release(hash)),
        }
    }
}

impl<L: Deref<Target = WriteLocks>> Drop for UnitLocks<L> {
    fn drop(&mut self) {
        let tables = &*self.tables;
        self.uniques.release_from(&tables.uniques);
        self.records.release_from(&tables.records);
        for &(ident, exclusive) in &self.holds {
            tables.holds.release(ident, exclusive);
        }
        tables.epochs.leave(self.epoch.0, self.epoch.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::hold::Holds;
    use std::sync::Arc;

    #[test]
    fn the_locks_of_a_unit_are_bounded_and_one_refused_call_takes_none() {
        let tables = WriteLocks::new(Arc::new(Epochs::default()), Arc::new(Holds::default()));
        let tables = Arc::new(tables);
        let operation = Operation::default();
        let mut locks = UnitLocks::of_many_pieces(Arc::clone(&tables));
        let half = UNIT_LOCKS_MAX as u64 / 2;
        locks.lock_records((0..half).collect(), &operation).unwrap();
        let refused = locks.lock_records((half..=2 * half).collect(), &operation);
        assert_eq!(refused.unwrap_err().code(), 257);
        // Locks that it has do not count twice.
        locks
            .lock_records((0..2 * half).collect(), &operation)
            .unwrap();
        let mut other = UnitLocks::of_many_pieces(tables);
        let beyond = std::iter::once(2 * half).collect();
        other.lock_records(beyond, &operation).unwrap();
    }
}
