//! Tests that walking, finding, comparing and building in place allocate nothing.

use std::{
    hash::{DefaultHasher, Hasher},
    ops::ControlFlow,
};

use allocation_counter::measure;
use quarry_bson::{
    DateTime, Decimal128, Document, DocumentBuilder, FieldSet, Index, ObjectId, RawCodeWithScope,
    RawDbPointer, RawDocument, RawRegex, RawValue, Timestamp, Value, compare_documents,
    compare_values, doc, hash_value,
};

fn every_type() -> Document {
    let id = ObjectId::from_bytes([7; 12]);
    doc! {
        "_id": id, "double": 1.5, "string": "a text of more than sixteen bytes", "document": { "a": { "b": [1, { "c": 2 }] } },
        "array": [1, 2.0, "three", { "x": 4 }], "binary": Value::binary(0, &[1; 40]), "undefined": Value::undefined(),
        "boolean": true, "date": DateTime(0), "null": null, "regex": RawRegex { pattern: "^a".into(), options: "i".into() },
        "pointer": RawValue::DbPointer(RawDbPointer { namespace: "a.b".into(), id }), "code": RawValue::JavaScript("x".into()),
        "symbol": RawValue::Symbol("s".into()),
        "scoped": RawValue::JavaScriptWithScope(RawCodeWithScope { code: "y".into(), scope: RawDocument::EMPTY }),
        "int": 1, "timestamp": Timestamp { time: 1, increment: 2 }, "long": 1i64 << 60,
        "decimal": Decimal128::parse("1152921504606846976.5").unwrap(), "min": Value::min_key(), "max": Value::max_key(),
    }
}

/// Counts the allocations of `work` when it runs for the second time.
fn allocations(mut work: impl FnMut()) -> u64 {
    work();
    measure(work).count_total
}

#[test]
fn reading_allocates_nothing() {
    let document = every_type();
    let raw = document.as_raw();
    let set = FieldSet::new(["int", "document.a.b.1.c", "array.0", "missing"]);
    let mut index = Index::new();
    let reading: [(&str, &mut dyn FnMut()); 8] = [
        ("validated", &mut || {
            assert!(RawDocument::validated(document.as_bytes()).is_ok());
        }),
        ("iterate", &mut || {
            assert_eq!(raw.iter().filter(|e| e.value().is_number()).count(), 4);
        }),
        ("get", &mut || {
            assert!(raw.get("max").is_some() && raw.get("maximum").is_none());
        }),
        ("get_str", &mut || assert!(raw.get_str("string").is_some())),
        ("get_path", &mut || {
            assert!(raw.get_path("document.a.b.1.c").is_some());
        }),
        ("visit_path", &mut || {
            let visited = raw.visit_path("array.x", |value| match value.as_i32() {
                Some(4) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            });
            assert!(visited.is_break());
        }),
        ("extract", &mut || {
            let mut slots = [None; 4];
            set.extract(raw, &mut slots);
            assert_eq!(slots.iter().flatten().count(), 3);
        }),
        ("index", &mut || {
            assert!(index.of(raw).get("long").is_some());
            assert!(index.get_path_element(raw, "document.a.b").is_some());
        }),
    ];
    for (name, work) in reading {
        assert_eq!(allocations(work), 0, "{name}");
    }
}

#[test]
fn comparing_and_hashing_allocate_nothing() {
    let (a, b) = (every_type(), every_type());
    assert_eq!(
        allocations(|| assert!(compare_documents(a.as_raw(), b.as_raw()).is_eq())),
        0
    );
    for element in &a {
        let value = element.value();
        let against_all = || {
            for other in &b {
                let order = compare_values(value, other.value());
                assert_eq!(order, compare_values(other.value(), value).reverse());
            }
            hash_value(value, &mut DefaultHasher::new());
        };
        assert_eq!(allocations(against_all), 0, "{element:?}");
    }
    let mut state = DefaultHasher::new();
    hash_value(a.as_raw().into(), &mut state);
    assert_ne!(state.finish(), 0);
}

#[test]
fn building_takes_what_the_buffer_grows_by() {
    let source = every_type();
    let mut buffer = Vec::new();
    let build = || {
        buffer.clear();
        let mut out = DocumentBuilder::new(&mut buffer);
        for element in &source {
            out.append(element.name(), element.value());
        }
        let mut more = out.document("more");
        let mut list = more.array("list");
        for i in 0..200 {
            list.push(i);
        }
    };
    assert_eq!(allocations(build), 0);
}

#[test]
fn owning_takes_one_buffer() {
    let source = every_type();
    let owned = || drop(Document::decode(source.as_bytes()));
    assert_eq!(allocations(owned), 1);
    let large = doc! { "half": "x".repeat(40_000), "other": "y".repeat(40_000) };
    assert_eq!(allocations(|| drop(Document::decode(large.as_bytes()))), 1);

    let scalars = source.iter().filter(|element| {
        let value = element.value();
        value.is_number()
            || value.is_nullish()
            || matches!(
                value,
                RawValue::ObjectId(_)
                    | RawValue::Boolean(_)
                    | RawValue::DateTime(_)
                    | RawValue::Timestamp(_)
                    | RawValue::Symbol(_)
                    | RawValue::MinKey
                    | RawValue::MaxKey
            )
    });
    for element in scalars {
        let copied = allocations(|| drop(element.value().to_value().clone()));
        assert_eq!(copied, 0, "{element:?}");
    }
}
