//! Wildcard indexes: a plan over one path finds what a scan finds, and an index is not used where it lacks what may match.

use proptest::prelude::*;

use super::*;

const ROOT: &str = r#"{"$**": 1}"#;

fn created(fixture: &Fixture, spec: &str) -> i32 {
    let created = fixture.database.create_indexes(
        &fixture.namespace,
        &[json(spec)],
        &fixture.operation,
        Level::Written,
    );
    created.map_or_else(|error| quarry_query::Error::from(error).code(), |_| 0)
}

fn things() -> Fixture {
    let fixture = with(&[
        r#"{"_id": 1, "a": {"b": 1, "c": "x"}, "tags": ["r", "g"]}"#,
        r#"{"_id": 2, "a": {"b": 2.5}, "d": null}"#,
        r#"{"_id": 3, "a": 7, "d": {}}"#,
        r#"{"_id": 4, "d": {"e": []}}"#,
        r#"{"_id": 5, "x": {"1": {"y": 1}}, "tags": []}"#,
    ]);
    fixture.index(&format!(r#"{{"key": {ROOT}}}"#));
    fixture
}

#[test]
fn a_path_is_planned_where_every_match_has_a_key() {
    let fixture = things();
    let by_index = "FETCH IXSCAN $**_1";
    for (filter, plan, wanted) in [
        (r#"{"a.b": 1}"#, by_index, 1),
        (r#"{"a.b": {"$gt": 1}}"#, by_index, 1),
        (r#"{"a.b": {"$in": [1, 2.5, 9]}}"#, by_index, 2),
        (r#"{"a.c": {"$regex": "^x"}}"#, by_index, 1),
        (r#"{"tags": "g"}"#, by_index, 1),
        (r#"{"a": {"$exists": true}}"#, by_index, 3),
        (r#"{"d": {"$exists": true}}"#, by_index, 3),
        (r#"{"tags": {"$exists": true}}"#, by_index, 2),
        (r#"{"none": 5, "a.b": {"$exists": true}}"#, by_index, 0),
        // Another predicate of the path may serve.
        (r#"{"a.b": {"$ne": null, "$gte": 2}}"#, by_index, 1),
        (r#"{"a.b": {"$in": []}}"#, "EOF", 0),
        // What is missing has no key, and whole documents and arrays have none.
        (r#"{"d": null}"#, "COLLSCAN", 3),
        (r#"{"a.b": {"$in": [1, null]}}"#, "COLLSCAN", 4),
        (r#"{"a.b": {"$lte": null}}"#, "COLLSCAN", 3),
        (r#"{"a": {"$exists": false}}"#, "COLLSCAN", 2),
        (r#"{"a": {"b": 2.5}}"#, "COLLSCAN", 1),
        (r#"{"a": {"$gt": {}}}"#, "COLLSCAN", 2),
        (r#"{"tags": ["r", "g"]}"#, "COLLSCAN", 1),
        (r#"{"tags": []}"#, "COLLSCAN", 1),
        (r#"{"d": {}}"#, "COLLSCAN", 1),
        (r#"{"a.b": {"$ne": 1}}"#, "COLLSCAN", 4),
        (r#"{"x.1.y": 1}"#, "COLLSCAN", 1),
        (r#"{"tags.0": "r"}"#, "COLLSCAN", 1),
        // `_id` has its own order, and no keys here.
        (r#"{"_id": {"$gt": 4}}"#, "FETCH IXSCAN _id_", 1),
        (
            r#"{"$or": [{"a.b": 1}, {"tags": "r"}]}"#,
            "SUBPLAN FETCH OR [IXSCAN $**_1, IXSCAN $**_1]",
            1,
        ),
        (r#"{"$or": [{"a.b": 1}, {"d": null}]}"#, "COLLSCAN", 3),
    ] {
        assert_eq!(fixture.find(filter).len(), wanted, "{filter}");
        if plan != "EOF" {
            assert_eq!(fixture.plan(filter, None), plan, "{filter}");
        }
    }
}

#[test]
fn explain_shows_the_path_that_the_index_stands_for() {
    let fixture = things();
    let explained = fixture.explain(r#"{"a.b": {"$gte": 1, "$lt": 3}}"#, None);
    let scan = explained
        .as_raw()
        .get_path("queryPlanner.winningPlan.inputStage")
        .and_then(|scan| scan.as_document())
        .unwrap();
    let shown = |name: &str| scan.get(name).unwrap().to_string();
    assert_eq!(
        shown("keyPattern"),
        r#"{ $_path: 1, "a.b": 1 }"#.replace("\"a.b\"", "'a.b'")
    );
    assert_eq!(shown("isMultiKey"), "false");
    let bounds = scan.get_document("indexBounds").unwrap();
    let of = |path| bounds.get_array(path).unwrap().get(0).unwrap().to_string();
    assert!(of("$_path").contains("a.b"), "{}", of("$_path"));
    assert!(of("a.b").contains("[1, 3)"), "{}", of("a.b"));
    let keys = fixture.find_with(r#"{"a.b": {"$gte": 1}}"#, |find| {
        find.key_options().returns_key = true;
    });
    assert_eq!(
        keys.unwrap(),
        [
            r#"{"$_path":"a.b","a.b":1}"#,
            r#"{"$_path":"a.b","a.b":2.5}"#
        ]
    );
}

#[test]
fn an_order_is_that_of_the_path_unless_arrays_are_on_it() {
    let fixture = things();
    let sort = Some(r#"{"a.b": -1}"#);
    assert_eq!(
        fixture.plan(r#"{"a.b": {"$gt": 0}}"#, sort),
        "FETCH IXSCAN $**_1"
    );
    let found = fixture.sorted(r#"{"a.b": {"$gt": 0}}"#, r#"{"a.b": -1}"#, 0, None);
    assert!(
        found[0].starts_with(r#"{"_id":2"#) && found.len() == 2,
        "{found:?}"
    );
    for (filter, sort) in [
        (r#"{"a.b": {"$gt": 0}}"#, r#"{"a.c": 1}"#),
        (r#"{"tags": {"$gt": "a"}}"#, r#"{"tags": 1}"#),
    ] {
        assert_eq!(fixture.plan(filter, Some(sort)), "SORT FETCH IXSCAN $**_1");
    }
    assert_eq!(
        fixture.plan(r#"{"a.b": {"$exists": true}}"#, sort),
        "SORT FETCH IXSCAN $**_1"
    );
    assert_eq!(fixture.plan("{}", sort), "SORT COLLSCAN");
    // An array on the way to the path ends it, and one that has gone no longer does.
    fixture.insert(&[json(r#"{"_id": 9, "a": [{"b": 1}, {"b": 9}]}"#)], true);
    assert_eq!(
        fixture.plan(r#"{"a.b": {"$gt": 0}}"#, sort),
        "SORT FETCH IXSCAN $**_1"
    );
    assert_eq!(fixture.find(r#"{"a.b": {"$gt": 0}}"#).len(), 3);
    assert_eq!(fixture.find(r#"{"a.b": {"$gt": 5, "$lt": 3}}"#).len(), 1);
    assert_eq!(fixture.delete(r#"{"_id": 9}"#, true), 1);
    assert_eq!(
        fixture.plan(r#"{"a.b": {"$gt": 0}}"#, sort),
        "FETCH IXSCAN $**_1"
    );
}

#[test]
fn definitions_and_hints_that_cannot_be_are_refused() {
    let fixture = things();
    for (spec, code) in [
        (r#"{"key": {"$**": 1}, "unique": true, "name": "u"}"#, 67),
        (r#"{"key": {"$**": 1}, "sparse": true, "name": "s"}"#, 67),
        (
            r#"{"key": {"$**": 1}, "expireAfterSeconds": 5, "name": "t"}"#,
            67,
        ),
        (r#"{"key": {"$**": 1, "a.$**": 1}}"#, 67),
        (r#"{"key": {"$**": 1, "a": "hashed"}}"#, 67),
        (r#"{"key": {"$**": 1, "a": 1}}"#, 67),
        (r#"{"key": {"a": 1}, "wildcardProjection": {"b": 1}}"#, 67),
        (
            r#"{"key": {"a.$**": 1}, "wildcardProjection": {"b": 1}}"#,
            9,
        ),
        (
            r#"{"key": {"$**": 1}, "wildcardProjection": {}, "name": "p"}"#,
            9,
        ),
        (
            r#"{"key": {"$**": 1}, "wildcardProjection": {"a": 1, "b": 0}, "name": "p"}"#,
            31_254,
        ),
        (
            r#"{"key": {"$**": 1}, "wildcardProjection": 1, "name": "p"}"#,
            14,
        ),
        (r#"{"key": {"a.$**.b": 1}}"#, 67),
        (r#"{"key": {"a": "wildcard"}}"#, 67),
        (r#"{"key": {"a.$**": -1}}"#, 0),
        (
            r#"{"key": {"$**": 1}, "wildcardProjection": {"a": 1, "_id": 1}, "name": "p"}"#,
            0,
        ),
    ] {
        assert_eq!(created(&fixture, spec), code, "{spec}");
    }
    let hinted = |filter: &str| {
        let hint = Value::from(json(ROOT));
        let filter = json(filter);
        let mut request = FindRequest::new(&fixture.namespace);
        (request.filter, request.hint) = (filter.as_raw(), Some(hint.as_raw()));
        let found = exec::find((&fixture.database).into(), &fixture.operation, request);
        found.map_or_else(|error| error.code(), |_| 0)
    };
    assert_eq!(hinted(r#"{"a.b": 1}"#), 0);
    assert_eq!(hinted(r#"{"d": null}"#), 291);
    assert_eq!(hinted("{}"), 291);
}

#[test]
fn a_projection_says_which_paths_have_keys() {
    for (projection, of_a, of_a_b, of_d, of_id) in [
        (r#"{"a": 1}"#, true, true, false, false),
        (r#"{"a.b": 1}"#, false, true, false, false),
        (r#"{"a.b": 0}"#, true, false, true, false),
        (r#"{"_id": 1, "a": 0}"#, false, false, true, true),
        (r#"{"a": {"b": 1}, "d": 1}"#, false, true, true, false),
    ] {
        let fixture = with(&[
            r#"{"_id": {"x": 1}, "a": {"b": 1}, "d": 1}"#,
            r#"{"_id": {"x": 2}, "a": 1, "d": [1, {"a": 1}]}"#,
        ]);
        fixture.index(&format!(
            r#"{{"key": {ROOT}, "wildcardProjection": {projection}}}"#
        ));
        for (path, is_kept, wanted, equal_to_1) in [
            ("a", of_a, 2, 1),
            ("a.b", of_a_b, 1, 1),
            ("d", of_d, 2, 2),
            ("_id.x", of_id, 2, 1),
        ] {
            let plan = match is_kept {
                true => "FETCH IXSCAN $**_1",
                false => "COLLSCAN",
            };
            let exists = format!(r#"{{"{path}": {{"$exists": true}}}}"#);
            assert_eq!(fixture.plan(&exists, None), plan, "{projection} {path}");
            assert_eq!(fixture.find(&exists).len(), wanted, "{projection} {path}");
            let equal = format!(r#"{{"{path}": 1}}"#);
            assert_eq!(fixture.plan(&equal, None), plan, "{projection} {path}");
            assert_eq!(
                fixture.find(&equal).len(),
                equal_to_1,
                "{projection} {path}"
            );
        }
    }
}

#[test]
fn fields_before_a_wildcard_bound_the_keys() {
    let fixture = with(&[
        r#"{"_id": 1, "t": 1, "a": {"x": 5}}"#,
        r#"{"_id": 2, "t": [1, 2], "a": {"x": [5, 6]}, "z": 3}"#,
        r#"{"_id": 3, "t": 2, "a": {"x": 5}}"#,
        r#"{"_id": 4, "a": {"x": 5}}"#,
        r#"{"_id": 5, "t": 1}"#,
    ]);
    fixture.index(r#"{"key": {"t": 1, "a.$**": -1, "z": 1}}"#);
    let by_index = "FETCH IXSCAN t_1_a.$**_-1_z_1";
    for (filter, plan, wanted) in [
        (r#"{"t": 1, "a.x": 5}"#, by_index, 2),
        (
            r#"{"t": {"$in": [1, 2]}, "a.x": {"$gte": 5, "$lt": 6}}"#,
            by_index,
            3,
        ),
        (r#"{"t": 1, "a.x": {"$exists": true}}"#, by_index, 2),
        (r#"{"t": 1, "a": {"$exists": true}}"#, by_index, 2),
        (r#"{"a.x": 5}"#, "COLLSCAN", 4),
        (r#"{"t": null, "a.x": 5}"#, "COLLSCAN", 1),
        (r#"{"t": 1}"#, "COLLSCAN", 3),
    ] {
        assert_eq!(fixture.plan(filter, None), plan, "{filter}");
        assert_eq!(fixture.find(filter).len(), wanted, "{filter}");
    }
}

#[test]
fn writes_keep_the_entries_whatever_field_they_change() {
    let fixture = things();
    fixture.update(
        "{}",
        r#"{"$set": {"new.path": [1, {"x": 2}]}}"#,
        true,
        false,
    );
    assert_eq!(
        fixture.plan(r#"{"new.path.x": 2}"#, None),
        "FETCH IXSCAN $**_1"
    );
    assert_eq!(fixture.find(r#"{"new.path.x": 2}"#).len(), 5);
    // What moves along the index is met once.
    let outcome = fixture.update(
        r#"{"new.path": {"$gt": 0}}"#,
        r#"{"$inc": {"new.path.0": 5}}"#,
        true,
        false,
    );
    assert_eq!((outcome.matched, outcome.modified), (5, 5));
    assert_eq!(fixture.find(r#"{"new.path": 6}"#).len(), 5);
    fixture.update("{}", r#"{"$unset": {"new": 1}}"#, true, false);
    assert_eq!(fixture.find(r#"{"new": {"$exists": true}}"#).len(), 0);
    assert_eq!(fixture.delete(r#"{"a.b": {"$exists": true}}"#, true), 2);
    let (database, operation) = (&fixture.database, &fixture.operation);
    let report = database
        .validate(&fixture.namespace, true, operation)
        .unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn a_wildcard_finds_what_a_scan_finds(
        documents in proptest::collection::vec(agreement::document(), 1..30),
        filters in proptest::collection::vec(agreement::filter(), 10..20),
        projection in prop::sample::select(vec!["", r#"{"a": 1}"#, r#"{"a.b": 0}"#, r#"{"a.b": 1, "d": 1}"#]),
    ) {
        let documents: Vec<Document> = documents.iter().enumerate()
            .map(|(id, fields)| json(&format!(r#"{{"_id": {id}{}{fields}}}"#, if fields.is_empty() { "" } else { ", " })))
            .collect();
        let fixture = with_documents(&documents);
        let projected = match projection {
            "" => String::new(),
            projection => format!(r#", "wildcardProjection": {projection}"#),
        };
        fixture.index(&format!(r#"{{"key": {ROOT}{projected}}}"#));
        fixture.index(r#"{"key": {"a.$**": -1}}"#);
        fixture.index(r#"{"key": {"d": 1, "a.$**": 1}}"#);
        let hints = [ROOT, r#"{"a.$**": -1}"#, r#"{"d": 1, "a.$**": 1}"#];
        for filter in &filters {
            let raw = json(filter);
            for sort in ["", r#"{"a": 1, "_id": 1}"#, r#"{"d": -1}"#, r#"{"a.b": 1}"#] {
                let order = (!sort.is_empty()).then(|| json(sort));
                let find = |hint: Option<RawValue<'_>>| {
                    let mut request = FindRequest::new(&fixture.namespace);
                    (request.filter, request.hint) = (raw.as_raw(), hint);
                    request.sort = order.as_ref().map(Document::as_raw);
                    let executor = exec::find((&fixture.database).into(), &fixture.operation, request);
                    executor.map(|executor| fixture.drain(executor)).map_err(|error| error.code())
                };
                let natural = Value::from(doc! {"$natural": 1});
                let sorted = |mut found: Vec<String>| {
                    found.sort();
                    found
                };
                let wanted = sorted(find(Some(natural.as_raw())).unwrap());
                let hinted = hints.map(|hint| Value::from(json(hint)));
                for hint in hinted.iter().map(|hint| Some(hint.as_raw())).chain([None]) {
                    let found = match find(hint) {
                        // The hinted index does not serve the filter.
                        Err(291) if hint.is_some() => continue,
                        found => found.unwrap(),
                    };
                    if let Some(order) = &order {
                        let pattern = quarry_query::sort::SortPattern::parse(order.as_raw()).unwrap();
                        for pair in found.windows(2) {
                            let (a, b) = (json(&pair[0]), json(&pair[1]));
                            prop_assert!(pattern.compare(a.as_raw(), b.as_raw()).unwrap().is_le(), "{} by {} {:?}", filter, sort, hint);
                        }
                    }
                    prop_assert_eq!(&sorted(found), &wanted, "{} by {:?} {}", filter, hint, fixture.plan(filter, None));
                }
            }
        }
        let (database, operation) = (&fixture.database, &fixture.operation);
        let report = database.validate(&fixture.namespace, true, operation).unwrap();
        prop_assert!(report.errors.is_empty(), "{:?}", report.errors);
    }
}
