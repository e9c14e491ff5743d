//! Changes of the catalog: create, drop, rename, and what indexes a collection lists.
//!
//! One mutex a database (hashed) serialises them; a change of an existing collection takes its hold exclusively, so
//! that no writer works with an entry that is going away. A transaction that is in the way is waited for without the mutex
//! (`CollectionHolds::lock_collection`), so that it stops no definition but those that it is in the way of. A definition that changes nothing waits for what it saw, as
//! a write that changes nothing does (`Commits::settle`).

use std::sync::{Arc, OnceLock};

use quarry_bson::{Document, RawArray, RawDocument, RawValue, Value};
use quarry_journal::Level;
use quarry_storage::WriteBatch;

use crate::catalog::cache::Catalog;
use crate::catalog::collection::{
    COLLATION, Collection, CollectionDefinition, EXPIRE_AFTER, PRE_IMAGES, new_entry,
};
use crate::catalog::collection_holds::CollectionHolds;
use crate::catalog::validation::VALIDATOR;
use crate::catalog::view::{VIEW_ON, VIEW_PIPELINE};
use crate::commit::commits::Commits;
use crate::commit::definition_event::{DefinitionEvent, DefinitionKind};
use crate::commit::payload::{ALLOCATED, CATALOG, Header, now_ms};
use crate::definitions::builds::{stage_mark, unstage_mark};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::access_counter::AccessCounter;
use crate::index::definition::{Index, IndexChange};
use crate::keyspace::ident::{Ident, new_uuid};
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;
use crate::snapshot::reads::Reads;

/// A dropped collection: how many indexes went with it, `_id_` counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The number of indexes that went with it.
    pub indexes: usize,
}

/// How often plans have read a collection by one of its indexes.
#[derive(Clone, Debug)]
pub struct IndexUse {
    /// The specification as listIndexes shows it.
    pub spec: Document,
    /// Whether the index is being built.
    pub is_building: bool,
    /// The plans.
    pub accesses: u64,
    /// The moment since which they are counted, in milliseconds since 1970.
    pub since_ms: i64,
}

impl IndexUse {
    fn of(spec: Document, is_building: bool, counter: Option<&AccessCounter>) -> IndexUse {
        IndexUse {
            spec,
            is_building,
            accesses: counter.map_or(0, AccessCounter::accesses),
            since_ms: counter.map_or(0, AccessCounter::since_ms),
        }
    }
}

/// The demand of a rename on the name that it gives.
#[derive(Clone, Copy)]
pub(super) enum RenameTarget<'t> {
    /// No collection has it.
    Free,
    /// The collection that has it is dropped.
    Any,
    /// The collection that has it is dropped, and has this definition; None where no collection has it. The renamed collection takes the options over.
    As(Option<&'t CollectionDefinition>),
}

/// Who changes definitions. It can hold collections and commit, and can take no lock of a record.
pub struct Definitions {
    catalog: Arc<Catalog>,
    holds: Arc<CollectionHolds>,
    reads: Reads,
    commits: Arc<Commits>,
    on_made: OnceLock<OnMade>,
}

/// Is told of a collection that was made by a command that did not ask for it.
pub type OnMade = Box<dyn Fn(&Namespace) + Send + Sync>;

impl Definitions {
    pub fn new(
        catalog: Arc<Catalog>,
        holds: Arc<CollectionHolds>,
        reads: Reads,
        commits: Arc<Commits>,
    ) -> Definitions {
        Definitions {
            catalog,
            holds,
            reads,
            commits,
            on_made: OnceLock::new(),
        }
    }

    /// Has `on_made` called for each collection that `collection_or_create` makes and for each that `replace_collection` gives its
    /// name, on the thread that does so. The first call counts.
    pub fn on_made(&self, on_made: OnMade) {
        let _ = self.on_made.set(on_made);
    }

    pub(super) fn tell_made(&self, namespace: &Namespace) {
        if let Some(on_made) = self.on_made.get() {
            on_made(namespace);
        }
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) fn holds(&self) -> &CollectionHolds {
        &self.holds
    }

