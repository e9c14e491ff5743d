//! What a refused key is told as.

use quarry_bson::{Document, RawDocument, RawValue};
use quarry_keystring::Direction;
use smallvec::SmallVec;

use crate::catalog::collection::Collection;
use crate::error::{DuplicateKey, Error};
use crate::index::definition::Index;
use crate::index::entry::IndexEntry;

pub(super) fn duplicate_id(collection: &Collection, document: RawDocument<'_>) -> Error {
    let mut key_pattern = Document::new();
    key_pattern.append("_id", 1);
    let mut key_value = Document::new();
    key_value.append("_id", document.get("_id").unwrap_or(RawValue::Null));
    Error::DuplicateKey(Box::new(DuplicateKey {
        namespace: collection.namespace.to_string(),
        index: "_id_".to_owned(),
        key_pattern,
        key_value,
    }))
}

pub(crate) fn duplicate_key(
    collection: &Collection,
    index: &Index,
    key: &[u8],
    value: &[u8],
) -> Error {
    let directions: SmallVec<[Direction; 8]> = index
        .pattern
        .fields
        .iter()
        .map(|field| field.direction)
        .collect();
    let mut key_value = Document::new();
    if let Some(entry) = IndexEntry::parse(index, key, value)
        && let Ok(values) = quarry_keystring::decode(entry.fields, entry.type_bits, &directions)
    {
        for (field, value) in index.pattern.fields.iter().zip(&values) {
            key_value.append(&field.path, value.as_raw());
        }
    }
    Error::DuplicateKey(Box::new(DuplicateKey {
        namespace: collection.namespace.to_string(),
        index: index.name.clone(),
        key_pattern: index.pattern.document.clone(),
        key_value,
    }))
}
