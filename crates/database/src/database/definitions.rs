//! The front for definitions: databases, collections and indexes, how they change, what there is, and how large it is.

use std::sync::Arc;

use quarry_bson::{Document, RawArray, RawDocument, RawValue};
use quarry_journal::Level;

use super::Database;
use super::capped_copies::CappedCopies;
use crate::catalog::collection::{Collection, CollectionDefinition, CollectionKind};
use crate::definitions::changes::{Dropped, OnMade};
use crate::definitions::collection_stats::CollStats;
use crate::definitions::database_stats::DbStats;
use crate::definitions::index_changes::IndexUse;
use crate::definitions::known_index::IndexesCreated;
use crate::definitions::listing::{self, ExpiringIndex};
use crate::definitions::replacement::Temporary;
use crate::error::Result;
use crate::index::definition::IndexChange;
use crate::keyspace::ident::Ident;
use crate::keyspace::namespace::Namespace;
use crate::operation::{Operation, run_unbound};

impl Database {
    /// Creates a collection; the same options again are no error.
    pub fn create_collection(
        &self,
        namespace: &Namespace,
        options: RawDocument<'_>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.definitions
            .create_collection(namespace, options, operation, level)
    }

    /// The collection, created without options if it does not exist.
    pub fn collection_or_create(
        &self,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Arc<Collection>> {
        self.definitions.collection_or_create(namespace, operation)
    }

    /// Has `on_made` called for each collection that is made by a write, an index or an `$out` instead of a `create`, on the thread
    /// that makes it. Those that a transaction makes are not told of.
    pub fn on_collection_made(&self, on_made: OnMade) {
        self.definitions.on_made(on_made);
    }

    /// Drops a collection; none if it did not exist.
    pub fn drop_collection(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<Option<Dropped>> {
        self.definitions
            .drop_collection(namespace, operation, level)
    }

    /// Drops every collection of a database; false if it had none.
    pub fn drop_database(&self, name: &str, operation: &Operation, level: Level) -> Result<bool> {
        let dropped = self.definitions.drop_database(name, operation)?;
        if dropped.as_ref().is_some_and(|dropped| !dropped.is_clean) {
            self.database_cleaner.start(&self.background);
        }
        let lsn = dropped.as_ref().map(|dropped| dropped.lsn);
        self.commits.settle(lsn, level)?;
        Ok(dropped.is_some())
    }

    /// Gives a collection another name, in place of what has it, if that is to be dropped.
    pub fn rename_collection(
        &self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.definitions
            .rename_collection(from, to, drop_target, operation, level)
    }

    /// The definition of the collection that the name means, if there is one.
    pub fn definition(&self, namespace: &Namespace) -> Result<Option<CollectionDefinition>> {
        self.definitions.definition(namespace)
    }

    /// Makes an empty collection in a database, with these options and under a name of its own, which is dropped after a crash.
    pub fn create_temporary(
        &self,
        database: &str,
        options: RawDocument<'_>,
        operation: &Operation,
    ) -> Result<Temporary> {
        self.definitions
            .create_temporary(database, options, operation)
    }

    /// Drops a temporary collection, if it is still there. An operation that was ended does so, too.
    pub fn drop_temporary(&self, temporary: &Temporary) -> Result<()> {
        let unbound = Operation::default();
        run_unbound(|| self.definitions.drop_if_temporary(temporary, &unbound))
    }

    /// Has a temporary collection take the place of another at once, with its options. Fails where that one is no longer as
    /// `expected` says, and where the temporary one has gone; None says that there is none to replace.
    pub fn replace_collection(
        &self,
        temporary: &Temporary,
        target: &Namespace,
        expected: Option<&CollectionDefinition>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.definitions
            .replace_collection(temporary, target, expected, operation, level)
    }

    /// Makes indexes, and the collection if it does not exist; builds them where it has documents.
    pub fn create_indexes(
        &self,
        namespace: &Namespace,
        specs: &[Document],
        operation: &Operation,
        level: Level,
    ) -> Result<IndexesCreated> {
        self.builder
            .create_indexes(namespace, specs, operation, level)
    }

    /// Builds every index of a collection anew, but that on `_id`.
    pub fn rebuild_indexes(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.builder.rebuild_indexes(namespace, operation, level)
    }

    /// The specifications of a collection's indexes, `_id_` first.
    pub fn list_indexes(&self, namespace: &Namespace) -> Result<Vec<Document>> {
        self.definitions.list_indexes(namespace)
    }

    /// How often plans have read a collection by each of its indexes, `_id_` first; nothing for one that is not there.
    pub fn index_accesses(&self, namespace: &Namespace) -> Result<Vec<IndexUse>> {
        self.definitions.index_accesses(namespace)
    }

    /// Drops indexes named by name or key pattern; returns how many there were before.
    pub fn drop_indexes(
        &self,
        namespace: &Namespace,
        which: &[RawValue<'_>],
        operation: &Operation,
        level: Level,
    ) -> Result<usize> {
        self.definitions
            .drop_indexes(namespace, which, operation, level)
    }

    /// Drops every index but the one on `_id`; returns how many there were before.
    pub fn drop_all_indexes(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<usize> {
        self.definitions
            .drop_all_indexes(namespace, operation, level)
    }

    /// Changes options of an index; returns what they were.
    pub fn modify_index(
        &self,
        namespace: &Namespace,
        which: RawValue<'_>,
        change: IndexChange,
        operation: &Operation,
        level: Level,
    ) -> Result<IndexChange> {
        self.definitions
            .modify_index(namespace, which, change, operation, level)
    }

    /// Fails where an index could not be made unique: it does not refuse shared keys, or documents share one.
    pub fn check_conversion_to_unique(
        &self,
        namespace: &Namespace,
        which: RawValue<'_>,
        operation: &Operation,
    ) -> Result<()> {
        self.definitions
            .check_conversion_to_unique(namespace, which, operation)
    }

    /// Gives a view another definition. Whether the pipeline can be run is for the caller to say.
    pub fn modify_view(
        &self,
        namespace: &Namespace,
        on: &str,
        pipeline: RawArray<'_>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.definitions
            .modify_view(namespace, on, pipeline, operation, level)
    }

    /// Has the journal keep each changed or deleted document of a collection as it was before, or not any more; returns
    /// whether it did. A reader of changes (`read_changes`) is then handed both.
    pub fn set_pre_images(
        &self,
        namespace: &Namespace,
        enabled: bool,
        operation: &Operation,
        level: Level,
    ) -> Result<bool> {
        self.definitions
            .set_pre_images(namespace, enabled, operation, level)
    }

    /// Gives a collection another validator, validation level or action: those of `changed` ([`VALIDATION_OPTIONS`](crate::VALIDATION_OPTIONS)), the others
    /// stay.
    pub fn set_validation(
        &self,
        namespace: &Namespace,
        changed: &Document,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.definitions
            .set_validation(namespace, changed, operation, level)
    }

    /// Gives a time series a granularity that is one step greater.
    pub fn set_granularity(
        &self,
        namespace: &Namespace,
        granularity: &str,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.definitions
            .set_granularity(namespace, granularity, operation, level)
    }

    /// Has documents of a clustered collection go so many seconds after the date in their `_id`, and those of a time series after their
    /// time, or stay.
    pub fn set_expire_after(
        &self,
        namespace: &Namespace,
        seconds: Option<i64>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.definitions
            .set_expire_after(namespace, seconds, operation, level)
    }

    /// Gives a capped collection other bounds; one that is not given stays. The next insert removes what is beyond them.
    pub fn resize_capped(
        &self,
        namespace: &Namespace,
        size_bytes: Option<i64>,
        documents_max: Option<i64>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.definitions
            .resize_capped(namespace, size_bytes, documents_max, operation, level)
    }

    /// Makes a collection a capped one, of the last of its documents that have room. Its indexes go, but for that on `_id`.
    pub fn convert_to_capped(
        &self,
        namespace: &Namespace,
        size_bytes: i64,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        CappedCopies(self).convert(namespace, size_bytes, operation, level)
    }

    /// Copies the last documents of a collection, as many as have room, into a new capped one.
    pub fn clone_as_capped(
        &self,
        from: &Namespace,
        to: &Namespace,
        size_bytes: i64,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        CappedCopies(self).clone_beside(from, to, size_bytes, operation, level)
    }

    /// Tells change streams that a collection was modified, and changes nothing of it.
    pub fn modify_nothing(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.definitions.modify_nothing(namespace, operation, level)
    }

    /// The names of the databases that have collections.
    pub fn list_databases(&self) -> Result<Vec<String>> {
        listing::list_databases(&self.reads)
    }

    /// The collections of a database, by name.
    pub fn list_collections(&self, database: &str) -> Result<Vec<Collection>> {
        listing::list_collections(&self.reads, database)
    }

    /// The indexes whose documents expire, from the one behind `behind` on, as many as one call is to read; none: there are no
    /// more. Nothing is read of any other index or collection.
    pub fn expiring_indexes(&self, behind: Option<Ident>) -> Result<Vec<ExpiringIndex>> {
        listing::expiring_indexes(&self.reads, behind)
    }

    /// Hands collections of a database to `take` in the order of their names, as much as one walk is to do: from the first
    /// on, or from the one after `behind`. Returns where the next call goes on, if there may be more. Between two calls
    /// nothing is held: a collection that is there all the time is handed over once.
    pub fn list_collections_behind(
        &self,
        database: &str,
        behind: Option<&str>,
        take: &mut dyn FnMut(Collection),
    ) -> Result<Option<String>> {
        listing::list_collections_behind(&self.reads, database, behind, take)
    }

    /// Like `list_collections_behind`, but hands over the names alone, and what they mean.
    pub fn list_names_behind(
        &self,
        database: &str,
        behind: Option<&str>,
        take: &mut dyn FnMut(&str, CollectionKind),
    ) -> Result<Option<String>> {
        listing::list_names_behind(&self.reads, database, behind, take)
    }

    /// The sizes of one collection; none if it does not exist.
    pub fn coll_stats(&self, namespace: &Namespace) -> Result<Option<CollStats>> {
        self.sizes.coll_stats(namespace)
    }

    /// The sums of the sizes of a database's collections.
    pub fn db_stats(&self, database: &str, operation: &Operation) -> Result<DbStats> {
        self.sizes.db_stats(database, operation)
    }

    /// The engine's estimate of what a database takes.
    pub fn database_size_bytes(&self, database: &str, operation: &Operation) -> Result<u64> {
        self.sizes.database_size_bytes(database, operation)
    }
}