    pub(super) fn reads(&self) -> &Reads {
        &self.reads
    }

    pub(super) fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Creates a collection; the same options again are no error.
    pub fn create_collection(
        &self,
        namespace: &Namespace,
        options: RawDocument<'_>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.check_validator(namespace, options)?;
        let (ddl, name) = self.holds.lock_name(namespace, operation)?;
        if let Some(existing) = self.catalog.get(namespace)? {
            if existing.options().as_bytes() == options.as_bytes() {
                drop((name, ddl));
                return self.commits.settle(None, level);
            }
            return Err(Error::NamespaceExists(format!(
                "collection `{namespace}` already exists"
            )));
        }
        let lsn = self.create_unlocked(namespace, options, operation)?;
        drop((name, ddl));
        self.commits.settle(Some(lsn), level)
    }

    /// The collection, created without options if it does not exist.
    pub fn collection_or_create(
        &self,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Arc<Collection>> {
        loop {
            if let Some(collection) = self.catalog.get(namespace)? {
                return Ok(collection);
            }
            // A transaction that makes this collection is waited for.
            let (_ddl, _name) = self.holds.lock_name(namespace, operation)?;
            if self.catalog.get(namespace)?.is_none() {
                self.create_unlocked(namespace, RawDocument::EMPTY, operation)?;
                self.tell_made(namespace);
            }
        }
    }

    pub fn drop_collection(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<Option<Dropped>> {
        let (dropped, lsn) = self.drop_unsettled(namespace, operation)?.unzip();
        self.commits.settle(lsn, level)?;
        Ok(dropped)
    }

    pub fn rename_collection(
        &self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let target = match drop_target {
            true => RenameTarget::Any,
            false => RenameTarget::Free,
        };
        self.rename(from, to, target, operation, level)
    }

    /// Gives a collection another name, if what has that name is as `target` says.
    pub(super) fn rename(
        &self,
        from: &Namespace,
        to: &Namespace,
        target: RenameTarget<'_>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        if from == to {
            return Err(Error::invalid(
                ErrorCode::ILLEGAL_OPERATION,
                "can't rename a collection to itself",
            ));
        }
        to.check_new()?;
        let ddl = self.holds.lock_ddl_of_both(from, to, operation)?;
        if from.database() != to.database() {
            // The source may be older than the drop of a database of that name.
            self.clean_database(to.database(), operation)?;
        }
        let name = (self.holds.holds()).exclusive_name(to.as_str(), operation)?;
        let Some((source, hold)) = self.holds.hold_exclusive(from, operation)? else {
            return Err(Error::NamespaceNotFound(format!(
                "source namespace `{from}` does not exist"
            )));
        };
        source.refuse_view()?;
        let mut batch = WriteBatch::new();
        let mut event =
            DefinitionEvent::new(DefinitionKind::Rename, from.as_str(), Some(source.uuid))
                .with("to", to.as_str());
        let replaced = self.holds.hold_exclusive(to, operation)?;
        let existing = replaced.as_ref().map(|(existing, _)| &**existing);
        let indexes = &self.catalog.index_catalog(&source)?.indexes;
        let entry = match target {
            RenameTarget::Free if existing.is_some() => {
                return Err(Error::NamespaceExists(format!(
                    "target namespace `{to}` exists"
                )));
            }
            RenameTarget::Free | RenameTarget::Any => source.entry.clone(),
            RenameTarget::As(expected) => {
                self.check_unchanged(to, existing, expected)?;
                let options = expected.map_or(RawDocument::EMPTY, |known| known.options.as_raw());
                let indexes: Vec<&Index> = indexes.iter().collect();
                new_entry(source.ident, source.uuid, options, &indexes)
            }
        };
        if let Some(existing) = existing {
            self.stage_drop(existing, &mut batch)?;
            event = event.with_uuid("dropTarget", &existing.uuid);
        }
        self.stage_dead(to, operation, &mut batch)?;
        batch.delete(&layout::catalog_key(from.database(), from.collection()));
        batch.put(
            &layout::catalog_key(to.database(), to.collection()),
            entry.as_bytes(),
        );
        for index in indexes.iter().filter(|index| index.building) {
            stage_mark(index, to, &mut batch);
        }
        stage_expiring(indexes, to, &mut batch);
        stage_expiring_records(&Collection::from_entry(to.clone(), entry)?, &mut batch);
        let lsn = self.commit_definitions(0, &[event], &batch)?;
        drop((replaced, hold, name, ddl));
        self.commits.settle(Some(lsn), level)
    }

    /// The specifications of a collection's indexes, `_id_` first.
    pub fn list_indexes(&self, namespace: &Namespace) -> Result<Vec<Document>> {
        let collection = self.existing(namespace)?;
        collection.refuse_view()?;
        let index_catalog = self.catalog.index_catalog(&collection)?;
        let mut specs = Vec::with_capacity(index_catalog.indexes.len() + 1);
        if collection.is_clustered() {
            specs.push(match collection.options().get_document(CLUSTERED_INDEX) {
                Some(clustered) => {
                    let mut spec = clustered.to_owned_document();
                    spec.append("clustered", true);
                    spec
                }
                None => id_spec(),
            });
        }
        specs.extend(index_catalog.indexes.iter().map(|index| index.spec.clone()));
        Ok(specs)
    }

    /// How often plans have read the collection by each of its indexes; none for an index that is not there.
    pub fn index_accesses(&self, namespace: &Namespace) -> Result<Vec<IndexUse>> {
        let Some(collection) = self.catalog.get(namespace)? else {
            return Ok(Vec::new());
        };
        collection.refuse_view()?;
        let index_catalog = self.catalog.index_catalog(&collection)?;
        let by_id = collection
            .plan_memory
            .as_ref()
            .map(|accesses| &accesses.by_id);
        let mut uses = Vec::with_capacity(index_catalog.indexes.len() + 1);
        if collection.is_clustered() && !collection.options().contains(CLUSTERED_INDEX) {
            uses.push(IndexUse::of(id_spec(), false, by_id));
        }
        for index in &index_catalog.indexes {
            let counter = index.accesses.as_deref();
            uses.push(IndexUse::of(index.spec.clone(), index.building, counter));
        }
        Ok(uses)
    }

    /// Drops indexes named by name or key pattern; returns how many there were before.
    pub fn drop_indexes(
        &self,
        namespace: &Namespace,
        which: &[RawValue<'_>],
        operation: &Operation,
        level: Level,
    ) -> Result<usize> {
        let (ddl, held) = self.holds.lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        let index_catalog = self.catalog.index_catalog(&collection)?;
        let mut dropped: Vec<Ident> = Vec::new();
        for value in which {
            let index = find_index(&index_catalog.indexes, *value)?;
            match index {
                Some(index) if Some(&*index.name) != Some("_id_") => {
                    dropped.push(index.ident);
                }
                Some(_) => {
                    return Err(Error::invalid(
                        ErrorCode::INVALID_OPTIONS,
                        "cannot drop _id index",
                    ));
                }
                None if names_id(*value) => {
                    return Err(Error::invalid(
                        ErrorCode::INVALID_OPTIONS,
                        "cannot drop _id index",
                    ));
                }
                None => {
                    return Err(Error::IndexNotFound(format!(
                        "index not found with name [{}]",
                        shown(*value)
                    )));
                }
            }
        }
        let before = index_catalog.indexes.len() + usize::from(collection.is_clustered());
        let lsn = self.replace_indexes(&collection, |index| !dropped.contains(&index.ident))?;
        drop((hold, ddl));
        self.commits.settle(Some(lsn), level)?;
        Ok(before)
    }

    /// Drops every index but the one on `_id`; returns how many there were before.
    pub fn drop_all_indexes(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<usize> {
        let (ddl, held) = self.holds.lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        let before = self.catalog.index_catalog(&collection)?.indexes.len()
            + usize::from(collection.is_clustered());
        let lsn = self.replace_indexes(&collection, |index| &*index.name == "_id_")?;
        drop((hold, ddl));
        self.commits.settle(Some(lsn), level)?;
        Ok(before)
    }

    /// Changes options of an index; returns what they were. Those that are as they are asked to be change nothing.
    pub fn modify_index(
        &self,
        namespace: &Namespace,
        which: RawValue<'_>,
        change: IndexChange,
        operation: &Operation,
        level: Level,
    ) -> Result<IndexChange> {
        let (ddl, held) = self.holds.lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        let index_catalog = self.catalog.index_catalog(&collection)?;
        let chosen = index_to_modify(&collection, &index_catalog.indexes, which, &change)?;
        let was = IndexChange {
            hidden: Some(chosen.hidden),
            expire_after_s: chosen.expire_after_s,
        };
        if change.changes_nothing_of(chosen) {
            drop((hold, ddl));
            self.commits.settle(None, level)?;
            return Ok(was);
        }
        let none = IndexChange::default();
        let mut indexes = Vec::with_capacity(index_catalog.indexes.len());
        for index in &index_catalog.indexes {
            let is_chosen = index.ident == chosen.ident;
            indexes.push(index.with(if is_chosen { &change } else { &none })?);
        }
        let event = DefinitionEvent::new(
            DefinitionKind::Modify,
            namespace.as_str(),
            Some(collection.uuid),
        );
        let event = event
            .with("o", change.told_of(chosen, &change))
            .with("was", change.told_of(chosen, &was));
        let indexes: Vec<&Index> = indexes.iter().collect();
        let lsn = self.put_entry(&collection, &indexes, 0, &[event], WriteBatch::new())?;
        drop((hold, ddl));
        self.commits.settle(Some(lsn), level)?;
        Ok(was)
    }

    pub(crate) fn existing(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        self.catalog
            .get(namespace)?
            .ok_or_else(|| not_found(namespace))
    }

    /// Commits the catalog entry with these indexes, beside what `batch` holds.
    pub(crate) fn put_entry(
        &self,
        collection: &Collection,
        indexes: &[&Index],
        flags: u8,
        events: &[DefinitionEvent],
        batch: WriteBatch,
    ) -> Result<u64> {
        let options = collection.options();
        self.put_entry_with(collection, options, indexes, flags, events, batch)
    }

    fn put_entry_with(
        &self,
        collection: &Collection,
        options: RawDocument<'_>,
        indexes: &[&Index],
        flags: u8,
        events: &[DefinitionEvent],
        mut batch: WriteBatch,
    ) -> Result<u64> {
        let entry = new_entry(collection.ident, collection.uuid, options, indexes);
        let namespace = &collection.namespace;
        batch.put(
            &layout::catalog_key(namespace.database(), namespace.collection()),
            entry.as_bytes(),
        );
        stage_expiring(indexes.iter().copied(), namespace, &mut batch);
        self.commit_definitions(flags, events, &batch)
    }

    /// Commits changes of definitions, and tells change streams of them.
    pub(crate) fn commit_definitions(
        &self,
        flags: u8,
        events: &[DefinitionEvent],
        batch: &WriteBatch,
    ) -> Result<u64> {
        let header = Header {
            flags: CATALOG | flags,
            wall_ms: now_ms(),
            definitions: events,
            ..Header::CATALOG_ONLY
        };
        self.commits.commit(&header, batch)
    }

    /// Has the journal keep each changed or deleted document of a collection as it was before, or not any more; returns
    /// whether it did.
    pub fn set_pre_images(
        &self,
        namespace: &Namespace,
        enabled: bool,
        operation: &Operation,
        level: Level,
    ) -> Result<bool> {
        let (ddl, held) = self.holds.lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        let was = collection.keeps_pre_images;
        if was == enabled {
            drop((hold, ddl));
            self.commits.settle(None, level)?;
            return Ok(was);
        }
        let shown = |enabled: bool| quarry_bson::doc! { (PRE_IMAGES): { "enabled": enabled } };
        let lsn = self.put_options(&collection, &shown(enabled), &shown(was))?;
        drop((hold, ddl));
        self.commits.settle(Some(lsn), level)?;
        Ok(was)
    }

    /// Gives a collection another validator, validation level or action: those of `changed`, the others stay.
    pub fn set_validation(
        &self,
        namespace: &Namespace,
        changed: &Document,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        self.check_validator(namespace, changed.as_raw())?;
        let (ddl, held) = self.holds.lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        let mut was = Document::new();
        for option in collection.options() {
            if changed.contains(option.name().as_bytes()) {
                was.append_element(option);
            }
        }
        let lsn = self.put_options(&collection, changed, &was)?;
        drop((hold, ddl));
        self.commits.settle(Some(lsn), level)
    }

    /// Has documents of a clustered collection go so many seconds after the date in their `_id`, or stay.
    pub fn set_expire_after(
        &self,
        namespace: &Namespace,
        seconds: Option<i64>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let (ddl, held) = self.holds.lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        if !collection.options().contains(CLUSTERED_INDEX) {
            let text =
                "'expireAfterSeconds' option is only supported on collections clustered by _id";
            return Err(Error::invalid(ErrorCode::INVALID_OPTIONS, text));
        }
        let option = |seconds: Option<i64>| {
            Document::build(|out| {
                out.append(
                    EXPIRE_AFTER,
                    seconds.map_or(RawValue::Null, RawValue::Int64),
                );
            })
        };
        let was = collection.expire_after_s();
        if was == seconds {
            drop((hold, ddl));
            return self.commits.settle(None, level);
        }
        let lsn = self.put_options(&collection, &option(seconds), &option(was))?;
        drop((hold, ddl));
        self.commits.settle(Some(lsn), level)
    }

    /// Commits the entry of a collection with other values of some options, and tells change streams of both.
    fn put_options(
        &self,
        collection: &Collection,
        changed: &Document,
        was: &Document,
    ) -> Result<u64> {
        let mut options = Document::new();
        for option in collection.options() {
            if !changed.contains(option.name().as_bytes()) {
                options.append_element(option);
            }
        }
        // An empty validator is none, and Null is an option that goes.
        let is_none = |value: RawValue<'_>| value.as_document().is_some_and(|it| it.is_empty());
        for option in changed {
            let is_validator = option.name() == VALIDATOR;
            if (is_validator && is_none(option.value())) || option.value().is_nullish() {
                continue;
            }
            options.append_element(option);
        }
        let namespace = collection.namespace.as_str();
        let kind = DefinitionKind::Modify;
        let event = DefinitionEvent::new(kind, namespace, Some(collection.uuid));
        let event = event.with("o", changed.as_raw()).with("was", was.as_raw());
        let indexes = &self.catalog.index_catalog(collection)?.indexes;
        let indexes: Vec<&Index> = indexes.iter().collect();
        let mut batch = WriteBatch::new();
        if collection.expire_after_s().is_some() && !options.contains(EXPIRE_AFTER) {
            batch.delete(&layout::expiring_key(collection.ident));
        } else if collection.expire_after_s().is_none() && options.contains(EXPIRE_AFTER) {
            let namespace = collection.namespace.as_str().as_bytes();
            batch.put(&layout::expiring_key(collection.ident), namespace);
        }
        self.put_entry_with(collection, options.as_raw(), &indexes, 0, &[event], batch)
    }

    /// Refuses options whose validator cannot be compiled, or that stand where there can be none.
    pub(crate) fn check_validator(
        &self,
        namespace: &Namespace,
        options: RawDocument<'_>,
    ) -> Result<()> {
        let Some(filter) = options.get_document(VALIDATOR) else {
            return Ok(());
        };
        let database = namespace.database();
        if matches!(database, "admin" | "local" | "config") {
            let message = format!(
                "Document validators are not allowed on collection {namespace} in the {database} internal database"
            );
            return Err(Error::invalid(ErrorCode::INVALID_OPTIONS, message));
        }
        if namespace.collection().starts_with("system.") {
            let message =
                format!("Document validators are not allowed on system collection {namespace}");
            return Err(Error::invalid(ErrorCode::INVALID_OPTIONS, message));
        }
        self.catalog.validators.check(filter)
    }

    /// Tells change streams that a collection was modified, and changes nothing of it, as MongoDB does for a collMod without
    /// options.
    pub fn modify_nothing(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let (ddl, held) = self.holds.lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        let kind = DefinitionKind::Modify;
        let event = DefinitionEvent::new(kind, namespace.as_str(), Some(collection.uuid));
        let event = event
            .with("o", Document::new())
            .with("was", Document::new());
        let lsn = self.commit_definitions(0, &[event], &WriteBatch::new())?;
        drop((hold, ddl));
        self.commits.settle(Some(lsn), level)
    }

    /// Gives a view another definition.
    pub fn modify_view(
        &self,
        namespace: &Namespace,
        on: &str,
        pipeline: RawArray<'_>,
        operation: &Operation,
        level: Level,
    ) -> Result<()> {
        let (ddl, held) = self.holds.lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        if collection.view.is_none() {
            return Err(Error::invalid(
                ErrorCode::INVALID_OPTIONS,
                "option only supported on a view: viewOn",
            ));
        }
        let mut options = Document::new();
        options.append(VIEW_ON, on);
        options.append(VIEW_PIPELINE, pipeline);
        if let Some(collation) = collection.options().get_element(COLLATION) {
            options.append_element(collation);
        }
        let event = DefinitionEvent::new(
            DefinitionKind::Modify,
            namespace.as_str(),
            Some(collection.uuid),
        );
        let event = event
            .with("o", options.as_raw())
            .with("was", collection.options());
        let batch = WriteBatch::new();
        let lsn = self.put_entry_with(&collection, options.as_raw(), &[], 0, &[event], batch)?;
        drop((hold, ddl));
        self.commits.settle(Some(lsn), level)
    }

    /// Commits the entry without the indexes that are not kept, and marks those as dropped.
    pub(crate) fn replace_indexes(
        &self,
        collection: &Collection,
        keep: impl Fn(&Index) -> bool,
    ) -> Result<u64> {
        let index_catalog = self.catalog.index_catalog(collection)?;
        let mut batch = WriteBatch::new();
        let mut dropped: Vec<Value> = Vec::new();
        for index in index_catalog.indexes.iter().filter(|index| !keep(index)) {
            stage_index_drop(index, &mut batch);
            // Nobody was told of one that was never finished.
            if !index.building {
                dropped.push(index.spec.clone().into());
            }
        }
        let event = DefinitionEvent::new(
            DefinitionKind::DropIndexes,
            collection.namespace.as_str(),
            Some(collection.uuid),
        );
        let events = match dropped.is_empty() {
            true => Vec::new(),
            false => vec![event.with("indexes", dropped)],
        };
        let kept: Vec<&Index> = index_catalog
            .indexes
            .iter()
            .filter(|index| keep(index))
            .collect();
        self.put_entry(collection, &kept, 0, &events, batch)
    }

    /// The caller has the DDL mutex of the database and holds the name.
    fn create_unlocked(
        &self,
        namespace: &Namespace,
        options: RawDocument<'_>,
        operation: &Operation,
    ) -> Result<u64> {
        namespace.check_new()?;
        let mut batch = WriteBatch::new();
        self.stage_dead(namespace, operation, &mut batch)?;
        let entry = self.first_entry(options)?;
        batch.put(
            &layout::catalog_key(namespace.database(), namespace.collection()),
            entry.as_bytes(),
        );
        let collection = Collection::from_entry(namespace.clone(), entry)?;
        stage_expiring_records(&collection, &mut batch);
        let event = creation(&collection);
        self.commit_definitions(ALLOCATED, &[event], &batch)
    }

    /// The catalog entry of a collection that is made with these options. Its idents are given out here: whoever commits the
    /// entry says so (`ALLOCATED`), and those of an entry that is not committed stay unused.
    pub(crate) fn first_entry(&self, options: RawDocument<'_>) -> Result<Document> {
        let ident = self.commits.allocate_ident();
        let capped = options.get("capped").is_some_and(|value| value.is_truthy());
        let id_index = if capped {
            let ident = self.commits.allocate_ident();
            let mut index = Index::from_spec(id_spec().as_raw(), ident)?;
            index.unique = true;
            Some(index)
        } else {
            None
        };
        let indexes: Vec<&Index> = id_index.iter().collect();
        Ok(new_entry(ident, new_uuid(), options, &indexes))
    }

    fn drop_unsettled(
        &self,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Option<(Dropped, u64)>> {
        let (_ddl, held) = self.holds.lock_collection(namespace, operation)?;
        let Some((collection, _hold)) = held else {
            return Ok(None);
        };
        let mut batch = WriteBatch::new();
        let indexes = self.stage_drop(&collection, &mut batch)?;
        let event = DefinitionEvent::drop_of(&collection);
        let lsn = self.commit_definitions(0, &[event], &batch)?;
        Ok(Some((Dropped { indexes }, lsn)))
    }

    pub(crate) fn stage_drop(
        &self,
        collection: &Collection,
        batch: &mut WriteBatch,
    ) -> Result<usize> {
        let index_catalog = self.catalog.index_catalog(collection)?;
        let namespace = &collection.namespace;
        batch.delete(&layout::catalog_key(
            namespace.database(),
            namespace.collection(),
        ));
        batch.delete(&layout::counters_key(collection.ident));
        if collection.capped.is_some() {
            batch.delete(&layout::record_id_key(collection.ident));
        }
        if collection.expire_after_s().is_some() {
            batch.delete(&layout::expiring_key(collection.ident));
        }
        batch.put(&layout::dropped_key(collection.ident), &[]);
        for index in &index_catalog.indexes {
            stage_index_drop(index, batch);
        }
        Ok(index_catalog.indexes.len() + usize::from(collection.is_clustered()))
    }
}

/// The index that is meant, if those options of it can be changed.
fn index_to_modify<'i>(
    collection: &Collection,
    indexes: &'i [Index],
    which: RawValue<'_>,
    change: &IndexChange,
) -> Result<&'i Index> {
    if names_id(which) {
        return Err(match change.expire_after_s {
            Some(_) => Error::invalid(
                ErrorCode::INVALID_OPTIONS,
                "the _id field does not support TTL indexes",
            ),
            None => Error::invalid(ErrorCode::BAD_VALUE, "can't hide _id index"),
        });
    }
    let Some(chosen) = find_index(indexes, which)? else {
        return Err(Error::IndexNotFound(format!(
            "cannot find index {} for ns {}",
            shown(which),
            collection.namespace
        )));
    };
    if change.expire_after_s.is_some() {
        check_conversion(collection, chosen)?;
    }
    Ok(chosen)
}

/// Refuses to let the documents of an index expire that is none of a single field of a collection whose documents can go.
fn check_conversion(collection: &Collection, index: &Index) -> Result<()> {
    if collection.capped.is_some() {
        return Err(Error::invalid(
            ErrorCode::INVALID_OPTIONS,
            "TTL indexes are not supported for capped collections.",
        ));
    }
    if index.pattern.fields.len() > 1 {
        return Err(Error::invalid(
            ErrorCode::INVALID_OPTIONS,
            "TTL indexes are single-field indexes, compound indexes do not support TTL",
        ));
    }
    Ok(())
}

/// The event of a collection that is made.
pub(crate) fn creation(collection: &Collection) -> DefinitionEvent {
    let namespace = collection.namespace.as_str();
    let event = DefinitionEvent::new(DefinitionKind::Create, namespace, Some(collection.uuid));
    event.with("o", collection.options())
}

/// Marks the indexes whose documents expire, with the name of their collection, so that whoever removes what has expired
/// finds them in one range and reads nothing of other collections. The marks go with `stage_index_drop`.
pub(crate) fn stage_expiring<'i>(
    indexes: impl IntoIterator<Item = &'i Index>,
    namespace: &Namespace,
    batch: &mut WriteBatch,
) {
    for index in indexes {
        if index.expire_after_s.is_some() {
            let key = layout::expiring_key(index.ident);
            batch.put(&key, namespace.as_str().as_bytes());
        }
    }
}

/// Like `stage_expiring`, for a collection whose documents expire by their `_id`s. Its own ident is marked.
pub(crate) fn stage_expiring_records(collection: &Collection, batch: &mut WriteBatch) {
    if collection.expire_after_s().is_some() {
        let name = collection.namespace.as_str().as_bytes();
        batch.put(&layout::expiring_key(collection.ident), name);
    }
}

pub(crate) fn stage_index_drop(index: &Index, batch: &mut WriteBatch) {
    if index.building {
        unstage_mark(index.ident, batch);
    }
    if index.expire_after_s.is_some() {
        batch.delete(&layout::expiring_key(index.ident));
    }
    // Its multikey marks stay as long as a snapshot may have its entries: they go with its space (`upkeep::reclaim`).
    batch.put(&layout::dropped_key(index.ident), &[]);
}

/// The index that a name or a key pattern means.
pub(crate) fn find_index<'i>(
    indexes: &'i [Index],
    which: RawValue<'_>,
) -> Result<Option<&'i Index>> {
    Ok(match which {
        RawValue::String(name) => indexes.iter().find(|index| name == *index.name),
        RawValue::Document(pattern) => {
            let is_meant = |index: &&Index| same_pattern(index.pattern.document.as_raw(), pattern);
            let mut meant = indexes.iter().filter(is_meant);
            let first = meant.next();
            if let (Some(first), Some(second)) = (first, meant.next()) {
                return Err(Error::invalid(
                    ErrorCode::AMBIGUOUS_INDEX_KEY_PATTERN,
                    format!(
                        "{} indexes found for key pattern {pattern}, identify by name instead. Conflicting indexes: {}, {}",
                        2 + meant.count(),
                        first.spec,
                        second.spec
                    ),
                ));
            }
            first
        }
        _ => {
            return Err(Error::invalid(
                ErrorCode::TYPE_MISMATCH,
                "an index is named by a string or a key pattern",
            ));
        }
    })
}

