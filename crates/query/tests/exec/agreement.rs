//! An index changes how documents are found, and never which.

use super::*;

#[test]
fn elements_of_one_array_may_meet_one_predicate_each() {
    let fixture = with(&[r#"{"_id": 1, "a": [{"b": 1, "c": 8}, {"b": 9, "c": 2}]}"#]);
    for pattern in [r#"{"a.b": 1, "a.c": 1}"#, r#"{"a.b": 1}"#] {
        fixture.index(&format!(r#"{{"key": {pattern}}}"#));
        let hint = Value::from(json(pattern));
        for filter in [
            r#"{"a.b": {"$gt": 2, "$lt": 5}}"#,
            r#"{"a.b": 1, "a.c": 2}"#,
            r#"{"$and": [{"a.b": 1}, {"a.b": 9}]}"#,
        ] {
            let filter = json(filter);
            let mut request = FindRequest::new(&fixture.namespace);
            request.filter = filter.as_raw();
            request.hint = Some(hint.as_raw());
            let executor =
                exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
            assert_eq!(fixture.drain(executor).len(), 1, "{filter} by {pattern}");
        }
    }
}

pub(super) fn scalar() -> BoxedStrategy<String> {
    prop_oneof![
        12 => (0i32..3).prop_map(|n| n.to_string()),
        1 => (0i32..2).prop_map(|n| format!("{n}.5")),
        // Equal to others, of another type.
        1 => (0i32..3).prop_map(|n| format!(r#"{{"$numberDouble": "{n}.0"}}"#)),
        1 => (0i32..3).prop_map(|n| format!(r#"{{"$numberLong": "{n}"}}"#)),
        1 => (0i32..3).prop_map(|n| format!(r#"{{"$numberDecimal": "{n}.0"}}"#)),
        1 => Just(r#"{"$numberDouble": "-Infinity"}"#.to_owned()),
        2 => "[ab]{0,2}".prop_map(|text| format!("\"{text}\"")),
        1 => Just("null".to_owned()),
        1 => Just("true".to_owned()),
        1 => Just(r#"{"$minKey": 1}"#.to_owned()),
        1 => Just(r#"{"$maxKey": 1}"#.to_owned()),
        1 => Just(r#"{"$numberDouble": "NaN"}"#.to_owned()),
        1 => Just(r#"{"$numberDouble": "Infinity"}"#.to_owned()),
        1 => Just(r#"{"x": 1}"#.to_owned()),
        // Keys of 255 end in 0xFF.
        2 => (253i32..258).prop_map(|ms| format!(r#"{{"$date": {{"$numberLong": "{ms}"}}}}"#)),
    ]
    .boxed()
}

fn value() -> BoxedStrategy<String> {
    prop_oneof![
        5 => scalar(),
        4 => proptest::collection::vec(scalar(), 0..4).prop_map(|list| format!("[{}]", list.join(","))),
        2 => (scalar(), scalar()).prop_map(|(b, c)| format!(r#"{{"b": {b}, "c": {c}}}"#)),
        1 => scalar().prop_map(|b| format!(r#"{{"b": {b}}}"#)),
        4 => proptest::collection::vec((scalar(), scalar()), 0..4).prop_map(|list| {
            let list: Vec<String> = list.iter().map(|(b, c)| format!(r#"{{"b": {b}, "c": {c}}}"#)).collect();
            format!("[{}]", list.join(","))
        }),
        1 => scalar().prop_map(|inner| format!("[[{inner}], 1]")),
        1 => scalar().prop_map(|inner| format!(r#"[[{{"b": {inner}}}]]"#)),
    ]
    .boxed()
}

pub(super) fn document() -> BoxedStrategy<String> {
    (
        proptest::option::of(value()),
        proptest::option::of(scalar()),
    )
        .prop_map(|(a, d)| {
            let fields = [
                a.map(|a| format!("\"a\": {a}")),
                d.map(|d| format!("\"d\": {d}")),
            ];
            fields.into_iter().flatten().collect::<Vec<_>>().join(", ")
        })
        .boxed()
}

fn path() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("a.b"), Just("a.c"), Just("a.0"), Just("d")]
}

fn op() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("$eq"),
        Just("$gt"),
        Just("$gte"),
        Just("$lt"),
        Just("$lte"),
        Just("$ne")
    ]
}

fn condition() -> BoxedStrategy<String> {
    let with_array = prop_oneof![6 => scalar(), 1 => value()];
    let with_array_again = with_array.clone();
    let simple = (path(), op(), with_array)
        .prop_map(|(path, op, value)| format!(r#"{{"{path}": {{"{op}": {value}}}}}"#));
    let both = (path(), op(), scalar(), op(), scalar())
        .prop_filter("two operators", |(_, a, _, b, _)| a != b)
        .prop_map(|(path, a, x, b, y)| format!(r#"{{"{path}": {{"{a}": {x}, "{b}": {y}}}}}"#));
    let member = prop_oneof![8 => scalar(), 1 => value()];
    let list = (
        path(),
        prop_oneof![2 => Just("$in"), 1 => Just("$nin")],
        proptest::collection::vec(member, 0..4),
    )
        .prop_map(|(path, op, list)| format!(r#"{{"{path}": {{"{op}": [{}]}}}}"#, list.join(",")));
    let regex = (
        path(),
        prop_oneof![Just("^a"), Just("^ab*"), Just("b"), Just("^")],
    )
        .prop_map(|(path, regex)| format!(r#"{{"{path}": {{"$regex": "{regex}"}}}}"#));
    let exists = (path(), any::<bool>())
        .prop_map(|(path, exists)| format!(r#"{{"{path}": {{"$exists": {exists}}}}}"#));
    let element = (part(), part()).prop_map(|(one, two)| format!(r#"{{"b": {one}, "c": {two}}}"#));
    let element = prop_oneof![
        2 => part().prop_map(|one| format!(r#"{{"b": {one}}}"#)),
        1 => element,
        1 => part().prop_map(|one| format!(r#"{{"$or": [{{"b": {one}}}]}}"#)),
        2 => part(),
        1 => part().prop_map(|one| format!(r#"{{"$elemMatch": {one}}}"#)),
        1 => part().prop_map(|one| format!(r#"{{"b": {{"$elemMatch": {one}}}}}"#)),
    ];
    let elements = (path(), element)
        .prop_map(|(path, element)| format!(r#"{{"{path}": {{"$elemMatch": {element}}}}}"#));
    let negated =
        (path(), part()).prop_map(|(path, part)| format!(r#"{{"{path}": {{"$not": {part}}}}}"#));
    let every = (path(), proptest::collection::vec(scalar(), 1..3))
        .prop_map(|(path, list)| format!(r#"{{"{path}": {{"$all": [{}]}}}}"#, list.join(",")));
    let shape = (
        path(),
        prop_oneof![
            Just(r#"{"$size": 2}"#),
            Just(r#"{"$type": "number"}"#),
            Just(r#"{"$type": ["string", "bool"]}"#),
            Just(r#"{"$type": "array"}"#),
            Just(r#"{"$type": ["null", "object"]}"#),
            Just(r#"{"$mod": [2, 1]}"#),
            Just(r#"{"$bitsAllSet": [0]}"#),
        ],
    )
        .prop_map(|(path, shape)| format!(r#"{{"{path}": {shape}}}"#));
    let ordered =
        (path(), op(), with_array_again, any::<bool>()).prop_map(|(path, op, value, is_turned)| {
            match is_turned {
                false => {
                    format!(r#"{{"$expr": {{"{op}": ["${path}", {{"$literal": {value}}}]}}}}"#)
                }
                true => format!(r#"{{"$expr": {{"{op}": [{{"$literal": {value}}}, "${path}"]}}}}"#),
            }
        });
    let none = (path(), part(), path(), part())
        .prop_map(|(a, x, b, y)| format!(r#"{{"$nor": [{{"{a}": {x}}}, {{"{b}": {y}}}]}}"#));
    prop_oneof![
        1 => ordered,
        1 => none,
        4 => simple,
        2 => both,
        2 => list,
        1 => regex,
        1 => exists,
        4 => elements,
        1 => negated,
        1 => every,
        1 => shape,
    ]
    .boxed()
}

/// Operators that ask something of one value.
fn part() -> BoxedStrategy<String> {
    prop_oneof![
        3 => (op(), scalar()).prop_map(|(op, value)| format!(r#"{{"{op}": {value}}}"#)),
        2 => (scalar(), scalar()).prop_map(|(low, high)| format!(r#"{{"$gte": {low}, "$lte": {high}}}"#)),
        1 => proptest::collection::vec(scalar(), 0..3).prop_map(|list| format!(r#"{{"$in": [{}]}}"#, list.join(","))),
        1 => Just(r#"{"$exists": true}"#.to_owned()),
        1 => Just(r#"{"$regex": "^a"}"#.to_owned()),
    ]
    .boxed()
}

/// Equalities alone: what an index answers without a look at the document.
fn equalities() -> BoxedStrategy<String> {
    proptest::collection::btree_map(path(), prop_oneof![6 => scalar(), 1 => value()], 1..4)
        .prop_map(|fields| {
            let fields = fields.iter();
            let fields: Vec<String> = fields
                .map(|(path, value)| format!(r#""{path}": {value}"#))
                .collect();
            format!("{{{}}}", fields.join(", "))
        })
        .boxed()
}

pub(super) fn filter() -> BoxedStrategy<String> {
    prop_oneof![
        2 => equalities(),
        2 => condition(),
        3 => proptest::collection::vec(condition(), 1..4).prop_map(|all| format!(r#"{{"$and": [{}]}}"#, all.join(","))),
        2 => proptest::collection::vec(condition(), 1..4).prop_map(|any| format!(r#"{{"$or": [{}]}}"#, any.join(","))),
        1 => (condition(), proptest::collection::vec(condition(), 2..4), condition()).prop_map(|(all, any, more)| {
            format!(r#"{{"$and": [{all}, {{"$or": [{}, {{"$and": [{more}, {{"$or": [{all}, {more}]}}]}}]}}]}}"#, any.join(","))
        }),
    ]
    .boxed()
}

/// A document with its top-level fields by name.
fn in_order(text: &str) -> String {
    let document = json(text);
    let mut fields: Vec<_> = document.as_raw().iter().collect();
    fields.sort_by_key(|field| field.name().as_bytes());
    extjson::canonical_value(RawValue::Document(
        Document::build(|out| {
            for field in fields {
                out.append_element(field);
            }
        })
        .as_raw(),
    ))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn an_index_finds_what_a_scan_finds(
        documents in proptest::collection::vec(document(), 1..30),
        filters in proptest::collection::vec(filter(), 10..20),
    ) {
        let documents: Vec<Document> = documents.iter().enumerate()
            .map(|(id, fields)| json(&format!(r#"{{"_id": {id}{}{fields}}}"#, if fields.is_empty() { "" } else { ", " })))
            .collect();
        let fixture = with_documents(&documents);
        let patterns = [r#"{"a": 1}"#, r#"{"a.b": 1, "a.c": -1}"#, r#"{"d": -1, "a.b": 1}"#, r#"{"a.0": 1}"#, r#"{"d": 1}"#, r#"{"a": 1, "d": -1}"#];
        for pattern in patterns {
            fixture.index(&format!(r#"{{"key": {pattern}}}"#));
        }
        fixture.index(r#"{"key": {"d": 1, "a": 1}, "name": "sparse", "sparse": true}"#);
        fixture.index(r#"{"key": {"a.c": 1}, "name": "sparse elements", "sparse": true}"#);
        for (number, filter) in filters.iter().enumerate() {
            let natural = Value::from(doc! {"$natural": 1});
            let raw = json(filter);
            let find = |hint: Option<RawValue<'_>>| {
                let mut request = FindRequest::new(&fixture.namespace);
                request.filter = raw.as_raw();
                request.hint = hint;
                let mut found = fixture.drain(exec::find((&fixture.database).into(), &fixture.operation, request).unwrap());
                found.sort();
                found
            };
            let wanted = find(Some(natural.as_raw()));
            prop_assert_eq!(&find(None), &wanted, "{} by {}", filter, fixture.plan(filter, None));
            for pattern in patterns {
                let hint = Value::from(json(pattern));
                prop_assert_eq!(&find(Some(hint.as_raw())), &wanted, "{} by {}", filter, pattern);
            }
            let names = patterns.iter().map(|pattern| Value::from(json(pattern)));
            let hints = || names.clone().map(Some).chain([None]);
            for hint in hints() {
                let mut request = CountRequest::new(&fixture.namespace);
                request.filter = raw.as_raw();
                request.hint = hint.as_ref().map(Value::as_raw);
                let counted = exec::count((&fixture.database).into(), &fixture.operation, request).unwrap();
                prop_assert_eq!(counted, wanted.len() as u64, "{} by {:?}", filter, hint);
            }
            for key in ["a", "a.b", "a.c", "a.0", "d"] {
                let distinct = |filter: RawDocument<'_>, hint: Option<RawValue<'_>>| {
                    let mut request = DistinctRequest::new(&fixture.namespace, key);
                    (request.filter, request.hint) = (filter, hint);
                    let found = exec::distinct((&fixture.database).into(), &fixture.operation, request).unwrap();
                    // Of equal values of several types any one is told.
                    let mut keys: Vec<Vec<u8>> = found.iter().map(|value| {
                        let mut key = Vec::new();
                        quarry_keystring::encode_id(&mut key, value.as_raw());
                        key
                    }).collect();
                    keys.sort();
                    keys
                };
                let told = distinct(raw.as_raw(), Some(natural.as_raw()));
                let hint = names.clone().nth(number % patterns.len());
                for hint in [None, hint.as_ref().map(Value::as_raw)] {
                    prop_assert_eq!(&distinct(raw.as_raw(), hint), &told, "{} of {} by {:?}", key, filter, hint);
                }
                if number == 0 {
                    let all = RawDocument::EMPTY;
                    prop_assert_eq!(distinct(all, None), distinct(all, Some(natural.as_raw())), "{} of all", key);
                }
            }
            let projections = [r#"{"d": 1}"#, r#"{"a": 1, "d": 1}"#, r#"{"a.b": 1, "a.c": 1, "_id": 0}"#, r#"{"a.0": 1}"#, r#"{"d": 1, "a.b": 1}"#];
            let projection = json(projections[number % projections.len()]);
            let order = json(r#"{"d": 1, "_id": 1}"#);
            // Fields that come from keys stand in the order of the index.
            let find_projected = |hint: Option<RawValue<'_>>, is_sorted: bool| {
                let mut request = FindRequest::new(&fixture.namespace);
                (request.filter, request.projection) = (raw.as_raw(), Some(projection.as_raw()));
                (request.hint, request.sort) = (hint, is_sorted.then_some(order.as_raw()));
                let executor = exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
                let mut found: Vec<String> = fixture.drain(executor).iter().map(|text| in_order(text)).collect();
                found.sort();
                found
            };
            let projected = find_projected(Some(natural.as_raw()), false);
            for hint in hints() {
                let found = find_projected(hint.as_ref().map(Value::as_raw), number % 2 == 0);
                prop_assert_eq!(&found, &projected, "{} {} by {:?}", filter, &projection, hint);
            }
            for sort in [r#"{"d": 1}"#, r#"{"d": -1, "a": 1}"#, r#"{"_id": -1}"#, r#"{"a": 1, "d": -1}"#, r#"{"a": -1}"#, r#"{"a.b": 1, "a.c": -1}"#, r#"{"d": 1, "a.b": -1}"#, r#"{"a.0": 1}"#, r#"{"a.c": 1}"#] {
                let sort_by = json(sort);
                for hint in hints() {
                    let mut request = FindRequest::new(&fixture.namespace);
                    request.filter = raw.as_raw();
                    request.sort = Some(sort_by.as_raw());
                    request.hint = hint.as_ref().map(Value::as_raw);
                    let executor = exec::find((&fixture.database).into(), &fixture.operation, request);
                    // Two arrays side by side have no order.
                    let Ok(executor) = executor else { continue };
                    let found = fixture.drain(executor);
                    let mut each = found.clone();
                    each.sort();
                    prop_assert_eq!(&each, &wanted, "{} by {} by {:?}", filter, sort, hint);
                    let pattern = quarry_query::sort::SortPattern::parse(sort_by.as_raw()).unwrap();
                    for pair in found.windows(2) {
                        let (a, b) = (json(&pair[0]), json(&pair[1]));
                        prop_assert!(pattern.compare(a.as_raw(), b.as_raw()).unwrap().is_le(), "{} by {} by {:?}", filter, sort, hint);
                    }
                }
            }
        }
    }
}
