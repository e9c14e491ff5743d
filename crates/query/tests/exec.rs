//! Reads and writes through the executor, on the memory engine: an index changes how documents are found and never
//! which; writes change what matches and nothing else; cursors go on where they were saved.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use quarry_bson::{Document, RawDocument, RawValue, Value, doc, extjson};
use quarry_database::{Database, Level, Namespace, Operation};
use quarry_query::exec::{self, *};

struct Fixture {
    database: Database,
    operation: Operation,
    namespace: Namespace,
}

fn json(text: &str) -> Document {
    extjson::parse(text).unwrap()
}

fn with(documents: &[&str]) -> Fixture {
    let documents: Vec<Document> = documents.iter().map(|text| json(text)).collect();
    with_documents(&documents)
}

fn with_documents(documents: &[Document]) -> Fixture {
    let fixture = Fixture {
        database: Database::open_in_memory().unwrap(),
        operation: Operation::new(None),
        namespace: Namespace::parse("db.c").unwrap(),
    };
    if !documents.is_empty() {
        let outcome = fixture.insert(documents, true);
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    }
    fixture
}

impl Fixture {
    fn insert(&self, documents: &[Document], is_ordered: bool) -> InsertOutcome {
        let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let request = InsertRequest {
            is_ordered,
            ..InsertRequest::new(&self.namespace, &raw)
        };
        exec::insert(&self.database, &self.operation, request, Level::Written).unwrap()
    }

    fn index(&self, spec: &str) {
        self.database
            .create_indexes(
                &self.namespace,
                &[json(spec)],
                &self.operation,
                Level::Written,
            )
            .unwrap();
    }

    fn drain(&self, mut executor: Executor) -> Vec<String> {
        let mut found = Vec::new();
        let mut document = Vec::new();
        while executor.next(&self.operation, &mut document).unwrap() {
            found.push(extjson::relaxed(RawDocument::new(&document).unwrap()));
            document.clear();
        }
        found
    }

    fn find_with(
        &self,
        filter: &str,
        adjust: impl FnOnce(&mut FindRequest<'_>),
    ) -> Result<Vec<String>> {
        let filter = json(filter);
        let mut request = FindRequest::new(&self.namespace);
        request.filter = shorten(&filter);
        adjust(&mut request);
        let executor = exec::find(&self.database, &self.operation, request)?;
        Ok(self.drain(executor))
    }

    fn find(&self, filter: &str) -> Vec<String> {
        self.find_with(filter, |_| {}).unwrap()
    }

    fn sorted(&self, filter: &str, sort: &str, skip: u64, limit: Option<u64>) -> Vec<String> {
        let (filter, sort) = (json(filter), json(sort));
        let mut request = FindRequest::new(&self.namespace);
        request.filter = filter.as_raw();
        request.sort = Some(sort.as_raw());
        (request.skip, request.limit) = (skip, limit);
        self.drain(exec::find(&self.database, &self.operation, request).unwrap())
    }

    fn update(&self, filter: &str, update: &str, is_multi: bool, is_upsert: bool) -> UpdateOutcome {
        let (filter, update) = (json(filter), json(update));
        let request = UpdateRequest {
            namespace: &self.namespace,
            filter: filter.as_raw(),
            update: RawValue::Document(update.as_raw()),
            is_upsert,
            is_multi,
            hint: None,
            keeps_empty_timestamps: false,
        };
        exec::update(&self.database, &self.operation, request, Level::Written).unwrap()
    }

    fn delete(&self, filter: &str, is_multi: bool) -> u64 {
        let filter = json(filter);
        let request = DeleteRequest {
            namespace: &self.namespace,
            filter: filter.as_raw(),
            is_multi,
            hint: None,
        };
        exec::delete(&self.database, &self.operation, request, Level::Written).unwrap()
    }

    fn explain(&self, filter: &str, sort: Option<&str>) -> Document {
        let (filter, sort) = (json(filter), sort.map(json));
        let mut request = FindRequest::new(&self.namespace);
        request.filter = filter.as_raw();
        request.sort = sort.as_ref().map(Document::as_raw);
        let mut failure = Ok(());
        let shown = Document::build(|reply| {
            failure = exec::explain(
                &self.database,
                &self.operation,
                Explained::Find(request),
                Verbosity::ExecutionStats,
                reply,
            );
        });
        failure.unwrap();
        shown
    }

    /// The stages of the winning plan from the outermost in, and the index.
    fn plan(&self, filter: &str, sort: Option<&str>) -> String {
        let explained = self.explain(filter, sort);
        let mut stage = explained.as_raw().get_path("queryPlanner.winningPlan");
        let mut names = Vec::new();
        while let Some(RawValue::Document(document)) = stage {
            names.push(document.get_str("stage").unwrap().to_owned());
            names.extend(document.get_str("indexName").map(str::to_owned));
            stage = document.get("inputStage");
        }
        names.join(" ")
    }
}

/// Keeps the borrow of a request apart from its maker.
fn shorten(document: &Document) -> RawDocument<'_> {
    document.as_raw()
}

