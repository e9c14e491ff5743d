//! Index definitions: the key pattern and options a user gave, checked once, and the ident the entries live under.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quarry_bson::compare::compare_documents;
use quarry_bson::{Document, RawDocument, RawValue, Value};
use quarry_collation::{Collation, SORT_KEYS_VERSION};
use quarry_keystring::Direction;

use crate::collation::parse_collation;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::access_counter::AccessCounter;
use crate::index::document_filter::DocumentFilter;
use crate::index::kind::SpecialKeys;
use crate::keyspace::ident::{Ident, Prefix};

/// The name of the index on `_id`, unless the maker of a clustered collection gave another.
pub const ID_INDEX_NAME: &str = "_id_";

/// MongoDB's bounds.
pub const INDEX_FIELDS_MAX: usize = 32;
pub const INDEXES_MAX: usize = 64;
/// The options that only indexes with a kind have; the kind itself says which of them it has.
const KIND_OPTIONS: [&str; 10] = [
    "weights",
    "default_language",
    "language_override",
    "textIndexVersion",
    "2dsphereIndexVersion",
    "bits",
    "min",
    "max",
    "bucketSize",
    "wildcardProjection",
];
/// The mark of an index that has cut keys (`index_entry`), behind those of its fields.
pub(crate) const CUT_KEYS: u64 = 1 << 63;

/// One field of a key pattern.
#[derive(Debug, Clone)]
pub struct KeyField {
    /// The dotted path.
    pub path: String,
    /// The components of the path.
    pub components: Box<[String]>,
    /// The order of the field's values.
    pub direction: Direction,
    /// The pattern has the name of the index's kind in place of a direction, or the field is a wildcard.
    pub is_special: bool,
    /// The field stands for all paths, or for all below one: its entries have a path before each value.
    pub is_wildcard: bool,
}

/// The kind of the indexes with a wildcard field, which have no name of a kind in their pattern.
pub const WILDCARD: &str = "wildcard";
/// The kind of the indexes of words, of which a collection has one at most.
pub const TEXT: &str = "text";
/// How the name of an index begins that is built in place of another one.
const WORKING: &str = "reIndex of ";
/// The last component of a wildcard field.
const EVERY_PATH: &str = "$**";

/// A key pattern such as `{a: 1, "b.c": -1}`.
#[derive(Debug, Clone)]
pub struct KeyPattern {
    /// The fields in the order of the pattern.
    pub fields: Vec<KeyField>,
    /// The pattern as it was given. Plans and their summaries share it.
    pub document: Arc<Document>,
    /// The kind that it names, if its keys are not the values of its fields.
    pub kind: Option<Box<str>>,
}

/// Operators are no fields; those of a DBRef are, below another one.
fn has_illegal_component(path: &str) -> bool {
    path.split('.')
        .enumerate()
        .any(|(depth, component)| match component {
            "$ref" | "$id" | "$db" => depth == 0,
            _ => component.starts_with('$'),
        })
}

/// The option of an index that refuses keys which another document has, and lets those stay that are shared.
pub const PREPARE_UNIQUE: &str = "prepareUnique";

/// The options of an index that collMod changes; none stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexChange {
    /// Whether plans pass it over.
    pub hidden: Option<bool>,
    /// How many seconds after their date its documents go.
    pub expire_after_s: Option<i32>,
    /// Whether it refuses keys that another document has, and lets those stay that are shared.
    pub prepare_unique: Option<bool>,
    /// The index becomes unique; false leaves it as it is.
    pub unique: bool,
}

impl IndexChange {
    /// The options of an index as they are.
    pub(crate) fn as_is(index: &Index) -> IndexChange {
        IndexChange {
            hidden: Some(index.hidden),
            expire_after_s: index.expire_after_s,
            prepare_unique: Some(index.prepare_unique),
            unique: index.unique,
        }
    }

    /// The options of the index on `_id`, of which none changes.
    pub(crate) fn of_id() -> IndexChange {
        IndexChange {
            hidden: Some(false),
            expire_after_s: None,
            prepare_unique: Some(false),
            unique: true,
        }
    }

    /// Whether the index is as it is asked to be.
    pub(crate) fn changes_nothing_of(&self, index: &Index) -> bool {
        let seconds = self.expire_after_s;
        self.hidden.is_none_or(|hidden| hidden == index.hidden)
            && seconds.is_none_or(|seconds| index.expire_after_s == Some(seconds))
            && (self.prepare_unique)
                .is_none_or(|prepares| index.unique || prepares == index.prepare_unique)
            && (!self.unique || index.unique)
    }

