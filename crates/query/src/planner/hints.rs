//! Hints: what the index or the order is that a client names.

use quarry_bson::RawValue;
use quarry_database::{Index, IndexCatalog};
use quarry_keystring::Direction;

use crate::error::{Error, Result};
use crate::wildcard_index::WildcardKeys;

/// Whether a hint means a wildcard index.
pub fn is_wildcards(index_catalog: &IndexCatalog, hint: RawValue<'_>) -> bool {
    let mut indexes = index_catalog.indexes.iter();
    indexes.any(|index| WildcardKeys::of(index).is_some() && index.is_meant(hint))
}

/// The error of a hint that is no index's that plans may use: of one whose sort keys nobody can make any more, what is to be done.
#[cold]
pub fn no_such_hint(index_catalog: &IndexCatalog, hint: RawValue<'_>) -> Error {
    let mut indexes = index_catalog.indexes.iter();
    let meant = indexes.find(|index| index.is_meant(hint));
    if let Some(Err(error)) = meant.map(Index::check_sort_keys) {
        return error.into();
    }
    Error::bad_value(
        "error processing query: planner returned error :: caused by :: hint provided does not correspond to an existing index",
    )
}

/// The direction of a hint `{$natural: ±1}`.
pub fn natural_hint(hint: Option<RawValue<'_>>) -> Result<Option<Direction>> {
    let Some(RawValue::Document(pattern)) = hint else {
        return Ok(None);
    };
    let Some(natural) = pattern.get("$natural") else {
        return Ok(None);
    };
    match natural.as_i64_exact() {
        Some(1) => Ok(Some(Direction::Ascending)),
        Some(-1) => Ok(Some(Direction::Descending)),
        _ => Err(Error::bad_value(
            "$natural hint cannot be set to a value other than -1 or 1.",
        )),
    }
}
