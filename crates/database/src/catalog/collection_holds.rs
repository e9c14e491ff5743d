//! Holds of collections by their names, and the mutexes that serialise definitions: what changes of the catalog and
//! writers of documents have in common. A record lock cannot be taken from here.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::catalog::cache::Catalog;
use crate::catalog::collection::Collection;
use crate::error::Result;
use crate::keyspace::key_hash::key_hash;
use crate::keyspace::namespace::Namespace;
use crate::locks::hold::{Hold, Holds, INTERRUPT_TICK};
use crate::operation::Operation;

const DDL_SHARDS: usize = 16;

/// How long somebody who has a DDL mutex waits for a hold that was free just before.
const DDL_HOLD_WAIT: Duration = Duration::from_millis(20);

/// How often a change of a definition waits for a hold without the DDL mutex. Whoever finds it taken again each time, by one
/// transaction after the other, waits with the mutex, where no transaction comes before it.
const DDL_TURNS: usize = 16;

/// The DDL mutex of a database, and what is held behind it.
pub type Locked<'h, T> = (MutexGuard<'h, ()>, T);

/// A collection that is what its name means for as long as the hold lasts.
pub type HeldCollection<'h> = (Arc<Collection>, Hold<'h>);

/// Lock order: a DDL mutex before a hold, and nobody waits for the mutex with a hold. An open transaction keeps its holds for
/// long, and a mutex serves many databases: who wants both waits for the hold alone first, gives it back, and takes both.
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
            let hold = if collection.capped.is_none() {
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
        let held = self.hold_exclusive_within(namespace, operation, None)?;
        Ok(held.expect("a wait without an end is over only when the hold is there"))
    }

    /// Like `hold_exclusive`, but gives up after `patience`, if that has an end: none where it was over first.
    fn hold_exclusive_within(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        patience: Option<Duration>,
    ) -> Result<Option<Option<HeldCollection<'_>>>> {
        loop {
            let Some(collection) = self.catalog.get(namespace)? else {
                return Ok(Some(None));
            };
            let hold = match patience {
                None => self.holds.exclusive(collection.ident, operation)?,
                Some(patience) => {
                    let hold =
                        (self.holds).exclusive_within(collection.ident, operation, patience)?;
                    let Some(hold) = hold else {
                        return Ok(None);
                    };
                    hold
                }
            };
            if self.catalog.is_current(&collection)? {
                return Ok(Some(Some((collection, hold))));
            }
        }
    }

    /// Two collections of one database with exclusive holds on them, for work that may take long: without the DDL mutex, which serves other
    /// databases, too. No one holds the second and waits for the first with it, or the other way round: the second is waited for
    /// with no hold, and then for a short time.
    pub fn hold_both(
        &self,
        first: &Namespace,
        second: &Namespace,
        operation: &Operation,
    ) -> Result<Option<(HeldCollection<'_>, HeldCollection<'_>)>> {
        loop {
            drop(self.hold_exclusive(second, operation)?);
            let Some(first) = self.hold_exclusive(first, operation)? else {
                return Ok(None);
            };
            let patience = Some(DDL_HOLD_WAIT);
            if let Some(second) = self.hold_exclusive_within(second, operation, patience)? {
                return Ok(second.map(|second| (first, second)));
            }
            operation.check()?;
        }
    }

    /// The DDL mutex of a collection's database, and the collection with an exclusive hold on it, if there is one.
    pub fn lock_collection(
        &self,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Locked<'_, Option<HeldCollection<'_>>>> {
        self.lock(namespace.database(), operation, |patience| {
            self.hold_exclusive_within(namespace, operation, patience)
        })
    }

    /// The DDL mutex of a database, and an exclusive hold of a name in it under which nothing may be yet.
    pub fn lock_name(
        &self,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Locked<'_, Hold<'_>>> {
        let (holds, name) = (&self.holds, namespace.as_str());
        self.lock(namespace.database(), operation, |patience| match patience {
            None => holds.exclusive_name(name, operation).map(Some),
            Some(patience) => holds.exclusive_name_within(name, operation, patience),
        })
    }

    /// The DDL mutex of a database, and an exclusive hold of the database: no unit of several pieces works in it.
    pub fn lock_database(&self, name: &str, operation: &Operation) -> Result<Locked<'_, Hold<'_>>> {
        let holds = &self.holds;
        self.lock(name, operation, |patience| match patience {
            None => holds.exclusive_database(name, operation).map(Some),
            Some(patience) => holds.exclusive_name_within(name, operation, patience),
        })
    }

    /// Takes the DDL mutex of a database and what `hold` takes behind it. `hold` answers none where its patience was over.
    fn lock<'h, T>(
        &'h self,
        database: &str,
        operation: &Operation,
        hold: impl Fn(Option<Duration>) -> Result<Option<T>>,
    ) -> Result<Locked<'h, T>> {
        for _ in 0..DDL_TURNS {
            // Whoever works on other definitions has the mutex meanwhile.
            drop(hold(None)?);
            let ddl = self.lock_ddl(database, operation)?;
            if let Some(held) = hold(Some(DDL_HOLD_WAIT))? {
                return Ok((ddl, held));
            }
        }
        let ddl = self.lock_ddl(database, operation)?;
        let held = hold(None)?;
        Ok((
            ddl,
            held.expect("a wait without an end is over only when the hold is there"),
        ))
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

    /// Serialises changes of the catalogs of the databases of two collections, which may be one database. Waits first, once and
    /// without the mutexes, for those who hold one of the collections or the second name.
    pub fn lock_ddl_of_both<'h>(
        &'h self,
        one: &Namespace,
        other: &Namespace,
        operation: &Operation,
    ) -> Result<(MutexGuard<'h, ()>, Option<MutexGuard<'h, ()>>)> {
        drop(self.holds.exclusive_name(other.as_str(), operation)?);
        for namespace in [one, other] {
            drop(self.hold_exclusive(namespace, operation)?);
        }
        let (one, other) = (ddl_shard(one.database()), ddl_shard(other.database()));
        let first = self.lock_shard(one.min(other), operation)?;
        let second = match one == other {
            true => None,
            false => Some(self.lock_shard(one.max(other), operation)?),
        };
        Ok((first, second))
    }
}

/// Databases whose names differ by case alone have one mutex: only one of them may be made.
fn ddl_shard(database: &str) -> usize {
    let name = database.to_ascii_lowercase();
    key_hash(name.as_bytes()) as usize % DDL_SHARDS
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use crate::database::Database;
    use crate::keyspace::namespace::Namespace;
    use crate::operation::Operation;

    #[test]
    fn a_wait_for_the_mutex_ends_with_the_deadline_and_leaves_no_hold() {
        let database = Database::open_in_memory().unwrap();
        let holds = database.definitions().holds();
        let free = Operation::default();
        let namespace = Namespace::parse("db.c").unwrap();
        let locked = holds.lock_name(&namespace, &free).unwrap();
        let limited = Operation::new(Some(Instant::now() + super::DDL_HOLD_WAIT));
        let other = Namespace::parse("db.other").unwrap();
        let refused = holds.lock_name(&other, &limited).map(drop);
        assert_eq!(refused.unwrap_err().code(), 50);
        drop(locked);
        drop(holds.lock_name(&other, &free).unwrap());
    }
}