    /// The values of the options that are changed, as an event tells them.
    pub(crate) fn told_of(&self, index: &Index, values: &IndexChange) -> Document {
        let mut told = Document::new();
        told.append("name", &*index.name);
        if let (Some(_), Some(hidden)) = (self.hidden, values.hidden) {
            told.append("hidden", hidden);
        }
        if let (Some(_), Some(seconds)) = (self.expire_after_s, values.expire_after_s) {
            told.append("expireAfterSeconds", i64::from(seconds));
        }
        if let (Some(_), Some(prepares)) = (self.prepare_unique, values.prepare_unique) {
            told.append(PREPARE_UNIQUE, prepares);
        }
        if self.unique && !index.unique {
            told.append("unique", values.unique);
        }
        quarry_bson::doc! { "index": told }
    }
}

/// One index of a collection.
pub struct Index {
    /// The name, one of its kind in the collection. Plans share it.
    pub name: Arc<str>,
    /// The number of the index, which its keys begin with.
    pub ident: Ident,
    /// The ident in its ordered form.
    pub prefix: Prefix,
    /// The key pattern.
    pub pattern: KeyPattern,
    /// No two documents may have one key.
    pub unique: bool,
    /// No document may take a key that another one has; those that share one already keep it (`prepareUnique`).
    pub prepare_unique: bool,
    /// Its entries stand under the keys alone, so that two documents cannot share one. Not so for a unique index that was another one
    /// before: its entries stayed as they were.
    pub unique_entries: bool,
    /// Documents without any of the fields have no entry.
    pub sparse: bool,
    /// The `partialFilterExpression`: documents that do not match it have no entry.
    pub partial: Option<Document>,
    /// Compiled from it; the catalog sets it, so that each index of an `IndexCatalog` with the one has the other.
    pub filter: Option<Arc<dyn DocumentFilter>>,
    /// The maker of its keys, where it has a kind; the catalog sets it.
    pub special: Option<Arc<dyn SpecialKeys>>,
    /// The options that only an index with a kind has.
    pub kind_options: Document,
    /// How it keeps strings: as they are, or as sort keys of this collation.
    pub collation: Collation,
    /// The version of its sort keys, where it keeps some; the catalog sets that of an index that stands.
    pub(crate) sort_keys: Option<Box<str>>,
    /// A document goes so many seconds after the date in the index's field.
    pub expire_after_s: Option<i32>,
    /// Kept up to date and not used by plans.
    pub hidden: bool,
    /// The option `background`, which is shown as it was given and does nothing: no build holds a collection up.
    background: Option<Value>,
    /// Being built: kept up to date by writers, not used by plans.
    pub building: bool,
    /// The specification as listIndexes shows it.
    pub spec: Document,
    /// The marks of what its entries have met so far: a bit for each field that met an array, and `CUT_KEYS`.
    marks: AtomicU64,
    /// How often plans have read it; the catalog sets that of an index that stands.
    pub accesses: Option<Arc<AccessCounter>>,
}

