//! Stages that run pipelines over other collections: which documents they give, that indexes serve them, and that a read that
//! stays open between two batches goes on where it was.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use quarry_bson::{Document, doc};
use quarry_database::{Database, Level, Namespace, Operation};
use quarry_query::exec::{self, AggregateRequest, Executor, InsertRequest, Over};
use quarry_query::expression::ExpressionContext;
use quarry_query::matcher::FILTER_DEPTH_MAX;
use quarry_query::pipeline::{Collections, Pipeline, ReadId, Run, Source, SubFind};

use crate::{Fixture, json, with_documents};

fn other() -> Namespace {
    Namespace::parse("db.other").unwrap()
}

fn insert(fixture: &Fixture, namespace: &Namespace, documents: &[Document]) {
    let raw: Vec<_> = documents.iter().map(Document::as_raw).collect();
    let request = InsertRequest::new(namespace, &raw);
    let outcome = exec::insert(
        (&fixture.database).into(),
        &fixture.operation,
        request,
        Level::Written,
    );
    assert!(outcome.unwrap().errors.is_empty());
}

fn index(fixture: &Fixture, namespace: &Namespace, spec: &str) {
    let database: &Database = &fixture.database;
    database
        .create_indexes(namespace, &[json(spec)], &fixture.operation, Level::Written)
        .unwrap();
}

