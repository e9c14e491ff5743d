//! Collations: how strings are compared, sorted and found. The rules stand in a crate of their own (`quarry_collation`).
//!
//! Every document that asks for a collation is read here, so that a client is told in one way what is wrong with it, and those
//! who compare are handed a type.

use quarry_bson::{RawDocument, RawValue};
use quarry_collation::Collation;
use quarry_keystring::{Direction, TypeBits, encode_value};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Reads the document of a command, of a collection or of an index. An empty one asks for nothing; `{locale: "simple"}` asks
/// for the simple collation.
pub fn parse_collation(specification: RawDocument<'_>) -> Result<Option<Collation>> {
    if specification.is_empty() {
        return Ok(None);
    }
    let parsed = Collation::parse(specification);
    parsed
        .map(Some)
        .map_err(|error| Error::invalid(ErrorCode(error.code()), error.to_string()))
}

/// Appends the key of a value as the collation orders it: with a sort key in place of each string.
#[inline]
pub fn encode_collated(
    collation: &Collation,
    out: &mut Vec<u8>,
    type_bits: &mut TypeBits,
    value: RawValue<'_>,
    direction: Direction,
) {
    match collation.index_value(value) {
        None => encode_value(out, type_bits, value, direction),
        Some(kept) => encode_value(out, type_bits, kept.as_raw(), direction),
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;

    #[test]
    fn what_asks_for_nothing_is_told_from_what_asks_for_bytes() {
        let parsed = |specification: Document| parse_collation(specification.as_raw()).unwrap();
        assert_eq!(parsed(doc! {}), None);
        assert_eq!(parsed(doc! { "locale": "simple" }), Some(Collation::SIMPLE));
        assert!(!parsed(doc! { "locale": "de" }).unwrap().is_simple());
    }

    #[test]
    fn errors_have_mongodbs_codes() {
        let code =
            |specification: Document| parse_collation(specification.as_raw()).unwrap_err().code();
        assert_eq!(code(doc! { "strength": 2 }), 40_414);
        assert_eq!(code(doc! { "locale": 1 }), 14);
        assert_eq!(code(doc! { "locale": "simple", "odd": 1 }), 40_415);
        assert_eq!(code(doc! { "locale": "xx" }), 2);
    }
}
