//! Plans count what they read: by index, by `_id`, and as scans of the collection.

use quarry_database::IndexChange;

use super::*;

/// The accesses of each index in the order of the indexes, and the scans.
fn accesses(fixture: &Fixture) -> (Vec<(String, u64)>, u64) {
    let uses = fixture.database.index_accesses(&fixture.namespace).unwrap();
    let name = |spec: &Document| spec.as_raw().get_str("name").unwrap().to_owned();
    let uses = uses.iter().map(|used| (name(&used.spec), used.accesses));
    let collection = fixture.database.snapshot(&fixture.namespace).unwrap();
    let collection = collection.unwrap().collection;
    let scans = collection.plan_memory.as_ref().unwrap().scans.accesses();
    (uses.collect(), scans)
}

/// Counts what `act` adds to the accesses of `_id_`, `a`, `b`, and to the scans.
fn added(fixture: &Fixture, act: impl FnOnce()) -> [u64; 4] {
    let counts = || {
        let (uses, scans) = accesses(fixture);
        [uses[0].1, uses[1].1, uses[2].1, scans]
    };
    let before = counts();
    act();
    let after = counts();
    std::array::from_fn(|place| after[place] - before[place])
}

fn with_two_indexes() -> Fixture {
    let document = |i: i32| doc! { "_id": i, "a": (i % 4), "b": (i % 50), "c": i };
    let fixture = with_documents(&(0..200).map(document).collect::<Vec<_>>());
    fixture.index(r#"{"key": {"a": 1}, "name": "a"}"#);
    fixture.index(r#"{"key": {"b": 1}, "name": "b"}"#);
    fixture
}

#[test]
fn every_way_of_reading_counts_once_what_it_reads() {
    let fixture = with_two_indexes();
    let f = &fixture;
    assert_eq!(added(f, || drop(f.find(r#"{"_id": 7}"#))), [1, 0, 0, 0]);
    assert_eq!(added(f, || drop(f.find(r#"{"_id": -1}"#))), [1, 0, 0, 0]);
    let range = r#"{"_id": {"$gt": 7}}"#;
    assert_eq!(added(f, || drop(f.find(range))), [1, 0, 0, 0]);
    assert_eq!(added(f, || drop(f.find(r#"{"a": 1}"#))), [0, 1, 0, 0]);
    assert_eq!(added(f, || drop(f.find(r#"{"c": 1}"#))), [0, 0, 0, 1]);
    let union = r#"{"$or": [{"a": 1}, {"b": 2}, {"a": 3}]}"#;
    assert_eq!(added(f, || drop(f.find(union))), [0, 1, 1, 0]);
    assert_eq!(
        added(f, || assert_eq!(f.count(r#"{"a": 1}"#, None), 50)),
        [0, 1, 0, 0]
    );
    assert_eq!(
        added(f, || assert_eq!(f.count("{}", None), 200)),
        [0, 0, 0, 0]
    );
    let nothing = r#"{"a": {"$in": []}}"#;
    assert_eq!(added(f, || drop(f.find(nothing))), [0, 0, 0, 0]);
    let update = |filter: &str| drop(f.update(filter, r#"{"$inc": {"x": 1}}"#, true, false));
    assert_eq!(added(f, || update(r#"{"a": 1}"#)), [0, 1, 0, 0]);
    assert_eq!(added(f, || update("{}")), [0, 0, 0, 1]);
    let update = || {
        let outcome = f.try_update(r#"{"_id": 3}"#, r#"{"$inc": {"x": 1}}"#);
        assert_eq!(outcome.unwrap().matched, 1);
    };
    assert_eq!(added(f, update), [1, 0, 0, 0]);
    assert_eq!(
        added(f, || assert_eq!(f.delete(r#"{"b": 49}"#, true), 4)),
        [0, 0, 1, 0]
    );
    assert_eq!(
        added(f, || assert_eq!(f.delete(r#"{"_id": 3}"#, false), 1)),
        [1, 0, 0, 0]
    );
}

#[test]
fn a_distinct_and_a_pipeline_count_what_they_read() {
    let fixture = with_two_indexes();
    let distinct = |key: &'static str| {
        let request = DistinctRequest::new(&fixture.namespace, key);
        exec::distinct((&fixture.database).into(), &fixture.operation, request).unwrap();
    };
    assert_eq!(added(&fixture, || distinct("a")), [0, 1, 0, 0]);
    assert_eq!(added(&fixture, || distinct("c")), [0, 0, 0, 1]);
    let run = |pipeline: &str| {
        let pipeline = json(&format!(r#"{{"p": {pipeline}}}"#));
        let pipeline = pipeline.as_raw().get_array("p").unwrap();
        let over = Over::Collection(&fixture.namespace);
        let request = AggregateRequest::new(over, pipeline);
        let executor = exec::aggregate((&fixture.database).into(), &fixture.operation, request);
        fixture.drain(executor.unwrap()).len()
    };
    let grouped = r#"[{"$group": {"_id": "$a"}}]"#;
    assert_eq!(
        added(&fixture, || assert_eq!(run(grouped), 4)),
        [0, 1, 0, 0]
    );
    // The inner side is planned for each document of the outer one.
    let joined = r#"[{"$match": {"_id": {"$lt": 3}}},
        {"$lookup": {"from": "c", "localField": "a", "foreignField": "b", "as": "x"}}]"#;
    assert_eq!(added(&fixture, || assert_eq!(run(joined), 3)), [1, 0, 3, 0]);
}

#[test]
fn what_is_shown_or_tried_counts_nothing() {
    let fixture = with_two_indexes();
    let explain = || drop(fixture.explain(r#"{"a": 1, "c": {"$gt": 3}}"#, None));
    assert_eq!(added(&fixture, explain), [0; 4]);
    // Both indexes are tried, and one is read.
    let find = || drop(fixture.find(r#"{"a": 1, "b": 5}"#));
    assert_eq!(added(&fixture, find), [0, 0, 1, 0]);
    // A batch goes on with the plan that was counted.
    let filter = json(r#"{"a": 1}"#);
    let begin = || {
        let mut request = FindRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        let scope = || (&fixture.database).into();
        let mut executor = exec::find(scope(), &fixture.operation, request).unwrap();
        for _ in 0..10 {
            let mut document = Vec::new();
            assert!(executor.next(&fixture.operation, &mut document).unwrap());
            executor.save(&fixture.operation).unwrap();
            executor.restore(scope(), &fixture.operation).unwrap();
        }
    };
    assert_eq!(added(&fixture, begin), [0, 1, 0, 0]);
}

#[test]
fn counts_outlive_other_definitions_and_go_with_their_index() {
    let fixture = with_two_indexes();
    fixture.find(r#"{"a": 1}"#);
    fixture.find(r#"{"b": 1}"#);
    fixture.find(r#"{"_id": 1}"#);
    let database = &fixture.database;
    let names = |counts: &[(&str, u64)]| -> Vec<(String, u64)> {
        counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    };
    fixture.index(r#"{"key": {"c": 1}, "name": "c"}"#);
    assert_eq!(
        accesses(&fixture).0,
        names(&[("_id_", 1), ("a", 1), ("b", 1), ("c", 0)])
    );
    let drop_index = |name: &str| {
        let name = Value::from(name);
        let (namespace, operation) = (&fixture.namespace, &fixture.operation);
        database
            .drop_indexes(namespace, &[name.as_raw()], operation, Level::Written)
            .unwrap();
    };
    drop_index("a");
    assert_eq!(
        accesses(&fixture).0,
        names(&[("_id_", 1), ("b", 1), ("c", 0)])
    );
    fixture.index(r#"{"key": {"a": 1}, "name": "a"}"#);
    assert_eq!(accesses(&fixture).0[3], ("a".to_owned(), 0));
    // One that is changed counts anew.
    let before = database.index_accesses(&fixture.namespace).unwrap()[1].since_ms;
    let change = IndexChange {
        hidden: Some(true),
        ..IndexChange::default()
    };
    let which = Value::from("b");
    let operation = &fixture.operation;
    database
        .modify_index(
            &fixture.namespace,
            which.as_raw(),
            change,
            operation,
            Level::Written,
        )
        .unwrap();
    assert_eq!(accesses(&fixture).0[1], ("b".to_owned(), 0));
    assert!(database.index_accesses(&fixture.namespace).unwrap()[1].since_ms >= before);
    // A collection that is made anew under the name is another one.
    assert_eq!(accesses(&fixture).0[0].1, 1);
    database
        .drop_collection(&fixture.namespace, operation, Level::Written)
        .unwrap();
    fixture.insert(&[doc! { "_id": 1 }], true);
    assert_eq!(accesses(&fixture), (names(&[("_id_", 0)]), 0));
}

#[test]
fn a_renamed_collection_keeps_its_counts() {
    let fixture = with_two_indexes();
    fixture.find(r#"{"a": 1}"#);
    fixture.find(r#"{"c": 1}"#);
    let to = Namespace::parse("db.d").unwrap();
    let (database, operation) = (&fixture.database, &fixture.operation);
    database
        .rename_collection(&fixture.namespace, &to, false, operation, Level::Written)
        .unwrap();
    let renamed = Fixture {
        namespace: to,
        ..fixture
    };
    let (uses, scans) = accesses(&renamed);
    assert_eq!((uses[1].1, scans), (1, 1));
}

#[test]
fn reads_of_a_capped_collection_are_told_apart() {
    let fixture = with(&[]);
    let options = json(r#"{"capped": true, "size": 100000}"#);
    let (database, operation) = (&fixture.database, &fixture.operation);
    database
        .create_collection(
            &fixture.namespace,
            options.as_raw(),
            operation,
            Level::Written,
        )
        .unwrap();
    fixture.insert(&[doc! { "_id": 1 }], true);
    fixture.find(r#"{"_id": 1}"#);
    fixture.find("{}");
    fixture
        .find_with("{}", |request| request.is_tailable = true)
        .unwrap();
    let (uses, scans) = accesses(&fixture);
    assert_eq!((uses[0].1, scans), (1, 2));
    let snapshot = database.snapshot(&fixture.namespace).unwrap().unwrap();
    let tailing = &snapshot.collection.plan_memory.as_ref().unwrap().tailing;
    assert_eq!(tailing.accesses(), 1);
}
