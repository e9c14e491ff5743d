//! An index with a collation finds what a scan finds, in the order in which the collation compares.

use super::*;

fn text() -> BoxedStrategy<String> {
    let letter = prop::sample::select(vec![
        "a", "A", "b", "B", "e", "é", "E", "o", "ö", "oe", "z", "å", "ch", "1", "10", "2", " ",
        "-", "ß", "ss", "ı", "I", "あ", "ア",
    ]);
    proptest::collection::vec(letter, 0..3)
        .prop_map(|letters| letters.concat())
        .boxed()
}

/// A value of a document or of a filter, mostly a string.
fn textual() -> BoxedStrategy<String> {
    prop_oneof![
        8 => text().prop_map(|text| format!("\"{text}\"")),
        1 => (0..3).prop_map(|n: i32| n.to_string()),
        1 => Just("null".to_owned()),
        1 => text().prop_map(|text| format!(r#"{{"x": "{text}"}}"#)),
    ]
    .boxed()
}

fn textual_field() -> BoxedStrategy<String> {
    prop_oneof![
        6 => textual(),
        1 => proptest::collection::vec(textual(), 0..3).prop_map(|list| format!("[{}]", list.join(","))),
    ]
    .boxed()
}

fn textual_condition() -> BoxedStrategy<String> {
    let op = prop::sample::select(vec!["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]);
    let field = prop::sample::select(vec!["a", "b"]);
    prop_oneof![
        4 => (field.clone(), op, textual()).prop_map(|(field, op, value)| format!(r#"{{"{field}": {{"{op}": {value}}}}}"#)),
        2 => (field.clone(), proptest::collection::vec(textual(), 0..3), any::<bool>()).prop_map(|(field, list, is_in)| {
            let op = if is_in { "$in" } else { "$nin" };
            format!(r#"{{"{field}": {{"{op}": [{}]}}}}"#, list.join(","))
        }),
        1 => (field, prop::sample::select(vec!["^a", "^B", "o"])).prop_map(|(field, regex)| format!(r#"{{"{field}": {{"$regex": "{regex}"}}}}"#)),
    ]
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// By an index as by a scan, and in the order in which the collation compares.
    #[test]
    fn an_index_with_a_collation_finds_and_orders_as_a_scan(
        specification in prop::sample::select(vec![
            r#"{"locale": "en", "strength": 1}"#, r#"{"locale": "sv"}"#, r#"{"locale": "de@collation=phonebook", "strength": 2}"#,
            r#"{"locale": "es@collation=traditional"}"#, r#"{"locale": "tr", "caseLevel": true, "strength": 1}"#,
            r#"{"locale": "fr_CA", "numericOrdering": true}"#, r#"{"locale": "ja", "strength": 4}"#,
            r#"{"locale": "en", "alternate": "shifted", "strength": 5}"#,
        ]),
        documents in proptest::collection::vec((proptest::option::of(textual_field()), textual()), 1..25),
        conditions in proptest::collection::vec((textual_condition(), textual_condition(), 0..3u8), 6..12),
    ) {
        let documents: Vec<Document> = documents.iter().enumerate().map(|(id, (a, b))| {
            let a = a.as_ref().map_or(String::new(), |a| format!(r#""a": {a}, "#));
            json(&format!(r#"{{"_id": {id}, {a}"b": {b}}}"#))
        }).collect();
        let fixture = with_documents(&documents[..documents.len() / 2]);
        // Half of the documents come before their indexes are built, and half behind.
        for (name, key) in [("a", r#"{"a": 1}"#), ("ba", r#"{"b": -1, "a": 1}"#), ("b", r#"{"b": 1}"#)] {
            fixture.index(&format!(r#"{{"key": {key}, "name": "{name}", "collation": {specification}}}"#));
        }
        fixture.index(r#"{"key": {"b": 1}, "name": "bytes"}"#);
        let wild = with_documents(&documents[..documents.len() / 2]);
        wild.index(&format!(r#"{{"key": {{"$**": 1}}, "name": "all", "collation": {specification}}}"#));
        for fixture in [&fixture, &wild] {
            let outcome = fixture.insert(&documents[documents.len() / 2..], true);
            prop_assert!(outcome.errors.is_empty());
            prop_assert_eq!(fixture.broken(), Vec::<String>::new());
        }
        for (first, second, shape) in &conditions {
            let filter = match shape {
                0 => first.clone(),
                1 => format!(r#"{{"$and": [{first}, {second}]}}"#),
                _ => format!(r#"{{"$or": [{first}, {second}]}}"#),
            };
            let raw = json(&filter);
            for context in [by(specification), by(SIMPLE), by(r#"{"locale": "da"}"#)] {
                let natural = Value::from(doc! { "$natural": 1 });
                let find_in = |fixture: &Fixture, hint: Option<RawValue<'_>>, sort: Option<&Document>| {
                    let mut request = FindRequest::new(&fixture.namespace);
                    (request.filter, request.hint, request.context) = (raw.as_raw(), hint, Some(&context));
                    request.sort = sort.map(Document::as_raw);
                    fixture.drain(exec::find((&fixture.database).into(), &fixture.operation, request).unwrap())
                };
                let find = |hint: Option<RawValue<'_>>, sort: Option<&Document>| find_in(&fixture, hint, sort);
                let sorted = |mut found: Vec<String>| { found.sort(); found };
                let wanted = sorted(find(Some(natural.as_raw()), None));
                for hint in [None, Some("a"), Some("ba"), Some("b"), Some("bytes")] {
                    let found = sorted(find(hint.map(RawValue::from), None));
                    prop_assert_eq!(&found, &wanted, "{} by {:?} and {:?}", filter, context.collation(), hint);
                }
                let found = sorted(find_in(&wild, None, None));
                prop_assert_eq!(&found, &wanted, "{} by {:?} and all", filter, context.collation());
                prop_assert_eq!(fixture.counted_by(&filter, Some(&context)), wanted.len() as u64);
                for (direction, order) in [(1, "b"), (-1, "b")] {
                    let sort = doc! { order: direction, "_id": 1 };
                    let by_b = doc! { order: direction };
                    for found in [find(None, Some(&sort)), find(None, Some(&by_b)), find(Some(RawValue::from("b")), Some(&by_b)), find_in(&wild, None, Some(&by_b))] {
                        prop_assert_eq!(&sorted(found.clone()), &wanted);
                        let values: Vec<Value> = found.iter().map(|text| json(text).get("b").unwrap().to_value()).collect();
                        for pair in values.windows(2) {
                            let order = context.collation().compare(pair[0].as_raw(), pair[1].as_raw());
                            let order = if direction == 1 { order } else { order.reverse() };
                            prop_assert!(order.is_le(), "{} before {} by {:?}", pair[0], pair[1], context.collation());
                        }
                    }
                }
            }
        }
    }
}
