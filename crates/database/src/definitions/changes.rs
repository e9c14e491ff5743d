//! Changes of the catalog: who makes them and commits them, and how a collection is created, dropped and renamed. Those of indexes
//! are in `index_changes`, those of a collection's options in `option_changes`.
//!
//! One mutex a database (hashed) serialises them; a change of an existing collection takes its hold exclusively, so
//! that no writer works with an entry that is going away. A transaction that is in the way is waited for without the mutex
//! (`CollectionHolds::lock_collection`), so that it stops no definition but those that it is in the way of. A definition that changes nothing waits for what it saw, as
//! a write that changes nothing does (`Commits::settle`).

use std::sync::{Arc, OnceLock};

use quarry_bson::{Document, RawDocument};
use quarry_journal::Level;
use quarry_storage::WriteBatch;

use crate::catalog::cache::Catalog;
use crate::catalog::collection::{COLLATION, Collection, CollectionDefinition, new_entry};
use crate::catalog::collection_holds::CollectionHolds;
use crate::catalog::time_series::{TIME_SERIES, check_name, first_index, told_name};
use crate::commit::commits::Commits;
use crate::commit::definition_event::{DefinitionEvent, DefinitionKind};
use crate::commit::payload::{ALLOCATED, CATALOG, Header, now_ms};
use crate::definitions::builds::stage_mark;
use crate::definitions::index_changes::{id_spec, stage_index_drop};
use crate::definitions::replacement::{TEMPORARY, Temporary};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::Index;
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

/// The demand of a rename on the name that it gives.
#[derive(Clone, Copy)]
pub(super) enum RenameTarget<'t> {
    /// No collection has it.
    Free,
    /// The collection that has it is dropped.
    Any,
    /// The collection that has it is dropped, and has this definition; None where no collection has it. The renamed collection is this
    /// temporary one, and takes the options over.
    As(&'t Temporary, Option<&'t CollectionDefinition>),
}