impl KeyPattern {
    /// Parses a key pattern. Fails with MongoDB's code for what it may not be.
    pub fn parse(pattern: RawDocument<'_>) -> Result<KeyPattern> {
        let mut fields = Vec::new();
        let mut kind: Option<Box<str>> = None;
        for element in pattern {
            let path = element.name().as_str()?.to_owned();
            let is_text = matches!(element.value(), RawValue::String(kind) if kind == TEXT);
            let is_wildcard = path.rsplit('.').next() == Some(EVERY_PATH) && !is_text;
            let is_special = is_wildcard || matches!(element.value(), RawValue::String(_));
            let direction = match element.value() {
                RawValue::String(name) => {
                    let name = name.as_str()?;
                    if name == WILDCARD {
                        return Err(cannot_create(format!("Unknown index plugin '{name}'")));
                    }
                    if kind.as_deref().is_some_and(|known| known != name) {
                        return Err(cannot_create(format!(
                            "can't use more than one index plugin for a single index: {pattern}"
                        )));
                    }
                    kind = Some(name.into());
                    Direction::Ascending
                }
                value => parse_direction(&path, value)?,
            };
            if is_wildcard && kind.replace(WILDCARD.into()).is_some() {
                return Err(cannot_create(format!(
                    "an index has one wildcard field at most, and no kind beside it: {pattern}"
                )));
            }
            if path.is_empty() || path.split('.').any(str::is_empty) {
                return Err(cannot_create(format!(
                    "index keys cannot have an empty path component: `{path}`"
                )));
            }
            let named = path.strip_suffix(EVERY_PATH).filter(|_| is_wildcard);
            let is_every_text = is_text && path == EVERY_PATH;
            if !is_every_text && has_illegal_component(named.unwrap_or(&path)) {
                return Err(cannot_create(format!(
                    "index key contains an illegal field name: `{path}`"
                )));
            }
            if fields.iter().any(|field: &KeyField| field.path == path) {
                return Err(Error::invalid(
                    ErrorCode::BAD_VALUE,
                    format!("the field `{path}` appears more than once in the index key pattern"),
                ));
            }
            let components = path.split('.').map(str::to_owned).collect();
            fields.push(KeyField {
                path,
                components,
                direction,
                is_special,
                is_wildcard,
            });
        }
        if fields.is_empty() {
            return Err(cannot_create(
                "index keys cannot be an empty document".to_owned(),
            ));
        }
        if fields.len() > INDEX_FIELDS_MAX {
            return Err(Error::invalid(
                ErrorCode(13_103),
                format!("compound index has more than {INDEX_FIELDS_MAX} fields"),
            ));
        }
        Ok(KeyPattern {
            fields,
            document: Arc::new(pattern.to_owned_document()),
            kind,
        })
    }

    /// Whether its entries depend on all fields of a document.
    pub fn is_of_every_path(&self) -> bool {
        self.fields.iter().any(|field| field.path == EVERY_PATH)
    }

    /// Whether it is the pattern of the `_id` index.
    pub fn is_id(&self) -> bool {
        self.fields.len() == 1
            && self.fields[0].path == "_id"
            && self.fields[0].direction == Direction::Ascending
            && self.kind.is_none()
    }

    /// The name MongoDB gives an index that was made without one: `a_1_b.c_-1`.
    pub fn default_name(&self) -> String {
        let parts: Vec<String> = self
            .document
            .iter()
            .map(|element| match element.value() {
                RawValue::String(kind) => format!("{}_{kind}", element.name()),
                value => {
                    let direction = value.as_f64_lossy().unwrap_or(1.0);
                    format!("{}_{direction}", element.name())
                }
            })
            .collect();
        parts.join("_")
    }
}

impl Index {
    /// Reads an index as createIndexes was given it.
    pub fn from_spec(spec: RawDocument<'_>, ident: Ident) -> Result<Index> {
        let key = spec
            .get("key")
            .and_then(|value| value.as_document())
            .ok_or_else(|| {
                Error::invalid(
                    ErrorCode::FAILED_TO_PARSE,
                    "the `key` field of an index specification must be a document",
                )
            })?;
        let pattern = KeyPattern::parse(key)?;
        let name = match spec.get("name") {
            None => pattern.default_name(),
            Some(RawValue::String(name)) => name.as_str()?.to_owned(),
            Some(_) => {
                return Err(Error::invalid(
                    ErrorCode::TYPE_MISMATCH,
                    "the `name` field of an index specification must be a string",
                ));
            }
        };
        check_name(&name)?;
        let mut index = Index {
            name: name.into(),
            ident,
            prefix: ident.prefix(),
            pattern,
            unique: false,
            prepare_unique: false,
            unique_entries: false,
            sparse: false,
            partial: None,
            filter: None,
            special: None,
            kind_options: Document::new(),
            collation: Collation::SIMPLE,
            sort_keys: None,
            expire_after_s: None,
            hidden: false,
            background: None,
            building: false,
            spec: Document::new(),
            marks: AtomicU64::new(0),
            accesses: None,
        };
        index.read_options(spec)?;
        index.settle_unique();
        if index.sparse && index.partial.is_some() {
            return Err(cannot_create(
                "cannot mix \"partialFilterExpression\" and \"sparse\" options".to_owned(),
            ));
        }
        index.check_expiry()?;
        index.check_collation()?;
        index.sort_keys = (!index.collation.is_simple()).then(|| SORT_KEYS_VERSION.into());
        index.spec = index.normal_spec();
        Ok(index)
    }

    /// Another index of the same definition, under the same ident; not compiled.
    pub(crate) fn copy(&self) -> Result<Index> {
        let mut copy = Index::from_spec(self.spec.as_raw(), self.ident)?;
        copy.building = self.building;
        copy.unique = self.unique;
        copy.unique_entries = self.unique_entries;
        copy.sort_keys.clone_from(&self.sort_keys);
        Ok(copy)
    }

