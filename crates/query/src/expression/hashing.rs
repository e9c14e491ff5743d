//! `$toHashedIndexKey`: the number that MongoDB's hashed indexes keep of a value.
//!
//! It is the first half of an MD5, read as a little-endian Int64, of a seed of 0, the rank of the value's type and the value: a
//! number as the Int64 that it is without its fraction, a document or an array field by field with the names, anything else
//! as its bytes in BSON. Ranks and the number are four and eight bytes, little-endian. A missing value hashes as null.

use md5::{Digest, Md5};
use quarry_bson::{DecimalRounding, RawDocument, RawValue, Value, compare::canonical_type};

use super::{Call, Context, Evaluated};
use crate::error::Result;
use crate::interrupts;
use crate::memory;

const SEED: i32 = 0;
/// The bytes that MongoDB ends a document with: the rank of an end.
const END: i32 = 0;
/// 2^63, the least Double that is greater than any Int64.
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

pub(super) fn to_hashed_index_key<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    let value = value.as_raw().unwrap_or(RawValue::Null);
    interrupts::work_on_bytes(memory::bytes_of(value))?;
    Ok(hash_of(value).into())
}

/// The hash of a value. Values that are equal hash alike but for numbers with fractions or beyond Int64, of which Decimal128 is
/// rounded where Double is cut.
pub(crate) fn hash_of(value: RawValue<'_>) -> i64 {
    let mut state = Md5::new();
    state.update(SEED.to_le_bytes());
    add(value, None, &mut state);
    let digest = state.finalize();
    // The first eight bytes, the least significant one first.
    let first = digest.iter().take(8).rev();
    first.fold(0, |number: u64, &byte| number << 8 | u64::from(byte)) as i64
}

/// Adds a value, with its name where it is a field. Recursion is bounded by the depth of a validated document.
fn add(value: RawValue<'_>, name: Option<&[u8]>, state: &mut Md5) {
    state.update(rank(value).to_le_bytes());
    if let Some(name) = name {
        state.update(name);
        state.update([0]);
    }
    match value {
        RawValue::Document(document) => add_fields(document, state),
        RawValue::Array(array) => add_fields(array.as_document(), state),
        RawValue::JavaScriptWithScope(code) => {
            state.update(code.code.as_bytes());
            state.update([0]);
            add_fields(code.scope, state);
        }
        number if number.is_number() => state.update(whole(number).to_le_bytes()),
        flat => state.update(Value::from(flat).as_bytes()),
    }
}

fn add_fields(document: RawDocument<'_>, state: &mut Md5) {
    for field in document {
        add(field.value(), Some(field.name().as_bytes()), state);
    }
    state.update(END.to_le_bytes());
}

/// MongoDB's rank of a type: another one than the order's for the ends, and for Undefined.
fn rank(value: RawValue<'_>) -> i32 {
    match value {
        RawValue::MinKey => -1,
        RawValue::Undefined => 0,
        other => i32::from(canonical_type(other)),
    }
}

/// A number without its fraction, at the edge of Int64 where it is beyond; NaN is 0, and 2^63 as a Double the least one.
fn whole(number: RawValue<'_>) -> i64 {
    match number {
        RawValue::Double(TWO_POW_63) => i64::MIN,
        RawValue::Double(number) => number as i64,
        RawValue::Decimal128(number) => {
            let rounded = number.round_to_integral(DecimalRounding::HalfEven);
            match rounded.to_i64_exact() {
                Some(whole) => whole,
                None => number.to_f64() as i64,
            }
        }
        other => other.as_i64_exact().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    #[test]
    fn numbers_of_one_value_and_documents_hash_as_mongodb_hashes_them() {
        // Known from MongoDB: `convertShardKeyToHashed(1)`.
        for one in [
            RawValue::Int32(1),
            RawValue::Int64(1),
            RawValue::Double(1.9),
        ] {
            assert_eq!(hash_of(one), 5_902_408_780_260_971_510);
        }
        assert_eq!(hash_of(RawValue::Boolean(true)), 6_405_873_908_747_105_701);
        assert_eq!(hash_of(RawValue::Null), 2_338_878_944_348_059_895);
        let document = doc! { "a": 1 };
        let hash = hash_of(RawValue::Document(document.as_raw()));
        assert_eq!(hash, -8_705_610_352_600_103_477);
        assert_eq!(
            hash_of(RawValue::Double(f64::NAN)),
            hash_of(RawValue::Int32(0))
        );
    }
}
