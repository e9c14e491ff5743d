//! One collection as the catalog keeps it: its entry, and, once a write or a plan needs them, its indexes.
//!
//! A read by `_id` needs the ident only, so the entry stays bytes until `IndexCatalog` is asked for. The catalog replaces
//! the whole object when the entry changes; an object in hand never changes, but for the multikey marks.

use std::sync::{Arc, OnceLock};

use quarry_bson::{Document, RawBinary, RawDocument, RawValue};
use quarry_collation::Collation;

use crate::catalog::plan_memory::PlanMemory;
use crate::catalog::time_series::{TIME_SERIES, TimeSeries, append_time_key};
use crate::catalog::validation::Validation;
use crate::catalog::view::{VIEW_ON, View};
use crate::collation::parse_collation;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::{ID_INDEX_NAME, Index};
use crate::index::document_filter::FilterLanguage;
use crate::index::key_buffer::KeyBuffer;
use crate::index::keys::{KeyGenerator, Target};
use crate::index::kind::IndexKinds;
use crate::index::path_numbers::PathNumbers;
use crate::index::plan_choices::{CachedPlan, PlanChoices};
use crate::keyspace::ident::{Ident, Prefix};
use crate::keyspace::namespace::Namespace;

/// The option of a collection whose changes are told with the document as it was before.
pub(crate) const PRE_IMAGES: &str = "changeStreamPreAndPostImages";

/// The option of a collection whose maker asked for what every collection but a capped one is: ordered by `_id`.
pub const CLUSTERED_INDEX: &str = "clusteredIndex";

/// The option of a clustered collection whose documents go so many seconds after the date in their `_id`, and of a time series whose
/// measurements go so many seconds after they were taken.
pub const EXPIRE_AFTER: &str = "expireAfterSeconds";

/// The option with the specification of a collection's default collation.
pub const COLLATION: &str = "collation";

/// The version of an index's sort keys in its entry, beside its specification.
const SORT_KEYS: &str = "sortKeys";

/// The mark of an index in its entry that was made unique after its creation. Its entries stand as those of other indexes do.
const CONVERTED: &str = "converted";

/// Bounds of a capped collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capped {
    /// The bytes of documents that it holds at most.
    pub size_bytes: u64,
    /// The documents that it holds at most, if they are bounded.
    pub documents_max: Option<u64>,
}

/// The definition of a collection: its options and its indexes.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionDefinition {
    /// The options that `create` was given.
    pub options: Document,
    /// The specifications of the finished indexes, without that on `_id`.
    pub indexes: Vec<Document>,
    /// Whether the collection is capped.
    pub is_capped: bool,
}

/// The meaning of a name in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionKind {
    /// A collection, capped ones included.
    Collection,
    /// A pipeline over another collection.
    View,
    /// A collection of measurements.
    TimeSeries,
}

impl CollectionKind {
    /// The kind of an entry with these options.
    pub(crate) fn of(options: RawDocument<'_>) -> CollectionKind {
        if options.contains(VIEW_ON) {
            CollectionKind::View
        } else if options.contains(TIME_SERIES) {
            CollectionKind::TimeSeries
        } else {
            CollectionKind::Collection
        }
    }

    /// The name of the kind, as listCollections has it.
    pub fn name(self) -> &'static str {
        match self {
            CollectionKind::Collection => "collection",
            CollectionKind::View => "view",
            CollectionKind::TimeSeries => TIME_SERIES,
        }
    }
}

/// A collection as one catalog entry describes it. A changed entry makes a new one.
pub struct Collection {
    /// The name that it had when the entry was read.
    pub namespace: Namespace,
    /// The number of the collection, which its keys begin with.
    pub ident: Ident,
    /// The ident in its ordered form.
    pub prefix: Prefix,
    /// The UUID, which a rename keeps.
    pub uuid: [u8; 16],
    /// The bounds, if the collection is capped.
    pub capped: Option<Capped>,
    /// Whether the journal keeps each changed or deleted document as it was before (`changeStreamPreAndPostImages`).
    pub keeps_pre_images: bool,
    /// The validator of its documents, if there is one that is not switched off.
    pub validation: Option<Box<Validation>>,
    /// The definition, if the name means a view.
    pub view: Option<View>,
    /// The definition, if it is a time series.
    pub series: Option<Box<TimeSeries>>,
    /// How strings are compared by operations that do not say otherwise, and kept by indexes that do not.
    pub collation: Collation,
    /// The name of the index that its records are, where its maker gave one.
    id_index_name: Option<Box<str>>,
    /// The memory of the plans over it; the catalog sets it of what it keeps.
    pub plan_memory: Option<Arc<PlanMemory>>,
    pub(crate) entry: Document,
    pub(crate) index_catalog: OnceLock<IndexCatalog>,
}

