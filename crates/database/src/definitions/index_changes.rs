//! The indexes that a collection lists, how often each was read by, and their changes: dropped, hidden, made to expire.

use quarry_bson::{Document, RawDocument, RawValue, Value};
use quarry_journal::Level;
use quarry_storage::WriteBatch;

use crate::catalog::collection::{CLUSTERED_INDEX, Collection};
use crate::commit::definition_event::{DefinitionEvent, DefinitionKind};
use crate::definitions::builds::unstage_mark;
use crate::definitions::changes::{Definitions, not_found};
use crate::definitions::series_indexes;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::access_counter::AccessCounter;
use crate::index::definition::{ID_INDEX_NAME, Index, IndexChange, check_name};
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;

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

impl Definitions {
    /// The specifications of a collection's indexes, `_id_` first.
    pub fn list_indexes(&self, namespace: &Namespace) -> Result<Vec<Document>> {
        let collection = self.existing(namespace)?;
        collection.refuse_view()?;
        let index_catalog = self.catalog().index_catalog(&collection)?;
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
        specs.extend(index_catalog.shown().map(|index| index.spec.clone()));
        Ok(specs)
    }

    /// How often plans have read the collection by each of its indexes; none for an index that is not there.
    pub fn index_accesses(&self, namespace: &Namespace) -> Result<Vec<IndexUse>> {
        let Some(collection) = self.catalog().get(namespace)? else {
            return Ok(Vec::new());
        };
        collection.refuse_view()?;
        let index_catalog = self.catalog().index_catalog(&collection)?;
        let by_id = collection
            .plan_memory
            .as_ref()
            .map(|accesses| &accesses.by_id);
        let mut uses = Vec::with_capacity(index_catalog.indexes.len() + 1);
        if collection.is_clustered() && !collection.options().contains(CLUSTERED_INDEX) {
            uses.push(IndexUse::of(id_spec(), false, by_id));
        }
        for index in index_catalog.shown() {
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
        let (ddl, held) = self.holds().lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        let index_catalog = self.catalog().index_catalog(&collection)?;
        let mut dropped: Vec<Ident> = Vec::new();
        for value in which {
            let index = find_index(&index_catalog.indexes, *value)?;
            match index {
                Some(index) if &*index.name != ID_INDEX_NAME => {
                    dropped.push(index.ident);
                }
                Some(_) => {
                    return Err(Error::invalid(
                        ErrorCode::INVALID_OPTIONS,
                        "cannot drop _id index",
                    ));
                }
                None if is_of_id(*value, &collection) => {
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
        self.commits().settle(Some(lsn), level)?;
        Ok(before)
    }

    /// Drops every index but the one on `_id`; returns how many there were before.
    pub fn drop_all_indexes(
        &self,
        namespace: &Namespace,
        operation: &Operation,
        level: Level,
    ) -> Result<usize> {
        let (ddl, held) = self.holds().lock_collection(namespace, operation)?;
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        let before = self.catalog().index_catalog(&collection)?.indexes.len()
            + usize::from(collection.is_clustered());
        let lsn = self.replace_indexes(&collection, |index| &*index.name == ID_INDEX_NAME)?;
        drop((hold, ddl));
        self.commits().settle(Some(lsn), level)?;
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
        let (ddl, held) = match change.unique {
            true => self.hold_without_shared_keys(namespace, which, operation)?,
            false => self.holds().lock_collection(namespace, operation)?,
        };
        let Some((collection, hold)) = held else {
            return Err(not_found(namespace));
        };
        collection.refuse_view()?;
        let index_catalog = self.catalog().index_catalog(&collection)?;
        let chosen = index_to_modify(&collection, &index_catalog.indexes, which, &change)?;
        let Some(chosen) = chosen else {
            drop((hold, ddl));
            self.commits().settle(None, level)?;
            return Ok(IndexChange::of_id());
        };
        let was = IndexChange::as_is(chosen);
        if change.changes_nothing_of(chosen) {
            drop((hold, ddl));
            self.commits().settle(None, level)?;
            return Ok(was);
        }
        let mut indexes = Vec::with_capacity(index_catalog.indexes.len());
        for index in &index_catalog.indexes {
            indexes.push(match index.ident == chosen.ident {
                true => index.with(&change)?,
                false => index.copy()?,
            });
        }
        if change.prepare_unique == Some(true) {
            self.check_prepared(&collection, chosen, &change)?;
        }
        let event = DefinitionEvent::new(
            DefinitionKind::Modify,
            collection.told_name(),
            Some(collection.uuid),
        );
        let event = event
            .with("o", change.told_of(chosen, &change))
            .with("was", change.told_of(chosen, &was));
        let indexes: Vec<&Index> = indexes.iter().collect();
        let lsn = self.put_entry(&collection, &indexes, 0, &[event], WriteBatch::new())?;
        drop((hold, ddl));
        self.commits().settle(Some(lsn), level)?;
        Ok(was)
    }

    /// Refuses to let an index refuse shared keys that could not be made so.
    fn check_prepared(
        &self,
        collection: &Collection,
        index: &Index,
        change: &IndexChange,
    ) -> Result<()> {
        let spec = index.with(change)?.spec;
        if let Some(series) = &collection.series {
            series_indexes::check(series, spec.as_raw())?;
        }
        self.catalog().checked(&spec).map(drop)
    }

    /// Commits the entry without the indexes that are not kept, and marks those as dropped.
    pub(crate) fn replace_indexes(
        &self,
        collection: &Collection,
        keep: impl Fn(&Index) -> bool,
    ) -> Result<u64> {
        let index_catalog = self.catalog().index_catalog(collection)?;
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
            collection.told_name(),
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
}

/// The index that is meant, if those options of it can be changed; none where it is that on `_id`, of which nothing changes.
fn index_to_modify<'i>(
    collection: &Collection,
    indexes: &'i [Index],
    which: RawValue<'_>,
    change: &IndexChange,
) -> Result<Option<&'i Index>> {
    if is_of_id(which, collection) {
        return match (change.expire_after_s, change.hidden) {
            (Some(_), _) => Err(Error::invalid(
                ErrorCode::INVALID_OPTIONS,
                "the _id field does not support TTL indexes",
            )),
            (None, Some(_)) => Err(Error::invalid(ErrorCode::BAD_VALUE, "can't hide _id index")),
            (None, None) => Ok(None),
        };
    }
    let chosen = named_index(collection, indexes, which)?;
    if change.expire_after_s.is_some() {
        check_conversion(collection, chosen)?;
    }
    Ok(Some(chosen))
}

/// The index that is meant.
fn named_index<'i>(
    collection: &Collection,
    indexes: &'i [Index],
    which: RawValue<'_>,
) -> Result<&'i Index> {
    find_index(indexes, which)?.ok_or_else(|| no_index(collection, which))
}

/// The index that is meant, if it is built.
pub(super) fn standing_index<'i>(
    collection: &Collection,
    indexes: &'i [Index],
    which: RawValue<'_>,
) -> Result<&'i Index> {
    match named_index(collection, indexes, which)? {
        index if index.building => Err(no_index(collection, which)),
        index => Ok(index),
    }
}