    /// The name under which it is built anew, and nobody sees it.
    pub(crate) fn working_name(&self) -> String {
        format!("{WORKING}{}", self.name)
    }

    /// Whether it is built to take the place of one of these indexes.
    pub(crate) fn is_working_copy(&self, of: &[Index]) -> bool {
        let name = self.name.strip_prefix(WORKING).filter(|_| self.building);
        let name = name.map(|name| name.trim_end_matches('+'));
        name.is_some_and(|name| {
            of.iter()
                .any(|index| name == index.name.trim_end_matches('+'))
        })
    }

    /// Whether its sort keys are of another version than those that are made now, so that nothing is found by it.
    pub fn is_outdated(&self) -> bool {
        let kept = self.sort_keys.as_deref();
        kept.is_some_and(|version| version != SORT_KEYS_VERSION)
    }

    /// Fails for an index whose sort keys are of another version: nobody can find its entries, or make such as it has.
    pub fn check_sort_keys(&self) -> Result<()> {
        if !self.is_outdated() {
            return Ok(());
        }
        let kept = self.sort_keys.as_deref().unwrap_or_default();
        Err(Error::invalid(
            ErrorCode::INCOMPATIBLE_COLLATION_VERSION,
            format!(
                "the index `{}` has sort keys of the version {kept}, and this build makes those of {SORT_KEYS_VERSION}; drop the index and create it again",
                self.name
            ),
        ))
    }

    /// The keys of most kinds are made of the strings themselves, or have none.
    fn check_collation(&self) -> Result<()> {
        let Some(specification) = self.collation.specification() else {
            return Ok(());
        };
        match self.pattern.kind.as_deref() {
            None | Some("2dsphere" | WILDCARD) => Ok(()),
            Some(kind) => Err(cannot_create(format!(
                "Index type '{kind}' does not support collation: {specification} is not supported, and `collation: {{locale: \"simple\"}}` makes an index without one"
            ))),
        }
    }

    /// The definition with changed options, under the same ident; not compiled.
    pub(crate) fn with(&self, change: &IndexChange) -> Result<Index> {
        let mut changed = self.copy()?;
        if let Some(hidden) = change.hidden {
            changed.hidden = hidden;
        }
        if let Some(seconds) = change.expire_after_s {
            changed.expire_after_s = Some(seconds);
            changed.check_expiry()?;
        }
        if let Some(prepare_unique) = change.prepare_unique {
            changed.prepare_unique = prepare_unique;
        }
        if change.unique {
            changed.become_unique();
        }
        changed.spec = changed.normal_spec();
        Ok(changed)
    }

    /// Takes the options of its kind in place of those it was given, and its key pattern, if the kind keeps another one.
    pub(crate) fn complete(&mut self, options: Document, pattern: Option<Document>) -> Result<()> {
        self.kind_options = options;
        if let Some(pattern) = pattern {
            self.pattern = KeyPattern::parse(pattern.as_raw())?;
        }
        self.spec = self.normal_spec();
        Ok(())
    }

    fn check_expiry(&self) -> Result<()> {
        if let (Some(_), Some(kind)) = (self.expire_after_s, &self.pattern.kind) {
            return Err(cannot_create(format!(
                "expireAfterSeconds is not supported for indexes of the kind '{kind}'"
            )));
        }
        if self.expire_after_s.is_some() && self.pattern.fields.len() > 1 {
            return Err(cannot_create(format!(
                "TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: {}",
                self.pattern.document
            )));
        }
        Ok(())
    }

    /// Whether a hint means this index, by its name or its key pattern.
    pub fn is_meant(&self, hint: RawValue<'_>) -> bool {
        match hint {
            RawValue::String(name) => name == *self.name,
            RawValue::Document(pattern) => {
                compare_documents(pattern, self.pattern.document.as_raw()).is_eq()
            }
            _ => false,
        }
    }

    /// Whether it is an index of words.
    pub(crate) fn is_of_texts(&self) -> bool {
        self.pattern.kind.as_deref() == Some(TEXT)
    }

    /// The key components that have met an array, as a bit set.
    pub fn multikey_components(&self) -> u64 {
        self.marks() & !CUT_KEYS
    }

    /// Whether some of its keys are cut: their order says nothing behind the cut.
    pub fn has_cut_keys(&self) -> bool {
        self.marks() & CUT_KEYS != 0
    }