/// Whether two key patterns have the same fields in the same order, and the same directions and kinds.
pub(crate) fn same_pattern(a: RawDocument<'_>, b: RawDocument<'_>) -> bool {
    let sign = |value: RawValue<'_>| value.as_f64_lossy().map(|number| number > 0.0);
    let mut pairs = a.iter().zip(b);
    a.len() == b.len()
        && pairs.all(|(a, b)| {
            let (x, y) = (a.value(), b.value());
            a.name() == b.name() && sign(x) == sign(y) && x.as_str() == y.as_str()
        })
}

/// The option of a collection whose maker asked for what every collection but a capped one is: ordered by `_id`.
pub const CLUSTERED_INDEX: &str = "clusteredIndex";

/// The definition of the index on `_id` as that option has it.
pub fn clustered_index() -> Document {
    let mut index = id_spec();
    index.append("unique", true);
    index
}

pub(crate) fn id_spec() -> Document {
    quarry_bson::doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" }
}

pub(crate) fn names_id(which: RawValue<'_>) -> bool {
    match which {
        RawValue::String(name) => name == "_id_",
        RawValue::Document(pattern) => {
            same_pattern(pattern, quarry_bson::doc! { "_id": 1 }.as_raw())
        }
        _ => false,
    }
}

fn shown(which: RawValue<'_>) -> String {
    which
        .as_str()
        .map_or_else(|| which.to_string(), str::to_owned)
}

fn not_found(namespace: &Namespace) -> Error {
    Error::NamespaceNotFound(format!("ns does not exist: {namespace}"))
}
