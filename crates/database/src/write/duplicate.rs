//! Keys that another document has: who has them, and how a refused one is told.

use quarry_bson::{Document, RawDocument, RawValue};
use quarry_collation::Collation;

use crate::catalog::collection::Collection;
use crate::definitions::builds::Builds;
use crate::error::{DuplicateKey, Error, Result};
use crate::index::definition::Index;
use crate::index::entry::{IndexEntry, split_unique_value};
use crate::index::shown_key::shown_key;
use crate::snapshot::reads::Reads;

pub(super) fn duplicate_id(collection: &Collection, document: RawDocument<'_>) -> Error {
    let mut key_pattern = Document::new();
    key_pattern.append("_id", 1);
    let mut key_value = Document::new();
    key_value.append("_id", document.get("_id").unwrap_or(RawValue::Null));
    Error::DuplicateKey(Box::new(DuplicateKey {
        namespace: collection.namespace.to_string(),
        index: collection.id_index_name().to_owned(),
        key_pattern,
        key_value,
        collation: Collation::SIMPLE,
    }))
}

pub(crate) fn duplicate_key(
    collection: &Collection,
    index: &Index,
    key: &[u8],
    value: &[u8],
) -> Error {
    let entry = IndexEntry::parse(index, key, value);
    let key_value = entry.map(|entry| shown_key(index, &entry));
    Error::DuplicateKey(Box::new(DuplicateKey {
        namespace: collection.namespace.to_string(),
        index: index.name.to_string(),
        key_pattern: Document::clone(&index.pattern.document),
        key_value: key_value.unwrap_or_default(),
        collation: index.collation.clone(),
    }))
}

/// Notes that the document under `record_key` could not put the entry `key`, `value` into `index`, which is being built.
pub(super) fn note_duplicate(
    builds: &Builds,
    collection: &Collection,
    index: &Index,
    record_key: &[u8],
    (key, value): (&[u8], &[u8]),
) {
    builds.note(index.ident, record_key, || {
        duplicate_key(collection, index, key, value)
    });
}

/// Whether the unique entry `key` stands and names the record with the suffix `own`.
pub(super) fn owns_entry(reads: &Reads, key: &[u8], own: &[u8]) -> Result<bool> {
    let mut owns = false;
    reads.get(key, &mut |value| {
        owns = split_unique_value(value).is_some_and(|(owner, _)| owner == own);
    })?;
    Ok(owns)
}
