//! The kind `hashed`: an index that keeps of one field's value its hash (`$toHashedIndexKey`), so that only equality is asked of it.
//!
//! The other fields of a compound index are kept as they are. A document has one key: arrays are refused, at any of the fields
//! and on the way to them, as MongoDB refuses them. A missing field hashes as null. Whoever reads the index holds each document against
//! the filter, since values share hashes: 1 and 1.5 do.

use std::any::Any;
use std::sync::Arc;

use quarry_bson::{Document, RawDocument, RawValue};
use quarry_database::{Index, SpecialKeys, TakeKey};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::expression::hashing::hash_of;
use crate::field_path::FieldPath;
use crate::geo_index::unknown_option;
use crate::interrupts;
use crate::memory;

/// Doubles from here on are beyond Int64.
const BEYOND_INT64: f64 = 9.2e18;

/// The maker of the keys of a hashed index.
#[derive(Debug)]
pub(crate) struct HashedKeys {
    fields: Vec<KeyPath>,
    is_sparse: bool,
    /// The number of the field whose values are hashed.
    pub place: usize,
}

#[derive(Debug)]
struct KeyPath {
    path: FieldPath,
    is_hashed: bool,
}

impl HashedKeys {
    /// The maker of an index's keys, if it is a hashed one.
    pub fn of(index: &Index) -> Option<&HashedKeys> {
        (index.special.as_deref()? as &dyn Any).downcast_ref()
    }
}

/// Checks the definition of a `hashed` index, which has no options.
pub(crate) fn check(index: &Index) -> Result<Document> {
    let hashed = index.pattern.fields.iter().filter(|field| field.is_special);
    let hashed = hashed.count();
    if hashed > 1 {
        let text = format!(
            "A maximum of one index field is allowed to be hashed but found {hashed} for 'key' {}",
            index.pattern.document
        );
        return Err(Error::location(31_303, text));
    }
    if index.unique || index.prepare_unique {
        let text = "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.";
        return Err(Error::location(16_764, text));
    }
    match index.kind_options.as_raw().first() {
        None => Ok(Document::new()),
        Some(option) => Err(unknown_option(
            option.name().to_string_lossy().as_ref(),
            "hashed",
        )),
    }
}

/// Makes the maker of keys of a definition that was checked.
pub(crate) fn compile(index: &Index) -> Result<Arc<dyn SpecialKeys>> {
    let fields = &index.pattern.fields;
    let place = fields.iter().position(|field| field.is_special);
    let paths = fields.iter().map(|field| {
        Ok(KeyPath {
            path: FieldPath::parse(&field.path)?,
            is_hashed: field.is_special,
        })
    });
    Ok(Arc::new(HashedKeys {
        fields: paths.collect::<Result<_>>()?,
        is_sparse: index.sparse,
        place: place.unwrap_or_default(),
    }))
}

/// The value at a path. Fails for an array at its end or on the way to it.
fn value_at<'d>(document: RawDocument<'d>, path: &FieldPath) -> Result<Option<RawValue<'d>>> {
    let mut value = RawValue::Document(document);
    let mut reached = String::new();
    for part in path.parts() {
        let RawValue::Document(within) = value else {
            return Ok(None);
        };
        let Some(next) = within.get(part.name()) else {
            return Ok(None);
        };
        if !reached.is_empty() {
            reached.push('.');
        }
        reached.push_str(part.name());
        if matches!(next, RawValue::Array(_)) {
            let text = format!(
                "Error: hashed indexes do not currently support array values. Found array at path: {reached}"
            );
            return Err(Error::location(16_766, text));
        }
        value = next;
    }
    Ok(Some(value))
}

impl SpecialKeys for HashedKeys {
    fn keys(
        &self,
        document: RawDocument<'_>,
        take: &mut TakeKey<'_>,
    ) -> quarry_database::Result<u64> {
        let mut key: SmallVec<[RawValue<'_>; 4]> = SmallVec::new();
        let mut is_missing = true;
        for field in &self.fields {
            let value = value_at(document, &field.path).map_err(Error::into_database)?;
            is_missing &= value.is_none();
            let value = value.unwrap_or(RawValue::Null);
            key.push(match field.is_hashed {
                false => value,
                true => {
                    let bytes = memory::bytes_of(value);
                    interrupts::work_on_bytes(bytes).map_err(Error::into_database)?;
                    RawValue::Int64(hash_of(value))
                }
            });
        }
        if !(is_missing && self.is_sparse) {
            take(&key)?;
        }
        Ok(0)
    }
}

/// The hashes that values have which are equal to this one; None if they may be any.
pub(crate) fn hashes_of_equal(value: RawValue<'_>) -> Option<SmallVec<[i64; 4]>> {
    let mut hashes = SmallVec::new();
    match value {
        // A document with such a number would have one hash for each form of each of them.
        RawValue::Document(_) | RawValue::JavaScriptWithScope(_) if !hashes_alike(value) => {
            return None;
        }
        RawValue::Array(_) => return None,
        number if number.is_number() && !hashes_alike(number) => {
            let near = number.as_f64_lossy()?;
            let wholes = [near.trunc(), near.round_ties_even()];
            hashes.push(hash_of(number));
            hashes.extend(wholes.map(|whole| hash_of(RawValue::Double(whole))));
            if near.abs() >= BEYOND_INT64 {
                let ends = [i64::MIN, i64::MAX];
                hashes.extend(ends.map(|end| hash_of(RawValue::Int64(end))));
            }
        }
        value => hashes.push(hash_of(value)),
    }
    hashes.sort_unstable();
    hashes.dedup();
    Some(hashes)
}

/// Whether all values that are equal to this one have its hash. Recursion is bounded by the depth of a validated document.
fn hashes_alike(value: RawValue<'_>) -> bool {
    let within = |document: RawDocument<'_>| {
        let mut values = document.iter().map(|field| field.value());
        values.all(|value| !interrupts::is_over(1) && hashes_alike(value))
    };
    match value {
        RawValue::Document(document) => within(document),
        RawValue::Array(array) => within(array.as_document()),
        RawValue::JavaScriptWithScope(code) => within(code.scope),
        number if number.is_number() => number.as_i64_exact().is_some(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Decimal128, doc};

    use super::*;

    #[test]
    fn equal_numbers_share_one_of_the_hashes_whatever_their_type() {
        for (double, decimal) in [
            (1.0, "1"),
            (1.5, "1.5"),
            (2.5, "2.5"),
            (-1.5, "-1.5"),
            (9_223_372_036_854_775_808.0, "9223372036854775808"),
            (-1e300, "-1E+300"),
            (f64::INFINITY, "Infinity"),
            (f64::NAN, "NaN"),
        ] {
            let decimal: Decimal128 = decimal.parse().unwrap();
            let forms = [RawValue::Double(double), RawValue::Decimal128(decimal)];
            for asked in forms {
                let hashes = hashes_of_equal(asked).unwrap();
                for stored in forms {
                    assert!(hashes.contains(&hash_of(stored)), "{asked} {stored}");
                }
            }
        }
        let whole = doc! { "a": 1, "b": "x" };
        assert!(hashes_of_equal(RawValue::Document(whole.as_raw())).is_some());
        let fraction = doc! { "a": { "b": 1.5 } };
        assert!(hashes_of_equal(RawValue::Document(fraction.as_raw())).is_none());
    }
}