/// The part of a collection that writes and plans need: its indexes, compiled.
pub struct IndexCatalog {
    /// The indexes, in the order in which they were made.
    pub indexes: Vec<Index>,
    /// The compiled maker of their entries.
    pub keys: KeyGenerator,
    /// For plans.
    pub paths: PathNumbers,
    /// The position of the `_id` index of a capped collection in `indexes`.
    pub id_index: Option<usize>,
    /// Whether one of the indexes is partial.
    pub has_partial: bool,
    /// Whether one of the indexes has a kind.
    pub has_special: bool,
    /// The indexes that trials of plans have chosen.
    pub plan_choices: Arc<PlanChoices>,
}

impl Collection {
    /// Reads a catalog entry.
    pub(crate) fn from_entry(namespace: Namespace, entry: Document) -> Result<Collection> {
        let raw = entry.as_raw();
        let broken = || Error::Corrupt(format!("the catalog entry of `{namespace}` is broken"));
        let ident = match raw.get("ident") {
            Some(RawValue::Int64(number)) => Ident(u64::try_from(number).map_err(|_| broken())?),
            _ => return Err(broken()),
        };
        let uuid = match raw.get("uuid") {
            Some(RawValue::Binary(binary)) => binary.bytes.try_into().map_err(|_| broken())?,
            _ => return Err(broken()),
        };
        let options = raw.get("options").and_then(|value| value.as_document());
        let capped = options.and_then(capped_of);
        let images = options.and_then(|options| options.get_document(PRE_IMAGES));
        let keeps_pre_images =
            images.is_some_and(|images| images.get("enabled").is_some_and(|on| on.is_truthy()));
        let collation = options.map_or(Ok(None), collation_of)?.unwrap_or_default();
        let clustered = options.and_then(|options| options.get_document(CLUSTERED_INDEX));
        let id_index_name = clustered
            .and_then(|index| index.get_str("name"))
            .filter(|name| *name != ID_INDEX_NAME)
            .map(Box::from);
        Ok(Collection {
            prefix: ident.prefix(),
            series: options.and_then(|options| TimeSeries::of(&namespace, options)),
            namespace,
            ident,
            uuid,
            capped,
            keeps_pre_images,
            validation: options.and_then(|options| Validation::of(options, &collation)),
            view: options.and_then(View::of),
            collation,
            id_index_name,
            plan_memory: None,
            entry,
            index_catalog: OnceLock::new(),
        })
    }

    /// The meaning of its name, as listCollections calls it.
    pub fn kind(&self) -> CollectionKind {
        CollectionKind::of(self.options())
    }

