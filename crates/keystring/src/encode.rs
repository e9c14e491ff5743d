//! Values to keys.
//!
//! A value is appended in ascending form and, for a descending field, inverted in place. Int32,
//! Int64 and text take straight lines without an allocation but the growth of `out`.

use quarry_bson::{DEPTH_MAX, ElementType, RawBinary, RawDocument, RawStr, RawValue};

use crate::number;
use crate::reader::{ESCAPE, TERMINATOR};
use crate::type_bits::Tag;
use crate::type_byte::{self, rank_byte};
use crate::{Direction, TypeBits};

/// Payloads up to this long have their length in one byte; longer ones in four behind 0xFF.
pub(crate) const SHORT_LEN_MAX: usize = 0xFE;

/// The bytes that the processor moves with one instruction.
const MOVE_BYTES: usize = 16;

/// Appends the key of `value` to `out` and its types to `type_bits`.
#[inline]
pub fn encode_value(
    out: &mut Vec<u8>,
    type_bits: &mut TypeBits,
    value: RawValue<'_>,
    direction: Direction,
) {
    let start = out.len();
    append(out, type_bits, value, 0);
    if direction == Direction::Descending {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

/// Appends the key of a text, ascending, as `encode_value` does.
#[inline]
pub fn encode_text(out: &mut Vec<u8>, text: RawStr<'_>) {
    out.push(type_byte::STRING);
    append_text(out, text);
}

/// Appends a text that was encoded before, ascending: the first `key_bytes` of `keys` are what `encode_text` appended
/// for it. What follows them there lets a short one be copied in one move.
#[inline]
pub fn append_encoded_text(
    out: &mut Vec<u8>,
    type_bits: &mut TypeBits,
    (keys, key_bytes): (&[u8], usize),
    direction: Direction,
) {
    debug_assert_eq!(keys.first(), Some(&type_byte::STRING), "a text's key");
    type_bits.push_default();
    match (direction, keys.first_chunk::<MOVE_BYTES>()) {
        (Direction::Ascending, Some(begin)) if key_bytes <= MOVE_BYTES => {
            let end = out.len() + key_bytes;
            out.extend_from_slice(begin);
            out.truncate(end);
        }
        (Direction::Ascending, _) => out.extend_from_slice(&keys[..key_bytes]),
        (Direction::Descending, _) => out.extend(keys[..key_bytes].iter().map(|byte| !byte)),
    }
}

/// Appends the key of an `_id`: ascending, its types left to whoever keeps the document.
#[inline]
pub fn encode_id(out: &mut Vec<u8>, value: RawValue<'_>) {
    append(out, &mut TypeBits::new(), value, 0);
}

/// `depth` counts the documents and arrays around the value.
fn append(out: &mut Vec<u8>, type_bits: &mut TypeBits, value: RawValue<'_>, depth: usize) {
    match value {
        RawValue::Int32(n) => number::append_i32(out, type_bits, n),
        RawValue::Int64(n) => number::append_i64(out, type_bits, n),
        RawValue::String(text) => {
            type_bits.push_default();
            out.push(type_byte::STRING);
            append_text(out, text);
        }
        RawValue::ObjectId(id) => {
            let mut bytes = [type_byte::OBJECT_ID; 13];
            bytes[1..].copy_from_slice(&id.bytes());
            out.extend_from_slice(&bytes);
        }
        RawValue::DateTime(ms) => {
            out.push(type_byte::DATE_TIME);
            out.extend_from_slice(&(ms ^ i64::MIN).to_be_bytes());
        }
        RawValue::Double(d) => number::append_f64(out, type_bits, d),
        RawValue::Decimal128(d) => number::append_decimal(out, type_bits, d),
        RawValue::Null => out.push(type_byte::NULL),
        RawValue::Undefined => out.push(type_byte::UNDEFINED),
        RawValue::MinKey => out.push(type_byte::MIN_KEY),
        RawValue::MaxKey => out.push(type_byte::MAX_KEY),
        RawValue::Boolean(false) => out.push(type_byte::FALSE),
        RawValue::Boolean(true) => out.push(type_byte::TRUE),
        RawValue::Document(document) => {
            out.push(type_byte::DOCUMENT);
            append_fields(out, type_bits, document, depth + 1);
        }
        RawValue::Array(array) => {
            out.push(type_byte::ARRAY);
            // Validation admits nothing deeper; over other bytes the recursion stops here.
            if depth < DEPTH_MAX {
                for element in array {
                    append(out, type_bits, element, depth + 1);
                }
            }
            out.push(type_byte::END);
        }
        RawValue::Binary(binary) => append_binary(out, binary),
        RawValue::Timestamp(timestamp) => {
            out.push(type_byte::TIMESTAMP);
            out.extend_from_slice(&timestamp.to_u64().to_be_bytes());
        }
        RawValue::Symbol(text) => {
            type_bits.push(Tag::Symbol);
            out.push(type_byte::STRING);
            append_text(out, text);
        }
        RawValue::Regex(regex) => {
            out.push(type_byte::REGEX);
            append_text(out, regex.pattern);
            append_text(out, regex.options);
        }
        RawValue::DbPointer(pointer) => {
            out.push(type_byte::DB_POINTER);
            append_len(out, pointer.namespace.len_bytes());
            out.extend_from_slice(pointer.namespace.as_bytes());
            out.extend_from_slice(&pointer.id.bytes());
        }
        RawValue::JavaScript(code) => {
            out.push(type_byte::JAVASCRIPT);
            append_text(out, code);
        }
        RawValue::JavaScriptWithScope(code) => {
            out.push(type_byte::JAVASCRIPT_WITH_SCOPE);
            append_text(out, code.code);
            append_fields(out, type_bits, code.scope, depth + 1);
        }
    }
}

/// Fields compare by type, then name, then value, and stand in that order.
fn append_fields(
    out: &mut Vec<u8>,
    type_bits: &mut TypeBits,
    document: RawDocument<'_>,
    depth: usize,
) {
    if depth <= DEPTH_MAX {
        for element in document {
            let element_type: ElementType = element.element_type();
            out.push(rank_byte(element_type));
            out.extend_from_slice(element.name().as_bytes());
            out.push(TERMINATOR);
            append(out, type_bits, element.value(), depth);
        }
    }
    out.push(type_byte::END);
}

#[inline]
fn append_text(out: &mut Vec<u8>, text: RawStr<'_>) {
    let bytes = text.as_bytes();
    match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) if bytes.len() <= 16 => {
            if has_low_byte(first) | has_low_byte(last) {
                append_escaped(out, bytes);
            } else {
                // Both moves together are the text, however much of the first the second covers.
                let begin = out.len();
                out.extend_from_slice(first);
                out.truncate(begin + bytes.len() - 8);
                out.extend_from_slice(last);
            }
        }
        // A fold over all bytes, not a search: without an exit it becomes vector code.
        _ if bytes.iter().fold(0xFF, |lowest, &byte| lowest.min(byte)) <= ESCAPE => {
            append_escaped(out, bytes);
        }
        _ => out.extend_from_slice(bytes),
    }
    out.push(TERMINATOR);
}

