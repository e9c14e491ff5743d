//! Orders that an index with arrays gives: by MongoDB's rules, where the bounds leave out no element of an array that is sorted by.

use super::*;

/// Documents with arrays of their own, and others without.
fn tagged() -> Fixture {
    let fixture = with(&[
        r#"{"_id": 1, "a": 1, "t": [5, 2], "u": 1, "e": [{"x": 3, "y": 1}, {"x": 1, "y": 9}]}"#,
        r#"{"_id": 2, "a": 1, "t": [3, 9], "u": 2, "e": [{"x": 2, "y": 5}]}"#,
        r#"{"_id": 3, "a": 2, "t": 4, "u": [3, 7], "e": {"x": 0, "y": 0}}"#,
        r#"{"_id": 4, "a": 1, "t": [], "u": 4, "e": []}"#,
        r#"{"_id": 5, "a": 2, "u": 5, "e": [[{"x": 8}], {"x": 7, "y": 7}]}"#,
        r#"{"_id": 6, "a": 1, "t": null, "u": 6}"#,
        r#"{"_id": 7, "a": 3, "t": ["b", "a"], "u": 7, "e": [{"y": 4}]}"#,
        r#"{"_id": 8, "a": 1, "t": [[1, 2], 6], "u": 8, "e": 1}"#,
    ]);
    for index in [
        r#"{"key": {"t": 1}}"#,
        r#"{"key": {"a": 1, "t": 1}}"#,
        r#"{"key": {"u": 1, "t": -1}}"#,
        r#"{"key": {"e.x": 1, "e.y": 1}}"#,
        r#"{"key": {"a": 1, "e.x": 1}}"#,
    ] {
        fixture.index(index);
    }
    fixture
}

