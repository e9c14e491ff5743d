//! Keys against the comparison they stand for: any two values, in either direction, alone, nested
//! and compound; and back from keys to the very bytes of the values.

use std::cmp::Ordering;

use proptest::prelude::*;
use quarry_bson::{
    ArrayBuilder, Decimal128, Document, DocumentBuilder, ElementType, RawDocument, RawStr, Value,
    compare_values,
};
use quarry_keystring::{
    Direction, TypeBits, append_encoded_text, decode, decode_prefix_len, encode_id, encode_text,
    encode_value, prefix_end, skip_value, successor, type_bytes,
};

fn key_of(values: &[Value], directions: &[Direction]) -> (Vec<u8>, Vec<u8>) {
    let (mut key, mut type_bits) = (Vec::new(), TypeBits::new());
    for (value, &direction) in values.iter().zip(directions) {
        encode_value(&mut key, &mut type_bits, value.as_raw(), direction);
    }
    (key, type_bits.to_bytes())
}

fn key(value: &Value, direction: Direction) -> Vec<u8> {
    key_of(std::slice::from_ref(value), &[direction]).0
}

fn text(element_type: ElementType, text: &str) -> Value {
    let mut bytes = (text.len() as u32 + 1).to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    Value::from_bytes(element_type, &bytes).unwrap()
}

fn regex(pattern: &str, options: &str) -> Value {
    let bytes = [pattern.as_bytes(), b"\0", options.as_bytes(), b"\0"].concat();
    Value::from_bytes(ElementType::Regex, &bytes).unwrap()
}

fn db_pointer(namespace: &str, id: [u8; 12]) -> Value {
    let mut bytes = text(ElementType::String, namespace).as_bytes().to_vec();
    bytes.extend_from_slice(&id);
    Value::from_bytes(ElementType::DbPointer, &bytes).unwrap()
}

fn code_with_scope(code: &str, scope: &Document) -> Value {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(text(ElementType::String, code).as_bytes());
    bytes.extend_from_slice(scope.as_bytes());
    let len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&len.to_le_bytes());
    Value::from_bytes(ElementType::JavaScriptWithScope, &bytes).unwrap()
}

fn document(fields: &[(String, Value)]) -> Document {
    let mut bytes = Vec::new();
    let mut builder = DocumentBuilder::new(&mut bytes);
    for (name, value) in fields {
        builder.append(name, value);
    }
    builder.finish();
    Document::from_bytes(bytes).unwrap()
}

fn array(values: &[Value]) -> Value {
    let mut bytes = Vec::new();
    let mut builder = ArrayBuilder::new(&mut bytes);
    for value in values {
        builder.push(value);
    }
    builder.finish();
    Value::from_bytes(ElementType::Array, &bytes).unwrap()
}

fn decimal(text: &str) -> Value {
    Value::from(Decimal128::parse(text).unwrap())
}

/// Small texts over few characters, NUL and the escape among them, so that prefixes are common.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::collection::vec(
            prop::sample::select(vec!['\0', '\u{1}', '\u{2}', 'a', 'b', 'é', '\u{10FFFF}']),
            0..5
        )
        .prop_map(|chars| chars.into_iter().collect::<String>()),
        any::<String>(),
    ]
}

fn any_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "b", "aa", "a\u{1}", "é"]).prop_map(str::to_owned)
}

fn any_cstring() -> impl Strategy<Value = String> {
    any_text().prop_map(|text| text.replace('\0', "x"))
}

/// Whole numbers near powers of two and ten, where encodings change their length.
fn any_whole() -> impl Strategy<Value = i64> {
    prop_oneof![
        -300i64..300,
        any::<i64>(),
        (0u32..64, -2i64..3).prop_map(|(bits, near)| (1i64 << bits.min(62)).wrapping_add(near)),
        (0u32..64, -2i64..3).prop_map(|(bits, near)| (i64::MIN >> bits).saturating_add(near)),
        (0u32..19, -2i64..3).prop_map(|(zeros, near)| 10i64.pow(zeros) + near),
    ]
}