    /// The options that `create` was given.
    pub fn options(&self) -> RawDocument<'_> {
        self.entry
            .as_raw()
            .get("options")
            .and_then(|value| value.as_document())
            .unwrap_or(RawDocument::EMPTY)
    }

    /// The specification of an index on the collection, which has the collection's collation unless it says otherwise.
    pub(crate) fn spec_of_index(&self, spec: &Document) -> Document {
        let mut spec = spec.clone();
        if let Some(collation) = self.collation.specification()
            && !spec.contains(COLLATION)
            && !is_of_id(spec.as_raw())
        {
            spec.append(COLLATION, collation.as_raw());
        }
        spec
    }

    /// Refuses a view, to which nobody writes and which has no indexes.
    pub fn refuse_view(&self) -> Result<()> {
        match &self.view {
            None => Ok(()),
            Some(_) => Err(Error::invalid(
                ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW,
                format!("Namespace {} is a view, not a collection", self.namespace),
            )),
        }
    }

    /// Counts a plan that found its records by `_id`.
    #[inline]
    pub fn count_by_id(&self) {
        if let Some(accesses) = &self.plan_memory {
            accesses.by_id.count();
        }
    }

    /// The plans that trials have chosen.
    pub fn cached_plans(&self) -> Vec<CachedPlan> {
        let index_catalog = self.index_catalog.get();
        index_catalog.map_or_else(Vec::new, |it| it.plan_choices.list())
    }

    /// Forgets which indexes trials of plans have chosen.
    pub fn forget_plan_choices(&self) {
        if let Some(index_catalog) = self.index_catalog.get() {
            index_catalog.plan_choices.clear();
        }
    }

    /// The seconds after which documents go whose `_id` is a date, or the measurements of a time series, if they do.
    pub fn expire_after_s(&self) -> Option<i64> {
        let seconds = self.options().get(EXPIRE_AFTER)?.as_i64_exact();
        seconds.filter(|_| self.capped.is_none())
    }

    /// Whether its records are ordered by `_id`: all are but capped ones and time series.
    #[inline]
    pub fn is_clustered(&self) -> bool {
        self.capped.is_none() && self.series.is_none()
    }

    /// The name of the index on `_id`.
    pub fn id_index_name(&self) -> &str {
        self.id_index_name.as_deref().unwrap_or(ID_INDEX_NAME)
    }

    /// The top-level field that its records are ordered by, if they are: each record key begins with its value.
    pub fn records_path(&self) -> Option<&str> {
        match (&self.series, self.is_clustered()) {
            (Some(series), _) => Some(&series.time_field),
            (None, true) => Some("_id"),
            (None, false) => None,
        }
    }

    /// The beginning of the record keys of a date, in a collection that is ordered by dates.
    pub fn date_key(&self, ms: i64) -> Vec<u8> {
        let mut key = Vec::with_capacity(32);
        append_time_key(&self.prefix, ms, &mut key);
        key
    }

    /// The full name that the journal tells of its changes under.
    pub(crate) fn told_name(&self) -> &str {
        match &self.series {
            None => self.namespace.as_str(),
            Some(series) => &series.told,
        }
    }

    /// Refuses a write of a transaction, or the making of it there, as MongoDB does for what is no ordinary collection.
    pub fn refuse_in_transaction(&self) -> Result<()> {
        let namespace = &self.namespace;
        let message = match (&self.series, self.capped) {
            (Some(_), _) => format!(
                "Cannot write to a time-series collection in a multi-document transaction: {namespace}"
            ),
            (None, Some(_)) => format!(
                "Collection '{namespace}' is a capped collection. Writes in transactions are not allowed on capped collections."
            ),
            (None, None) => return Ok(()),
        };
        let code = ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION;
        Err(Error::invalid(code, message))
    }

    /// The RecordId of a record whose key is given without its prefix: the number of a capped collection's record, and of others the
    /// bytes of the key, as MongoDB shows those of a clustered collection.
    pub fn record_id<'r>(&self, record: &'r [u8]) -> RawValue<'r> {
        match record.try_into().map(i64::from_be_bytes) {
            Ok(number) if self.capped.is_some() => RawValue::Int64(number),
            _ => RawValue::Binary(RawBinary {
                subtype: 0,
                bytes: record,
            }),
        }
    }

    /// The full key of the record with this `_id` in a clustered collection. Nothing stands under a key longer than
    /// engines take: who looks for such an `_id` finds nothing, and who inserts it is refused.
    pub fn record_key(&self, id: RawValue<'_>) -> Vec<u8> {
        let mut key = Vec::with_capacity(32);
        self.encode_record_key(&mut key, id);
        key
    }

    /// Like `record_key`, but appends, and refuses a key longer than engines take.
    pub(crate) fn append_record_key(&self, out: &mut Vec<u8>, id: RawValue<'_>) -> Result<()> {
        let start = out.len();
        self.encode_record_key(out, id);
        if out.len() - start > quarry_storage::KEY_BYTES_MAX {
            out.truncate(start);
            return Err(Error::id_too_long());
        }
        Ok(())
    }

    fn encode_record_key(&self, out: &mut Vec<u8>, id: RawValue<'_>) {
        out.extend_from_slice(self.prefix.as_bytes());
        quarry_keystring::encode_id(out, id);
    }

    /// Parses the entry's indexes, compiles the filters of partial ones, and has the kinds make their makers of keys; the
    /// caller adds the multikey marks.
    pub(crate) fn parse_index_catalog(
        &self,
        language: &dyn FilterLanguage,
        kinds: &dyn IndexKinds,
    ) -> Result<IndexCatalog> {
        let mut indexes = Vec::new();
        let listed = self
            .entry
            .as_raw()
            .get("indexes")
            .and_then(|value| value.as_array());
        for value in listed.iter().flat_map(quarry_bson::RawArray::iter) {
            let broken = || {
                Error::Corrupt(format!(
                    "an index of `{}` is broken in the catalog",
                    self.namespace
                ))
            };
            let stored = value.as_document().ok_or_else(broken)?;
            let (Some(RawValue::Int64(ident)), Some(RawValue::Document(spec))) =
                (stored.get("ident"), stored.get("spec"))
            else {
                return Err(broken());
            };
            let mut index =
                Index::from_spec(spec, Ident(u64::try_from(ident).map_err(|_| broken())?))?;
            if let Some(partial) = &index.partial {
                index.filter = Some(language.compile(partial.as_raw(), &index.collation)?);
            }
            if let Some(kind) = &index.pattern.kind {
                index.special = Some(kinds.compile(kind, &index)?);
            }
            if !index.collation.is_simple() {
                // An entry that does not say so has sort keys of no version that is known.
                let version = stored.get_str(SORT_KEYS).unwrap_or_default();
                index.sort_keys = Some(version.into());
            }
            if stored.get(CONVERTED).is_some_and(|it| it.is_truthy()) {
                index.become_unique();
            }
            index.building = stored
                .get("building")
                .is_some_and(|value| value.is_truthy());
            indexes.push(index);
        }
        let id_index = indexes
            .iter()
            .position(|index| self.capped.is_some() && &*index.name == ID_INDEX_NAME);
        if let Some(position) = id_index {
            indexes[position].become_id_of_capped();
        }
        let keys = KeyGenerator::new(&indexes);
        Ok(IndexCatalog {
            paths: PathNumbers::new(&indexes, self.records_path()),
            plan_choices: Arc::default(),
            has_partial: indexes.iter().any(|index| index.partial.is_some()),
            has_special: indexes.iter().any(|index| index.special.is_some()),
            indexes,
            keys,
            id_index,
        })
    }
}