#[test]
fn an_index_gives_the_order_of_arrays_that_its_bounds_leave_whole() {
    let fixture = tagged();
    let hinted = |filter: &str, sort: &str, hint: &str| {
        let (filter, sort, hint) = (json(filter), json(sort), Value::from(hint));
        let mut request = FindRequest::new(&fixture.namespace);
        (request.filter, request.sort) = (filter.as_raw(), Some(sort.as_raw()));
        request.hint = Some(hint.as_raw());
        stages(&fixture.explained(Explained::Find(request)))
    };
    for (filter, sort, hint, is_given) in [
        ("{}", r#"{"t": 1}"#, "t_1", true),
        ("{}", r#"{"t": -1}"#, "t_1", true),
        // The least element may lie outside of the bounds.
        (r#"{"t": {"$gt": 2}}"#, r#"{"t": 1}"#, "t_1", false),
        (r#"{"t": 5}"#, r#"{"t": 1}"#, "t_1", false),
        (r#"{"a": 1}"#, r#"{"t": 1}"#, "a_1_t_1", true),
        (r#"{"a": 1}"#, r#"{"t": -1}"#, "a_1_t_1", true),
        (r#"{"a": 1}"#, r#"{"a": 1, "t": 1}"#, "a_1_t_1", true),
        (
            r#"{"a": {"$gt": 0}}"#,
            r#"{"a": 1, "t": 1}"#,
            "a_1_t_1",
            true,
        ),
        (
            r#"{"a": {"$gt": 0}, "t": {"$gt": 2}}"#,
            r#"{"a": 1, "t": 1}"#,
            "a_1_t_1",
            false,
        ),
        (
            r#"{"a": {"$gt": 0}, "t": {"$gt": 2}}"#,
            r#"{"a": 1}"#,
            "a_1_t_1",
            true,
        ),
        // Another array, which is on no path of the order.
        (r#"{"u": 3}"#, r#"{"t": 1}"#, "u_1_t_-1", true),
        (
            r#"{"u": {"$gt": 0}}"#,
            r#"{"u": 1, "t": -1}"#,
            "u_1_t_-1",
            false,
        ),
        ("{}", r#"{"u": 1, "t": -1}"#, "u_1_t_-1", true),
        ("{}", r#"{"u": -1, "t": 1}"#, "u_1_t_-1", true),
        // Fields of one array.
        ("{}", r#"{"e.x": 1, "e.y": 1}"#, "e.x_1_e.y_1", true),
        ("{}", r#"{"e.x": -1, "e.y": -1}"#, "e.x_1_e.y_1", true),
        ("{}", r#"{"e.x": 1}"#, "e.x_1_e.y_1", true),
        (r#"{"e.x": 2}"#, r#"{"e.y": 1}"#, "e.x_1_e.y_1", false),
        (
            r#"{"e.y": {"$gt": 2}}"#,
            r#"{"e.x": 1}"#,
            "e.x_1_e.y_1",
            true,
        ),
        (
            r#"{"a": 1, "e.x": {"$gt": 2}}"#,
            r#"{"e.x": 1}"#,
            "a_1_e.x_1",
            false,
        ),
        (r#"{"a": 1}"#, r#"{"e.x": 1}"#, "a_1_e.x_1", true),
    ] {
        let plan = hinted(filter, sort, hint);
        let wanted = match is_given {
            true => format!("FETCH IXSCAN {hint}"),
            false => format!("SORT FETCH IXSCAN {hint}"),
        };
        assert_eq!(plan, wanted, "{filter} by {sort}");
        let ids = |hint: Value| {
            let (filter, sort) = (json(filter), json(sort));
            let mut request = FindRequest::new(&fixture.namespace);
            (request.filter, request.sort) = (filter.as_raw(), Some(sort.as_raw()));
            request.hint = Some(hint.as_raw());
            let executor =
                exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
            fixture.documents(executor).unwrap()
        };
        let pattern = quarry_query::sort::SortPattern::parse(json(sort).as_raw()).unwrap();
        let key = |document: &Document| {
            let mut key = Vec::new();
            pattern.key(document.as_raw(), &mut key).unwrap();
            key
        };
        let by_index: Vec<_> = ids(Value::from(hint)).iter().map(key).collect();
        let by_scan: Vec<_> = ids(Value::from(doc! {"$natural": 1}))
            .iter()
            .map(key)
            .collect();
        assert_eq!(by_index, by_scan, "{filter} by {sort}");
    }
}

/// A field that is equal to one value stands in the way of no order, wherever it is in the index; one that has met arrays does.
#[test]
fn a_field_of_one_value_behind_a_range_does_not_count() {
    let documents: Vec<Document> = (0..60)
        .map(|n| doc! {"_id": n, "a": (n % 5), "b": (n % 3), "c": ((n * 7) % 11)})
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1, "b": 1, "c": 1}}"#);
    let (filter, sort) = (r#"{"a": {"$gt": 1}, "b": 2}"#, r#"{"a": -1, "c": -1}"#);
    assert_eq!(fixture.plan(filter, Some(sort)), "FETCH IXSCAN a_1_b_1_c_1");
    let order = |fixture: &Fixture| -> Vec<(i64, i64)> {
        let found = fixture.sorted(filter, sort, 0, None);
        let number = |text: &String, name| json(text).get(name).unwrap().as_i64_exact().unwrap();
        found
            .iter()
            .map(|text| (-number(text, "a"), -number(text, "c")))
            .collect()
    };
    assert!(order(&fixture).is_sorted());
    fixture.insert(&[doc! {"_id": 100, "a": 2, "b": [0, 2], "c": 1}], true);
    assert_eq!(
        fixture.plan(filter, Some(sort)),
        "SORT FETCH IXSCAN a_1_b_1_c_1"
    );
    assert!(order(&fixture).is_sorted());
}

/// Ranges of an index with arrays in the order or behind it are merged, each document given under its first key.
#[test]
fn ranges_with_arrays_in_the_order_are_merged() {
    let fixture = tagged();
    let filter = r#"{"a": {"$in": [1, 2, 3]}}"#;
    for (sort, plan) in [
        (r#"{"t": 1}"#, "FETCH SORT_MERGE [IXSCAN a_1_t_1]"),
        (r#"{"t": -1}"#, "FETCH SORT_MERGE [IXSCAN a_1_t_1]"),
        (r#"{"e.x": 1}"#, "FETCH SORT_MERGE [IXSCAN a_1_e.x_1]"),
    ] {
        let hint = plan.rsplit("IXSCAN ").next().unwrap().trim_end_matches(']');
        let (hint, hint_name) = (Value::from(hint), hint);
        let (raw, by) = (json(filter), json(sort));
        let request = || {
            let mut request = FindRequest::new(&fixture.namespace);
            (request.filter, request.sort) = (raw.as_raw(), Some(by.as_raw()));
            request
        };
        let mut hinted = request();
        hinted.hint = Some(hint.as_raw());
        assert_eq!(
            stages(&fixture.explained(Explained::Find(hinted))),
            plan,
            "{hint_name}"
        );
        let pattern = quarry_query::sort::SortPattern::parse(by.as_raw()).unwrap();
        let keys = |hint: &Value| -> Vec<Vec<u8>> {
            let mut request = request();
            request.hint = Some(hint.as_raw());
            let executor =
                exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
            let found = fixture.documents(executor).unwrap();
            let key = |document: &Document| {
                let mut key = Vec::new();
                pattern.key(document.as_raw(), &mut key).unwrap();
                key
            };
            found.iter().map(key).collect()
        };
        let natural = Value::from(doc! {"$natural": 1});
        assert_eq!(keys(&hint), keys(&natural), "{sort}");
    }
}
