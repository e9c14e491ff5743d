//! A partial index has the documents that match its filter and no others, whatever is written, and a plan goes through it only
//! where it has all that are asked for.

use quarry_query::ErrorCode;

use super::*;

fn valid(fixture: &Fixture) -> Vec<(String, u64)> {
    let report = fixture
        .database
        .validate(&fixture.namespace, true, &fixture.operation)
        .unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    let indexes = report.indexes.into_iter();
    indexes.map(|index| (index.name, index.keys)).collect()
}

fn keys(fixture: &Fixture, name: &str) -> u64 {
    let indexes = valid(fixture);
    indexes.iter().find(|(known, _)| known == name).unwrap().1
}

fn refusal(fixture: &Fixture, spec: &str) -> (ErrorCode, String) {
    let specs = [json(spec)];
    let (namespace, operation) = (&fixture.namespace, &fixture.operation);
    let error = (fixture.database)
        .create_indexes(namespace, &specs, operation, Level::Written)
        .unwrap_err();
    (ErrorCode(error.code()), error.to_string())
}

#[test]
fn entries_come_and_go_with_the_match_of_the_filter() {
    let fixture = with(&[
        r#"{"_id": 1, "a": 1, "state": "open"}"#,
        r#"{"_id": 2, "a": 2, "state": "done"}"#,
        r#"{"_id": 3, "a": [3, 4], "state": "open"}"#,
    ]);
    let spec = r#"{"key": {"a": 1}, "partialFilterExpression": {"state": "open"}}"#;
    fixture.index(spec);
    assert_eq!(keys(&fixture, "a_1"), 3);
    let spec = r#"{"key": {"b": 1}, "name": "b", "partialFilterExpression": {"n.m": {"$gt": 2}}}"#;
    fixture.index(spec);
    fixture.insert(&[json(r#"{"_id": 4, "a": 9, "n": {"m": 3}}"#)], true);
    assert_eq!((keys(&fixture, "a_1"), keys(&fixture, "b")), (3, 1));
    // No field of the key changes: what decides is the filter's.
    fixture.update(
        r#"{"_id": 2}"#,
        r#"{"$set": {"state": "open"}}"#,
        false,
        false,
    );
    fixture.update(
        r#"{"_id": 3}"#,
        r#"{"$set": {"state": "done"}}"#,
        false,
        false,
    );
    fixture.update(r#"{"_id": 4}"#, r#"{"$inc": {"n.m": -1}}"#, false, false);
    assert_eq!((keys(&fixture, "a_1"), keys(&fixture, "b")), (2, 0));
    fixture.update(r#"{"_id": 4}"#, r#"{"$inc": {"n.m": 1}}"#, false, false);
    fixture.delete(r#"{"_id": 1}"#, false);
    assert_eq!((keys(&fixture, "a_1"), keys(&fixture, "b")), (1, 1));
}

#[test]
fn a_plan_goes_through_a_partial_index_where_the_filter_implies_its_own() {
    let fixture = with(&[
        r#"{"_id": 1, "a": 1, "n": 7, "s": "x"}"#,
        r#"{"_id": 2, "a": 1, "n": 3}"#,
    ]);
    let index = |name: &str, filter: &str| {
        fixture.index(&format!(
            r#"{{"key": {{"a": 1}}, "name": "{name}", "partialFilterExpression": {filter}}}"#
        ));
    };
    let uses = |filter: &str| fixture.plan(filter, None).starts_with("FETCH IXSCAN");
    index("above", r#"{"n": {"$gt": 5}}"#);
    for implied in [
        r#"{"a": 1, "n": 6}"#,
        r#"{"a": 1, "n": {"$gt": 5}}"#,
        r#"{"a": 1, "n": {"$gte": 5.5}}"#,
        r#"{"a": 1, "n": {"$in": [6, 7]}}"#,
        r#"{"a": 1, "n": {"$gt": 8, "$lt": 9}}"#,
        r#"{"a": 1, "$or": [{"n": 6}, {"n": {"$gt": 7}}]}"#,
        r#"{"n": {"$gt": 6}, "$or": [{"a": 1}, {"a": 2, "s": "x"}]}"#,
    ] {
        let explained = fixture.explain(implied, None);
        assert!(
            explained.to_string().contains("isPartial: true"),
            "{implied}: {explained}"
        );
    }
    for other in [
        r#"{"a": 1}"#,
        r#"{"a": 1, "n": 5}"#,
        r#"{"a": 1, "n": {"$gte": 5}}"#,
        r#"{"a": 1, "n": {"$lt": 9}}"#,
        r#"{"a": 1, "n": {"$in": [5, 6]}}"#,
        r#"{"a": 1, "n": {"$in": []}}"#,
        r#"{"a": 1, "n": "text"}"#,
        r#"{"a": 1, "n": {"$not": {"$lte": 5}}}"#,
        r#"{"a": 1, "$or": [{"n": 6}, {"s": "x"}]}"#,
        r#"{"a": 1, "n": {"$gt": {"$numberDouble": "NaN"}}}"#,
        r#"{"a": 1, "n": {"$gte": [6]}}"#,
        r#"{"a": 1, "n": {"$elemMatch": {"$gt": 6}}}"#,
    ] {
        // A filter of nothing finds nothing, by whatever plan.
        let is_empty = other.contains("[]");
        assert!(is_empty || !uses(other), "{other}");
    }
    index("there", r#"{"s": {"$exists": true}}"#);
    assert!(uses(r#"{"a": 1, "s": "x"}"#) && uses(r#"{"a": 1, "s": {"$type": "string"}}"#));
    assert!(uses(r#"{"a": 1, "s": {"$regex": "x"}}"#));
    assert!(!uses(r#"{"a": 1, "s": null}"#) && !uses(r#"{"a": 1, "s": {"$ne": "x"}}"#));
    assert!(!uses(r#"{"a": 1, "s": {"$in": ["x", null]}}"#));
    index("typed", r#"{"t": {"$type": ["int", "string"]}}"#);
    assert!(uses(r#"{"a": 1, "t": {"$type": "int"}}"#));
    assert!(!uses(r#"{"a": 1, "t": {"$type": "number"}}"#));
    index("either", r#"{"$or": [{"x": 1}, {"y": {"$in": [2, 3]}}]}"#);
    assert!(uses(r#"{"a": 1, "x": 1}"#) && uses(r#"{"a": 1, "y": {"$in": [3]}}"#));
    assert!(uses(r#"{"a": 1, "$or": [{"x": 1, "n": 0}, {"y": 2}]}"#));
    assert!(!uses(r#"{"a": 1, "y": 4}"#));
}

#[test]
fn a_hint_reads_what_the_index_has() {
    let fixture = with(&[r#"{"_id": 1, "a": 1}"#, r#"{"_id": 2, "a": 1, "n": 7}"#]);
    fixture.index(r#"{"key": {"a": 1}, "partialFilterExpression": {"n": {"$gt": 5}}}"#);
    assert_eq!(fixture.count(r#"{"a": 1}"#, None), 2);
    assert_eq!(fixture.count(r#"{"a": 1}"#, Some("a_1")), 1);
}

#[test]
fn an_order_and_different_values_come_from_a_partial_index_that_has_all() {
    let fixture = with(&[
        r#"{"_id": 1, "a": 3}"#,
        r#"{"_id": 2, "a": 2, "n": 1}"#,
        r#"{"_id": 3, "a": 1, "n": 1}"#,
    ]);
    fixture.index(r#"{"key": {"a": 1}, "partialFilterExpression": {"n": 1}}"#);
    assert_eq!(
        fixture.plan(r#"{"n": 1}"#, Some(r#"{"a": 1}"#)),
        "FETCH IXSCAN a_1"
    );
    assert_eq!(fixture.plan("{}", Some(r#"{"a": 1}"#)), "SORT COLLSCAN");
    let distinct = |filter: &str| {
        let filter = json(filter);
        let mut request = DistinctRequest::new(&fixture.namespace, "a");
        request.filter = filter.as_raw();
        let found = exec::distinct((&fixture.database).into(), &fixture.operation, request);
        found.unwrap().len()
    };
    assert_eq!((distinct("{}"), distinct(r#"{"n": 1}"#)), (3, 2));
}

#[test]
fn a_unique_partial_index_refuses_duplicates_among_its_documents_alone() {
    let fixture = with(&[
        r#"{"_id": 1, "mail": "x"}"#,
        r#"{"_id": 2, "mail": "x"}"#,
        r#"{"_id": 3, "mail": "x", "active": true}"#,
    ]);
    fixture.index(
        r#"{"key": {"mail": 1}, "unique": true, "partialFilterExpression": {"active": true}}"#,
    );
    let outcome = fixture.insert(&[json(r#"{"_id": 4, "mail": "x"}"#)], true);
    assert!(outcome.errors.is_empty());
    let outcome = fixture.insert(&[json(r#"{"_id": 5, "mail": "x", "active": true}"#)], true);
    assert_eq!(outcome.errors[0].1.code(), 11_000);
    // An update that makes the document match is one more of them.
    let filter = json(r#"{"_id": 1}"#);
    let update = json(r#"{"$set": {"active": true}}"#);
    let request = UpdateRequest {
        array_filters: None,
        constants: None,
        sort: None,
        namespace: &fixture.namespace,
        context: None,
        collation: None,
        filter: filter.as_raw(),
        update: RawValue::Document(update.as_raw()),
        is_upsert: false,
        is_multi: false,
        hint: None,
        keeps_empty_timestamps: false,
    };
    let scope = (&fixture.database).into();
    let refused = exec::update(scope, &fixture.operation, request, Level::Written);
    assert_eq!(refused.unwrap_err().code(), 11_000);
    assert_eq!(keys(&fixture, "mail_1"), 1);
    fixture.update(
        r#"{"_id": 3}"#,
        r#"{"$unset": {"active": 1}}"#,
        false,
        false,
    );
    fixture.update(
        r#"{"_id": 1}"#,
        r#"{"$set": {"active": true}}"#,
        false,
        false,
    );
    assert_eq!(keys(&fixture, "mail_1"), 1);
}

#[test]
fn what_a_partial_index_may_not_be_is_refused_by_mongodbs_codes() {
    let fixture = with(&[r#"{"_id": 1}"#]);
    let partial = |filter: &str| {
        refusal(
            &fixture,
            &format!(r#"{{"key": {{"a": 1}}, "partialFilterExpression": {filter}}}"#),
        )
    };
    assert_eq!(partial("5").0, ErrorCode::TYPE_MISMATCH);
    for filter in [
        r#"{"a": {"$ne": 1}}"#,
        r#"{"a": {"$exists": false}}"#,
        r#"{"a": {"$regex": "x"}}"#,
        r#"{"a": {"$not": {"$gt": 1}}}"#,
        r#"{"$nor": [{"a": 1}]}"#,
        r#"{"a": {"$elemMatch": {"b": 1}}}"#,
        r#"{"a": {"$size": 1}}"#,
        r#"{"$or": [{"a": 1}, {"a": {"$mod": [2, 0]}}]}"#,
    ] {
        let (code, text) = partial(filter);
        assert_eq!(code, ErrorCode::CANNOT_CREATE_INDEX, "{filter}");
        assert!(
            text.contains("Expression not supported in partial index"),
            "{text}"
        );
    }
    assert_eq!(partial(r#"{"a": {"$unheard": 1}}"#).0, ErrorCode::BAD_VALUE);
    let spec = r#"{"key": {"a": 1}, "sparse": true, "partialFilterExpression": {"a": 1}}"#;
    assert_eq!(refusal(&fixture, spec).0, ErrorCode::CANNOT_CREATE_INDEX);
    let spec = r#"{"key": {"_id": 1}, "partialFilterExpression": {"a": 1}}"#;
    assert_eq!(
        refusal(&fixture, spec).0,
        ErrorCode::INVALID_INDEX_SPECIFICATION_OPTION
    );
}

#[test]
fn indexes_of_one_key_pattern_stand_beside_each_other_if_their_filters_differ() {
    let fixture = with(&[r#"{"_id": 1}"#]);
    let of = |name: &str, filter: &str| {
        format!(r#"{{"key": {{"a": 1}}, "name": "{name}", "partialFilterExpression": {filter}}}"#)
    };
    fixture.index(&of("one", r#"{"s": 1}"#));
    fixture.index(&of("two", r#"{"s": 2}"#));
    fixture.index(r#"{"key": {"a": 1}}"#);
    assert_eq!(valid(&fixture).len(), 4);
    let (code, _) = refusal(&fixture, &of("three", r#"{"s": 2}"#));
    assert_eq!(code, ErrorCode::INDEX_OPTIONS_CONFLICT);
    let (code, _) = refusal(&fixture, &of("one", r#"{"s": 3}"#));
    assert_eq!(code, ErrorCode::INDEX_KEY_SPECS_CONFLICT);
    let pattern = Value::from(json(r#"{"a": 1}"#));
    let drop = |which: RawValue<'_>| {
        let (namespace, operation) = (&fixture.namespace, &fixture.operation);
        (fixture.database).drop_indexes(namespace, &[which], operation, Level::Written)
    };
    let error = drop(pattern.as_raw()).unwrap_err();
    assert_eq!(
        ErrorCode(error.code()),
        ErrorCode::AMBIGUOUS_INDEX_KEY_PATTERN
    );
    drop(Value::from("one").as_raw()).unwrap();
    drop(Value::from("two").as_raw()).unwrap();
    drop(pattern.as_raw()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn a_partial_index_finds_what_a_scan_finds(
        documents in proptest::collection::vec(agreement::document(), 1..25),
        partial in proptest::collection::vec(partial(), 4..6),
        filters in proptest::collection::vec(agreement::filter(), 10..20),
        updates in proptest::collection::vec((0..25, agreement::document()), 0..10),
    ) {
        let documents: Vec<Document> = documents.iter().enumerate()
            .map(|(id, fields)| numbered(id, fields))
            .collect();
        let (before, after) = documents.split_at(documents.len() / 2);
        let fixture = with_documents(before);
        for (number, filter) in partial.iter().enumerate() {
            let keys = [
                r#"{"a": 1}"#,
                r#"{"d": -1, "a.b": 1}"#,
                r#"{"a.b": 1}"#,
                r#"{"d": 1}"#,
                r#"{"a": -1, "d": 1}"#,
            ];
            let key = keys[number];
            fixture.index(&format!(
                r#"{{"key": {key}, "name": "p{number}", "partialFilterExpression": {filter}}}"#
            ));
        }
        if !after.is_empty() {
            fixture.insert(after, true);
        }
        for (id, fields) in &updates {
            let new = extjson::canonical(numbered(*id as usize, fields).as_raw());
            fixture.update(&format!(r#"{{"_id": {id}}}"#), &new, false, *id % 5 == 0);
        }
        valid(&fixture);
        let natural = Value::from(doc! {"$natural": 1});
        // A filter that holds a partial one itself, so that the index is used.
        let with_partial = filters.iter().zip(partial.iter().cycle());
        let with_partial = with_partial.map(|(filter, partial)| format!(r#"{{"$and": [{filter}, {partial}]}}"#));
        for filter in filters.iter().cloned().chain(with_partial) {
            let raw = json(&filter);
            let find = |hint: Option<RawValue<'_>>, sort: Option<&str>| {
                let sort = sort.map(json);
                let mut request = FindRequest::new(&fixture.namespace);
                request.filter = raw.as_raw();
                request.hint = hint;
                request.sort = sort.as_ref().map(Document::as_raw);
                let executor = exec::find((&fixture.database).into(), &fixture.operation, request);
                // Two arrays side by side have no order.
                executor.ok().map(|executor| {
                    let mut found = fixture.drain(executor);
                    found.sort();
                    found
                })
            };
            let wanted = find(Some(natural.as_raw()), None);
            prop_assert_eq!(&find(None, None), &wanted, "{} by {}", filter, fixture.plan(&filter, None));
            for sort in [r#"{"d": -1}"#, r#"{"a": 1}"#] {
                let found = find(None, Some(sort));
                prop_assert!(found.is_none() || found == wanted, "{} in the order {}", filter, sort);
            }
            prop_assert_eq!(fixture.count(&filter, None), wanted.unwrap().len() as u64, "{}", filter);
        }
    }
}

fn numbered(id: usize, fields: &str) -> Document {
    let comma = if fields.is_empty() { "" } else { ", " };
    json(&format!(r#"{{"_id": {id}{comma}{fields}}}"#))
}

/// A filter that a partial index may have.
fn partial() -> BoxedStrategy<String> {
    let path = || prop_oneof![Just("a"), Just("a.b"), Just("d")];
    let op = prop_oneof![
        Just("$eq"),
        Just("$gt"),
        Just("$gte"),
        Just("$lt"),
        Just("$lte")
    ];
    let compare = (path(), op, agreement::scalar())
        .prop_map(|(path, op, value)| format!(r#"{{"{path}": {{"{op}": {value}}}}}"#));
    let exists = path().prop_map(|path| format!(r#"{{"{path}": {{"$exists": true}}}}"#));
    let typed = (
        path(),
        prop_oneof![Just("number"), Just("string"), Just("array")],
    )
        .prop_map(|(path, name)| format!(r#"{{"{path}": {{"$type": "{name}"}}}}"#));
    let list = (path(), proptest::collection::vec(agreement::scalar(), 1..3))
        .prop_map(|(path, list)| format!(r#"{{"{path}": {{"$in": [{}]}}}}"#, list.join(",")));
    let one = prop_oneof![4 => compare, 2 => exists, 1 => typed, 1 => list].boxed();
    prop_oneof![
        4 => one.clone(),
        1 => (one.clone(), one.clone()).prop_map(|(a, b)| format!(r#"{{"$and": [{a}, {b}]}}"#)),
        1 => (one.clone(), one).prop_map(|(a, b)| format!(r#"{{"$or": [{a}, {b}]}}"#)),
    ]
    .boxed()
}
