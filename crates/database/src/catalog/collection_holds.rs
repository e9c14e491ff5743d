//! Holds of collections by their names, and the mutexes that serialise definitions: what changes of the catalog and
//! writers of documents have in common. A record lock cannot be taken from here.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::catalog::cache::Catalog;
use crate::catalog::collection::Collection;
use crate::error::Result;
use crate::keyspace::namespace::Namespace;
use crate::locks::hold::{Hold, Holds, INTERRUPT_TICK};
use crate::locks::record_locks::lock_hash;
use crate::operation::Operation;

const DDL_SHARDS: usize = 16;

/// A collection that is what its name means for as long as the hold lasts.
pub type HeldCollection<'h> = (Arc<Collection>, Hold<'h>);

/// Lock order: a DDL mutex before a hold.
pub struct CollectionHolds {
    catalog: Arc<Catalog>,
    holds: Arc<Holds>,
    ddl: [Mutex<()>; DDL_SHARDS],
}

impl CollectionHolds {
    pub fn new(catalog: Arc<Catalog>) -> CollectionHolds {
        CollectionHolds {
            catalog,
            holds: Arc::default(),
            ddl: Default::default(),
        }
    }

    /// The holds themselves, for writers, which make sure of the name by themselves.
    pub fn holds(&self) -> &Arc<Holds> {
        &self.holds
    }

    /// The collection and a shared hold on it, both current.
    pub fn hold_shared(
        &self,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Option<HeldCollection<'_>>> {
        loop {
            let Some(collection) = self.catalog.get(namespace)? else {
                return Ok(None);
            };
            let hold = if collection.is_clustered() {
                self.holds.shared(collection.ident, operation)?
            } else {
                self.holds.exclusive(collection.ident, operation)?
            };
            if self.catalog.is_current(&collection)? {
                return Ok(Some((collection, hold)));
            }
        }
    }

    /// The collection and an exclusive hold on it, both current.
    pub fn hold_exclusive(
        &self,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Option<HeldCollection<'_>>> {
        loop {
            let Some(collection) = self.catalog.get(namespace)? else {
                return Ok(None);
            };
            let hold = self.holds.exclusive(collection.ident, operation)?;
            if self.catalog.is_current(&collection)? {
                return Ok(Some((collection, hold)));
            }
        }
    }

    /// Returns when every writer that holds the collection now has ended.
    pub fn wait_for_writers(&self, collection: &Collection, operation: &Operation) -> Result<()> {
        drop(self.holds.exclusive(collection.ident, operation)?);
        Ok(())
    }

    /// Like `wait_for_writers`, but gives up after `patience`; false if some have not ended.
    pub fn wait_for_writers_within(
        &self,
        collection: &Collection,
        operation: &Operation,
        patience: Duration,
    ) -> Result<bool> {
        let hold = self
            .holds
            .exclusive_within(collection.ident, operation, patience)?;
        Ok(hold.is_some())
    }

    /// Serialises changes of one database's catalog. Whoever has the mutex may wait for writers for long, so that a wait
    /// for the mutex ends when the operation is interrupted.
    pub fn lock_ddl(&self, database: &str, operation: &Operation) -> Result<MutexGuard<'_, ()>> {
        self.lock_shard(ddl_shard(database), operation)
    }

    fn lock_shard(&self, shard: usize, operation: &Operation) -> Result<MutexGuard<'_, ()>> {
        loop {
            if let Some(ddl) = self.ddl[shard].try_lock_for(INTERRUPT_TICK) {
                return Ok(ddl);
            }
            operation.check()?;
        }
    }

    /// Serialises changes of the catalogs of two databases, which may be one.
    pub fn lock_ddl_of_both<'h>(
        &'h self,
        one: &str,
        other: &str,
        operation: &Operation,
    ) -> Result<(MutexGuard<'h, ()>, Option<MutexGuard<'h, ()>>)> {
        let (one, other) = (ddl_shard(one), ddl_shard(other));
        let first = self.lock_shard(one.min(other), operation)?;
        let second = match one == other {
            true => None,
            false => Some(self.lock_shard(one.max(other), operation)?),
        };
        Ok((first, second))
    }
}

fn ddl_shard(database: &str) -> usize {
    lock_hash(database.as_bytes()) as usize % DDL_SHARDS
}