impl IndexCatalog {
    /// The indexes that are shown: all but those that are built to take the place of others (`reindex`).
    pub fn shown(&self) -> impl Iterator<Item = &Index> {
        let indexes = self.indexes.iter();
        indexes.filter(|index| !index.is_working_copy(&self.indexes))
    }

    /// The index of that name; the `_id` index of a clustered collection has no entry here.
    pub fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| &*index.name == name)
    }

    /// Whether the index has entries of the document: a sparse one has none of a document without its
    /// fields, and a partial one none of a document that its filter does not match.
    pub fn has_entries(&self, ident: Ident, document: RawDocument<'_>) -> Result<bool> {
        let target = Target {
            document: 0,
            record_key: &[],
            id: None,
        };
        let mut has_some = false;
        self.each_entry(ident, target, document, &mut |_, _| has_some = true)?;
        Ok(has_some)
    }

    /// Hands over the keys and values of the entries that the index has of a record with this document.
    pub fn entries_of(
        &self,
        (ident, collection): (Ident, &Collection),
        record: &[u8],
        document: RawDocument<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let prefix_bytes = collection.prefix.as_bytes().len();
        let target = Target {
            document: 0,
            record_key: record.get(prefix_bytes..).unwrap_or_default(),
            id: document.get("_id").filter(|_| collection.is_clustered()),
        };
        self.each_entry(ident, target, document, each)
    }

    fn each_entry(
        &self,
        ident: Ident,
        target: Target<'_>,
        document: RawDocument<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let mut indexes = self.indexes.iter().enumerate();
        let Some((number, index)) = indexes.find(|(_, index)| index.ident == ident) else {
            let text = "an index was dropped that a change goes through".to_owned();
            return Err(Error::QueryPlanKilled(text));
        };
        let mut keys = KeyBuffer::default();
        keys.begin_standing();
        let found = self.keys.extract(document);
        self.keys
            .standing_entries(number, index, &found, target, &mut keys)?;
        for entry in &keys.entries {
            each(keys.key(entry), keys.value(entry));
        }
        Ok(())
    }
}

/// A new catalog entry.
pub(crate) fn new_entry(
    ident: Ident,
    uuid: [u8; 16],
    options: RawDocument<'_>,
    indexes: &[&Index],
) -> Document {
    let mut entry = Document::new();
    entry.append("ident", ident_value(ident));
    entry.append(
        "uuid",
        RawValue::Binary(quarry_bson::RawBinary {
            subtype: 4,
            bytes: &uuid,
        }),
    );
    entry.append("options", options);
    let stored: Vec<quarry_bson::Value> = indexes
        .iter()
        .map(|index| stored_index(index).into())
        .collect();
    entry.append("indexes", stored);
    entry
}

fn stored_index(index: &Index) -> Document {
    let mut stored = Document::new();
    stored.append("ident", ident_value(index.ident));
    stored.append("spec", index.stored_spec());
    stored.append("building", index.building);
    if index.is_converted() {
        stored.append(CONVERTED, true);
    }
    if let Some(version) = &index.sort_keys {
        stored.append(SORT_KEYS, &**version);
    }
    stored
}

fn ident_value(ident: Ident) -> i64 {
    i64::try_from(ident.0).expect("idents count up from 16")
}

/// Whether a specification is of the index on `_id`, which keeps strings as they are.
fn is_of_id(spec: RawDocument<'_>) -> bool {
    let key = spec.get_document("key");
    key.is_some_and(|key| key.len() == 1 && key.contains("_id"))
}

/// The collation among the options of a collection. It was checked when they were given.
fn collation_of(options: RawDocument<'_>) -> Result<Option<Collation>> {
    let specification = options.get_document(COLLATION);
    specification.map_or(Ok(None), parse_collation)
}

fn capped_of(options: RawDocument<'_>) -> Option<Capped> {
    if !options.get("capped").is_some_and(|value| value.is_truthy()) {
        return None;
    }
    let number = |name: &str| {
        options
            .get(name)
            .and_then(|value| value.as_i64_exact())
            .and_then(|n| u64::try_from(n).ok())
    };
    Some(Capped {
        size_bytes: number("size").unwrap_or(0),
        documents_max: number("max").filter(|&max| max > 0),
    })
}