impl RenameTarget<'_> {
    /// Whether the collection is the one that is to get the name.
    fn may_be_of(self, source: &Collection) -> bool {
        match self {
            RenameTarget::Free | RenameTarget::Any => true,
            RenameTarget::As(temporary, _) => source.ident == temporary.ident,
        }
    }

    fn no_source(self, from: &Namespace) -> Error {
        match self {
            RenameTarget::As(temporary, _) => temporary.gone(),
            RenameTarget::Free | RenameTarget::Any => {
                Error::NamespaceNotFound(format!("source namespace `{from}` does not exist"))
            }
        }
    }
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
        let (dropped, lsn) = self.drop_unsettled(namespace, None, operation)?.unzip();
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
            self.check_case(to.database(), operation)?;
            // The source may be older than the drop of a database of that name.
            self.clean_database(to.database(), operation)?;
        }
        let name = (self.holds.holds()).exclusive_name(to.as_str(), operation)?;
        let held = self.holds.hold_exclusive(from, operation)?;
        let held = held.filter(|(source, _)| target.may_be_of(source));
        let (source, hold) = held.ok_or_else(|| target.no_source(from))?;
        source.refuse_view()?;
        refuse_renamed_series(&source, to, target)?;
        let replaced = self.holds.hold_exclusive(to, operation)?;
        let existing = replaced.as_ref().map(|(existing, _)| &**existing);
        let entry = self.renamed_entry(&source, to, existing, target)?;
        let lsn = self.put_in_place(&source, to, existing, entry, operation)?;
        drop((replaced, hold, name, ddl));
        self.commits.settle(Some(lsn), level)
    }

    /// Commits the entry of a collection under another name, in place of what has that name. The caller holds both exclusively, behind
    /// the DDL mutex or with a hold of their database.
    pub(super) fn put_in_place(
        &self,
        source: &Collection,
        to: &Namespace,
        existing: Option<&Collection>,
        entry: Document,
        operation: &Operation,
    ) -> Result<u64> {
        let from = &source.namespace;
        let mut batch = WriteBatch::new();
        let mut event = DefinitionEvent::new(
            DefinitionKind::Rename,
            source.told_name(),
            Some(source.uuid),
        )
        .with("to", told_as(source, to));
        let indexes = &self.catalog.index_catalog(source)?.indexes;
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
        self.commit_definitions(0, &[event], &batch)
    }

    /// The entry of a collection under its new name, if what has that name may make room.
    fn renamed_entry(
        &self,
        source: &Collection,
        to: &Namespace,
        existing: Option<&Collection>,
        target: RenameTarget<'_>,
    ) -> Result<Document> {
        match target {
            RenameTarget::Any if existing.is_some_and(|existing| existing.series.is_some()) => Err(
                Error::NamespaceExists(format!("a view already exists with that name: {to}")),
            ),
            RenameTarget::Free if existing.is_some() => Err(Error::NamespaceExists(format!(
                "target namespace `{to}` exists"
            ))),
            RenameTarget::Free | RenameTarget::Any => Ok(source.entry.clone()),
            RenameTarget::As(_, expected) => {
                self.check_unchanged(to, existing, expected)?;
                let options = match expected {
                    Some(known) => known.options.clone(),
                    None => lasting(source.options()),
                };
                let indexes = &self.catalog.index_catalog(source)?.indexes;
                let indexes: Vec<&Index> = indexes.iter().collect();
                let (ident, uuid) = (source.ident, source.uuid);
                Ok(new_entry(ident, uuid, options.as_raw(), &indexes))
            }
        }
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

    pub(super) fn put_entry_with(
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

    /// The caller has the DDL mutex of the database and holds the name.
    fn create_unlocked(
        &self,
        namespace: &Namespace,
        options: RawDocument<'_>,
        operation: &Operation,
    ) -> Result<u64> {
        namespace.check_new()?;
        self.check_case(namespace.database(), operation)?;
        let mut batch = WriteBatch::new();
        self.stage_dead(namespace, operation, &mut batch)?;
        if options.contains(TIME_SERIES) {
            check_name(namespace)?;
        }
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
        let series = options.get_document(TIME_SERIES).and_then(first_index);
        let first = if capped {
            let ident = self.commits.allocate_ident();
            let mut index = Index::from_spec(id_spec().as_raw(), ident)?;
            index.become_id_of_capped();
            Some(index)
        } else if let Some(mut spec) = series {
            // It keeps strings as the collection compares them.
            if let Some(collation) = options.get_element(COLLATION) {
                spec.append_element(collation);
            }
            let ident = self.commits.allocate_ident();
            Some(Index::from_spec(spec.as_raw(), ident)?)
        } else {
            None
        };
        let indexes: Vec<&Index> = first.iter().collect();
        Ok(new_entry(ident, new_uuid(), options, &indexes))
    }

    /// Drops the collection, if it is the one that is expected.
    pub(super) fn drop_unsettled(
        &self,
        namespace: &Namespace,
        expected: Option<Ident>,
        operation: &Operation,
    ) -> Result<Option<(Dropped, u64)>> {
        let (_ddl, held) = self.holds.lock_collection(namespace, operation)?;
        let is_meant = |held: &Collection| expected.is_none_or(|expected| held.ident == expected);
        let Some((collection, _hold)) = held.filter(|(held, _)| is_meant(held)) else {
            return Ok(None);
        };
        let mut batch = WriteBatch::new();
        let indexes = self.stage_drop(&collection, &mut batch)?;
        let event = drop_of(&collection);
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

/// The event of a collection that is dropped. That of a time series is one of the system's collection that the journal tells of.
pub(super) fn drop_of(collection: &Collection) -> DefinitionEvent {
    match collection.series {
        None => DefinitionEvent::drop_of(collection),
        Some(_) => {
            let (kind, uuid) = (DefinitionKind::Drop, Some(collection.uuid));
            DefinitionEvent::new(kind, collection.told_name(), uuid)
        }
    }
}

/// The event of a collection that is made.
pub(crate) fn creation(collection: &Collection) -> DefinitionEvent {
    let namespace = collection.told_name();
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

/// Like `stage_expiring`, for a collection whose documents expire by their record keys. Its own ident is marked.
pub(crate) fn stage_expiring_records(collection: &Collection, batch: &mut WriteBatch) {
    if collection.expire_after_s().is_some() {
        let name = collection.namespace.as_str().as_bytes();
        batch.put(&layout::expiring_key(collection.ident), name);
    }
}

/// The options without the one that a collection has until it gets its place.
pub(super) fn lasting(options: RawDocument<'_>) -> Document {
    Document::build(|out| {
        for option in options.iter().filter(|option| option.name() != TEMPORARY) {
            out.append_element(option);
        }
    })
}

/// The name that the journal tells of a collection under once it is called so.
fn told_as(collection: &Collection, name: &Namespace) -> String {
    match collection.series {
        None => name.as_str().to_owned(),
        Some(_) => told_name(name),
    }
}

/// A time series keeps its name, as in MongoDB; a temporary one that is to take a place gets one.
fn refuse_renamed_series(
    source: &Collection,
    to: &Namespace,
    target: RenameTarget<'_>,
) -> Result<()> {
    match (&source.series, target) {
        (None, _) => Ok(()),
        (Some(_), RenameTarget::As(..)) => check_name(to),
        (Some(_), _) => Err(Error::invalid(
            ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("cannot rename view: {}", source.namespace),
        )),
    }
}

pub(crate) fn not_found(namespace: &Namespace) -> Error {
    Error::NamespaceNotFound(format!("ns does not exist: {namespace}"))
}
