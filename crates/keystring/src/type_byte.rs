//! The first byte of every value in a key: its place in the order of types, and for a number its
//! sign and size too.

use std::ops::RangeInclusive;

use quarry_bson::ElementType;

/// Ends the elements of a document or an array: below every type, so the shorter one is less.
pub(crate) const END: u8 = 0x01;

pub(crate) const MIN_KEY: u8 = 0x10;
pub(crate) const UNDEFINED: u8 = 0x18;
pub(crate) const NULL: u8 = 0x20;

pub(crate) const NAN: u8 = 0x28;
pub(crate) const NEGATIVE_INFINITY: u8 = 0x29;
pub(crate) const NEGATIVE_LARGE: u8 = 0x2A;
/// Minus the number of bytes of the shifted whole part: 8 bytes are 0x2B, one is 0x32.
pub(crate) const NEGATIVE_WHOLE: u8 = 0x33;
pub(crate) const NEGATIVE_SMALL: u8 = 0x33;
pub(crate) const ZERO: u8 = 0x34;
pub(crate) const POSITIVE_SMALL: u8 = 0x35;
/// Plus the number of bytes of the shifted whole part: one byte is 0x36, 8 are 0x3D.
pub(crate) const POSITIVE_WHOLE: u8 = 0x35;
pub(crate) const POSITIVE_LARGE: u8 = 0x3E;
pub(crate) const POSITIVE_INFINITY: u8 = 0x3F;

pub(crate) const STRING: u8 = 0x48;
pub(crate) const DOCUMENT: u8 = 0x50;
pub(crate) const ARRAY: u8 = 0x58;
pub(crate) const BINARY: u8 = 0x60;
pub(crate) const OBJECT_ID: u8 = 0x68;
pub(crate) const FALSE: u8 = 0x70;
pub(crate) const TRUE: u8 = 0x71;
pub(crate) const DATE_TIME: u8 = 0x78;
pub(crate) const TIMESTAMP: u8 = 0x80;
pub(crate) const REGEX: u8 = 0x88;
pub(crate) const DB_POINTER: u8 = 0x90;
pub(crate) const JAVASCRIPT: u8 = 0x98;
pub(crate) const JAVASCRIPT_WITH_SCOPE: u8 = 0xA0;
pub(crate) const MAX_KEY: u8 = 0xF0;

/// The first bytes that ascending keys of values comparable to `element_type` have: what bounds a
/// scan over one type. String and Symbol share theirs, and so do all numbers.
#[must_use]
pub fn type_bytes(element_type: ElementType) -> RangeInclusive<u8> {
    let last = match element_type {
        ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128 => {
            POSITIVE_INFINITY
        }
        ElementType::Boolean => TRUE,
        other => rank_byte(other),
    };
    rank_byte(element_type)..=last
}

/// The lowest first byte of a type: stands before the name of a document's field.
pub(crate) fn rank_byte(element_type: ElementType) -> u8 {
    match element_type {
        ElementType::MinKey => MIN_KEY,
        ElementType::Undefined => UNDEFINED,
        ElementType::Null => NULL,
        ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128 => {
            NAN
        }
        ElementType::String | ElementType::Symbol => STRING,
        ElementType::Document => DOCUMENT,
        ElementType::Array => ARRAY,
        ElementType::Binary => BINARY,
        ElementType::ObjectId => OBJECT_ID,
        ElementType::Boolean => FALSE,
        ElementType::DateTime => DATE_TIME,
        ElementType::Timestamp => TIMESTAMP,
        ElementType::Regex => REGEX,
        ElementType::DbPointer => DB_POINTER,
        ElementType::JavaScript => JAVASCRIPT,
        ElementType::JavaScriptWithScope => JAVASCRIPT_WITH_SCOPE,
        ElementType::MaxKey => MAX_KEY,
    }
}
