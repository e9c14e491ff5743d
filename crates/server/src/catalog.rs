//! The seam through which commands ask for definitions: databases, collections and indexes, their names, options and sizes.
//!
//! It is for definitions what `data` is for documents. Today the database of this process answers; a router that asks others
//! can stand here instead. Definitions that a transaction may make are part of `Data`, because they belong to what the
//! command writes.

use std::sync::Arc;

use quarry_bson::{Document, RawArray, RawValue};
use quarry_database::{
    CollStats, Collection, CollectionKind, Database, DbStats, Dropped, IndexChange, IndexUse,
    Namespace, Operation, Result, ValidateReport,
};
use quarry_journal::Level;

/// Reads and changes of definitions. A change returns when it is acknowledged at its level.
pub trait Catalog: Sync {
    /// The options and the identity of a collection; none if it does not exist.
    fn collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>>;

    /// The names of the databases that have collections.
    fn list_databases(&self) -> Result<Vec<String>>;

    /// Hands collections of a database to `take`, some at a time, from the one after `behind` on. Returns where the next call
    /// goes on, if there may be more.
    fn list_collections_behind(
        &self,
        database: &str,
        behind: Option<&str>,
        take: &mut dyn FnMut(Collection),
    ) -> Result<Option<String>>;

    /// Like `list_collections_behind`, but hands over the names alone, and what they mean.
    fn list_names_behind(
        &self,
        database: &str,
        behind: Option<&str>,
        take: &mut dyn FnMut(&str, CollectionKind),
    ) -> Result<Option<String>>;

    /// The specifications of a collection's indexes, `_id_` first.
    fn list_indexes(&self, namespace: &Namespace) -> Result<Vec<Document>>;

    /// How often plans have read a collection by each of its indexes.
    fn index_accesses(&self, namespace: &Namespace) -> Result<Vec<IndexUse>>;

