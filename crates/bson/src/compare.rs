//! MongoDB's order over all values, its equality, and a hash that agrees with it.
//!
//! Types order first (numbers are one type, String and Symbol another), then values. Numbers compare by their
//! exact value whatever their types: an Int64 beyond 2^53 and the Double next to it differ, 0.1 as Decimal128
//! is not the Double 0.1. NaN is the lowest number and equals itself; -0 equals 0.

mod exact;
mod traits;

use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
};

use crate::{
    DEPTH_MAX, Decimal128, DecimalParts, ElementType, RawDocument, RawElement, RawValue,
    element::Step, layout::NameLens, value::f64_to_i64_exact,
};

/// The rank of a value's type; values of one rank compare by value.
#[inline]
pub fn canonical_type(value: RawValue<'_>) -> u8 {
    canonical_element_type(value.element_type())
}

/// The rank of a type among all: 0 for MinKey to 127 for MaxKey, the same for types that compare by value.
#[inline]
pub const fn canonical_element_type(element_type: ElementType) -> u8 {
    match element_type {
        ElementType::MinKey => 0,
        ElementType::Undefined => 3,
        ElementType::Null => 5,
        ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128 => {
            10
        }
        ElementType::String | ElementType::Symbol => 15,
        ElementType::Document => 20,
        ElementType::Array => 25,
        ElementType::Binary => 30,
        ElementType::ObjectId => 35,
        ElementType::Boolean => 40,
        ElementType::DateTime => 45,
        ElementType::Timestamp => 47,
        ElementType::Regex => 50,
        ElementType::DbPointer => 55,
        ElementType::JavaScript => 60,
        ElementType::JavaScriptWithScope => 65,
        ElementType::MaxKey => 127,
    }
}

/// Compares two values; field names inside documents count, names inside arrays do not.
#[inline]
pub fn compare_values(a: RawValue<'_>, b: RawValue<'_>) -> Ordering {
    compare_at(a, b, 0)
}

/// Compares field by field: type rank, then name, then value; the document that ends first is less.
pub fn compare_documents(a: RawDocument<'_>, b: RawDocument<'_>) -> Ordering {
    compare_fields(a, b, Names::Count, 0)
}

/// Compares field by field without names, as index keys do.
pub fn compare_documents_without_names(a: RawDocument<'_>, b: RawDocument<'_>) -> Ordering {
    compare_fields(a, b, Names::Ignored, 0)
}

/// Compares two numbers by their exact values; other values by type rank alone.
#[inline]
pub fn compare_numbers(a: RawValue<'_>, b: RawValue<'_>) -> Ordering {
    exact::compare(a, b)
}

/// Whether two values compare as equal: 1, 1.0 and 1L are, and so are NaN and NaN.
#[inline]
pub fn values_equal(a: RawValue<'_>, b: RawValue<'_>) -> bool {
    compare_values(a, b).is_eq()
}

#[derive(Clone, Copy, PartialEq)]
enum Names {
    Count,
    Ignored,
}

/// `depth` bounds the recursion over bytes that nobody validated; below it bytes compare as bytes.
fn compare_at(a: RawValue<'_>, b: RawValue<'_>, depth: usize) -> Ordering {
    use RawValue as V;
    match (a, b) {
        (V::Int32(a), V::Int32(b)) => a.cmp(&b),
        (V::Int64(a), V::Int64(b)) | (V::DateTime(a), V::DateTime(b)) => a.cmp(&b),
        (V::String(a) | V::Symbol(a), V::String(b) | V::Symbol(b))
        | (V::JavaScript(a), V::JavaScript(b)) => a.cmp(&b),
        (V::ObjectId(a), V::ObjectId(b)) => a.cmp(&b),
        (V::Document(a), V::Document(b)) => compare_fields(a, b, Names::Count, depth + 1),
        (V::Array(a), V::Array(b)) => {
            compare_fields(a.as_document(), b.as_document(), Names::Ignored, depth + 1)
        }
        (V::Boolean(a), V::Boolean(b)) => a.cmp(&b),
        (V::Timestamp(a), V::Timestamp(b)) => a.cmp(&b),
        (V::Binary(a), V::Binary(b)) => {
            (a.bytes.len(), a.subtype, a.bytes).cmp(&(b.bytes.len(), b.subtype, b.bytes))
        }
        (V::Regex(a), V::Regex(b)) => (a.pattern, a.options).cmp(&(b.pattern, b.options)),
        (V::DbPointer(a), V::DbPointer(b)) => {
            let key = |p: crate::RawDbPointer<'_>| (p.namespace.len_bytes(), p.id);
            let namespaces = a
                .namespace
                .len_bytes()
                .cmp(&b.namespace.len_bytes())
                .then(a.namespace.cmp(&b.namespace));
            namespaces.then_with(|| key(a).cmp(&key(b)))
        }
        (V::JavaScriptWithScope(a), V::JavaScriptWithScope(b)) => a
            .code
            .cmp(&b.code)
            .then_with(|| compare_fields(a.scope, b.scope, Names::Count, depth + 1)),
        _ if a.is_number() && b.is_number() => exact::compare(a, b),
        _ => canonical_type(a).cmp(&canonical_type(b)),
    }
}

