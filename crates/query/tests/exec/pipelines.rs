//! Pipelines over collections: what the planner, the sub-pipelines and the batches make of them is what their stages give one by one.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use quarry_bson::{Document, RawDocument, doc};
use quarry_database::{Level, Namespace};
use quarry_query::exec::{self, AggregateRequest, Explained, InsertRequest, Over, Verbosity};

use crate::random_pipeline::{documents, listed_documents, results_of_each, stages};
use crate::{Fixture, aggregated, json, with_documents};

fn numbered(documents: Vec<Document>) -> Vec<Document> {
    let numbered = documents.into_iter().enumerate();
    numbered
        .map(|(number, document)| {
            let mut with_id = doc! { "_id": (number as i32) };
            for element in &document {
                with_id.append_element(element);
            }
            with_id
        })
        .collect()
}

fn insert_other(fixture: &Fixture, documents: &[Document]) {
    let namespace = Namespace::parse("db.other").unwrap();
    let raw: Vec<_> = documents.iter().map(Document::as_raw).collect();
    let request = InsertRequest::new(&namespace, &raw);
    let scope = (&fixture.database).into();
    exec::insert(scope, &fixture.operation, request, Level::Written).unwrap();
}

/// The results, with the cursor put aside behind every `batch` of them.
fn results(
    fixture: &Fixture,
    stages: &[String],
    batch: usize,
) -> quarry_query::Result<Vec<Document>> {
    let pipeline = json(&format!(r#"{{"p": [{}]}}"#, stages.join(", ")));
    let stages = pipeline.as_raw().get_array("p").unwrap();
    let request = AggregateRequest::new(Over::Collection(&fixture.namespace), stages);
    let mut executor = exec::aggregate((&fixture.database).into(), &fixture.operation, request)?;
    let (mut found, mut document) = (Vec::new(), Vec::new());
    while executor.next(&fixture.operation, &mut document)? {
        found.push(
            RawDocument::validated(&document)
                .unwrap()
                .to_owned_document(),
        );
        document.clear();
        if found.len() % batch == 0 {
            executor.save(&fixture.operation)?;
            executor.restore((&fixture.database).into(), &fixture.operation)?;
        }
    }
    Ok(found)
}

/// The filter of the cursor, and the stages behind it, as explain prints them.
fn explained(fixture: &Fixture, stages: &str) -> (String, Vec<String>) {
    let pipeline = json(&format!(r#"{{"p": [{stages}]}}"#));
    let stages = pipeline.as_raw().get_array("p").unwrap();
    let request = AggregateRequest::new(Over::Collection(&fixture.namespace), stages);
    let reply = fixture.explained_with(Explained::Aggregate(request), Verbosity::QueryPlanner);
    let stages = reply.as_raw().get_array("stages").unwrap();
    let shown = stages.iter().skip(1).map(|stage| stage.to_string());
    let filter = (reply.as_raw()).get_path("stages.0.$cursor.queryPlanner.parsedQuery");
    (filter.unwrap().to_string(), shown.collect())
}

#[test]
fn explain_counts_what_each_stage_gives() {
    let numbered: Vec<Document> = (0..20).map(|n| doc! { "_id": n, "a": (n % 4) }).collect();
    let fixture = with_documents(&numbered);
    let pipeline = json(
        r#"{"p": [{"$match": {"_id": {"$lt": 12}}}, {"$addFields": {"l": [1, 2]}}, {"$unwind": "$l"},
            {"$group": {"_id": "$a"}}, {"$sort": {"_id": 1}}, {"$limit": 3}, {"$skip": 1}]}"#,
    );
    let explained = |verbosity| {
        let stages = pipeline.as_raw().get_array("p").unwrap();
        let request = AggregateRequest::new(Over::Collection(&fixture.namespace), stages);
        fixture.explained_with(Explained::Aggregate(request), verbosity)
    };
    let returned = |reply: &Document| -> Vec<(String, Option<i64>)> {
        let stages = reply.as_raw().get_array("stages").unwrap();
        let shown = stages.iter().skip(1).map(|stage| {
            let stage = stage.as_document().unwrap();
            let name = stage.first().unwrap().name().to_string_lossy().into_owned();
            (name, stage.get_i64("nReturned"))
        });
        shown.collect()
    };
    let examined = || fixture.operation.docs_examined.load(Relaxed);
    let before = examined();
    let reply = explained(Verbosity::ExecutionStats);
    let told = reply.get_path("stages.0.$cursor.executionStats.totalDocsExamined");
    assert_eq!(told.unwrap().as_i64_exact(), Some(12), "{reply}");
    assert_eq!(examined() - before, 12, "the read is run once");
    let counted = [
        ("$addFields", 12),
        ("$unwind", 24),
        ("$group", 4),
        ("$sort", 3),
        ("$skip", 2),
    ];
    let counted = counted.map(|(name, count)| (name.to_owned(), Some(count)));
    assert_eq!(returned(&reply), counted, "{reply}");
    assert_eq!(reply.get_str("explainVersion"), Some("1"));
    let planned = explained(Verbosity::QueryPlanner);
    assert!(
        returned(&planned).iter().all(|(_, count)| count.is_none()),
        "{planned}"
    );
}

#[test]
fn a_pipeline_of_very_many_stages_can_be_explained_as_it_runs() {
    let fixture = with_documents(&[doc! { "_id": 1 }]);
    let stage = r#"{"$addFields": {"a": {"$add": ["$_id", 1]}}}, {"$unwind": "$a"}"#;
    let pipeline = json(&format!(r#"{{"p": [{}]}}"#, vec![stage; 500].join(", ")));
    let stages = pipeline.as_raw().get_array("p").unwrap();
    let request = AggregateRequest::new(Over::Collection(&fixture.namespace), stages);
    let reply = fixture.explained_with(Explained::Aggregate(request), Verbosity::ExecutionStats);
    let last = reply.as_raw().get_path("stages.1000.nReturned");
    assert_eq!(last.and_then(|count| count.as_i64_exact()), Some(1));
}

#[test]
fn explain_shows_the_stages_as_they_run() {
    let fixture = with_documents(&[doc! { "_id": 1 }]);
    let lookup =
        r#"{"$lookup": {"from": "other", "localField": "k", "foreignField": "k", "as": "o"}}"#;
    let looked_up = "from: 'other', as: 'o', localField: 'k', foreignField: 'k'";
    for (stages, filter, shown) in [
        (
            format!(r#"{lookup}, {{"$unwind": "$o"}}"#),
            "{}",
            vec![format!("{{ $lookup: {{ {looked_up}, unwinding: {{ preserveNullAndEmptyArrays: false }} }} }}")],
        ),
        // What is asked of the other collection goes there, what is asked of this one to the head, and the rest stays.
        (
            format!(
                r#"{lookup}, {{"$unwind": "$o"}}, {{"$match": {{"o.v": 1, "a": 2, "$or": [{{"o.v": 3}}, {{"a": 3}}]}}}}"#
            ),
            "{ a: { $eq: 2 } }",
            vec![
                format!(
                    "{{ $lookup: {{ {looked_up}, let: {{}}, pipeline: [ {{ $match: {{ v: 1 }} }} ], unwinding: {{ preserveNullAndEmptyArrays: false }} }} }}"
                ),
                "{ $match: { $or: [ { 'o.v': 3 }, { a: 3 } ] } }".to_owned(),
            ],
        ),
        // Who stays without one is not left out by it.
        (
            format!(
                r#"{lookup}, {{"$unwind": {{"path": "$o", "preserveNullAndEmptyArrays": true}}}}, {{"$match": {{"o.v": 1}}}}"#
            ),
            "{}",
            vec![
                format!("{{ $lookup: {{ {looked_up}, unwinding: {{ preserveNullAndEmptyArrays: true }} }} }}"),
                "{ $match: { 'o.v': 1 } }".to_owned(),
            ],
        ),
        (
            r#"{"$unwind": "$l"}, {"$sort": {"v": 1}}, {"$skip": 1}, {"$skip": 2}, {"$limit": 9}, {"$limit": 5}"#.to_owned(),
            "{}",
            vec![
                "{ $unwind: { path: '$l' } }".to_owned(),
                "{ $sort: { sortKey: { v: 1 }, limit: Long('8') } }".to_owned(),
                "{ $skip: Long('3') }".to_owned(),
            ],
        ),
        (
            r#"{"$addFields": {"n": "$k"}}, {"$project": {"m": "$n", "v": 1}}, {"$match": {"m.x": {"$gt": 1}, "v": 2}}"#.to_owned(),
            "{ $and: [ { v: { $eq: 2 } }, { 'k.x': { $gt: 1 } } ] }",
            vec![],
        ),
    ] {
        let (found_filter, found) = explained(&fixture, &stages);
        assert_eq!(found_filter, filter, "{stages}");
        if !shown.is_empty() {
            assert_eq!(found, shown, "{stages}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_pipeline_over_a_collection_is_its_stages_one_after_the_other(
        input in listed_documents(),
        other in documents(),
        stages in stages(),
        batch in prop_oneof![Just(1_usize), 2..5_usize, Just(usize::MAX)],
    ) {
        let (input, other) = (numbered(input), numbered(other));
        let fixture = with_documents(&input);
        if !other.is_empty() {
            insert_other(&fixture, &other);
        }
        if let Ok(expected) = results_of_each(&stages, &input, &other) {
            let found = results(&fixture, &stages, batch);
            prop_assert_eq!(found.unwrap(), expected);
        }
    }

    /// The first document of each group, read of an index by a key a group, is that of a sort of all.
    #[test]
    fn an_index_gives_the_first_document_of_each_group(input in documents(), above in -6..5_i32) {
        let input = numbered(input);
        let fixture = with_documents(&input);
        fixture.index(r#"{"key": {"k": 1, "v": -1}}"#);
        for (filter, sort) in [
            ("{}".to_owned(), r#"{"k": 1, "v": -1}"#),
            (format!(r#"{{"k": {{"$gt": {above}}}}}"#), r#"{"k": 1, "v": -1}"#),
        ] {
            let stages = [
                format!(r#"{{"$match": {filter}}}"#),
                format!(r#"{{"$sort": {sort}}}"#),
                r#"{"$group": {"_id": "$k", "first": {"$first": "$$ROOT"}, "v": {"$first": "$v"}}}"#.to_owned(),
            ];
            let expected = results_of_each(&stages, &input, &[]).unwrap();
            prop_assert_eq!(results(&fixture, &stages, 2).unwrap(), expected);
        }
    }
}

/// Runs the stages, and tells how many documents that examined.
fn examined(fixture: &Fixture, stages: &str) -> (Vec<String>, u64) {
    let docs = || fixture.operation.docs_examined.load(Relaxed);
    let before = docs();
    let found = aggregated(fixture, &format!("[{stages}]")).unwrap();
    (found, docs() - before)
}

#[test]
fn a_filter_on_a_key_is_served_by_an_index() {
    let numbered: Vec<Document> = (0..200)
        .map(|n| doc! { "_id": n, "a": (n % 20), "b": (n % 3), "v": n })
        .collect();
    let fixture = with_documents(&numbered);
    fixture.index(r#"{"key": {"a": 1}}"#);
    for (stages, documents) in [
        (
            r#"{"$group": {"_id": "$a", "n": {"$sum": "$v"}}}, {"$match": {"_id": 3}}"#,
            1,
        ),
        (
            r#"{"$group": {"_id": {"x": "$a", "y": "$b"}, "n": {"$sum": "$v"}}}, {"$match": {"_id.x": 3}}"#,
            3,
        ),
        (
            r#"{"$setWindowFields": {"partitionBy": "$a", "sortBy": {"v": 1}, "output": {"n": {"$sum": "$v"}}}}, {"$match": {"a": 3}}"#,
            10,
        ),
        (r#"{"$redact": "$$KEEP"}, {"$match": {"a": 3}}"#, 10),
    ] {
        let (found, docs) = examined(&fixture, stages);
        assert_eq!((found.len(), docs), (documents, 10), "{stages}");
    }
}

#[test]
fn a_filter_behind_a_union_is_served_by_the_indexes_of_both_collections() {
    let numbered: Vec<Document> = (0..100).map(|n| doc! { "_id": n, "a": n }).collect();
    let fixture = with_documents(&numbered);
    insert_other(&fixture, &numbered);
    let stages = r#"{"$unionWith": "other"}, {"$match": {"_id": {"$in": [7, 8]}}}"#;
    let (found, docs) = examined(&fixture, stages);
    assert_eq!(found.len(), 4);
    assert_eq!(docs, 4, "two of each");
}

#[test]
fn the_first_of_an_order_are_looked_up_alone() {
    let numbered: Vec<Document> = (0..200).map(|n| doc! { "_id": n, "a": (n % 50) }).collect();
    let fixture = with_documents(&numbered);
    fixture.index(r#"{"key": {"a": 1}}"#);
    insert_other(&fixture, &numbered);
    let lookup =
        r#"{"$lookup": {"from": "other", "localField": "_id", "foreignField": "_id", "as": "o"}}"#;
    let set = r#"{"$set": {"x": {"$size": "$o"}}}"#;
    let stages =
        format!(r#"{lookup}, {set}, {{"$sort": {{"a": 1}}}}, {{"$skip": 2}}, {{"$limit": 3}}"#);
    let (found, docs) = examined(&fixture, &stages);
    let ids: Vec<i32> = (found.iter().map(|one| json(one).get_i32("_id").unwrap())).collect();
    assert_eq!(ids, [100, 150, 1], "equal documents keep their order");
    assert!(docs <= 5 + 3, "{docs} were examined");
}

#[test]
fn explain_counts_what_a_lookup_reads() {
    let numbered: Vec<Document> = (0..20).map(|n| doc! { "_id": n, "k": n, "u": n }).collect();
    let fixture = with_documents(&numbered[..4]);
    insert_other(&fixture, &numbered);
    let other = Namespace::parse("db.other").unwrap();
    let index = json(r#"{"key": {"k": 1}, "name": "k_1"}"#);
    let (database, operation) = (&fixture.database, &fixture.operation);
    database
        .create_indexes(&other, &[index], operation, Level::Written)
        .unwrap();
    let figures = |stages: &str, verbosity| -> Vec<String> {
        let pipeline = json(&format!(r#"{{"p": [{stages}]}}"#));
        let stages = pipeline.as_raw().get_array("p").unwrap();
        let request = AggregateRequest::new(Over::Collection(&fixture.namespace), stages);
        let reply = fixture.explained_with(Explained::Aggregate(request), verbosity);
        let stages = reply.as_raw().get_array("stages").unwrap();
        let lookups = stages.iter().filter_map(|stage| {
            let stage = stage.as_document().unwrap();
            stage.get("$lookup")?;
            let shown = stage
                .iter()
                .skip(1)
                .filter(|one| one.name() != "executionTimeMillisEstimate");
            let shown = shown.map(|one| format!("{}: {}", one.name(), one.value()));
            Some(shown.collect::<Vec<_>>().join(", "))
        });
        lookups.collect()
    };
    let by = |local: &str, foreign: &str, output: &str| {
        format!(
            r#"{{"$lookup": {{"from": "other", "localField": "{local}", "foreignField": "{foreign}", "as": "{output}"}}}}"#
        )
    };
    let told = |docs: i32, keys: i32, scans: i32, indexes: &str, returned: i32| {
        format!(
            "totalDocsExamined: Long('{docs}'), totalKeysExamined: Long('{keys}'), collectionScans: Long('{scans}'), \
             indexesUsed: [{indexes}], nReturned: Long('{returned}')"
        )
    };
    let (indexed, scanned) = (by("_id", "k", "o"), by("_id", "u", "p"));
    let unwound =
        format!(r#"{indexed}, {{"$unwind": "$o"}}, {scanned}, {{"$group": {{"_id": 1}}}}"#);
    let nested = r#"{"$lookup": {"from": "other", "let": {"k": "$_id"}, "as": "o", "pipeline": [
        {"$match": {"$expr": {"$eq": ["$k", "$$k"]}}},
        {"$lookup": {"from": "other", "localField": "k", "foreignField": "_id", "as": "p"}}]}}"#;
    for (stages, expected) in [
        (indexed.clone(), vec![told(4, 4, 0, " 'k_1' ", 4)]),
        (scanned.clone(), vec![told(80, 0, 4, "", 4)]),
        (
            unwound,
            vec![told(4, 4, 0, " 'k_1' ", 4), told(80, 0, 4, "", 4)],
        ),
        (nested.to_owned(), vec![told(8, 8, 0, " '_id_', 'k_1' ", 4)]),
    ] {
        let found = figures(&stages, Verbosity::ExecutionStats);
        assert_eq!(found, expected, "{stages}");
        let planned = figures(&stages, Verbosity::QueryPlanner);
        assert!(planned.iter().all(String::is_empty), "{planned:?}");
    }
}

#[test]
fn a_sort_does_not_pass_what_reads_metadata() {
    let fixture = crate::with(&[
        r#"{"_id": 1, "t": "x y", "a": 3}"#,
        r#"{"_id": 2, "t": "x x x", "a": 2}"#,
        r#"{"_id": 3, "t": "x", "a": 1}"#,
    ]);
    fixture.index(r#"{"key": {"t": "text"}, "name": "t"}"#);
    let stages = [r#"{"$match": {"$text": {"$search": "x"}}}, {"$limit": 100},
        {"$set": {"s": {"$meta": "textScore"}}}, {"$sort": {"a": 1}}, {"$limit": 2}"#
        .to_owned()];
    let found = results(&fixture, &stages, usize::MAX).unwrap();
    let ids: Vec<i32> = found
        .iter()
        .map(|one| one.get_i32("_id").unwrap())
        .collect();
    assert_eq!(ids, [3, 2]);
    assert!(found.iter().all(|one| one.get("s").is_some()), "{found:?}");
}

/// Nesting does not multiply the work that a request of a few kilobytes asks for, and neither does length.
#[test]
fn moved_filters_do_not_multiply_the_work_of_reading_a_pipeline() {
    let fixture = crate::with(&[r#"{"_id": 1, "a": 1}"#]);
    let mut nested = String::new();
    for level in 0..19 {
        nested = format!(
            r#"{{"$unionWith": {{"coll": "other", "pipeline": [{nested}]}}}}, {{"$match": {{"a": {{"$gte": -{level}}}}}}}"#
        );
    }
    let members: Vec<String> = (0..4000).map(|n| format!(r#""k{n}": "$a{n}""#)).collect();
    let asked: Vec<String> = (0..4000)
        .map(|n| format!(r#""_id.k{n}": {{"$lt": 5}}"#))
        .collect();
    let gathered = format!(
        r#"{{"$group": {{"_id": {{{}}}}}}}, {{"$match": {{{}}}}}"#,
        members.join(","),
        asked.join(",")
    );
    for stages in [nested, gathered] {
        let begun = std::time::Instant::now();
        results(&fixture, &[stages], usize::MAX).unwrap();
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }
}
