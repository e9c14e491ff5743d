//! Pipelines that write what comes of them: `$out` and `$merge`.

use std::sync::atomic::{AtomicBool, Ordering};

use quarry_bson::{Document, RawDocument, doc, extjson};
use quarry_database::{Level, Namespace, Operation};
use quarry_query::Error;
use quarry_query::exec::{self, AggregateRequest, Explained, InsertRequest, Over, Verbosity};

use crate::{Fixture, json, with, with_documents};

fn target() -> Namespace {
    Namespace::parse("db.target").unwrap()
}

fn insert(fixture: &Fixture, namespace: &Namespace, documents: &[&str]) {
    let documents: Vec<Document> = documents.iter().map(|text| json(text)).collect();
    let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
    let request = InsertRequest::new(namespace, &raw);
    let scope = (&fixture.database).into();
    let outcome = exec::insert(scope, &fixture.operation, request, Level::Written).unwrap();
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
}

fn unique(fixture: &Fixture, namespace: &Namespace, spec: &str) {
    let specs = [json(spec)];
    let (database, operation) = (&fixture.database, &fixture.operation);
    database
        .create_indexes(namespace, &specs, operation, Level::Written)
        .unwrap();
}

/// Runs the stages over `db.c`; they give no document.
fn run(fixture: &Fixture, stages: &str) -> Result<(), Error> {
    let pipeline = json(&format!(r#"{{"p": {stages}}}"#));
    let stages = pipeline.as_raw().get_array("p").unwrap();
    let request = AggregateRequest {
        level: Level::Written,
        ..AggregateRequest::new(Over::Collection(&fixture.namespace), stages)
    };
    let executor = exec::aggregate((&fixture.database).into(), &fixture.operation, request)?;
    assert_eq!(fixture.drain(executor), Vec::<String>::new());
    Ok(())
}

fn code(fixture: &Fixture, stages: &str) -> i32 {
    run(fixture, stages).expect_err(stages).code()
}

fn all(fixture: &Fixture, namespace: &Namespace) -> Vec<String> {
    let sort = doc! { "_id": 1 };
    let mut request = exec::FindRequest::new(namespace);
    request.sort = Some(sort.as_raw());
    let executor = exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
    fixture.drain(executor)
}

fn collections(fixture: &Fixture) -> Vec<String> {
    let listed = fixture.database.list_collections("db").unwrap();
    let names = listed.iter().map(|it| it.namespace.collection().to_owned());
    names.collect()
}

#[test]
fn out_replaces_the_documents_and_keeps_options_and_indexes() {
    let fixture = with(&[r#"{"_id": 1, "a": 5}"#, r#"{"_id": 2, "a": 6}"#]);
    let options = doc! { "changeStreamPreAndPostImages": { "enabled": true } };
    let (database, operation) = (&fixture.database, &fixture.operation);
    database
        .create_collection(&target(), options.as_raw(), operation, Level::Written)
        .unwrap();
    insert(&fixture, &target(), &[r#"{"_id": 9, "a": 1}"#]);
    unique(
        &fixture,
        &target(),
        r#"{"key": {"a": 1}, "name": "a_1", "unique": true}"#,
    );
    let before = database.list_indexes(&target()).unwrap();

    run(&fixture, r#"[{"$set": {"b": 1}}, {"$out": "target"}]"#).unwrap();
    let wanted = [r#"{"_id":1,"a":5,"b":1}"#, r#"{"_id":2,"a":6,"b":1}"#];
    assert_eq!(all(&fixture, &target()), wanted);
    assert_eq!(database.list_indexes(&target()).unwrap(), before);
    let collection = database.collection(&target()).unwrap().unwrap();
    assert_eq!(collection.options(), options.as_raw());
    assert_eq!(collections(&fixture), ["c", "target"]);

    // An index that refuses a document: all stays as it was.
    assert_eq!(
        code(
            &fixture,
            r#"[{"$project": {"a": "x"}}, {"$out": "target"}]"#
        ),
        11000
    );
    assert_eq!(all(&fixture, &target()), wanted);
    assert_eq!(collections(&fixture), ["c", "target"]);
}

#[test]
fn out_makes_a_collection_of_nothing_and_may_replace_its_own_input() {
    let fixture = with(&[r#"{"_id": 1, "a": 5}"#, r#"{"_id": 2, "a": 6}"#]);
    run(
        &fixture,
        r#"[{"$match": {"a": 99}}, {"$out": {"db": "other", "coll": "empty"}}]"#,
    )
    .unwrap();
    let empty = Namespace::parse("other.empty").unwrap();
    assert!(fixture.database.collection(&empty).unwrap().is_some());
    run(&fixture, r#"[{"$match": {"a": 6}}, {"$out": "c"}]"#).unwrap();
    assert_eq!(all(&fixture, &fixture.namespace), [r#"{"_id":2,"a":6}"#]);
}

#[test]
fn many_documents_are_written_in_several_batches() {
    let documents: Vec<Document> = (0..2500).map(|n| doc! { "_id": n, "a": (n % 7) }).collect();
    let fixture = with_documents(&documents);
    run(&fixture, r#"[{"$out": "target"}]"#).unwrap();
    assert_eq!(all(&fixture, &target()).len(), 2500);
    run(&fixture, r#"[{"$set": {"b": 1}}, {"$merge": "target"}]"#).unwrap();
    run(
        &fixture,
        r#"[{"$set": {"_id": {"$add": ["$_id", 2500]}}}, {"$merge": "target"}]"#,
    )
    .unwrap();
    let found = all(&fixture, &target());
    assert_eq!(found.len(), 5000);
    assert_eq!(
        found
            .iter()
            .filter(|text| text.contains(r#""b":1"#))
            .count(),
        2500
    );
}

#[test]
fn a_merge_into_its_own_input_meets_no_document_that_it_wrote() {
    let documents: Vec<Document> = (0..500).map(|n| doc! { "_id": n }).collect();
    let fixture = with_documents(&documents);
    run(
        &fixture,
        r#"[{"$set": {"_id": {"$add": ["$_id", 500]}}}, {"$merge": "c"}]"#,
    )
    .unwrap();
    assert_eq!(all(&fixture, &fixture.namespace).len(), 1000);
}

#[test]
fn each_mode_of_a_merge() {
    // What comes is {_id: 1, b: 2} and {_id: 3, b: 4}; what is there {_id: 1, a: 1}.
    let modes = [
        (
            r#""whenMatched": "merge""#,
            Ok(r#"{"_id":1,"a":1,"b":2} {"_id":3,"b":4}"#),
        ),
        (
            r#""whenMatched": "replace""#,
            Ok(r#"{"_id":1,"b":2} {"_id":3,"b":4}"#),
        ),
        (
            r#""whenMatched": "keepExisting""#,
            Ok(r#"{"_id":1,"a":1} {"_id":3,"b":4}"#),
        ),
        (r#""whenMatched": "fail""#, Err(11000)),
        (
            r#""whenMatched": "merge", "whenNotMatched": "discard""#,
            Ok(r#"{"_id":1,"a":1,"b":2}"#),
        ),
        (
            r#""whenMatched": "replace", "whenNotMatched": "discard""#,
            Ok(r#"{"_id":1,"b":2}"#),
        ),
        (
            r#""whenMatched": "merge", "whenNotMatched": "fail""#,
            Err(13113),
        ),
        (
            r#""whenMatched": [{"$set": {"s": {"$add": ["$a", "$$new.b"]}}}]"#,
            Ok(r#"{"_id":1,"a":1,"s":3} {"_id":3,"b":4}"#),
        ),
        (
            r#""let": {"x": "$b", "none": "$nosuch"}, "whenMatched": [{"$set": {"s": "$$x", "t": "$$none", "u": "$$new.b"}}], "whenNotMatched": "discard""#,
            Ok(r#"{"_id":1,"a":1,"s":2,"u":2}"#),
        ),
        // Null stands for an option that is not there, but for those that may be of several types.
        (
            r#""let": null, "whenMatched": "replace", "whenNotMatched": null"#,
            Ok(r#"{"_id":1,"b":2} {"_id":3,"b":4}"#),
        ),
        (r#""whenMatched": null"#, Err(51191)),
        (r#""on": null"#, Err(51186)),
    ];
    for (mode, wanted) in modes {
        let fixture = with(&[r#"{"_id": 1, "b": 2}"#, r#"{"_id": 3, "b": 4}"#]);
        insert(&fixture, &target(), &[r#"{"_id": 1, "a": 1}"#]);
        let result = run(
            &fixture,
            &format!(r#"[{{"$merge": {{"into": "target", {mode}}}}}]"#),
        );
        let found = result.map(|()| all(&fixture, &target()).join(" "));
        assert_eq!(
            found.map_err(|error| error.code()),
            wanted.map(str::to_owned),
            "{mode}"
        );
    }
}

#[test]
fn documents_are_told_by_fields_that_an_index_keeps_unique() {
    let fixture = with(&[
        r#"{"_id": 1, "k": {"a": 1}, "n": 1, "v": 1}"#,
        r#"{"_id": 2, "k": {"a": 1}, "n": 1, "v": 2}"#,
        r#"{"_id": 3, "k": {"a": 2}, "v": 3}"#,
    ]);
    let stages =
        r#"[{"$project": {"_id": 0}}, {"$merge": {"into": "target", "on": ["n", "k.a"]}}]"#;
    assert_eq!(code(&fixture, stages), 51183);
    unique(
        &fixture,
        &target(),
        r#"{"key": {"k.a": 1, "n": 1}, "name": "u", "unique": true}"#,
    );
    insert(
        &fixture,
        &target(),
        &[r#"{"_id": 7, "k": {"a": 2}, "n": null}"#],
    );
    run(&fixture, stages).unwrap();
    let found = all(&fixture, &target());
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0], r#"{"_id":7,"k":{"a":2},"n":null,"v":3}"#);
    // Both of the others have one key: the second one was merged into the first.
    assert!(
        found[1].ends_with(r#""k":{"a":1},"n":1,"v":2}"#),
        "{found:?}"
    );

    // The `_id` of what is there does not change.
    let changes = r#"[{"$merge": {"into": "target", "on": ["n", "k.a"]}}]"#;
    assert_eq!(code(&fixture, changes), 66);
    let arrays = r#"[{"$set": {"n": [1]}}, {"$merge": {"into": "target", "on": ["n", "k.a"]}}]"#;
    assert_eq!(code(&fixture, arrays), 51185);
}

#[test]
fn names_that_an_update_would_read_as_operators_or_paths_are_names() {
    for mode in ["replace", "merge"] {
        let fixture = with(&[r#"{"_id": 1, "v": 1}"#]);
        insert(&fixture, &target(), &[r#"{"_id": 1}"#]);
        let named = r#"{"$replaceWith": {"$setField": {"field": {"$literal": "a.b"}, "input": "$$ROOT", "value": 2}}}"#;
        let merge = format!(r#"{{"$merge": {{"into": "target", "whenMatched": "{mode}"}}}}"#);
        run(&fixture, &format!("[{named}, {merge}]")).unwrap();
        assert_eq!(
            all(&fixture, &target()),
            [r#"{"_id":1,"v":1,"a.b":2}"#],
            "{mode}"
        );
    }
}

#[test]
fn what_nobody_may_write_into_is_refused() {
    let fixture = with(&[r#"{"_id": 1}"#]);
    let capped = doc! { "capped": true, "size": 4096 };
    let (database, operation) = (&fixture.database, &fixture.operation);
    let namespace = Namespace::parse("db.capped").unwrap();
    database
        .create_collection(&namespace, capped.as_raw(), operation, Level::Written)
        .unwrap();
    for (stages, wanted) in [
        (r#"[{"$out": "capped"}]"#, 17152),
        (r#"[{"$out": "system.x"}]"#, 17385),
        (r#"[{"$out": {"db": "admin", "coll": "c"}}]"#, 31321),
        (
            r#"[{"$merge": {"into": {"db": "config", "coll": "c"}}}]"#,
            31320,
        ),
        (r#"[{"$merge": "system.x"}]"#, 31319),
        (r#"[{"$out": ""}]"#, 73),
    ] {
        assert_eq!(code(&fixture, stages), wanted, "{stages}");
    }
}

#[test]
fn a_pipeline_that_writes_is_explained_and_not_run() {
    let fixture = with(&[r#"{"_id": 1}"#]);
    let pipeline =
        json(r#"{"p": [{"$match": {"_id": 1}}, {"$merge": {"into": "target", "on": "_id"}}]}"#);
    let stages = pipeline.as_raw().get_array("p").unwrap();
    let explain = |verbosity| {
        let request = AggregateRequest::new(Over::Collection(&fixture.namespace), stages);
        let mut result = Ok(());
        let reply = Document::build(|reply| {
            let explained = Explained::Aggregate(request);
            let scope = (&fixture.database).into();
            result = exec::explain(scope, &fixture.operation, explained, verbosity, reply);
        });
        result.map(|()| extjson::relaxed(reply.as_raw()))
    };
    let shown = explain(Verbosity::QueryPlanner).unwrap();
    let wanted = r#"{"$merge":{"into":{"coll":"target"},"on":"_id","whenMatched":"merge","whenNotMatched":"insert"}}"#;
    assert!(shown.contains(wanted), "{shown}");
    assert_eq!(explain(Verbosity::ExecutionStats).unwrap_err().code(), 72);
    assert_eq!(collections(&fixture), ["c"]);
}

/// Another client drops the temporary collection while it is filled, and makes one of its own under the name even.
#[test]
fn out_whose_temporary_collection_was_dropped_fails_and_leaves_the_target() {
    for makes_another in [false, true] {
        let fixture = with(&[r#"{"_id": 1}"#, r#"{"_id": 2}"#]);
        let fixture: &'static Fixture = Box::leak(Box::new(fixture));
        insert(fixture, &target(), &[r#"{"_id": 9}"#]);
        unique(fixture, &target(), r#"{"key": {"a": 1}, "name": "a_1"}"#);
        let before = fixture.database.list_indexes(&target()).unwrap();
        let temporary = || {
            let mut names = collections(fixture).into_iter();
            names.find(|name| name.starts_with("tmp.agg_out."))
        };
        let is_done = AtomicBool::new(false);
        let hook = Box::new(move || {
            if let Some(name) = temporary()
                && !is_done.swap(true, Ordering::Relaxed)
            {
                let (namespace, other) =
                    (Namespace::new("db", &name).unwrap(), Operation::default());
                let dropped = fixture
                    .database
                    .drop_collection(&namespace, &other, Level::Written);
                assert!(dropped.unwrap().is_some());
                if makes_another {
                    insert(fixture, &namespace, &[r#"{"_id": "another"}"#]);
                }
            }
            false
        });
        let operation = Operation::default().with_disconnect(hook);
        let pipeline = json(r#"{"p": [{"$out": "target"}]}"#);
        let stages = pipeline.as_raw().get_array("p").unwrap();
        let request = AggregateRequest {
            level: Level::Written,
            ..AggregateRequest::new(Over::Collection(&fixture.namespace), stages)
        };
        let ended = exec::aggregate((&fixture.database).into(), &operation, request).map(drop);
        let error = ended.unwrap_err();
        assert_eq!(error.code(), 175, "{error}");
        assert!(
            error.message.contains("was dropped while it was filled"),
            "{error}"
        );
        assert_eq!(all(fixture, &target()), [r#"{"_id":9}"#]);
        assert_eq!(fixture.database.list_indexes(&target()).unwrap(), before);
        // What the other client made is its own.
        let left = temporary();
        assert_eq!(left.is_some(), makes_another, "{left:?}");
        if let Some(name) = left {
            let namespace = Namespace::new("db", &name).unwrap();
            assert_eq!(all(fixture, &namespace), [r#"{"_id":"another"}"#]);
        }
    }
}