    pub(crate) fn marks(&self) -> u64 {
        self.marks.load(Ordering::Acquire)
    }

    /// Whether any of its fields has met an array.
    pub fn is_multikey(&self) -> bool {
        self.multikey_components() != 0
    }

    /// Whether its keys are not unique yet: a duplicate is noted, not refused.
    pub(crate) fn is_unique_build(&self) -> bool {
        self.unique_entries && self.building
    }

    /// Whether writers refuse keys that another document has although its entries could share them. The build of such an index
    /// says nothing of duplicates.
    #[inline]
    pub(crate) fn refuses_shared_keys(&self) -> bool {
        (self.prepare_unique || self.is_converted()) && !self.building
    }

    /// Whether it was made unique after its creation.
    pub(crate) fn is_converted(&self) -> bool {
        self.unique && !self.unique_entries
    }

    /// Gives it another name.
    pub(crate) fn rename(&mut self, name: &str) {
        self.name = name.into();
        self.spec = self.normal_spec();
    }

    /// Makes it unique, with the entries that it has.
    pub(crate) fn become_unique(&mut self) {
        self.unique = true;
        self.prepare_unique = false;
        self.spec = self.normal_spec();
    }

    /// Makes it the index on `_id` of a capped collection, which is unique without saying so.
    pub(crate) fn become_id_of_capped(&mut self) {
        if std::mem::take(&mut self.unique) {
            self.spec = self.normal_spec();
        }
        self.unique = true;
        self.unique_entries = true;
    }

    /// The specification as the catalog keeps it. That of a converted index is of the index that it was, so that a build which knows no
    /// conversions refuses it.
    pub(crate) fn stored_spec(&self) -> Document {
        if !self.is_converted() {
            return self.spec.clone();
        }
        Document::build(|spec| {
            for option in self.spec.iter().filter(|option| option.name() != "unique") {
                spec.append_element(option);
            }
            spec.append(PREPARE_UNIQUE, true);
        })
    }

    pub(crate) fn mark(&self, bit: u8) {
        self.marks.fetch_or(1 << bit, Ordering::AcqRel);
    }

    /// Whether the options of the kind of two definitions are equal, which were completed before.
    pub(crate) fn same_kind_options(&self, other: &Index) -> bool {
        compare_documents(self.kind_options.as_raw(), other.kind_options.as_raw()).is_eq()
    }

    /// Whether two definitions with one key pattern are of one index. Those that differ in what is told here may stand
    /// beside each other under different names.
    pub fn same_options(&self, other: &Index) -> bool {
        let partial = |index: &Index| {
            index
                .partial
                .as_ref()
                .map(|filter| filter.as_bytes().to_vec())
        };
        let projection = |index: &Index| {
            let projection = index
                .kind_options
                .as_raw()
                .get_element("wildcardProjection");
            projection.map(|projection| projection.as_bytes().to_vec())
        };
        self.unique == other.unique
            && self.sparse == other.sparse
            && projection(self) == projection(other)
            && partial(self) == partial(other)
            && self.collation == other.collation
    }

    /// Gives a unique index the entries of one, and takes the promise away that it keeps already.
    fn settle_unique(&mut self) {
        self.unique_entries = self.unique;
        self.prepare_unique &= !self.unique;
    }

    fn read_options(&mut self, spec: RawDocument<'_>) -> Result<()> {
        for element in spec {
            let option = element.name().as_str()?;
            let value = element.value();
            match option {
                "key" | "name" | "ns" | "comment" => {}
                "background" => {
                    truth(option, value)?;
                    self.background = Some(value.into());
                }
                "v" => {
                    if !matches!(value.as_i64_exact(), Some(1 | 2)) {
                        return Err(cannot_create(format!(
                            "invalid index specification: index version {value} is not supported"
                        )));
                    }
                }
                "unique" => self.unique = truth(option, value)?,
                PREPARE_UNIQUE => self.prepare_unique = truth(option, value)?,
                "sparse" => self.sparse = truth(option, value)?,
                "hidden" => self.hidden = truth(option, value)?,
                "collation" => self.collation = read_collation(value)?,
                "partialFilterExpression" => {
                    let Some(filter) = value.as_document() else {
                        return Err(Error::invalid(
                            ErrorCode::TYPE_MISMATCH,
                            "the field 'partialFilterExpression' must be an object",
                        ));
                    };
                    self.partial = Some(filter.to_owned_document());
                }
                "expireAfterSeconds" => self.expire_after_s = Some(expiry(value)?),
                _ if KIND_OPTIONS.contains(&option) => {
                    if self.pattern.kind.is_none() {
                        return Err(cannot_create(format!(
                            "the index option `{option}` is only for indexes of a kind that has it"
                        )));
                    }
                    self.kind_options.append(option, value);
                }
                "storageEngine" | "clustered" => {
                    return Err(cannot_create(format!(
                        "the index option `{option}` is not supported"
                    )));
                }
                _ => {
                    return Err(Error::invalid(
                        ErrorCode::INVALID_INDEX_SPECIFICATION_OPTION,
                        format!("the field `{option}` is not valid for an index specification"),
                    ));
                }
            }
        }
        Ok(())
    }