    /// Drops a collection; none if it did not exist.
    fn drop_collection(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<Option<Dropped>>;

    /// Drops every collection of a database; false if it had none.
    fn drop_database(&self, name: &str, operation: &Operation, level: Level) -> Result<bool>;

    /// Gives a collection another name, in place of what has it, if that is to be dropped.
    fn rename_collection(
        &self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
        operation: &Operation,
        level: Level,
    ) -> Result<()>;

    /// Drops indexes named by name or key pattern; returns how many there were before.
    fn drop_indexes(
        &self,
        namespace: &Namespace,
        which: &[RawValue<'_>],
        operation: &Operation,
        level: Level,
    ) -> Result<usize>;

    /// Drops every index but the one on `_id`; returns how many there were before.
    fn drop_all_indexes(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<usize>;

    /// Changes options of an index; returns what they were.
    fn modify_index(
        &self,
        namespace: &Namespace,
        which: RawValue<'_>,
        change: IndexChange,
        operation: &Operation,
        level: Level,
    ) -> Result<IndexChange>;

    /// Gives a view another definition, which `Data::check_view` has let through.
    fn modify_view(
        &self,
        namespace: &Namespace,
        on: &str,
        pipeline: RawArray<'_>,
        operation: &Operation,
        level: Level,
    ) -> Result<()>;

    /// Has documents kept as they were before a change, or not any more; returns whether they were.
    fn set_pre_images(
        &self,
        namespace: &Namespace,
        enabled: bool,
        operation: &Operation,
        level: Level,
    ) -> Result<bool>;

    /// Gives a collection another validator, validation level or action.
    fn set_validation(
        &self,
        namespace: &Namespace,
        changed: &Document,
        operation: &Operation,
        level: Level,
    ) -> Result<()>;

    /// Gives a time series a granularity that is one step greater.
    fn set_granularity(
        &self,
        namespace: &Namespace,
        granularity: &str,
        operation: &Operation,
        level: Level,
    ) -> Result<()>;

    /// Has documents of a clustered collection go so many seconds after the date in their `_id`, and those of a time series after their
    /// time, or stay.
    fn set_expire_after(
        &self,
        namespace: &Namespace,
        seconds: Option<i64>,
        operation: &Operation,
        level: Level,
    ) -> Result<()>;

    /// Fails where an index could not be made unique: it does not refuse shared keys, or documents share one.
    fn check_conversion_to_unique(
        &self,
        namespace: &Namespace,
        which: RawValue<'_>,
        operation: &Operation,
    ) -> Result<()>;

    /// Gives a capped collection other bounds; one that is not given stays.
    fn resize_capped(
        &self,
        namespace: &Namespace,
        size_bytes: Option<i64>,
        documents_max: Option<i64>,
        operation: &Operation,
        level: Level,
    ) -> Result<()>;

    /// Builds every index of a collection anew, but that on `_id`.
    fn rebuild_indexes(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<()>;

    /// Makes a collection a capped one, of the last of its documents that have room.
    fn convert_to_capped(
        &self,
        namespace: &Namespace,
        size_bytes: i64,
        operation: &Operation,
        level: Level,
    ) -> Result<()>;

    /// Copies the last documents of a collection that have room into a new capped one.
    fn clone_as_capped(
        &self,
        from: &Namespace,
        to: &Namespace,
        size_bytes: i64,
        operation: &Operation,
        level: Level,
    ) -> Result<()>;

    /// Tells change streams that a collection was modified, and changes nothing of it.
    fn modify_nothing(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<()>;

    /// The sizes of one collection; none if it does not exist.
    fn coll_stats(&self, namespace: &Namespace) -> Result<Option<CollStats>>;

    /// The sums of the sizes of a database's collections.
    fn db_stats(&self, database: &str, operation: &Operation) -> Result<DbStats>;

    /// The bytes that a database takes, roughly.
    fn database_size_bytes(&self, database: &str, operation: &Operation) -> Result<u64>;

    /// Compares a collection with its indexes and counters.
    fn validate(
        &self,
        namespace: &Namespace,
        full: bool,
        operation: &Operation,
    ) -> Result<ValidateReport>;

    /// Makes all that is written durable.
    fn sync(&self) -> Result<()>;
}

impl Catalog for Database {
    fn collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        Database::collection(self, namespace)
    }

    fn list_databases(&self) -> Result<Vec<String>> {
        Database::list_databases(self)
    }

    fn list_collections_behind(
        &self,
        database: &str,
        behind: Option<&str>,
        take: &mut dyn FnMut(Collection),
    ) -> Result<Option<String>> {
        Database::list_collections_behind(self, database, behind, take)
    }

    fn list_names_behind(
        &self,
        database: &str,
        behind: Option<&str>,
        take: &mut dyn FnMut(&str, CollectionKind),
    ) -> Result<Option<String>> {
        Database::list_names_behind(self, database, behind, take)
    }

    fn list_indexes(&self, namespace: &Namespace) -> Result<Vec<Document>> {
        Database::list_indexes(self, namespace)
    }

    fn index_accesses(&self, namespace: &Namespace) -> Result<Vec<IndexUse>> {
        Database::index_accesses(self, namespace)
    }

    fn drop_collection(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<Option<Dropped>> {
        Database::drop_collection(self, namespace, operation, level)
    }

    fn drop_database(&self, name: &str, operation: &Operation, level: Level) -> Result<bool> {
        Database::drop_database(self, name, operation, level)
    }

    fn rename_collection(
        &self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        Database::rename_collection(self, from, to, drop_target, operation, level)
    }

    fn drop_indexes(
        &self,
        namespace: &Namespace,
        which: &[RawValue<'_>],
        operation: &Operation,
        level: Level,
    ) -> Result<usize> {
        Database::drop_indexes(self, namespace, which, operation, level)
    }

    fn drop_all_indexes(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<usize> {
        Database::drop_all_indexes(self, namespace, operation, level)
    }

    fn modify_index(
        &self,
        namespace: &Namespace,
        which: RawValue<'_>,
        change: IndexChange,
        operation: &Operation,
        level: Level,
    ) -> Result<IndexChange> {
        Database::modify_index(self, namespace, which, change, operation, level)
    }

    fn modify_view(
        &self,
        namespace: &Namespace,
        on: &str,
        pipeline: RawArray<'_>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        Database::modify_view(self, namespace, on, pipeline, operation, level)
    }

    fn set_pre_images(
        &self,
        namespace: &Namespace,
        enabled: bool,
        operation: &Operation,
        level: Level,
    ) -> Result<bool> {
        Database::set_pre_images(self, namespace, enabled, operation, level)
    }

    fn set_validation(
        &self,
        namespace: &Namespace,
        changed: &Document,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        Database::set_validation(self, namespace, changed, operation, level)
    }

    fn set_expire_after(
        &self,
        namespace: &Namespace,
        seconds: Option<i64>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        Database::set_expire_after(self, namespace, seconds, operation, level)
    }

    fn set_granularity(
        &self,
        namespace: &Namespace,
        granularity: &str,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        Database::set_granularity(self, namespace, granularity, operation, level)
    }

    fn check_conversion_to_unique(
        &self,
        namespace: &Namespace,
        which: RawValue<'_>,
        operation: &Operation,
    ) -> Result<()> {
        Database::check_conversion_to_unique(self, namespace, which, operation)
    }

    fn resize_capped(
        &self,
        namespace: &Namespace,
        size_bytes: Option<i64>,
        documents_max: Option<i64>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        Database::resize_capped(self, namespace, size_bytes, documents_max, operation, level)
    }

    fn rebuild_indexes(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        Database::rebuild_indexes(self, namespace, operation, level)
    }

    fn convert_to_capped(
        &self,
        namespace: &Namespace,
        size_bytes: i64,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        Database::convert_to_capped(self, namespace, size_bytes, operation, level)
    }

    fn clone_as_capped(
        &self,
        from: &Namespace,
        to: &Namespace,
        size_bytes: i64,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        Database::clone_as_capped(self, from, to, size_bytes, operation, level)
    }

    fn modify_nothing(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        Database::modify_nothing(self, namespace, operation, level)
    }

    fn coll_stats(&self, namespace: &Namespace) -> Result<Option<CollStats>> {
        Database::coll_stats(self, namespace)
    }

    fn db_stats(&self, database: &str, operation: &Operation) -> Result<DbStats> {
        Database::db_stats(self, database, operation)
    }

    fn database_size_bytes(&self, database: &str, operation: &Operation) -> Result<u64> {
        Database::database_size_bytes(self, database, operation)
    }

    fn validate(
        &self,
        namespace: &Namespace,
        full: bool,
        operation: &Operation,
    ) -> Result<ValidateReport> {
        Database::validate(self, namespace, full, operation)
    }

    fn sync(&self) -> Result<()> {
        Database::sync(self)
    }
}
