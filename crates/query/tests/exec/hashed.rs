//! Hashed indexes: a plan by hashes finds what a scan finds, and a definition or a document that cannot be is refused.

use proptest::prelude::*;

use super::*;

fn refused(fixture: &Fixture, spec: &str) -> i32 {
    let created = fixture.database.create_indexes(
        &fixture.namespace,
        &[json(spec)],
        &fixture.operation,
        Level::Written,
    );
    created.map_or_else(|error| quarry_query::Error::from(error).code(), |_| 0)
}

fn things() -> Fixture {
    with(&[
        r#"{"_id": 1, "a": 1, "b": "x"}"#,
        r#"{"_id": 2, "a": 1.5, "b": "y"}"#,
        r#"{"_id": 3, "a": {"x": 1}}"#,
        r#"{"_id": 4, "b": "z"}"#,
        r#"{"_id": 5, "a": null}"#,
    ])
}

#[test]
fn equality_is_answered_by_hashes_and_nothing_else_is() {
    let fixture = things();
    fixture.index(r#"{"key": {"a": "hashed"}}"#);
    for (filter, plan, wanted) in [
        (r#"{"a": 1}"#, "FETCH IXSCAN a_hashed", 1),
        (
            r#"{"a": {"$numberDecimal": "1.5"}}"#,
            "FETCH IXSCAN a_hashed",
            1,
        ),
        (r#"{"a": {"x": 1.0}}"#, "FETCH IXSCAN a_hashed", 1),
        (r#"{"a": null}"#, "FETCH IXSCAN a_hashed", 2),
        (
            r#"{"a": {"$in": [1, 1.5, "none"]}}"#,
            "FETCH IXSCAN a_hashed",
            2,
        ),
        (r#"{"a": {"$gt": 1}}"#, "COLLSCAN", 1),
        (
            r#"{"a": {"$in": [1, {"$regularExpression": {"pattern": "^a", "options": ""}}]}}"#,
            "COLLSCAN",
            1,
        ),
        (r#"{"a": [1]}"#, "COLLSCAN", 0),
        (r#"{"a": {"$exists": false}}"#, "FETCH IXSCAN a_hashed", 1),
        (r#"{"a": {"$ne": 1}}"#, "COLLSCAN", 4),
    ] {
        assert_eq!(fixture.plan(filter, None), plan, "{filter}");
        assert_eq!(fixture.find(filter).len(), wanted, "{filter}");
    }
    // An order by hashes is none, and the values are not told.
    assert_eq!(fixture.plan("{}", Some(r#"{"a": 1}"#)), "SORT COLLSCAN");
    let explained = fixture.explain(r#"{"a": 1}"#, None);
    let bounds = explained
        .as_raw()
        .get_path("queryPlanner.winningPlan.inputStage.indexBounds.a");
    assert_eq!(
        bounds.unwrap().to_string(),
        "[ '[5902408780260971510, 5902408780260971510]' ]"
    );
    let mut distinct = DistinctRequest::new(&fixture.namespace, "a");
    let hint = Value::from(json(r#"{"a": "hashed"}"#));
    distinct.hint = Some(hint.as_raw());
    let found = exec::distinct((&fixture.database).into(), &fixture.operation, distinct).unwrap();
    assert_eq!(found.len(), 4);
}

#[test]
fn other_fields_of_a_hashed_index_keep_their_order() {
    let fixture = things();
    fixture.index(r#"{"key": {"b": 1, "a": "hashed"}}"#);
    assert_eq!(
        fixture.plan(r#"{"b": {"$gte": "x"}}"#, Some(r#"{"b": 1}"#)),
        "FETCH IXSCAN b_1_a_hashed"
    );
    assert_eq!(
        fixture.plan(r#"{"b": "x", "a": 1}"#, Some(r#"{"a": 1}"#)),
        "FETCH IXSCAN b_1_a_hashed"
    );
    assert_eq!(
        fixture.plan(r#"{"b": "x"}"#, Some(r#"{"a": 1}"#)),
        "SORT FETCH IXSCAN b_1_a_hashed"
    );
    let keys = fixture.find_with(r#"{"b": "x"}"#, |find| {
        find.key_options().returns_key = true;
    });
    assert_eq!(keys.unwrap(), [r#"{"b":"x","a":5902408780260971510}"#]);
}

#[test]
fn arrays_and_definitions_that_cannot_be_are_refused_with_mongodbs_codes() {
    let fixture = things();
    for (spec, code) in [
        (r#"{"key": {"a": "hashed", "b": "hashed"}}"#, 31_303),
        (r#"{"key": {"a": "hashed"}, "unique": true}"#, 16_764),
        (r#"{"key": {"a": "hashed", "b": "2d"}}"#, 67),
        (r#"{"key": {"a": "hashed"}, "bits": 2}"#, 67),
        (r#"{"key": {"a": "hashed"}}"#, 0),
    ] {
        assert_eq!(refused(&fixture, spec), code, "{spec}");
    }
    // Two kinds of one field are two indexes.
    fixture.index(r#"{"key": {"place": "2dsphere"}}"#);
    fixture.index(r#"{"key": {"place": "hashed"}}"#);
    assert_eq!(
        fixture.plan(r#"{"place": "here"}"#, None),
        "FETCH IXSCAN place_hashed"
    );
    fixture.index(r#"{"key": {"c.d": 1, "e": "hashed"}}"#);
    for document in [
        r#"{"_id": 6, "a": [1]}"#,
        r#"{"_id": 6, "c": [{"d": 1}]}"#,
        r#"{"_id": 6, "e": []}"#,
    ] {
        let outcome = fixture.insert(&[json(document)], true);
        assert_eq!(outcome.errors[0].1.code(), 16_766, "{document}");
    }
    assert_eq!(fixture.find("{}").len(), 5);
    let with_arrays = with(&[r#"{"_id": 1, "a": [1]}"#]);
    assert_eq!(refused(&with_arrays, r#"{"key": {"a": "hashed"}}"#), 16_766);
}

#[test]
fn entries_go_and_come_with_writes() {
    let fixture = things();
    fixture.index(r#"{"key": {"a": "hashed"}, "sparse": true}"#);
    // A sparse index has no documents without the field.
    assert_eq!(fixture.plan(r#"{"a": null}"#, None), "COLLSCAN");
    fixture.update(r#"{"a": 1}"#, r#"{"$set": {"a": 7}}"#, true, false);
    assert_eq!(fixture.find(r#"{"a": 1}"#).len(), 0);
    assert_eq!(fixture.find(r#"{"a": 7}"#).len(), 1);
    assert_eq!(fixture.delete(r#"{"a": {"$in": [7, 1.5]}}"#, true), 2);
    let (database, operation) = (&fixture.database, &fixture.operation);
    let report = database
        .validate(&fixture.namespace, true, operation)
        .unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn hashes_find_what_a_scan_finds(
        documents in proptest::collection::vec((
            proptest::option::of(prop_oneof![4 => agreement::scalar(), 1 => agreement::scalar().prop_map(|b| format!(r#"{{"b": {b}}}"#))]),
            proptest::option::of(agreement::scalar()),
        ), 1..30),
        filters in proptest::collection::vec(agreement::filter(), 10..20),
    ) {
        let documents: Vec<Document> = documents.iter().enumerate().map(|(id, (a, d))| {
            let field = |name: &str, value: &Option<String>| value.as_ref().map_or(String::new(), |value| format!(r#", "{name}": {value}"#));
            json(&format!(r#"{{"_id": {id}{}{}}}"#, field("a", a), field("d", d)))
        }).collect();
        let fixture = with_documents(&documents);
        let patterns = [r#"{"a": "hashed"}"#, r#"{"d": 1, "a": "hashed"}"#, r#"{"a.b": "hashed", "d": -1}"#, r#"{"d": "hashed"}"#];
        for pattern in patterns {
            fixture.index(&format!(r#"{{"key": {pattern}}}"#));
        }
        for filter in &filters {
            let raw = json(filter);
            for sort in ["", r#"{"d": 1, "_id": 1}"#] {
                let order = (!sort.is_empty()).then(|| json(sort));
                let find = |hint: Option<RawValue<'_>>| {
                    let mut request = FindRequest::new(&fixture.namespace);
                    (request.filter, request.hint) = (raw.as_raw(), hint);
                    request.sort = order.as_ref().map(Document::as_raw);
                    let mut found = fixture.drain(exec::find((&fixture.database).into(), &fixture.operation, request).unwrap());
                    if sort.is_empty() {
                        found.sort();
                    }
                    found
                };
                let natural = Value::from(doc! {"$natural": 1});
                let wanted = find(Some(natural.as_raw()));
                prop_assert_eq!(&find(None), &wanted, "{} by {}", filter, fixture.plan(filter, None));
                for pattern in patterns {
                    let hint = Value::from(json(pattern));
                    prop_assert_eq!(&find(Some(hint.as_raw())), &wanted, "{} by {}", filter, pattern);
                }
            }
        }
    }
}