fn any_double() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        any_whole().prop_map(|n| n as f64),
        any_whole().prop_map(|n| n as f64 / 1024.0),
        any_whole().prop_map(|n| n as f64 / 10.0),
        -2.0..2.0,
        prop::sample::select(vec![
            0.0,
            -0.0,
            0.1,
            0.5,
            -0.5,
            1.5,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            5e-324,
            9_223_372_036_854_775_808.0,
            -9_223_372_036_854_775_808.0,
        ]),
    ]
}

fn any_decimal() -> impl Strategy<Value = Decimal128> {
    let coefficient = prop_oneof![
        0u128..1000,
        any::<u64>().prop_map(u128::from),
        any::<u128>().prop_map(|c| c % 10u128.pow(34)),
    ];
    let exponent = prop_oneof![-40i32..25, -6176i32..=6111];
    let finite =
        (any::<bool>(), coefficient, exponent).prop_map(|(negative, coefficient, exponent)| {
            Decimal128::try_from_parts(negative, coefficient, exponent).unwrap()
        });
    let near_double = any_double().prop_map(|d| {
        if d.is_finite() {
            Decimal128::parse_rounded(&format!("{d:e}")).unwrap()
        } else {
            Decimal128::from_f64(d)
        }
    });
    let whole = (any_whole(), 0i32..3).prop_map(|(n, places)| {
        let coefficient = u128::from(n.unsigned_abs()) * 10u128.pow(places.unsigned_abs());
        Decimal128::try_from_parts(n < 0, coefficient, -places).unwrap()
    });
    prop_oneof![4 => finite, 4 => near_double, 4 => whole, 1 => any::<u128>().prop_map(Decimal128::from_bits)]
}

fn any_number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any_whole().prop_map(|n| Value::from(n as i32)),
        any_whole().prop_map(Value::from),
        any_double().prop_map(Value::from),
        any_decimal().prop_map(Value::from),
    ]
}

fn any_scalar() -> impl Strategy<Value = Value> {
    let bytes = || proptest::collection::vec(prop::sample::select(vec![0u8, 1, 0x7F, 0xFF]), 0..4);
    prop_oneof![
        8 => any_number(),
        3 => any_text().prop_map(|t| text(ElementType::String, &t)),
        1 => any_text().prop_map(|t| text(ElementType::Symbol, &t)),
        1 => any_text().prop_map(|t| text(ElementType::JavaScript, &t)),
        1 => prop::sample::select(vec![
            Value::null(), Value::undefined(), Value::min_key(), Value::max_key(),
            Value::from(false), Value::from(true),
        ]),
        1 => (prop::sample::select(vec![0u8, 4, 5, 128]), bytes()).prop_map(|(s, b)| Value::binary(s, &b)),
        1 => (250usize..260).prop_map(|len| Value::binary(0, &vec![7; len])),
        1 => any::<[u8; 12]>().prop_map(|id| Value::from_bytes(ElementType::ObjectId, &id).unwrap()),
        1 => any::<i64>().prop_map(Value::date_time),
        1 => any::<[u8; 8]>().prop_map(|t| Value::from_bytes(ElementType::Timestamp, &t).unwrap()),
        1 => (any_cstring(), any_cstring()).prop_map(|(p, o)| regex(&p, &o)),
        1 => (any_cstring(), prop::sample::select(vec![[0; 12], [1; 12]])).prop_map(|(n, id)| db_pointer(&n, id)),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    any_scalar().prop_recursive(3, 12, 4, |inner| {
        let fields = || proptest::collection::vec((any_name(), inner.clone()), 0..4);
        prop_oneof![
            fields().prop_map(|f| Value::from(document(&f))),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|v| array(&v)),
            (any_text(), fields()).prop_map(|(code, f)| code_with_scope(&code, &document(&f))),
        ]
    })
}