#[test]
fn plans_follow_the_shape_of_the_filter() {
    let fixture = with(&[r#"{"_id": 1, "a": 1, "b": 2}"#]);
    fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
    fixture.index(r#"{"key": {"a": 1, "b": -1}, "name": "a_1_b_-1"}"#);
    fixture.index(r#"{"key": {"u": 1}, "name": "u_1", "unique": true}"#);
    fixture.index(r#"{"key": {"s": 1}, "name": "s_1", "sparse": true}"#);
    for (filter, sort, wanted) in [
        ("{}", None, "COLLSCAN"),
        (r#"{"_id": 1}"#, None, "IDHACK"),
        (r#"{"_id": {"$gt": 1}}"#, None, "FETCH IXSCAN _id_"),
        (r#"{"a": 1}"#, None, "FETCH IXSCAN a_1"),
        (r#"{"a": 1, "b": 2}"#, None, "FETCH IXSCAN a_1_b_-1"),
        (r#"{"a": 1, "u": 2}"#, None, "FETCH IXSCAN u_1"),
        (r#"{"a": {"$gt": 1}}"#, None, "FETCH IXSCAN a_1"),
        (r#"{"b": 1}"#, None, "COLLSCAN"),
        (r#"{"s": null}"#, None, "COLLSCAN"),
        (r#"{"s": 1}"#, None, "FETCH IXSCAN s_1"),
        (r#"{"$or": [{"a": 1}, {"b": 1}]}"#, None, "COLLSCAN"),
        (r#"{"a": 1}"#, Some(r#"{"b": 1}"#), "FETCH IXSCAN a_1_b_-1"),
        (r#"{}"#, Some(r#"{"a": -1}"#), "FETCH IXSCAN a_1"),
        (
            r#"{}"#,
            Some(r#"{"a": -1, "b": 1}"#),
            "FETCH IXSCAN a_1_b_-1",
        ),
        (r#"{}"#, Some(r#"{"a": 1, "b": 1}"#), "SORT COLLSCAN"),
        (r#"{}"#, Some(r#"{"_id": -1}"#), "FETCH IXSCAN _id_"),
    ] {
        assert_eq!(fixture.plan(filter, sort), wanted, "{filter} {sort:?}");
    }
}

/// What explain and currentOp call examined is what the engine itself counted: entries that a cursor stood on, and
/// gets that found something.
#[test]
fn what_is_examined_is_what_the_engine_counted() {
    let documents: Vec<Document> = (0..60)
        .map(|n| doc! {"_id": n, "a": (n % 10), "tags": [(n % 7), (n % 5 + 100)]})
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
    fixture.index(r#"{"key": {"tags": 1}, "name": "tags_1"}"#);
    // The catalog is read before anything is counted.
    fixture.find(r#"{"a": 1}"#);

    // Filter, its cursor's ranges (each ends on one entry beyond, or at the end), whether documents are gotten.
    for (filter, ranges, fetches) in [
        (r#"{}"#, 1, false),
        (r#"{"unknown": 1}"#, 1, false),
        (r#"{"a": 3}"#, 1, true),
        (r#"{"a": {"$gte": 4}}"#, 1, true),
        (r#"{"a": {"$in": [1, 5, 9]}}"#, 3, true),
        (r#"{"_id": {"$in": [1, 50, 59, 1000]}}"#, 0, true),
        (r#"{"_id": {"$gte": 25}}"#, 1, false),
        (r#"{"_id": 17}"#, 0, true),
    ] {
        let before = fixture.database.engine().counters();
        let examined = || {
            (
                fixture.operation.keys_examined.load(Relaxed),
                fixture.operation.docs_examined.load(Relaxed),
            )
        };
        let (keys, docs) = examined();
        fixture.find(filter);
        let (keys, docs) = (examined().0 - keys, examined().1 - docs);
        let after = fixture.database.engine().counters();
        let stood_on = (after.seeks + after.nexts) - (before.seeks + before.nexts);
        let gets = after.gets - before.gets;
        if ranges == 0 {
            assert_eq!((stood_on, gets), (0, keys), "{filter}");
            assert!(docs <= keys, "{filter}");
        } else if fetches {
            assert_eq!((stood_on - ranges, gets), (keys, docs), "{filter}");
        } else {
            assert_eq!((stood_on - ranges, gets), (docs, 0), "{filter}");
        }
    }
}

/// The key of 255 milliseconds ends in 0xFF, and begins the ends of ranges of a descending index.
#[test]
fn descending_keys_bound_one_value() {
    let documents: Vec<Document> = (0..600)
        .map(|n| doc! {"_id": n, "a": (quarry_bson::DateTime(i64::from(n))), "u": (quarry_bson::DateTime(i64::from(n)))})
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": -1}, "name": "a"}"#);
    fixture.index(r#"{"key": {"u": -1}, "name": "u", "unique": true}"#);
    let date = |ms: i32| format!(r#"{{"$date": {{"$numberLong": "{ms}"}}}}"#);
    for field in ["a", "u"] {
        for ms in [0, 254, 255, 256, 511] {
            let found = fixture.find(&format!(r#"{{"{field}": {}}}"#, date(ms)));
            assert_eq!(found.len(), 1, "{field} {ms}: {found:?}");
            let list = format!(r#"{{"{field}": {{"$in": [{}, {}]}}}}"#, date(ms), date(599));
            assert_eq!(fixture.find(&list).len(), 2, "{list}");
        }
    }
}

/// A unique entry names one record: whole keys of it need no cursor. Keys that are cut, or a field without a value, do.
#[test]
fn whole_unique_keys_are_gotten() {
    let long = "x".repeat(3000);
    let documents: Vec<Document> = (0..40)
        .map(|n| {
            doc! {
                "_id": n, "a": (n % 10), "b": (n / 10), "tags": [(n * 2), (n * 2 + 1)],
                "long": (format!("{long}{n}"))
            }
        })
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1, "b": -1}, "name": "a_b", "unique": true}"#);
    fixture.index(r#"{"key": {"tags": 1}, "name": "tags", "unique": true}"#);
    fixture.index(r#"{"key": {"long": 1}, "name": "long", "unique": true}"#);
    let of_long = format!(r#"{{"long": "{long}7"}}"#);
    // The catalog is read before anything is counted.
    fixture.find(r#"{"a": 1, "b": 1}"#);

    // Filter, what it finds, the keys looked for; none for those that take a cursor.
    for (filter, found, keys) in [
        (r#"{"a": 3, "b": 2}"#, vec![23], Some(1)),
        (r#"{"b": 2, "a": 3.0}"#, vec![23], Some(1)),
        (r#"{"a": 3, "b": 9}"#, vec![], Some(1)),
        (r#"{"a": 3, "b": 2, "_id": {"$gt": 30}}"#, vec![], Some(1)),
        (
            r#"{"a": {"$in": [1, 2]}, "b": {"$in": [0, 9]}}"#,
            vec![1, 2],
            Some(4),
        ),
        (r#"{"tags": {"$in": [8, 9, 500]}}"#, vec![4], Some(3)),
        (r#"{"a": 3}"#, vec![33, 23, 13, 3], None),
        (&of_long, vec![7], None),
    ] {
        let before = fixture.database.engine().counters();
        let ids: Vec<i32> = fixture
            .find(filter)
            .iter()
            .map(|text| {
                let document = json(text);
                document.as_raw().get("_id").unwrap().as_i32().unwrap()
            })
            .collect();
        assert_eq!(ids, found, "{filter}");
        let after = fixture.database.engine().counters();
        let gets = after.gets - before.gets;
        match keys {
            Some(keys) => {
                assert_eq!(after.seeks, before.seeks, "{filter}");
                assert!(
                    (keys..=keys + found.len().max(1) as u64).contains(&gets),
                    "{filter}: {gets} gets"
                );
            }
            None => assert!(after.seeks > before.seeks, "{filter}"),
        }
    }
}

#[test]
fn explain_measures_what_is_examined() {
    let documents: Vec<Document> = (0..100).map(|n| doc! {"_id": n, "a": (n % 10)}).collect();
    let fixture = with_documents(&documents);
    let examined = |explained: &Document| {
        ["nReturned", "totalKeysExamined", "totalDocsExamined"].map(|field| {
            explained
                .as_raw()
                .get_path(format!("executionStats.{field}"))
                .unwrap()
                .as_i64_exact()
                .unwrap()
        })
    };
    assert_eq!(
        examined(&fixture.explain(r#"{"a": 3}"#, None)),
        [10, 0, 100]
    );
    fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
    let explained = fixture.explain(r#"{"a": 3}"#, None);
    assert_eq!(examined(&explained), [10, 10, 10]);
    let bounds = explained
        .as_raw()
        .get_path("queryPlanner.winningPlan.inputStage.indexBounds");
    assert_eq!(
        bounds.unwrap().to_value(),
        Value::from(doc! {"a": ["[3, 3]"]})
    );
    assert_eq!(examined(&fixture.explain(r#"{"_id": 7}"#, None)), [1, 1, 1]);
}

#[test]
fn hints_are_followed_or_refused() {
    let fixture = with(&[r#"{"_id": 1, "a": 2}"#, r#"{"_id": 2, "a": 1}"#]);
    fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
    let hinted = |hint: Value| {
        fixture.find_with("{}", |request| {
            // The hint lives as long as the program's test.
            let hint: &'static Value = Box::leak(Box::new(hint));
            request.hint = Some(hint.as_raw());
        })
    };
    let by_a = [r#"{"_id":2,"a":1}"#, r#"{"_id":1,"a":2}"#];
    let by_id = [r#"{"_id":1,"a":2}"#, r#"{"_id":2,"a":1}"#];
    assert_eq!(hinted(Value::from("a_1")).unwrap(), by_a);
    assert_eq!(hinted(Value::from(doc! {"a": 1})).unwrap(), by_a);
    assert_eq!(hinted(Value::from("_id_")).unwrap(), by_id);
    assert_eq!(hinted(Value::from(doc! {"$natural": (-1)})).unwrap(), by_a);
    assert_eq!(hinted(Value::from("none")).unwrap_err().code(), 2);
}

#[test]
fn sorts_skip_and_limit() {
    let documents: Vec<Document> = (0..500)
        .map(|n| doc! {"_id": n, "a": (n * 7 % 500)})
        .collect();
    let fixture = with_documents(&documents);
    let wanted: Vec<String> = (0..500)
        .map(|n| {
            format!(
                r#"{{"_id":{},"a":{n}}}"#,
                (0..500).find(|id| id * 7 % 500 == n).unwrap()
            )
        })
        .collect();
    for _ in 0..2 {
        assert_eq!(fixture.sorted("{}", r#"{"a": 1}"#, 0, None), wanted);
        assert_eq!(
            fixture.sorted("{}", r#"{"a": 1}"#, 5, Some(10)),
            wanted[5..15]
        );
        let backward: Vec<String> = wanted.iter().rev().take(3).cloned().collect();
        assert_eq!(fixture.sorted("{}", r#"{"a": -1}"#, 0, Some(3)), backward);
        assert_eq!(
            fixture.sorted(r#"{"a": {"$in": [9, 3, 400]}}"#, r#"{"a": 1}"#, 1, None),
            [wanted[9].clone(), wanted[400].clone()]
        );
        fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
    }
}

#[test]
fn a_saved_cursor_goes_on_and_ends_with_its_collection() {
    let documents: Vec<Document> = (0..1000).map(|n| doc! {"_id": n, "a": (n % 3)}).collect();
    for with_index in [false, true] {
        let fixture = with_documents(&documents);
        if with_index {
            fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
        }
        let filter = doc! {"a": 1};
        let mut request = FindRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        let mut executor = exec::find(&fixture.database, &fixture.operation, request).unwrap();
        let (mut count, mut out) = (0, Vec::new());
        while executor.next(&fixture.operation, &mut out).unwrap() {
            out.clear();
            count += 1;
            executor.save().unwrap();
            executor
                .restore(&fixture.database, &fixture.operation)
                .unwrap();
        }
        assert_eq!(count, 333);
        let mut executor = exec::find(&fixture.database, &fixture.operation, request).unwrap();
        assert!(executor.next(&fixture.operation, &mut out).unwrap());
        executor.save().unwrap();
        fixture
            .database
            .drop_collection(&fixture.namespace, &fixture.operation, Level::Written)
            .unwrap();
        let error = executor
            .restore(&fixture.database, &fixture.operation)
            .unwrap_err();
        assert_eq!(error.code(), 175);
    }
}

#[test]
fn a_tailable_cursor_follows_a_capped_collection() {
    let fixture = with(&[]);
    let options = doc! {"capped": true, "size": 100_000};
    fixture
        .database
        .create_collection(
            &fixture.namespace,
            options.as_raw(),
            &fixture.operation,
            Level::Written,
        )
        .unwrap();
    let tail = || {
        let mut request = FindRequest::new(&fixture.namespace);
        request.is_tailable = true;
        exec::find(&fixture.database, &fixture.operation, request).unwrap()
    };
    let mut out = Vec::new();
    let mut empty = tail();
    assert!(!empty.next(&fixture.operation, &mut out).unwrap());
    assert!(empty.is_dead());
    fixture.insert(&[json(r#"{"_id": 2}"#), json(r#"{"_id": 1}"#)], true);
    let mut executor = tail();
    let read = |executor: &mut Executor| {
        executor
            .restore(&fixture.database, &fixture.operation)
            .unwrap();
        let mut ids = Vec::new();
        let mut out = Vec::new();
        while executor.next(&fixture.operation, &mut out).unwrap() {
            ids.push(RawDocument::new(&out).unwrap().get_i32("_id").unwrap());
            out.clear();
        }
        executor.save().unwrap();
        ids
    };
    assert_eq!(read(&mut executor), [2, 1]);
    assert_eq!(read(&mut executor), [0; 0]);
    assert!(!executor.is_dead());
    fixture.insert(&[json(r#"{"_id": 7}"#)], true);
    assert_eq!(read(&mut executor), [7]);
    assert_eq!(fixture.find(r#"{"_id": 1}"#), [r#"{"_id":1}"#]);
    // More than the bounds by itself: all others make room for it. The cursor does not skip what it has not read.
    let large = doc! {"_id": 8, "filler": ("x".repeat(200_000))};
    fixture.insert(&[json(r#"{"_id": 5}"#), large], true);
    assert_eq!(fixture.find(r#"{"filler": {"$exists": false}}"#), [""; 0]);
    assert_eq!(fixture.find(r#"{"_id": 8}"#).len(), 1);
    executor
        .restore(&fixture.database, &fixture.operation)
        .unwrap();
    let lost = executor
        .next(&fixture.operation, &mut Vec::new())
        .unwrap_err();
    assert_eq!(lost.code(), 136);
}

#[test]
fn empty_timestamps_become_the_time_in_inserts_and_replacements() {
    let stamp = |fixture: &Fixture, path: &str| {
        let found = fixture.find_with("{}", |_| {}).unwrap();
        let document = json(&found[0]);
        match document.as_raw().get_path(path) {
            Some(RawValue::Timestamp(stamp)) => (stamp.time, stamp.increment),
            other => panic!("{other:?}"),
        }
    };
    let empty = r#"{"$timestamp": {"t": 0, "i": 0}}"#;
    let document = format!(r#"{{"_id": {empty}, "t": {empty}, "n": {{"t": {empty}}}}}"#);
    let fixture = with(&[&document]);
    let stored = stamp(&fixture, "t");
    assert!(stored.0 > 1_700_000_000 && stored.1 > 0, "{stored:?}");
    assert_eq!(
        (stamp(&fixture, "_id"), stamp(&fixture, "n.t")),
        ((0, 0), (0, 0))
    );
    fixture.update("{}", &format!(r#"{{"r": {empty}}}"#), false, false);
    assert!(stamp(&fixture, "r") > stored);
    fixture.update(
        "{}",
        &format!(r#"{{"$set": {{"r": {empty}}}}}"#),
        false,
        false,
    );
    assert_eq!(stamp(&fixture, "r"), (0, 0));
    let raw = json(&document);
    let namespace = Namespace::parse("db.kept").unwrap();
    let fixture = Fixture {
        namespace: namespace.clone(),
        ..fixture
    };
    let documents = [raw.as_raw()];
    let request = InsertRequest {
        keeps_empty_timestamps: true,
        ..InsertRequest::new(&namespace, &documents)
    };
    exec::insert(
        &fixture.database,
        &fixture.operation,
        request,
        Level::Written,
    )
    .unwrap();
    assert_eq!(stamp(&fixture, "t"), (0, 0));
}

#[test]
fn a_tailable_cursor_needs_a_capped_collection() {
    let fixture = with(&[r#"{"_id": 1}"#]);
    let refused = fixture.find_with("{}", |request| request.is_tailable = true);
    assert_eq!(refused.unwrap_err().code(), 2);
}

#[test]
fn inserts_tell_each_error_by_its_position() {
    let documents = [
        r#"{"_id": 1}"#,
        r#"{"_id": [1]}"#,
        r#"{"_id": 1}"#,
        r#"{"a": 1, "_id": 2}"#,
    ];
    let documents = documents.map(json);
    let told = |outcome: InsertOutcome| {
        let errors = outcome.errors.iter().map(|(at, error)| (*at, error.code()));
        (outcome.inserted, errors.collect::<Vec<_>>())
    };
    let ordered = with(&[]);
    assert_eq!(told(ordered.insert(&documents, true)), (1, vec![(1, 53)]));
    let unordered = with(&[]);
    assert_eq!(
        told(unordered.insert(&documents, false)),
        (2, vec![(1, 53), (2, 11_000)])
    );
    assert_eq!(unordered.find("{}"), [r#"{"_id":1}"#, r#"{"_id":2,"a":1}"#]);
    let mut two_ids = json(r#"{"_id": 3}"#);
    two_ids.append("_id", 4);
    let operator = json(r#"{"_id": {"a": {"$x": 1}}}"#);
    let reference = json(r#"{"_id": {"$ref": "c", "$id": 1}}"#);
    assert_eq!(
        told(unordered.insert(&[two_ids, operator, reference], false)),
        (1, vec![(0, 2), (1, 52)])
    );
    let many: Vec<Document> = (0..1200)
        .map(|n| doc! {"_id": (if n == 1100 { 3 } else { n })})
        .collect();
    let fixture = with(&[]);
    assert_eq!(
        told(fixture.insert(&many, true)),
        (1100, vec![(1100, 11_000)])
    );
}

#[test]
fn updates_change_what_matches_once() {
    let documents: Vec<Document> = (0..2000).map(|n| doc! {"_id": n, "a": n}).collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
    // Every changed document moves ahead of the scan of its index.
    let outcome = fixture.update(
        r#"{"a": {"$gte": 0}}"#,
        r#"{"$inc": {"a": 5000}}"#,
        true,
        false,
    );
    assert_eq!((outcome.matched, outcome.modified), (2000, 2000));
    assert_eq!(fixture.find(r#"{"a": {"$lt": 5000}}"#).len(), 0);
    assert_eq!(fixture.find(r#"{"a": 6999}"#), [r#"{"_id":1999,"a":6999}"#]);
    let same = fixture.update(r#"{"_id": 5}"#, r#"{"$set": {"a": 5005}}"#, false, false);
    assert_eq!((same.matched, same.modified), (1, 0));
    let one = fixture.update(
        r#"{"a": {"$gt": 6000}}"#,
        r#"{"$set": {"b": 1}}"#,
        false,
        false,
    );
    assert_eq!((one.matched, one.modified), (1, 1));
    assert_eq!(fixture.delete(r#"{"b": 1}"#, true), 1);
    assert_eq!(fixture.delete(r#"{"a": {"$gt": 0}}"#, false), 1);
    assert_eq!(fixture.delete("{}", true), 1998);
}

#[test]
fn upserts_insert_once() {
    let fixture = with(&[]);
    let first = fixture.update(
        r#"{"_id": 4, "k": "x"}"#,
        r#"{"$inc": {"n": 1}}"#,
        false,
        true,
    );
    assert_eq!(first.upserted, Some(Value::from(4)));
    let second = fixture.update(r#"{"_id": 4}"#, r#"{"$inc": {"n": 1}}"#, false, true);
    assert_eq!((second.matched, second.upserted), (1, None));
    assert_eq!(fixture.find("{}"), [r#"{"_id":4,"k":"x","n":2}"#]);
}

#[test]
fn racing_upserts_of_one_key_make_one_document() {
    let fixture = with(&[]);
    fixture.index(r#"{"key": {"k": 1}, "name": "k_1", "unique": true}"#);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for key in 0..50 {
                    fixture.update(
                        &format!(r#"{{"k": {key}}}"#),
                        r#"{"$inc": {"n": 1}}"#,
                        false,
                        true,
                    );
                }
            });
        }
    });
    assert_eq!(fixture.find(r#"{"n": 4}"#).len(), 50);
    assert_eq!(fixture.find("{}").len(), 50);
}

#[test]
fn find_and_modify_takes_the_first_in_order() {
    let fixture = with(&[
        r#"{"_id": 1, "p": 2}"#,
        r#"{"_id": 2, "p": 9}"#,
        r#"{"_id": 3, "p": 5}"#,
    ]);
    let run = |filter: &str, update: Option<&str>, returns_new: bool, is_upsert: bool| {
        let (filter, sort, update) = (json(filter), doc! {"p": (-1)}, update.map(json));
        let fields = doc! {"_id": 0};
        let mut request = FindAndModifyRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        request.sort = Some(sort.as_raw());
        request.projection = Some(fields.as_raw());
        request.update = update
            .as_ref()
            .map(|update| RawValue::Document(update.as_raw()));
        (request.returns_new, request.is_upsert) = (returns_new, is_upsert);
        let outcome = exec::find_and_modify(
            &fixture.database,
            &fixture.operation,
            request,
            Level::Written,
        )
        .unwrap();
        let value = outcome.value.map(|value| extjson::relaxed(value.as_raw()));
        (outcome.matched, outcome.upserted, value)
    };
    let shown = |text: &str| Some(text.to_owned());
    assert_eq!(
        run("{}", Some(r#"{"$inc": {"p": -1}}"#), false, false),
        (true, None, shown(r#"{"p":9}"#))
    );
    assert_eq!(
        run("{}", Some(r#"{"$inc": {"p": -7}}"#), true, false),
        (true, None, shown(r#"{"p":1}"#))
    );
    assert_eq!(
        run("{}", None, false, false),
        (true, None, shown(r#"{"p":5}"#))
    );
    assert_eq!(
        run(r#"{"_id": 8}"#, None, false, false),
        (false, None, None)
    );
    assert_eq!(
        run(r#"{"_id": 8}"#, Some(r#"{"$set": {"p": 3}}"#), true, true),
        (false, Some(Value::from(8)), shown(r#"{"p":3}"#))
    );
    assert_eq!(fixture.find("{}").len(), 3);
}

#[test]
fn counts_distinct_values_and_pipelines() {
    let fixture = with(&[
        r#"{"_id": 1, "a": [1, 2], "b": {"c": 1}}"#,
        r#"{"_id": 2, "a": 2, "b": [{"c": 1}, {"c": 3}]}"#,
        r#"{"_id": 3, "a": 2.0}"#,
    ]);
    let count = |filter: &str, skip: u64, limit: Option<u64>| {
        let filter = json(filter);
        let request = CountRequest {
            filter: filter.as_raw(),
            skip,
            limit,
            ..CountRequest::new(&fixture.namespace)
        };
        exec::count(&fixture.database, &fixture.operation, request).unwrap()
    };
    assert_eq!(
        [
            count("{}", 0, None),
            count("{}", 1, Some(1)),
            count(r#"{"a": 2}"#, 0, None),
            count(r#"{"a": 2}"#, 2, None)
        ],
        [3, 1, 3, 1]
    );
    assert_eq!(count(r#"{"a": 2}"#, 0, Some(2)), 2);
    let distinct = |key: &str| {
        let request = DistinctRequest::new(&fixture.namespace, key);
        exec::distinct(&fixture.database, &fixture.operation, request).unwrap()
    };
    assert_eq!(distinct("a"), [1, 2].map(Value::from));
    assert_eq!(distinct("b.c"), [1, 3].map(Value::from));
    let aggregate = |stages: &str| {
        let pipeline = json(&format!(r#"{{"p": {stages}}}"#));
        let request = AggregateRequest::new(
            &fixture.namespace,
            pipeline.as_raw().get_array("p").unwrap(),
        );
        fixture.drain(exec::aggregate(&fixture.database, &fixture.operation, request).unwrap())
    };
    assert_eq!(
        aggregate(r#"[{"$match": {"_id": {"$gt": 1}}}, {"$count": "n"}]"#),
        [r#"{"n":2}"#]
    );
    assert_eq!(
        aggregate(
            r#"[{"$match": {"_id": 3}}, {"$lookup": {"from": "c", "localField": "a", "foreignField": "a", "as": "x"}}, {"$project": {"x._id": 1}}]"#
        ),
        [r#"{"_id":3,"x":[{"_id":1},{"_id":2},{"_id":3}]}"#]
    );
}

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
            let executor = exec::find(&fixture.database, &fixture.operation, request).unwrap();
            assert_eq!(fixture.drain(executor).len(), 1, "{filter} by {pattern}");
        }
    }
}

fn scalar() -> BoxedStrategy<String> {
    prop_oneof![
        12 => (0i32..3).prop_map(|n| n.to_string()),
        1 => (0i32..2).prop_map(|n| format!("{n}.5")),
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

fn document() -> BoxedStrategy<String> {
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

fn condition() -> BoxedStrategy<String> {
    let op = prop_oneof![
        Just("$eq"),
        Just("$gt"),
        Just("$gte"),
        Just("$lt"),
        Just("$lte"),
        Just("$ne")
    ];
    let with_array = prop_oneof![6 => scalar(), 1 => value()];
    let simple = (path(), op.clone(), with_array)
        .prop_map(|(path, op, value)| format!(r#"{{"{path}": {{"{op}": {value}}}}}"#));
    let both = (path(), op.clone(), scalar(), op, scalar())
        .prop_filter("two operators", |(_, a, _, b, _)| a != b)
        .prop_map(|(path, a, x, b, y)| format!(r#"{{"{path}": {{"{a}": {x}, "{b}": {y}}}}}"#));
    let list = (path(), proptest::collection::vec(scalar(), 0..4))
        .prop_map(|(path, list)| format!(r#"{{"{path}": {{"$in": [{}]}}}}"#, list.join(",")));
    let regex = (
        path(),
        prop_oneof![Just("^a"), Just("^ab*"), Just("b"), Just("^")],
    )
        .prop_map(|(path, regex)| format!(r#"{{"{path}": {{"$regex": "{regex}"}}}}"#));
    let exists = (path(), any::<bool>())
        .prop_map(|(path, exists)| format!(r#"{{"{path}": {{"$exists": {exists}}}}}"#));
    prop_oneof![4 => simple, 2 => both, 2 => list, 1 => regex, 1 => exists].boxed()
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

fn filter() -> BoxedStrategy<String> {
    prop_oneof![
        2 => equalities(),
        2 => condition(),
        3 => proptest::collection::vec(condition(), 1..4).prop_map(|all| format!(r#"{{"$and": [{}]}}"#, all.join(","))),
        1 => proptest::collection::vec(condition(), 1..3).prop_map(|any| format!(r#"{{"$or": [{}]}}"#, any.join(","))),
    ]
    .boxed()
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
        let patterns = [r#"{"a": 1}"#, r#"{"a.b": 1, "a.c": -1}"#, r#"{"d": -1, "a.b": 1}"#, r#"{"a.0": 1}"#, r#"{"d": 1}"#];
        for pattern in patterns {
            fixture.index(&format!(r#"{{"key": {pattern}}}"#));
        }
        fixture.index(r#"{"key": {"d": 1, "a": 1}, "name": "sparse", "sparse": true}"#);
        for filter in &filters {
            let natural = Value::from(doc! {"$natural": 1});
            let raw = json(filter);
            let find = |hint: Option<RawValue<'_>>| {
                let mut request = FindRequest::new(&fixture.namespace);
                request.filter = raw.as_raw();
                request.hint = hint;
                let mut found = fixture.drain(exec::find(&fixture.database, &fixture.operation, request).unwrap());
                found.sort();
                found
            };
            let wanted = find(Some(natural.as_raw()));
            prop_assert_eq!(&find(None), &wanted, "{} by {}", filter, fixture.plan(filter, None));
            for pattern in patterns {
                let hint = Value::from(json(pattern));
                prop_assert_eq!(&find(Some(hint.as_raw())), &wanted, "{} by {}", filter, pattern);
            }
            for sort in [r#"{"d": 1}"#, r#"{"d": -1, "a": 1}"#, r#"{"_id": -1}"#] {
                let sort_by = json(sort);
                let mut request = FindRequest::new(&fixture.namespace);
                request.filter = raw.as_raw();
                request.sort = Some(sort_by.as_raw());
                let executor = exec::find(&fixture.database, &fixture.operation, request);
                // Two arrays side by side have no order.
                let Ok(executor) = executor else { continue };
                let found = fixture.drain(executor);
                prop_assert_eq!(found.len(), wanted.len());
                let pattern = quarry_query::sort::SortPattern::parse(sort_by.as_raw()).unwrap();
                for pair in found.windows(2) {
                    let (a, b) = (json(&pair[0]), json(&pair[1]));
                    prop_assert!(pattern.compare(a.as_raw(), b.as_raw()).unwrap().is_le(), "{} by {}", filter, sort);
                }
            }
        }
    }
}