/// Whether one of eight bytes is at most `ESCAPE`: less it and one, only such a byte and those above 0x80 have their
/// highest bit set, and the latter had it before.
#[inline]
fn has_low_byte(eight: &[u8; 8]) -> bool {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    const BEYOND: u64 = EACH * (ESCAPE as u64 + 1);
    let eight = u64::from_le_bytes(*eight);
    eight.wrapping_sub(BEYOND) & !eight & (EACH << 7) != 0
}

#[cold]
fn append_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            0x00 => out.extend_from_slice(&[ESCAPE, 0x01]),
            0x01 => out.extend_from_slice(&[ESCAPE, 0x02]),
            plain => out.push(plain),
        }
    }
}

fn append_binary(out: &mut Vec<u8>, binary: RawBinary<'_>) {
    out.push(type_byte::BINARY);
    append_len(out, binary.bytes.len());
    out.push(binary.subtype);
    out.extend_from_slice(binary.bytes);
}

fn append_len(out: &mut Vec<u8>, len: usize) {
    if len <= SHORT_LEN_MAX {
        out.push(len as u8);
    } else {
        let len = u32::try_from(len).expect("a BSON value is shorter than 4 GiB");
        out.push(0xFF);
        out.extend_from_slice(&len.to_be_bytes());
    }
}
