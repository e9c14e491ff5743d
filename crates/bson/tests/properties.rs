//! Properties of every document: round trips, the laws of the order, and that a splice equals building anew.

use std::{
    cmp::Ordering,
    hash::{DefaultHasher, Hash, Hasher},
};

use proptest::prelude::*;
use quarry_bson::{
    Decimal128, Document, ObjectId, RawDocument, RawRegex, RawValue, Timestamp, Value, extjson,
};

fn scalar() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i32>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        // Where numbers of different types meet.
        (-3i64..3, 0u32..63)
            .prop_map(|(near, power)| Value::from((1i64 << power).wrapping_add(near))),
        (-3i64..3, 0u32..63)
            .prop_map(|(near, power)| Value::from((1i64 << power).wrapping_add(near) as f64)),
        (-3i64..3, 0u32..63).prop_map(|(near, power)| Value::from(Decimal128::from_i64(
            (1i64 << power).wrapping_add(near)
        ))),
        (any::<i64>(), -400i32..400).prop_map(|(n, e)| Value::from(
            Decimal128::try_from_parts(n < 0, u128::from(n.unsigned_abs()), e).unwrap()
        )),
        (-20i32..20).prop_map(|n| Value::from(f64::from(n) / 4.0)),
        (-20i32..20).prop_map(|n| Value::from(
            Decimal128::from_i64(i64::from(n)).div(&Decimal128::from_i64(4))
        )),
        prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-0.0)].prop_map(Value::from),
        prop_oneof![
            Just(Decimal128::NAN),
            Just(Decimal128::INFINITY),
            Just(Decimal128::ZERO)
        ]
        .prop_map(Value::from),
    ];
    prop_oneof![
        4 => number,
        2 => ".{0,12}".prop_map(Value::from),
        1 => ".{0,4}".prop_map(|s| Value::from(RawValue::Symbol(s.as_str().into()))),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::date_time),
        1 => any::<[u8; 12]>().prop_map(|b| Value::from(ObjectId::from_bytes(b))),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(time, increment)| Value::from(Timestamp { time, increment })),
        1 => (prop_oneof![Just(0u8), Just(4), Just(0x80)], prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(s, b)| Value::binary(s, &b)),
        1 => "[a-z.*]{0,5}".prop_map(|p| Value::from(RawRegex { pattern: p.as_str().into(), options: "im".into() })),
        1 => prop_oneof![Just(Value::null()), Just(Value::undefined()), Just(Value::min_key()), Just(Value::max_key())],
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            fields(inner).prop_map(|f| Value::from(document(&f))),
        ]
    })
}

fn fields(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<(String, Value)>> {
    prop::collection::vec(("[a-dé]{0,3}|[a-c]{7,10}", inner), 0..6)
}

fn document(fields: &[(String, Value)]) -> Document {
    Document::build(|out| {
        for (name, value) in fields {
            out.append(name, value);
        }
    })
}

fn hash(value: &Value) -> u64 {
    let mut state = DefaultHasher::new();
    value.hash(&mut state);
    state.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn documents_survive_bytes_and_text(fields in fields(value())) {
        let built = document(&fields);
        RawDocument::validated(built.as_bytes()).unwrap();
        let walked: Vec<_> = built.iter().map(|e| (e.name().to_string(), e.value().to_value())).collect();
        prop_assert_eq!(&document(&walked), &built);
        prop_assert_eq!(document(&walked).into_bytes(), built.as_bytes());

        let read = extjson::parse(&extjson::canonical(built.as_raw())).unwrap();
        // NaN has many bit patterns and one text.
        prop_assert_eq!(&read, &built);
        prop_assert_eq!(extjson::canonical(read.as_raw()), extjson::canonical(built.as_raw()));
        let relaxed = extjson::parse(&extjson::relaxed(built.as_raw())).unwrap();
        prop_assert_eq!(extjson::relaxed(relaxed.as_raw()), extjson::relaxed(built.as_raw()));
    }

    #[test]
    fn order_is_total_and_hashes_agree(a in value(), b in value(), c in value()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.cmp(&a.clone()), Ordering::Equal);
        if a <= b && b <= c {
            prop_assert!(a <= c, "{} <= {} <= {}", a, b, c);
        }
        if a == b {
            prop_assert_eq!(hash(&a), hash(&b));
            prop_assert_eq!(a.cmp(&c), b.cmp(&c));
        }
    }

    #[test]
    fn numbers_order_by_their_exact_value(numbers in prop::collection::vec(scalar().prop_filter("a number", Value::is_number), 3)) {
        let [a, b, c] = &numbers[..] else { unreachable!("three were asked for") };
        prop_assert_eq!(a.cmp(b), b.cmp(a).reverse());
        prop_assert!(!(a <= b && b <= c) || a <= c, "{} <= {} <= {}", a, b, c);
        prop_assert!(a != b || hash(a) == hash(b));
    }

    #[test]
    fn a_splice_equals_building_anew(fields in fields(value()), name in "[a-dé]{0,3}", new in value()) {
        let mut edited = document(&fields);
        edited.set(&name, &new);
        let mut wanted = fields.clone();
        match wanted.iter_mut().find(|(n, _)| *n == name) {
            Some((_, value)) => *value = new.clone(),
            None => wanted.push((name.clone(), new)),
        }
        prop_assert_eq!(edited.as_bytes(), document(&wanted).into_bytes());

        let removed = edited.remove(&name);
        let at = wanted.iter().position(|(n, _)| *n == name).unwrap();
        prop_assert_eq!(removed, Some(wanted.remove(at).1));
        prop_assert_eq!(edited.as_bytes(), document(&wanted).into_bytes());
    }

    #[test]
    fn a_path_set_is_a_path_found(fields in fields(value()), path in "[a-d]{1,2}(\\.[a-d]{1,2}){0,3}", new in value()) {
        let mut edited = document(&fields);
        let before = edited.clone();
        match edited.set_path(&path, &new) {
            Ok(()) => prop_assert_eq!(edited.get_path(&path).map(Value::from), Some(new)),
            Err(_) => prop_assert_eq!(edited.as_bytes(), before.as_bytes()),
        }
        RawDocument::validated(edited.as_bytes()).unwrap();
        let there = edited.get_path(&path).is_some();
        prop_assert_eq!(edited.remove_path(&path), there);
        RawDocument::validated(edited.as_bytes()).unwrap();
    }

    #[test]
    fn decimals_survive_text(n in any::<u128>(), e in -6176i32..=6111, negative in any::<bool>()) {
        let d = Decimal128::try_from_parts(negative, n % 10u128.pow(34), e).unwrap();
        prop_assert_eq!(Decimal128::parse(&d.to_string()).unwrap().to_bits(), d.to_bits());
    }
}
