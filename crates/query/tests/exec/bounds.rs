//! The bounds that a filter gives the fields of an index, and what is read within them.

use super::*;

/// 1,600 documents: `state` is "done" but for one in 40, `number` counts, `kind` has several types, `mail` is there in one of 20.
fn jobs() -> Fixture {
    let document = |n: i32| {
        let state = match n % 40 {
            0 => "open",
            _ => "done",
        };
        let kind = match n % 50 {
            0 => Value::from("text"),
            1 => Value::from(true),
            _ => Value::from(n),
        };
        let mut document = doc! { "_id": n, "state": state, "number": n, "kind": kind };
        if n % 20 == 0 {
            document.append("mail", n);
        }
        document
    };
    let fixture = with_documents(&(0..1600).map(document).collect::<Vec<_>>());
    for field in ["state", "number", "kind"] {
        fixture.index(&format!(
            r#"{{"key": {{"{field}": 1}}, "name": "{field}"}}"#
        ));
    }
    fixture.index(r#"{"key": {"mail": 1}, "name": "mail", "sparse": true}"#);
    fixture
}

/// The plan, the bounds that explain shows of the first field, and the keys and documents that are examined.
fn read(fixture: &Fixture, filter: &str, sort: Option<&str>) -> (String, String, u64, u64) {
    let explained = fixture.explain(filter, sort);
    let raw = explained.as_raw();
    let mut stage = raw.get_path("queryPlanner.winningPlan");
    let mut bounds = String::new();
    while let Some(RawValue::Document(document)) = stage {
        if let Some(RawValue::Document(of_fields)) = document.get("indexBounds") {
            bounds = of_fields.to_string();
        }
        stage = document.get("inputStage");
    }
    let examined = |name: &str| {
        let figure = raw.get_path(format!("executionStats.{name}"));
        figure.and_then(|figure| figure.as_i64_exact()).unwrap() as u64
    };
    (
        stages(&explained),
        bounds,
        examined("totalKeysExamined"),
        examined("totalDocsExamined"),
    )
}

#[test]
fn what_is_not_to_be_bounds_where_it_leaves_little() {
    let fixture = jobs();
    for (filter, plan, bounds, found) in [
        (
            r#"{"state": {"$ne": "done"}}"#,
            "FETCH IXSCAN state",
            r#"{ state: [ '[MinKey, "done")', '("done", MaxKey]' ] }"#,
            40,
        ),
        (
            r#"{"number": {"$not": {"$gte": 30}}}"#,
            "FETCH IXSCAN number",
            "{ number: [ '[MinKey, 30)', '(inf.0, MaxKey]' ] }",
            30,
        ),
        (
            r#"{"number": {"$gte": 10, "$lt": 20, "$nin": [12, 14]}}"#,
            "FETCH IXSCAN number",
            "{ number: [ '[10, 12)', '(12, 14)', '(14, 20)' ] }",
            8,
        ),
        (
            r#"{"$nor": [{"state": "done"}, {"number": {"$lt": 1000}}]}"#,
            "FETCH IXSCAN state",
            r#"{ state: [ '[MinKey, "done")', '("done", MaxKey]' ] }"#,
            15,
        ),
        (
            r#"{"kind": {"$type": "string"}}"#,
            "FETCH IXSCAN kind",
            r#"{ kind: [ '["", {})' ] }"#,
            32,
        ),
        (
            r#"{"kind": {"$type": ["bool", "string"]}}"#,
            "FETCH IXSCAN kind",
            r#"{ kind: [ '["", {})', '[false, true]' ] }"#,
            64,
        ),
        (
            r#"{"mail": {"$exists": true}}"#,
            "FETCH IXSCAN mail",
            "{ mail: [ '[MinKey, MaxKey]' ] }",
            80,
        ),
        (
            r#"{"$expr": {"$gte": ["$number", 1590]}}"#,
            "FETCH IXSCAN number",
            "{ number: [ '[1590, MaxKey]' ] }",
            10,
        ),
        (
            r#"{"$expr": {"$and": [{"$gt": [1595, "$number"]}, {"$gte": ["$number", 1590]}]}}"#,
            "FETCH IXSCAN number",
            "{ number: [ '[1590, 1595)' ] }",
            5,
        ),
    ] {
        let (read_by, shown, keys, documents) = read(&fixture, filter, None);
        assert_eq!(read_by, plan, "{filter}");
        assert_eq!(shown, bounds, "{filter}");
        assert_eq!(fixture.find(filter).len(), found, "{filter}");
        assert!(keys <= 3 * found as u64 + 1, "{filter}: {keys} keys");
        assert!(
            documents <= 3 * found as u64,
            "{filter}: {documents} documents"
        );
    }
    for filter in [
        r#"{"state": {"$ne": "open"}}"#,
        r#"{"number": {"$nin": [1, 2]}}"#,
        r#"{"kind": {"$type": "number"}}"#,
        r#"{"kind": {"$mod": [2, 0]}}"#,
        // A sparse index has nothing of those without the field.
        r#"{"mail": {"$ne": 20}}"#,
        r#"{"mail": {"$exists": false}}"#,
    ] {
        assert_eq!(fixture.plan(filter, None), "COLLSCAN", "{filter}");
    }
    // Counting needs no documents, and an order no sort.
    let (plan, ..) = read(
        &fixture,
        r#"{"state": {"$ne": "open"}}"#,
        Some(r#"{"state": 1}"#),
    );
    assert_eq!(plan, "FETCH IXSCAN state");
    let counted = fixture.count(r#"{"state": {"$ne": "open"}}"#, None);
    assert_eq!(counted, 1560);
}

/// Counting and the engine's estimates tell how much is left; a scan that meets enough soon is not told about.
#[test]
fn a_few_of_many_are_found_by_what_they_are_not() {
    let state = |n: i32| if n % 50 == 0 { "open" } else { "done" };
    let document = |n: i32| doc! { "_id": n, "state": (state(n)) };
    let fixture = with_documents(&(0..60_000).map(document).collect::<Vec<_>>());
    fixture.index(r#"{"key": {"state": 1}, "name": "state"}"#);
    let plan = |filter: &str, limit: Option<u64>| {
        let filter = json(filter);
        let mut request = FindRequest::new(&fixture.namespace);
        (request.filter, request.limit) = (filter.as_raw(), limit);
        stages(&fixture.explained(Explained::Find(request)))
    };
    let (few, most) = (
        r#"{"state": {"$ne": "done"}}"#,
        r#"{"state": {"$ne": "open"}}"#,
    );
    assert_eq!(plan(few, None), "FETCH IXSCAN state");
    assert_eq!(plan(most, None), "COLLSCAN");
    assert_eq!(plan(most, Some(1)), "LIMIT COLLSCAN");
    let none = r#"{"state": {"$nin": ["done", "open"]}}"#;
    assert_eq!(plan(none, Some(1)), "LIMIT FETCH IXSCAN state");
    assert_eq!(fixture.find(few).len(), 1200);
}

#[test]
fn fields_behind_a_range_are_asked_of_keys() {
    let document =
        |n: i32| doc! { "_id": n, "a": n, "b": (n % 10), "c": (n % 3), "t": [(n % 10), 50] };
    let fixture = with_documents(&(0..1000).map(document).collect::<Vec<_>>());
    fixture.index(r#"{"key": {"a": 1, "b": -1, "c": 1}, "name": "abc"}"#);
    for (filter, bounds, keys, documents) in [
        (
            r#"{"a": {"$lt": 100}, "b": 7}"#,
            "{ a: [ '[-inf.0, 100)' ], b: [ '[7, 7]' ], c: [ '[MinKey, MaxKey]' ] }",
            100,
            10,
        ),
        (
            r#"{"a": {"$lt": 100}, "b": {"$in": [1, 7, 3]}, "c": {"$gt": 0}}"#,
            "{ a: [ '[-inf.0, 100)' ], b: [ '[7, 7]', '[3, 3]', '[1, 1]' ], c: [ '(0, inf.0]' ] }",
            100,
            20,
        ),
        // Behind a field that the filter says nothing of.
        (
            r#"{"a": {"$in": [1, 2, 3, 4]}, "c": 1}"#,
            "{ a: [ '[1, 1]', '[2, 2]', '[3, 3]', '[4, 4]' ], b: [ '[MaxKey, MinKey]' ], c: [ '[1, 1]' ] }",
            4,
            2,
        ),
        (
            r#"{"a": {"$lt": 10}, "b": {"$ne": 5}}"#,
            "{ a: [ '[-inf.0, 10)' ], b: [ '[MaxKey, 5)', '(5, MinKey]' ], c: [ '[MinKey, MaxKey]' ] }",
            10,
            9,
        ),
    ] {
        let (plan, shown, keys_read, documents_read) = read(&fixture, filter, None);
        assert_eq!(plan, "FETCH IXSCAN abc", "{filter}");
        assert_eq!(shown, bounds, "{filter}");
        assert_eq!((keys_read, documents_read), (keys, documents), "{filter}");
    }
    // An element that lies in the range, and one that is asked for.
    fixture.index(r#"{"key": {"a": 1, "t": 1}, "name": "at"}"#);
    let filter = r#"{"a": {"$lt": 100}, "t": 7}"#;
    let (plan, _, keys, documents) = read(&fixture, filter, None);
    assert_eq!((plan.as_str(), documents), ("FETCH IXSCAN at", 10));
    assert!(keys <= 200, "{keys} keys");
    assert_eq!(fixture.find(filter).len(), 10);
}

#[test]
fn keys_that_cannot_match_are_passed_over_together() {
    let document = |n: i32| doc! { "_id": n, "day": (n / 500), "kind": (n % 500) };
    let fixture = with_documents(&(0..5000).map(document).collect::<Vec<_>>());
    fixture.index(r#"{"key": {"day": 1, "kind": 1}, "name": "day_kind"}"#);
    fixture.index(r#"{"key": {"day": -1, "kind": -1}, "name": "down"}"#);
    for hint in ["day_kind", "down"] {
        let filter = json(r#"{"day": {"$gte": 2}, "kind": {"$in": [100, 103]}}"#);
        let mut request = FindRequest::new(&fixture.namespace);
        let hint = Value::from(hint);
        (request.filter, request.hint) = (filter.as_raw(), Some(hint.as_raw()));
        let explained = fixture.explained(Explained::Find(request));
        let stats = explained.as_raw().get_document("executionStats").unwrap();
        let figure = |name: &str| stats.get(name).unwrap().as_i64_exact().unwrap();
        assert_eq!((figure("nReturned"), figure("totalDocsExamined")), (16, 16));
        assert!(figure("totalKeysExamined") < 8 * 50, "{stats}");
    }
}

#[test]
fn an_element_of_an_array_bounds_several_fields() {
    let element = |n: i32, m: i32| doc! { "x": (n % 10), "y": m, "list": [{ "p": n, "q": m }] };
    let document = |n: i32| doc! { "_id": n, "e": [(element(n, 1)), (element(n + 1, 2))] };
    let fixture = with_documents(&(0..200).map(document).collect::<Vec<_>>());
    fixture.index(r#"{"key": {"e.x": 1, "e.y": 1}, "name": "xy"}"#);
    fixture.index(r#"{"key": {"e.list.p": 1, "e.list.q": 1}, "name": "pq"}"#);
    for (filter, bounds, found) in [
        (
            r#"{"e": {"$elemMatch": {"x": 3, "y": 2}}}"#,
            "{ 'e.x': [ '[3, 3]' ], 'e.y': [ '[2, 2]' ] }",
            20,
        ),
        // Two elements may answer.
        (
            r#"{"e.x": 3, "e.y": 2}"#,
            "{ 'e.x': [ '[3, 3]' ], 'e.y': [ '[MinKey, MaxKey]' ] }",
            40,
        ),
        (
            r#"{"$and": [{"e": {"$elemMatch": {"x": 3}}}, {"e": {"$elemMatch": {"y": 2}}}]}"#,
            "{ 'e.x': [ '[3, 3]' ], 'e.y': [ '[MinKey, MaxKey]' ] }",
            40,
        ),
        (
            r#"{"e.list": {"$elemMatch": {"p": 7, "q": 2}}}"#,
            "{ 'e.list.p': [ '[7, 7]' ], 'e.list.q': [ '[2, 2]' ] }",
            1,
        ),
        // Within one element of `e`, two of the list may answer.
        (
            r#"{"e": {"$elemMatch": {"list.p": 7, "list.q": 2}}}"#,
            "{ 'e.list.p': [ '[7, 7]' ], 'e.list.q': [ '[MinKey, MaxKey]' ] }",
            1,
        ),
    ] {
        let (_, shown, ..) = read(&fixture, filter, None);
        assert_eq!(shown, bounds, "{filter}");
        assert_eq!(fixture.find(filter).len(), found, "{filter}");
    }
}

#[test]
fn arrays_before_the_order_leave_it_as_it_is() {
    let document = |n: i32| doc! { "_id": n, "tags": [(n % 3), (n % 5 + 10), 99], "at": (999 - n) };
    let fixture = with_documents(&(0..1000).map(document).collect::<Vec<_>>());
    fixture.index(r#"{"key": {"tags": 1, "at": -1}, "name": "tags_at"}"#);
    let down = r#"{"at": -1}"#;
    for (filter, sort, plan) in [
        (r#"{"tags": 1}"#, down, "FETCH IXSCAN tags_at"),
        (r#"{"tags": 1}"#, r#"{"at": 1}"#, "FETCH IXSCAN tags_at"),
        (
            r#"{"tags": {"$in": [1, 10, 99]}}"#,
            down,
            "FETCH SORT_MERGE [IXSCAN tags_at]",
        ),
        (
            r#"{"tags": {"$gt": 10}}"#,
            down,
            "SORT FETCH IXSCAN tags_at",
        ),
        // By its least element, which is not the one that is asked for.
        (
            r#"{"tags": 99}"#,
            r#"{"tags": 1, "at": -1}"#,
            "SORT FETCH IXSCAN tags_at",
        ),
    ] {
        assert_eq!(fixture.plan(filter, Some(sort)), plan, "{filter} by {sort}");
        let found = fixture.sorted(filter, sort, 0, None);
        let mut each = found.clone();
        each.sort();
        each.dedup();
        assert_eq!(each.len(), found.len(), "each once: {filter} by {sort}");
        let mut wanted = fixture.find(filter);
        wanted.sort();
        assert_eq!(each, wanted, "{filter} by {sort}");
    }
    let newest = fixture.sorted(r#"{"tags": {"$in": [1, 10, 99]}}"#, down, 100, Some(3));
    let ids: Vec<i64> = newest
        .iter()
        .map(|text| {
            json(text)
                .as_raw()
                .get("_id")
                .unwrap()
                .as_i64_exact()
                .unwrap()
        })
        .collect();
    assert_eq!(ids, [100, 101, 102]);
    // What has met no arrays is told by the keys.
    let projection = json(r#"{"_id": 0, "at": 1}"#);
    let filter = json(r#"{"tags": 1}"#);
    let mut request = FindRequest::new(&fixture.namespace);
    (request.filter, request.projection) = (filter.as_raw(), Some(projection.as_raw()));
    let explained = fixture.explained(Explained::Find(request));
    assert_eq!(stages(&explained), "PROJECTION_COVERED IXSCAN tags_at");
    let examined = explained
        .as_raw()
        .get_path("executionStats.totalDocsExamined");
    assert_eq!(examined.unwrap().as_i64_exact(), Some(0));
}

#[test]
fn what_stands_beside_an_or_bounds_its_branches() {
    let document = |n: i32| doc! { "_id": n, "a": (n % 10), "b": (n % 7), "owner": (n % 50) };
    let fixture = with_documents(&(0..1000).map(document).collect::<Vec<_>>());
    fixture.index(r#"{"key": {"a": 1, "owner": 1}, "name": "a_owner"}"#);
    fixture.index(r#"{"key": {"b": 1, "owner": 1}, "name": "b_owner"}"#);
    let filter = r#"{"owner": 13, "$or": [{"a": 3}, {"b": 6}]}"#;
    let (plan, _, keys, documents) = read(&fixture, filter, None);
    assert_eq!(plan, "FETCH OR [IXSCAN a_owner, IXSCAN b_owner]");
    assert!(
        keys <= 23 && documents <= 20,
        "{keys} keys, {documents} documents"
    );
    assert_eq!(fixture.find(filter).len(), 20);
}

#[test]
fn an_order_comes_from_a_sparse_index_that_has_all_that_match() {
    let fixture = jobs();
    let by_mail = Some(r#"{"mail": 1}"#);
    for filter in [
        r#"{"mail": {"$gte": 100}}"#,
        r#"{"mail": {"$exists": true}}"#,
    ] {
        assert_eq!(
            fixture.plan(filter, by_mail),
            "FETCH IXSCAN mail",
            "{filter}"
        );
    }
    assert_eq!(fixture.plan("{}", by_mail), "SORT COLLSCAN");
}

#[test]
fn a_merge_tells_records_from_those_of_a_unique_index() {
    let fixture = with(&[
        r#"{"_id": 1, "m": [1, 2], "s": 0}"#,
        r#"{"_id": 2, "a": 1, "s": 5}"#,
        r#"{"_id": 3, "a": 2, "s": 5}"#,
    ]);
    fixture.index(r#"{"key": {"m": 1, "s": 1}, "name": "m_s"}"#);
    fixture.index(r#"{"key": {"a": 1, "s": 1}, "name": "a_s", "unique": true}"#);
    for filter in [
        r#"{"$or": [{"m": 1}, {"a": 1}, {"a": 2}]}"#,
        r#"{"$or": [{"m": {"$in": [1, 2]}}, {"a": {"$in": [1, 2]}}]}"#,
    ] {
        let plan = fixture.plan(filter, Some(r#"{"s": 1}"#));
        assert!(plan.contains("SORT_MERGE"), "{plan}");
        let found = fixture.sorted(filter, r#"{"s": 1}"#, 0, None);
        assert_eq!(found.len(), 3, "{filter}");
    }
}

#[test]
fn a_hash_is_that_of_the_value_that_is_asked_for() {
    let fixture = with(&[r#"{"_id": 1, "h": true}"#]);
    fixture.index(r#"{"key": {"h": "hashed"}, "name": "h"}"#);
    let filter = r#"{"h": {"$gt": false, "$eq": true}}"#;
    assert_eq!(fixture.plan(filter, None), "FETCH IXSCAN h");
    assert_eq!(fixture.find(filter).len(), 1);
}

/// A key outside of what is left out says nothing once its document has an array.
#[test]
fn a_document_that_gets_an_array_meanwhile_is_asked_again() {
    let documents: Vec<Document> = (0..400).map(|n| doc! { "_id": n, "a": n }).collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1}, "name": "a"}"#);
    let filter = json(r#"{"a": {"$ne": 300}}"#);
    let mut request = FindRequest::new(&fixture.namespace);
    let hint = Value::from("a");
    (request.filter, request.hint) = (filter.as_raw(), Some(hint.as_raw()));
    let mut executor = exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
    let mut first = Vec::new();
    assert!(executor.next(&fixture.operation, &mut first).unwrap());
    fixture.update(
        r#"{"_id": 300}"#,
        r#"{"$set": {"a": [300, 350]}}"#,
        false,
        false,
    );
    let rest = fixture.drain(executor);
    assert!(rest.len() > 300);
    assert!(
        !rest.iter().any(|text| text.contains(r#""_id":300,"#)),
        "{rest:?}"
    );
}

/// A filter of many negations of one path is not slower than its length.
#[test]
fn many_negations_are_left_out_at_once() {
    let fixture = jobs();
    let all: Vec<String> = (0..20_000)
        .map(|n| format!(r#"{{"number": {{"$ne": -{n}}}}}"#))
        .collect();
    let begun = std::time::Instant::now();
    let filter = format!(r#"{{"$and": [{}]}}"#, all.join(","));
    let counted = fixture.count(&filter, Some("number"));
    assert_eq!(counted, 1599);
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