    fn normal_spec(&self) -> Document {
        let mut spec = Document::new();
        spec.append("v", 2);
        spec.append("key", self.pattern.document.as_raw());
        spec.append("name", &*self.name);
        for (option, set) in [
            ("unique", self.unique),
            ("sparse", self.sparse),
            ("hidden", self.hidden),
            (PREPARE_UNIQUE, self.prepare_unique),
        ] {
            if set {
                spec.append(option, true);
            }
        }
        if let Some(background) = &self.background {
            spec.append("background", background.clone());
        }
        if let Some(seconds) = self.expire_after_s {
            spec.append("expireAfterSeconds", seconds);
        }
        if let Some(filter) = &self.partial {
            spec.append("partialFilterExpression", filter.as_raw());
        }
        if let Some(specification) = self.collation.specification() {
            spec.append("collation", specification.as_raw());
        }
        for option in self.kind_options.as_raw() {
            spec.append(option.name().to_string_lossy().as_ref(), option.value());
        }
        spec
    }
}

fn parse_direction(path: &str, value: RawValue<'_>) -> Result<Direction> {
    match value.as_f64_lossy() {
        Some(number) if number > 0.0 => Ok(Direction::Ascending),
        Some(number) if number < 0.0 => Ok(Direction::Descending),
        _ => Err(cannot_create(format!(
            "values in an index key pattern must be numbers other than 0: `{path}`: {value}"
        ))),
    }
}

/// The seconds of `expireAfterSeconds`. A fraction is cut off.
fn expiry(value: RawValue<'_>) -> Result<i32> {
    let Some(seconds) = value.as_f64_lossy().filter(|_| value.is_number()) else {
        return Err(cannot_create(format!(
            "TTL index 'expireAfterSeconds' option must be numeric, but received {value}"
        )));
    };
    if seconds.is_nan() {
        return Err(cannot_create(
            "TTL index 'expireAfterSeconds' option must not be NaN".to_owned(),
        ));
    }
    if seconds < 0.0 {
        return Err(cannot_create(
            "TTL index 'expireAfterSeconds' option cannot be less than 0".to_owned(),
        ));
    }
    if seconds > f64::from(i32::MAX) {
        return Err(cannot_create(
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a lower number"
                .to_owned(),
        ));
    }
    Ok(seconds as i32)
}

fn truth(option: &str, value: RawValue<'_>) -> Result<bool> {
    match value {
        RawValue::Boolean(_) => Ok(value.is_truthy()),
        _ if value.is_number() => Ok(value.is_truthy()),
        _ => Err(Error::invalid(
            ErrorCode::TYPE_MISMATCH,
            format!("the index option `{option}` must be a bool"),
        )),
    }
}

fn read_collation(value: RawValue<'_>) -> Result<Collation> {
    let Some(given) = value.as_document() else {
        return Err(Error::invalid(
            ErrorCode::TYPE_MISMATCH,
            format!(
                "The field 'collation' must be an object, but got {}",
                value.element_type().alias()
            ),
        ));
    };
    let collation = parse_collation(given)?;
    collation.ok_or_else(|| {
        let text = "The field 'collation' cannot be an empty object";
        Error::invalid(ErrorCode::BAD_VALUE, text)
    })
}

/// Refuses what is no name of an index.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(cannot_create("index name cannot be empty".to_owned()));
    }
    if name.contains('\0') || name == "*" {
        return Err(Error::invalid(
            ErrorCode::BAD_VALUE,
            format!("the index name `{name}` is not valid"),
        ));
    }
    Ok(())
}

fn cannot_create(message: String) -> Error {
    Error::invalid(ErrorCode::CANNOT_CREATE_INDEX, message)
}