fn open(fixture: &Fixture, stages: &str) -> Executor {
    let pipeline = json(&format!(r#"{{"p": {stages}}}"#));
    let stages = pipeline.as_raw().get_array("p").unwrap();
    let request = AggregateRequest::new(Over::Collection(&fixture.namespace), stages);
    exec::aggregate((&fixture.database).into(), &fixture.operation, request).unwrap()
}

/// `db.c` with these documents, and `db.other` with those.
fn two(documents: &[Document], others: &[Document]) -> Fixture {
    let fixture = with_documents(documents);
    insert(&fixture, &other(), others);
    fixture
}

#[test]
fn an_index_serves_the_other_side() {
    let few: Vec<Document> = (0..5).map(|n| doc! { "_id": n, "k": (n * 10) }).collect();
    let many: Vec<Document> = (0..500)
        .map(|n| doc! { "_id": n, "k": n, "up": (n / 2) })
        .collect();
    let fixture = two(&few, &many);
    index(&fixture, &other(), r#"{"key": {"k": 1}, "name": "k_1"}"#);
    for (stage, examined) in [
        (
            r#"{"$lookup": {"from": "other", "localField": "k", "foreignField": "k", "as": "x"}}"#,
            5,
        ),
        (
            r#"{"$lookup": {"from": "other", "localField": "k", "foreignField": "_id", "as": "x"}}"#,
            5,
        ),
        (
            r#"{"$lookup": {"from": "other", "let": {"k": "$k"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$k", "$$k"]}}}], "as": "x"}}"#,
            5,
        ),
        (
            r#"{"$lookup": {"from": "other", "localField": "k", "foreignField": "k", "pipeline": [{"$match": {"up": {"$gte": 0}}}], "as": "x"}}"#,
            5,
        ),
        // Nothing of the document goes into the pipeline, so that it is run once.
        (
            r#"{"$lookup": {"from": "other", "pipeline": [{"$match": {"k": 3}}], "as": "x"}}"#,
            1,
        ),
        (
            r#"{"$graphLookup": {"from": "other", "startWith": "$k", "connectFromField": "up", "connectToField": "k", "maxDepth": 1, "as": "x"}}"#,
            9,
        ),
        (
            r#"{"$unionWith": {"coll": "other", "pipeline": [{"$match": {"k": {"$lt": 2}}}]}}"#,
            2,
        ),
    ] {
        let examined_before = fixture.operation.docs_examined.load(Relaxed);
        let executor = open(&fixture, &format!("[{stage}]"));
        let found = fixture.drain(executor);
        assert!(found.len() >= 5, "{stage}");
        let here = fixture.operation.docs_examined.load(Relaxed) - examined_before;
        assert_eq!(here, 5 + examined, "{stage}");
    }
}

/// A pipeline that reads `$$k` behind a stage that gathers, and the same with a first stage that reads it as well.
const HELD_AND_NOT: [(&str, &str); 4] = [
    (
        r#"{"$group": {"_id": {"$mod": ["$k", 10]}, "n": {"$sum": "$up"}}}, {"$match": {"$expr": {"$eq": ["$_id", "$$k"]}}}"#,
        r#"[]"#,
    ),
    (
        r#"{"$sort": {"up": -1}}, {"$limit": 20}, {"$addFields": {"d": {"$subtract": ["$k", "$$k"]}}}, {"$match": {"d": {"$gt": 3}}}"#,
        r#"[]"#,
    ),
    (
        r#"{"$match": {"k": {"$lt": 50}}}, {"$sortByCount": "$up"}, {"$limit": 3}, {"$set": {"k": "$$k.a"}}"#,
        r#"{"$unwind": "$x"}"#,
    ),
    (
        r#"{"$count": "n"}, {"$set": {"k": "$$k"}}"#,
        r#"{"$unwind": {"path": "$x", "includeArrayIndex": "i"}}"#,
    ),
];

#[test]
fn stages_into_which_nothing_of_the_document_goes_run_once() {
    let few: Vec<Document> = (0..5).map(|n| doc! { "_id": n, "k": n }).collect();
    let many: Vec<Document> = (0..500)
        .map(|n| doc! { "_id": n, "k": n, "up": (n / 2) })
        .collect();
    let fixture = two(&few, &many);
    let run = |pipeline: &str, behind: &str| {
        let lookup = format!(
            r#"{{"$lookup": {{"from": "other", "let": {{"k": "$k"}}, "pipeline": [{pipeline}], "as": "x"}}}}"#
        );
        let behind = behind.strip_prefix("[]").unwrap_or(behind);
        let comma = if behind.is_empty() { "" } else { ", " };
        let before = fixture.operation.docs_examined.load(Relaxed);
        let executor = open(&fixture, &format!("[{lookup}{comma}{behind}]"));
        let found = fixture.drain(executor);
        (
            found,
            fixture.operation.docs_examined.load(Relaxed) - before,
        )
    };
    for (pipeline, behind) in HELD_AND_NOT {
        let named = format!(r#"{{"$match": {{"$expr": {{"$eq": ["$$k", "$$k"]}}}}}}, {pipeline}"#);
        let (held, examined_once) = run(pipeline, behind);
        let (run_again, examined_again) = run(&named, behind);
        assert_eq!(held, run_again, "{pipeline}");
        assert!(held.len() >= 5, "{pipeline}");
        assert_eq!(examined_again - 5, 5 * (examined_once - 5), "{pipeline}");
    }
}

#[test]
fn a_prefix_that_draws_lots_or_may_be_asked_of_an_index_is_not_held() {
    let few: Vec<Document> = (0..5).map(|n| doc! { "_id": n, "k": n }).collect();
    let many: Vec<Document> = (0..500).map(|n| doc! { "_id": n, "k": n }).collect();
    let fixture = two(&few, &many);
    index(&fixture, &other(), r#"{"key": {"k": 1}, "name": "k_1"}"#);
    for (pipeline, examined) in [
        // The filter goes to the index, over the stage that makes a field.
        (
            r#"{"$set": {"b": 1}}, {"$match": {"$expr": {"$eq": ["$k", "$$k"]}}}"#,
            5,
        ),
        (
            r#"{"$match": {"$expr": {"$lt": [{"$rand": {}}, 2]}}}, {"$count": "n"}, {"$set": {"k": "$$k"}}"#,
            5 * 500,
        ),
    ] {
        let before = fixture.operation.docs_examined.load(Relaxed);
        let stage = format!(
            r#"[{{"$lookup": {{"from": "other", "let": {{"k": "$k"}}, "pipeline": [{pipeline}], "as": "x"}}}}]"#
        );
        let found = fixture.drain(open(&fixture, &stage));
        assert_eq!(found.len(), 5, "{pipeline}");
        let here = fixture.operation.docs_examined.load(Relaxed) - before;
        assert_eq!(here, 5 + examined, "{pipeline}");
    }
}

#[test]
fn a_union_goes_on_where_its_batch_ended() {
    let few: Vec<Document> = (0..3).map(|n| doc! { "_id": n }).collect();
    let others: Vec<Document> = (100..140).map(|n| doc! { "_id": n, "v": n }).collect();
    let stages = r#"[{"$unionWith": {"coll": "other", "pipeline": [{"$match": {"v": {"$gte": 0}}}, {"$unset": "v"}]}}]"#;
    let fixture = two(&few, &others);
    let (mut executor, mut document) = (open(&fixture, stages), Vec::new());
    let mut found = Vec::new();
    while executor.next(&fixture.operation, &mut document).unwrap() {
        let id = json_id(&document);
        document.clear();
        found.push(id);
        executor.save(&fixture.operation).unwrap();
        // What a batch has read ahead and not handed out is not shown once it is gone.
        if id == 110 {
            let (namespace, filter) = (other(), doc! { "_id": 112 });
            let request = exec::DeleteRequest {
                namespace: &namespace,
                context: None,
                collation: None,
                filter: filter.as_raw(),
                is_multi: false,
                hint: None,
            };
            exec::delete(
                (&fixture.database).into(),
                &fixture.operation,
                request,
                Level::Written,
            )
            .unwrap();
        }
        executor
            .restore((&fixture.database).into(), &fixture.operation)
            .unwrap();
    }
    let wanted = (0..3).chain(100..140).filter(|id| *id != 112);
    assert_eq!(found, wanted.collect::<Vec<i32>>());
}

fn json_id(document: &[u8]) -> i32 {
    let document = quarry_bson::RawDocument::new(document).unwrap();
    document.get_i32("_id").unwrap()
}

#[test]
fn a_union_ends_when_its_collection_is_dropped() {
    let others: Vec<Document> = (0..10).map(|n| doc! { "_id": n }).collect();
    let fixture = two(&[doc! { "_id": 0 }], &others);
    let (mut executor, mut document) = (open(&fixture, r#"[{"$unionWith": "other"}]"#), Vec::new());
    for _ in 0..3 {
        document.clear();
        assert!(executor.next(&fixture.operation, &mut document).unwrap());
    }
    executor.save(&fixture.operation).unwrap();
    fixture
        .database
        .drop_collection(&other(), &fixture.operation, Level::Written)
        .unwrap();
    insert(&fixture, &other(), &others);
    let error = executor.restore((&fixture.database).into(), &Operation::new(None));
    assert_eq!(error.unwrap_err().code(), 175);
}

/// A key of either side: numbers that are equal across types, texts, null, a missing one, lists.
fn key() -> impl Strategy<Value = String> {
    let single = prop_oneof![
        (0..4_i32).prop_map(|n| n.to_string()),
        (0..4_i32).prop_map(|n| format!("{{\"$numberLong\": \"{n}\"}}")),
        (0..4_i32).prop_map(|n| format!("{n}.0")),
        "[ab]".prop_map(|text| format!("\"{text}\"")),
        Just("null".to_owned()),
        Just("{\"$regularExpression\": {\"pattern\": \"a\", \"options\": \"\"}}".to_owned()),
        Just("{\"b\": 1}".to_owned()),
    ];
    let several = prop::collection::vec(single.clone(), 0..3);
    prop_oneof![
        5 => single.prop_map(|key| format!("\"k\": {key}")),
        1 => several.prop_map(|keys| format!("\"k\": [{}]", keys.join(", "))),
        1 => Just("\"n\": 0".to_owned()),
    ]
}

fn documents() -> impl Strategy<Value = Vec<Document>> {
    prop::collection::vec(key(), 1..8).prop_map(|keys| {
        let numbered = keys.iter().enumerate();
        numbered
            .map(|(id, key)| json(&format!("{{\"_id\": {id}, {key}}}")))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An index changes how the other side is read, and never what is found: by a field, and by an expression, of which a
    /// collection without an index asks every document.
    #[test]
    fn an_index_changes_no_lookup(locals in documents(), others in documents()) {
        let plain = two(&locals, &others);
        let indexed = two(&locals, &others);
        index(&indexed, &other(), r#"{"key": {"k": 1}, "name": "k_1"}"#);
        let sorted = r#"{"$sort": {"_id": 1}}"#;
        for options in [
            format!(r#""localField": "k", "foreignField": "k", "pipeline": [{sorted}]"#),
            format!(r#""let": {{"k": "$k"}}, "pipeline": [{{"$match": {{"$expr": {{"$eq": ["$k", "$$k"]}}}}}}, {sorted}]"#),
            format!(r#""let": {{"k": "$k"}}, "pipeline": [{{"$match": {{"$expr": {{"$and": [{{"$eq": ["$$k", "$k"]}}, {{"$gte": ["$_id", 1]}}]}}}}}}, {sorted}]"#),
        ] {
            let stages = format!(r#"[{{"$lookup": {{"from": "other", {options}, "as": "x"}}}}]"#);
            let [without, with] = [&plain, &indexed].map(|fixture| fixture.drain(open(fixture, &stages)));
            prop_assert_eq!(without, with, "{}", stages);
        }
        // What the condition implies is left out here: the expression alone says which documents there are.
        let implied = r#"[{"$lookup": {"from": "other", "let": {"k": "$k"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$k", "$$k"]}}}, {"$sort": {"_id": 1}}], "as": "x"}}]"#;
        let alone = r#"[{"$lookup": {"from": "other", "let": {"k": "$k"}, "pipeline": [{"$addFields": {"same": {"$eq": ["$k", "$$k"]}}}, {"$match": {"same": true}}, {"$unset": "same"}, {"$sort": {"_id": 1}}], "as": "x"}}]"#;
        prop_assert_eq!(indexed.drain(open(&indexed, implied)), indexed.drain(open(&indexed, alone)));
    }
}

/// Every collection holds documents without end; the reads that are open are counted.
#[derive(Default)]
struct Endless {
    open: usize,
    open_most: usize,
    /// How many documents each read that was opened may still give.
    left: Vec<u64>,
}

impl Collections for Endless {
    fn open(&mut self, _: &str, find: SubFind<'_>) -> quarry_query::Result<ReadId> {
        self.open += 1;
        self.open_most = self.open_most.max(self.open);
        self.left.push(find.limit.unwrap_or(u64::MAX));
        Ok(ReadId(self.left.len() - 1))
    }

    fn next(&mut self, read: ReadId, out: &mut Vec<u8>) -> quarry_query::Result<bool> {
        let Some(left) = self.left[read.0].checked_sub(1) else {
            return Ok(false);
        };
        self.left[read.0] = left;
        out.extend_from_slice(doc! { "_id": 1 }.as_bytes());
        Ok(true)
    }

    fn close(&mut self, _: ReadId) {
        self.open -= 1;
    }
}

/// Documents, numbered downwards, of which this many are left.
struct Numbered(i32);

impl Source for Numbered {
    fn next(&mut self, out: &mut Vec<u8>) -> quarry_query::Result<bool> {
        self.0 -= 1;
        out.extend_from_slice(doc! { "_id": (self.0), "a": (self.0) }.as_bytes());
        Ok(self.0 >= 0)
    }
}

#[test]
fn a_document_leaves_no_read_open_behind_it() {
    const DOCUMENTS: i32 = 1000;
    let union = r#"{"$limit": 1}, {"$unionWith": {"coll": "y", "pipeline": [{"$limit": 9}, {"$unionWith": "z"}]}}"#;
    for (inner, open_most) in [
        (format!(r#"{union}, {{"$limit": 2}}"#), 2),
        (format!(r#"{union}, {{"$limit": 11}}"#), 3),
        (format!(r#"{union}, {union}, {{"$limit": 2}}"#), 3),
        (
            format!(
                r#"{{"$limit": 3}}, {{"$facet": {{"f": [{union}, {{"$limit": 2}}], "g": [{union}, {{"$limit": 3}}]}}}}"#
            ),
            2,
        ),
        (
            format!(
                r#"{{"$limit": 2}}, {{"$lookup": {{"from": "w", "pipeline": [{union}, {{"$limit": 2}}], "as": "i"}}}}"#
            ),
            3,
        ),
    ] {
        let text = format!(
            r#"{{"p": [{{"$lookup": {{"from": "x", "let": {{"a": "$a"}}, "pipeline": [{{"$set": {{"a": "$$a"}}}}, {inner}], "as": "r"}}}}]}}"#
        );
        let stages = json(&text);
        let stages = stages.as_raw().get_array("p").unwrap();
        let pipeline = Pipeline::parse(stages, &ExpressionContext::default()).unwrap();
        let (mut execution, mut collections) = (pipeline.start(), Endless::default());
        let (mut input, mut out) = (Numbered(DOCUMENTS), Vec::new());
        for _ in 0..DOCUMENTS {
            let mut run = Run::new(&mut input, &mut collections);
            assert!(execution.next(&mut run, &mut out).unwrap(), "{inner}");
            assert_eq!(collections.open, 0, "{inner}");
        }
        assert!(collections.open_most <= open_most, "{inner}");
        assert!(collections.left.len() >= 2 * DOCUMENTS as usize, "{inner}");
    }
}

#[test]
fn filters_that_meet_may_each_be_as_deep_as_one_alone() {
    let mut condition = doc! { "$gt": 1 };
    for _ in 0..FILTER_DEPTH_MAX {
        condition = doc! { "$not": (condition) };
    }
    let deep = doc! { "$match": { "v": (condition) } };
    let other = doc! { "$match": { "$or": [{ "v": 2 }, { "v": 3 }] } };
    let documents: Vec<Document> = (0..4).map(|n| doc! { "_id": n, "v": n }).collect();
    let fixture = two(&documents, &documents);
    let lookup = doc! { "$lookup": {
        "from": "other", "localField": "v", "foreignField": "v", "pipeline": [(deep.clone())], "as": "x"
    } };
    let count = |stages: Document| {
        let request = AggregateRequest::new(
            Over::Collection(&fixture.namespace),
            stages.as_raw().get_array("p").unwrap(),
        );
        let database = (&fixture.database).into();
        let executor = exec::aggregate(database, &fixture.operation, request).unwrap();
        fixture.drain(executor).len()
    };
    let both = doc! { "p": [(deep.clone()), (other.clone()), (deep.clone())] };
    assert_eq!(count(both), 2);
    let not_found = doc! { "$match": { "x": [] } };
    assert_eq!(count(doc! { "p": [(lookup), (not_found)] }), 2);
}