fn no_index(collection: &Collection, which: RawValue<'_>) -> Error {
    Error::IndexNotFound(format!(
        "cannot find index {} for ns {}",
        shown(which),
        collection.namespace
    ))
}

/// Refuses to let the documents of an index expire that is none of a single field of a collection whose documents can go.
fn check_conversion(collection: &Collection, index: &Index) -> Result<()> {
    if collection.capped.is_some() {
        return Err(Error::invalid(
            ErrorCode::INVALID_OPTIONS,
            "TTL indexes are not supported for capped collections.",
        ));
    }
    if let Some(series) = &collection.series {
        let mut spec = index.spec.clone();
        spec.append("expireAfterSeconds", 0);
        series_indexes::check(series, spec.as_raw())?;
    }
    if index.pattern.fields.len() > 1 {
        return Err(Error::invalid(
            ErrorCode::INVALID_OPTIONS,
            "TTL indexes are single-field indexes, compound indexes do not support TTL",
        ));
    }
    Ok(())
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

/// The definition of the index on `_id` as the option of a clustered collection has it.
pub fn clustered_index(name: &str) -> Result<Document> {
    check_name(name)?;
    Ok(clustered_spec(name))
}

pub(crate) fn clustered_spec(name: &str) -> Document {
    quarry_bson::doc! { "v": 2, "key": { "_id": 1 }, "name": name, "unique": true }
}

pub(crate) fn id_spec() -> Document {
    quarry_bson::doc! { "v": 2, "key": { "_id": 1 }, "name": ID_INDEX_NAME }
}

/// Whether the index on `_id` is meant, by its name or its pattern.
pub(super) fn is_of_id(which: RawValue<'_>, collection: &Collection) -> bool {
    match which {
        RawValue::String(name) => name == collection.id_index_name(),
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