fn any_direction() -> impl Strategy<Value = Direction> {
    prop::sample::select(vec![Direction::Ascending, Direction::Descending])
}

fn assert_orders(a: &Value, b: &Value) {
    let order = compare_values(a.as_raw(), b.as_raw());
    for (direction, expected) in [
        (Direction::Ascending, order),
        (Direction::Descending, order.reverse()),
    ] {
        let (left, right) = (key(a, direction), key(b, direction));
        assert_eq!(
            left.cmp(&right),
            expected,
            "{a} against {b}, {direction:?}:\n{left:02x?}\n{right:02x?}"
        );
    }
}

fn assert_round_trip(values: &[Value], directions: &[Direction]) {
    let (key, type_bits) = key_of(values, directions);
    let decoded = decode(&key, &type_bits, directions).unwrap();
    assert_eq!(decoded.len(), values.len());
    for (value, decoded) in values.iter().zip(&decoded) {
        assert_eq!(
            value.element_type(),
            decoded.element_type(),
            "{value} came back as {decoded}"
        );
        assert_eq!(
            value.as_bytes(),
            decoded.as_bytes(),
            "{value} came back as {decoded}"
        );
    }
    assert_eq!(
        decode_prefix_len(&key, values.len(), directions).unwrap(),
        key.len()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn numbers_order_as_they_compare(a in any_number(), b in any_number()) {
        assert_orders(&a, &b);
    }

    #[test]
    fn a_number_orders_exactly_against_its_neighbours(d in any_double()) {
        prop_assume!(d.is_finite());
        let values = [
            Value::from(d),
            Value::from(f64::from_bits(d.to_bits().wrapping_add(1))),
            Value::from(Decimal128::parse_rounded(&format!("{d:e}")).unwrap()),
            Value::from(Decimal128::from_f64(d)),
            Value::from(d as i64),
            Value::from((d as i64).saturating_add(1)),
        ];
        for a in &values {
            for b in &values {
                assert_orders(a, b);
            }
        }
    }

    #[test]
    fn all_values_order_as_they_compare(a in any_value(), b in any_value()) {
        assert_orders(&a, &b);
    }

    #[test]
    fn values_come_back_with_their_own_bytes(
        values in proptest::collection::vec((any_value(), any_direction()), 1..4),
    ) {
        let (values, directions): (Vec<_>, Vec<_>) = values.into_iter().unzip();
        assert_round_trip(&values, &directions);
    }

    #[test]
    fn a_compound_key_orders_field_by_field(
        a in (any_scalar(), any_value(), any_scalar()),
        b in (any_scalar(), any_value(), any_scalar()),
        shared in 0usize..3,
        directions in [any_direction(), any_direction(), any_direction()],
    ) {
        let a = [a.0, a.1, a.2];
        let mut b = [b.0, b.1, b.2];
        b[..shared].clone_from_slice(&a[..shared]);
        let expected = a.iter().zip(&b).zip(directions).map(|((a, b), direction)| {
            let order = compare_values(a.as_raw(), b.as_raw());
            if direction == Direction::Ascending { order } else { order.reverse() }
        }).find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
        prop_assert_eq!(key_of(&a, &directions).0.cmp(&key_of(&b, &directions).0), expected);
    }

    #[test]
    fn a_key_ends_by_itself_whatever_follows(
        value in any_value(),
        direction in any_direction(),
        rest in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = key(&value, direction);
        let len = bytes.len();
        bytes.extend_from_slice(&rest);
        prop_assert_eq!(skip_value(&bytes, direction).unwrap(), len);
        prop_assert!(skip_value(&bytes[..len - 1], direction).is_err());
    }

    #[test]
    fn order_does_not_depend_on_what_follows(
        a in any_value(),
        b in any_value(),
        direction in any_direction(),
        rests in any::<([u8; 3], [u8; 3])>(),
    ) {
        let (mut left, mut right) = (key(&a, direction), key(&b, direction));
        prop_assume!(left != right);
        let expected = left.cmp(&right);
        left.extend_from_slice(&rests.0);
        right.extend_from_slice(&rests.1);
        prop_assert_eq!(left.cmp(&right), expected);
    }

    #[test]
    fn bounds_hold_every_extension(value in any_value(), other in any_value(), direction in any_direction()) {
        let prefix = key(&value, direction);
        let end = prefix_end(&prefix);
        let mut inside = prefix.clone();
        inside.extend_from_slice(&key(&other, direction));
        prop_assert!(prefix <= inside && inside < end);
        let mut stepped = prefix.clone();
        prop_assert!(successor(&mut stepped));
        prop_assert_eq!(&stepped, &end);
        let outside = key(&other, direction);
        prop_assert_eq!(
            (prefix..end).contains(&outside),
            compare_values(value.as_raw(), other.as_raw()).is_eq()
        );
    }

    #[test]
    fn the_first_byte_lies_in_the_range_of_its_type(value in any_value()) {
        let first = key(&value, Direction::Ascending)[0];
        prop_assert!(type_bytes(value.element_type()).contains(&first));
    }

    #[test]
    fn random_bytes_never_panic(
        key in proptest::collection::vec(any::<u8>(), 0..60),
        type_bits in proptest::collection::vec(any::<u8>(), 0..20),
        direction in any_direction(),
    ) {
        let _ = decode(&key, &type_bits, &[direction, direction]);
        let _ = decode_prefix_len(&key, 3, &[direction]);
    }

    #[test]
    fn damaged_keys_never_panic(
        value in any_value(),
        direction in any_direction(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut key, mut type_bits) = key_of(&[value], &[direction]);
        for (place, byte) in damage {
            let at = place.index(key.len());
            key[at] = byte;
            if !type_bits.is_empty() {
                let at = place.index(type_bits.len());
                type_bits[at] ^= byte;
            }
        }
        key.truncate(cut.index(key.len() + 1));
        let skipped = skip_value(&key, direction);
        if let Ok(values) = decode(&key, &type_bits, &[direction]) {
            prop_assert_eq!(values.len(), 1);
            prop_assert!(skipped.is_ok(), "what decodes can be skipped");
        }
    }
}

#[test]
fn every_pair_of_awkward_numbers_orders() {
    let mut numbers: Vec<Value> = [
        "0",
        "-0E+10",
        "1",
        "1.0",
        "1.5",
        "-1.5",
        "0.1",
        "0.10",
        "0.1000000000000000055511151231257827",
        "0.1000000000000000055511151231257828",
        "9007199254740993",
        "9007199254740993.5",
        "9223372036854775807",
        "9223372036854775807.5",
        "9223372036854775808",
        "9223372036854775808.5",
        "-9223372036854775808",
        "-9223372036854775808.5",
        "1E-6176",
        "9.999999999999999999999999999999999E+6144",
        "1E+309",
        "1E-400",
        "4E-324",
        "5E-324",
        "NaN",
        "Infinity",
        "-Infinity",
        "1E22",
        "1E23",
        "99999999999999999999999",
        "0.9999999999999999999",
        "123456789.123456789",
        "123456789.12345678999",
        "123456789.123456788",
    ]
    .into_iter()
    .map(decimal)
    .collect();
    for n in [
        0,
        1,
        -1,
        63,
        64,
        127,
        128,
        i64::MAX,
        i64::MIN,
        1 << 53,
        (1 << 53) + 1,
        i64::MIN + 1,
    ] {
        numbers.extend([
            Value::from(n),
            Value::from(n as f64),
            Value::from(n as i32),
            Value::from(n as f64 + 0.5),
        ]);
    }
    for d in [
        0.1,
        -0.0,
        5e-324,
        -5e-324,
        f64::MAX,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        1e22,
        1e23,
        1.0 - f64::EPSILON / 2.0,
    ] {
        numbers.extend([Value::from(d), Value::from(-d)]);
    }
    for a in &numbers {
        for b in &numbers {
            assert_orders(a, b);
        }
        assert_round_trip(
            &[a.clone(), a.clone()],
            &[Direction::Ascending, Direction::Descending],
        );
    }
}

#[test]
fn common_values_have_short_keys_and_no_type_bits() {
    for (value, bytes) in [
        (Value::from(0), 1),
        (Value::from(5), 2),
        (Value::from(-100), 2),
        (Value::from(30_000), 3),
        (Value::from(1_000_000), 4),
        (Value::from(i64::MAX), 9),
        (Value::from(0.5), 3),
        (Value::from(2.5), 3),
        (Value::from("abc"), 5),
    ] {
        let (key, type_bits) = key_of(std::slice::from_ref(&value), &[Direction::Ascending]);
        assert_eq!((key.len(), type_bits.len()), (bytes, 0), "{value}");
    }
}

#[test]
fn an_id_is_the_ascending_key_of_its_value() {
    let value = text(ElementType::String, "a\0b");
    let mut id = vec![9];
    encode_id(&mut id, value.as_raw());
    assert_eq!(id[1..], key(&value, Direction::Ascending));
}

/// Wherever in a text of whatever length a byte stands that is escaped, or one that is nearly.
#[test]
fn texts_are_escaped_byte_by_byte() {
    for length in 0..40 {
        for place in 0..length {
            for byte in [0, 1, 2, 0x7F, 0x80, 0x81, 0x82, 0xFF] {
                let mut bytes = vec![b'x'; length];
                bytes[place] = byte;
                let mut expected = vec![*type_bytes(ElementType::String).start()];
                for &byte in &bytes {
                    match byte {
                        0 => expected.extend([1, 1]),
                        1 => expected.extend([1, 2]),
                        plain => expected.push(plain),
                    }
                }
                expected.push(0);
                let mut key = Vec::new();
                encode_text(&mut key, RawStr::from_bytes(&bytes));
                assert_eq!(key, expected, "{bytes:?}");
                let (mut again, mut type_bits) = (vec![9], TypeBits::new());
                for keys in [key.clone(), [key.as_slice(), &[7; 20]].concat()] {
                    for direction in [Direction::Ascending, Direction::Descending] {
                        again.truncate(1);
                        append_encoded_text(
                            &mut again,
                            &mut type_bits,
                            (&keys, key.len()),
                            direction,
                        );
                        let flipped = match direction {
                            Direction::Ascending => 0,
                            Direction::Descending => 0xFF,
                        };
                        let expected = expected.iter().map(|byte| byte ^ flipped);
                        assert!(again[1..].iter().copied().eq(expected), "{bytes:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_deepest_valid_document_goes_in_and_out() {
    let mut deep = Document::new();
    for _ in 0..178 {
        deep = document(&[("a".to_owned(), Value::from(deep))]);
    }
    RawDocument::validated(document(&[("_id".to_owned(), Value::from(deep.clone()))]).as_bytes())
        .unwrap();
    assert_round_trip(&[Value::from(deep)], &[Direction::Descending]);
}

#[test]
fn bytes_that_nest_without_end_are_refused() {
    for nesting in [0x58u8, 0x50] {
        let deep = [nesting, 0x50, 0].repeat(100_000);
        assert!(decode(&deep, &[], &[Direction::Ascending]).is_err());
        assert!(skip_value(&deep, Direction::Ascending).is_err());
    }
    let deep = vec![0x58; 1_000_000];
    assert!(skip_value(&deep, Direction::Ascending).is_err());
    assert!(decode(&deep, &[], &[Direction::Ascending]).is_err());
}
