//! The indexes that createIndexes finds already there, and its report.

use quarry_bson::Document;

use crate::catalog::collection::Collection;
use crate::definitions::index_changes::{clustered_spec, same_pattern};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::{ID_INDEX_NAME, Index};

/// The report of createIndexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexesCreated {
    /// The number of indexes before, `_id_` counted.
    pub before: usize,
    /// The number of indexes after, `_id_` counted.
    pub after: usize,
    /// Whether the collection was made for its indexes.
    pub created_collection: bool,
}

/// An index of the definition that is asked for.
pub(crate) enum Known<'i> {
    /// The one on `_id`, which is always there.
    Id,
    Index(&'i Index),
}

/// The index of the same definition, if it exists; an error if a different one stands in its way.
pub(crate) fn known<'i>(
    candidate: &Index,
    collection: &Collection,
    indexes: impl Iterator<Item = &'i Index>,
) -> Result<Option<Known<'i>>> {
    if candidate.pattern.is_id() {
        let has_options = candidate.unique
            || candidate.prepare_unique
            || candidate.sparse
            || candidate.partial.is_some()
            || candidate.expire_after_s.is_some();
        if has_options {
            return Err(Error::invalid(
                ErrorCode::INVALID_INDEX_SPECIFICATION_OPTION,
                "the fields 'unique', 'sparse', 'partialFilterExpression' and 'expireAfterSeconds' are not valid for an _id index specification",
            ));
        }
        return Ok(Some(Known::Id));
    }
    if &*candidate.name == ID_INDEX_NAME {
        return Err(Error::invalid(
            ErrorCode::BAD_VALUE,
            "the index name '_id_' is reserved for the _id index",
        ));
    }
    if &*candidate.name == collection.id_index_name() {
        return Err(same_name(candidate, &clustered_spec(&candidate.name)));
    }
    for existing in indexes {
        let same_key = same_pattern(
            existing.pattern.document.as_raw(),
            candidate.pattern.document.as_raw(),
        );
        let has_its_name = existing.name == candidate.name;
        let is_same = same_key && existing.same_options(candidate);
        if is_same && has_its_name {
            if existing.expire_after_s != candidate.expire_after_s
                || !existing.same_kind_options(candidate)
            {
                let message = format!(
                    "An equivalent index already exists with the same name but different options. Requested index: {}, existing index: {}",
                    candidate.spec, existing.spec
                );
                return Err(Error::invalid(ErrorCode::INDEX_OPTIONS_CONFLICT, message));
            }
            return Ok(Some(Known::Index(existing)));
        }
        if has_its_name {
            return Err(same_name(candidate, &existing.spec));
        }
        let are_of_texts = candidate.is_of_texts() && existing.is_of_texts();
        if are_of_texts && !(is_same && existing.same_kind_options(candidate)) {
            return Err(second_of_texts(candidate, existing, same_key));
        }
        // One that is unique, sparse or partial where the other is not is another index.
        if is_same {
            let message = format!(
                "Index already exists with a different name: {}",
                existing.name
            );
            return Err(Error::invalid(ErrorCode::INDEX_OPTIONS_CONFLICT, message));
        }
    }
    Ok(None)
}

fn same_name(candidate: &Index, existing: &Document) -> Error {
    let message = format!(
        "An existing index has the same name as the requested index. When index names are not specified, they are auto generated and can cause conflicts. Please refer to our documentation. Requested index: {}, existing index: {existing}",
        candidate.spec
    );
    Error::invalid(ErrorCode::INDEX_KEY_SPECS_CONFLICT, message)
}

/// The error of a second text index: one with the key pattern of the first would be another version of it.
fn second_of_texts(candidate: &Index, existing: &Index, same_key: bool) -> Error {
    if same_key {
        let message = format!(
            "An equivalent index already exists with a different name and options. Requested index: {}, existing index: {}",
            candidate.spec, existing.spec
        );
        return Error::invalid(ErrorCode::INDEX_OPTIONS_CONFLICT, message);
    }
    let message = format!(
        "only one text index per collection allowed, found existing text index \"{}\"",
        existing.name
    );
    Error::invalid(ErrorCode::CANNOT_CREATE_INDEX, message)
}
