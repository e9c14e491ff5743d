//! Holds of collections by their names, and the mutexes that serialise definitions: what changes of the catalog and
//! writers of documents have in common. A record lock cannot be taken from here.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::catalog::cache::Catalog;
use crate::catalog::collection::Collection;
use crate::error::Result;
use crate::keyspace::namespace::Namespace;
use crate::locks::hold::{Hold, Holds};
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

    /// Serialises changes of one database's catalog.
    pub fn lock_ddl(&self, database: &str) -> MutexGuard<'_, ()> {
        self.ddl[ddl_shard(database)].lock()
    }

    /// Serialises changes of the catalogs of two databases, which may be one.
    pub fn lock_ddl_of_both<'h>(
        &'h self,
        one: &str,
        other: &str,
    ) -> (MutexGuard<'h, ()>, Option<MutexGuard<'h, ()>>) {
        let (one, other) = (ddl_shard(one), ddl_shard(other));
        let first = self.ddl[one.min(other)].lock();
        let second = (one != other).then(|| self.ddl[one.max(other)].lock());
        (first, second)
    }
}

fn ddl_shard(database: &str) -> usize {
    lock_hash(database.as_bytes()) as usize % DDL_SHARDS
}