fn compare_fields(a: RawDocument<'_>, b: RawDocument<'_>, names: Names, depth: usize) -> Ordering {
    if depth > DEPTH_MAX {
        return a.as_bytes().cmp(b.as_bytes());
    }
    let equal = equal_elements_bytes(a.as_bytes(), b.as_bytes());
    let (mut left, mut right) = (a.iter_from(equal), b.iter_from(equal));
    loop {
        let order = match (left.next(), right.next()) {
            (Some(l), Some(r)) => compare_elements(l, r, names, depth),
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// The bytes, length header included, up to the first element that is not the same in both: only there does
/// comparing begin.
fn equal_elements_bytes(a: &[u8], b: &[u8]) -> usize {
    let same = 4 + equal_prefix(
        a.get(4..).unwrap_or_default(),
        b.get(4..).unwrap_or_default(),
    );
    // An element of `a` is one of `b` too only if something of `b` follows it.
    let same = same.min(b.len().saturating_sub(1));
    let mut names = NameLens::new();
    let mut rest = a.get(4..).unwrap_or_default();
    while let Some(step) = Step::read(rest, &mut names)
        && a.len() - step.rest.len() <= same
    {
        rest = step.rest;
    }
    a.len() - rest.len()
}

fn equal_prefix(a: &[u8], b: &[u8]) -> usize {
    const BLOCK_BYTES: usize = 32;
    let (blocks_a, blocks_b) = (
        a.as_chunks::<BLOCK_BYTES>().0,
        b.as_chunks::<BLOCK_BYTES>().0,
    );
    let blocks = blocks_a
        .iter()
        .zip(blocks_b)
        .take_while(|(a, b)| a == b)
        .count()
        * BLOCK_BYTES;
    blocks
        + a[blocks..]
            .iter()
            .zip(&b[blocks..])
            .take_while(|(a, b)| a == b)
            .count()
}

#[inline]
fn compare_elements(l: RawElement<'_>, r: RawElement<'_>, names: Names, depth: usize) -> Ordering {
    let types =
        canonical_element_type(l.element_type()).cmp(&canonical_element_type(r.element_type()));
    types
        .then_with(|| {
            if names == Names::Count {
                l.name().cmp(&r.name())
            } else {
                Ordering::Equal
            }
        })
        .then_with(|| compare_at(l.value(), r.value(), depth))
}

/// Hashes a value so that values equal by `values_equal` have equal hashes, across numeric types too.
pub fn hash_value<H: Hasher>(value: RawValue<'_>, state: &mut H) {
    hash_at(value, state, 0);
}

fn hash_at<H: Hasher>(value: RawValue<'_>, state: &mut H, depth: usize) {
    use RawValue as V;
    state.write_u8(canonical_type(value));
    match value {
        V::Double(_) | V::Int32(_) | V::Int64(_) | V::Decimal128(_) => hash_number(value, state),
        V::String(text) | V::Symbol(text) | V::JavaScript(text) => text.as_bytes().hash(state),
        V::Document(document) => hash_fields(document, state, Names::Count, depth + 1),
        V::Array(array) => hash_fields(array.as_document(), state, Names::Ignored, depth + 1),
        V::Binary(binary) => (binary.subtype, binary.bytes).hash(state),
        V::ObjectId(id) => id.hash(state),
        V::Boolean(b) => b.hash(state),
        V::DateTime(ms) => ms.hash(state),
        V::Regex(regex) => (regex.pattern, regex.options).hash(state),
        V::DbPointer(pointer) => (pointer.namespace, pointer.id).hash(state),
        V::JavaScriptWithScope(code) => {
            code.code.hash(state);
            hash_fields(code.scope, state, Names::Count, depth + 1);
        }
        V::Timestamp(t) => t.hash(state),
        V::Undefined | V::Null | V::MinKey | V::MaxKey => {}
    }
}

fn hash_fields<H: Hasher>(document: RawDocument<'_>, state: &mut H, names: Names, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    let mut count = 0u32;
    for element in document {
        if names == Names::Count {
            element.name().hash(state);
        }
        hash_at(element.value(), state, depth);
        count += 1;
    }
    state.write_u32(count);
}

/// One form for each numeric value: an Int64 where it is whole and in range, else a Double where it is one
/// exactly, else a reduced decimal.
fn hash_number<H: Hasher>(value: RawValue<'_>, state: &mut H) {
    match value {
        RawValue::Int32(n) => i64::from(n).hash(state),
        RawValue::Int64(n) => n.hash(state),
        RawValue::Double(d) => hash_double(d, state),
        RawValue::Decimal128(d) => hash_decimal(d, state),
        _ => {}
    }
}

fn hash_double<H: Hasher>(d: f64, state: &mut H) {
    match f64_to_i64_exact(d) {
        Some(n) => n.hash(state),
        None if d.is_nan() => f64::NAN.to_bits().hash(state),
        None => d.to_bits().hash(state),
    }
}

fn hash_decimal<H: Hasher>(d: Decimal128, state: &mut H) {
    if let Some(n) = d.to_i64_exact() {
        return n.hash(state);
    }
    let nearest = d.to_f64();
    if exact::compare_decimal_double(d, nearest).is_eq() {
        return hash_double(nearest, state);
    }
    if let DecimalParts::Finite {
        negative,
        coefficient,
        exponent,
    } = d.parts()
    {
        (negative, Decimal128::reduced(coefficient, exponent)).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use super::*;
    use crate::{Value, doc, extjson};

    /// Values in MongoDB's order; each line is one class of equals.
    const ORDERED: &[&[&str]] = &[
        &[r#"{"$minKey":1}"#],
        &[r#"{"$undefined":true}"#],
        &["null"],
        &[r#"{"$numberDouble":"NaN"}"#, r#"{"$numberDecimal":"NaN"}"#],
        &[
            r#"{"$numberDouble":"-Infinity"}"#,
            r#"{"$numberDecimal":"-Infinity"}"#,
        ],
        &[r#"{"$numberDecimal":"-1E400"}"#],
        &["-1e300"],
        &[
            r#"{"$numberLong":"-9223372036854775808"}"#,
            "-9223372036854775808.0",
        ],
        &[
            "-1",
            r#"{"$numberDecimal":"-1.00"}"#,
            r#"{"$numberLong":"-1"}"#,
        ],
        &[r#"{"$numberDecimal":"-1E-6000"}"#],
        &[
            "0",
            "-0.0",
            r#"{"$numberDecimal":"-0E+10"}"#,
            r#"{"$numberLong":"0"}"#,
        ],
        &["5e-324"],
        &[r#"{"$numberDecimal":"0.1"}"#],
        &["0.1"],
        &[r#"{"$numberDecimal":"0.1000000000000000055511151231257828"}"#],
        &["0.5", r#"{"$numberDecimal":"0.5"}"#],
        &[
            r#"{"$numberLong":"9007199254740992"}"#,
            "9007199254740992.0",
        ],
        &[
            r#"{"$numberLong":"9007199254740993"}"#,
            r#"{"$numberDecimal":"9007199254740993"}"#,
        ],
        &["9007199254740994.0"],
        &[r#"{"$numberLong":"9223372036854775807"}"#],
        &[
            "9223372036854775808.0",
            r#"{"$numberDecimal":"9223372036854775808"}"#,
        ],
        &["1e308"],
        &[r#"{"$numberDecimal":"1E+309"}"#],
        &[
            r#"{"$numberDouble":"Infinity"}"#,
            r#"{"$numberDecimal":"Infinity"}"#,
        ],
        &[r#""""#],
        &[r#""a""#, r#"{"$symbol":"a"}"#],
        &[r#""a\u0000""#],
        &[r#""b""#],
        &["{}"],
        &[r#"{"a":1}"#, r#"{"a":1.0}"#],
        &[r#"{"b":1}"#],
        &[r#"{"a":"x"}"#],
        &["[]"],
        &["[1]"],
        &["[1,1]"],
        &["[2]"],
        &[r#"{"$binary":{"base64":"","subType":"00"}}"#],
        &[r#"{"$binary":{"base64":"/w==","subType":"00"}}"#],
        &[r#"{"$binary":{"base64":"AA==","subType":"01"}}"#],
        &[r#"{"$oid":"507f1f77bcf86cd799439011"}"#],
        &["false"],
        &["true"],
        &[r#"{"$date":{"$numberLong":"-5"}}"#],
        &[r#"{"$date":{"$numberLong":"5"}}"#],
        &[r#"{"$timestamp":{"t":1,"i":2}}"#],
        &[r#"{"$timestamp":{"t":4294967295,"i":1}}"#],
        &[r#"{"$regularExpression":{"pattern":"a","options":""}}"#],
        &[r#"{"$regularExpression":{"pattern":"a","options":"i"}}"#],
        &[r#"{"$dbPointer":{"$ref":"z","$id":{"$oid":"507f1f77bcf86cd799439011"}}}"#],
        &[r#"{"$dbPointer":{"$ref":"aa","$id":{"$oid":"007f1f77bcf86cd799439011"}}}"#],
        &[r#"{"$code":"b"}"#],
        &[r#"{"$code":"a","$scope":{}}"#],
        &[r#"{"$code":"a","$scope":{"x":1}}"#],
        &[r#"{"$maxKey":1}"#],
    ];

    fn hash(value: &Value) -> u64 {
        let mut state = DefaultHasher::new();
        value.hash(&mut state);
        state.finish()
    }

    #[test]
    fn every_pair_orders_as_mongodb_orders_it() {
        let mut ranked = Vec::new();
        for (rank, class) in ORDERED.iter().enumerate() {
            ranked.extend(
                class
                    .iter()
                    .map(|text| (rank, extjson::parse_value(text).unwrap())),
            );
        }
        for (rank_a, a) in &ranked {
            for (rank_b, b) in &ranked {
                assert_eq!(a.cmp(b), rank_a.cmp(rank_b), "{a} against {b}");
                assert_eq!(rank_a == rank_b, a == b);
                assert!(
                    rank_a != rank_b || hash(a) == hash(b),
                    "{a} and {b} are equal and hash apart"
                );
            }
        }
    }

    #[test]
    fn type_goes_before_name_and_name_before_value() {
        let less = |a: crate::Document, b: crate::Document| {
            compare_documents(a.as_raw(), b.as_raw()).is_lt()
        };
        assert!(less(doc! { "z": 1 }, doc! { "a": "x" }));
        assert!(less(doc! { "a": 2 }, doc! { "b": 1 }));
        assert!(
            compare_documents_without_names(doc! { "a": 2 }.as_raw(), doc! { "b": 1 }.as_raw())
                .is_gt()
        );
    }

    #[test]
    fn nesting_without_validation_cannot_exhaust_the_stack() {
        let nest =
            |leaf: i32| (0..200_000 / 8).fold(doc! { "x": leaf }, |inner, _| doc! { "x": inner });
        let (a, b) = (nest(1), nest(2));
        assert!(compare_documents(a.as_raw(), b.as_raw()).is_ne());
        hash_value((&a).into(), &mut DefaultHasher::new());
    }
}
