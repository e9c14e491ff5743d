//! Sorted and counted, and cursors that go on where they were saved.

use super::*;

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
        let mut executor =
            exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
        let (mut count, mut out) = (0, Vec::new());
        while executor.next(&fixture.operation, &mut out).unwrap() {
            out.clear();
            count += 1;
            executor.save(&fixture.operation).unwrap();
            executor
                .restore((&fixture.database).into(), &fixture.operation)
                .unwrap();
        }
        assert_eq!(count, 333);
        let mut executor =
            exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
        assert!(executor.next(&fixture.operation, &mut out).unwrap());
        executor.save(&fixture.operation).unwrap();
        fixture
            .database
            .drop_collection(&fixture.namespace, &fixture.operation, Level::Written)
            .unwrap();
        let error = executor
            .restore((&fixture.database).into(), &fixture.operation)
            .unwrap_err();
        assert_eq!(error.code(), 175);
    }
}

/// Reads `first` documents, gives the snapshot up, has `change` change something, and reads the rest: their `_id`s.
fn ids_after(
    fixture: &Fixture,
    request: FindRequest<'_>,
    first: usize,
    change: impl FnOnce(&Fixture),
) -> (Vec<i32>, Vec<i32>) {
    let mut executor = exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
    let mut out = Vec::new();
    let mut next = |executor: &mut Executor| {
        out.clear();
        let found = executor.next(&fixture.operation, &mut out).unwrap();
        found.then(|| RawDocument::new(&out).unwrap().get_i32("_id").unwrap())
    };
    let before = (0..first).map_while(|_| next(&mut executor)).collect();
    executor.save(&fixture.operation).unwrap();
    change(fixture);
    executor
        .restore((&fixture.database).into(), &fixture.operation)
        .unwrap();
    (before, std::iter::from_fn(|| next(&mut executor)).collect())
}

/// A pipeline reads what its stages ask for, in chunks; what is left of one comes again.
#[test]
fn a_pipeline_over_several_batches_hands_out_every_document_once_and_none_that_went() {
    let documents: Vec<Document> = (0..300).map(|n| doc! {"_id": n, "list": [n, n]}).collect();
    let fixture = with_documents(&documents);
    let pipeline = quarry_bson::doc! { "pipeline": [
        (doc! {"$match": doc! {"_id": doc! {"$gte": 0}}}), (doc! {"$unwind": "$list"}), (doc! {"$project": doc! {"list": 1}})
    ] };
    let RawValue::Array(stages) = pipeline.as_raw().get("pipeline").unwrap() else {
        unreachable!()
    };
    let request = AggregateRequest::new(Over::Collection(&fixture.namespace), stages);
    let mut executor =
        exec::aggregate((&fixture.database).into(), &fixture.operation, request).unwrap();
    let (mut ids, mut out) = (Vec::new(), Vec::new());
    let mut deleted = 0;
    loop {
        // Seven rows of every two a document: batches end within a document and within a chunk.
        let mut batch = 0;
        while batch < 7 && executor.next(&fixture.operation, &mut out).unwrap() {
            ids.push(RawDocument::new(&out).unwrap().get_i32("_id").unwrap());
            out.clear();
            batch += 1;
        }
        if batch < 7 {
            break;
        }
        executor.save(&fixture.operation).unwrap();
        let gone = ids[ids.len() - 1] + 5;
        deleted += fixture.delete(&format!(r#"{{"_id": {gone}}}"#), false);
        executor
            .restore((&fixture.database).into(), &fixture.operation)
            .unwrap();
    }
    assert!(ids.is_sorted());
    let mut met: Vec<i32> = ids.clone();
    met.dedup();
    assert_eq!(ids.len(), 2 * met.len(), "each document has two rows");
    assert_eq!(met.len() as u64, 300 - deleted);
    assert!(deleted > 50);
}

/// A filter that draws at random answers once about each document, however the batches end. Each run draws from another
/// seed.
#[test]
fn a_filter_that_draws_at_random_draws_once_for_each_document() {
    let documents: Vec<Document> = (0..300).map(|n| doc! {"_id": n, "a": n}).collect();
    let fixture = with_documents(&documents);
    for filter in [
        r#"{"$sampleRate": 0.5}"#,
        r#"{"$expr": {"$lt": [{"$rand": {}}, 0.5]}}"#,
    ] {
        let pipeline = json(&format!(
            r#"{{"p": [{{"$match": {filter}}}, {{"$project": {{"a": 1}}}}]}}"#
        ));
        let stages = pipeline.as_raw().get_array("p").unwrap();
        for _ in 0..50 {
            let request = AggregateRequest::new(Over::Collection(&fixture.namespace), stages);
            let mut executor =
                exec::aggregate((&fixture.database).into(), &fixture.operation, request).unwrap();
            let (mut ids, mut out) = (Vec::new(), Vec::new());
            while executor.next(&fixture.operation, &mut out).unwrap() {
                ids.push(RawDocument::new(&out).unwrap().get_i32("_id").unwrap());
                out.clear();
                if ids.len() % 10 == 0 {
                    executor.save(&fixture.operation).unwrap();
                    executor
                        .restore((&fixture.database).into(), &fixture.operation)
                        .unwrap();
                }
            }
            assert!(
                ids.is_sorted_by(|one, next| one < next),
                "{filter}: {ids:?}"
            );
            // Of 300 that are drawn by halves fewer than 75, or more than 225, come once in 10^17 runs.
            assert!((75..=225).contains(&ids.len()), "{filter}: {}", ids.len());
        }
    }
}

/// A batch shows documents as new as itself, by whatever way they are found.
#[test]
fn nothing_that_went_before_a_batch_is_in_it() {
    let ids = |range: std::ops::Range<i32>| range.collect::<Vec<i32>>();
    let in_40: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let in_40 = format!(r#"{{"_id": {{"$in": [{}]}}}}"#, in_40.join(","));
    // The filter, the index to use, the sort, and whether the documents come in descending order.
    for (filter, hint, sort, is_reversed) in [
        ("{}", None, None, false),
        ("{}", None, Some(r#"{"_id": -1}"#), true),
        (r#"{"_id": {"$gte": 0}}"#, None, None, false),
        (in_40.as_str(), None, None, false),
        (r#"{"a": {"$gte": 0}}"#, Some(r#"{"a": 1}"#), None, false),
        (
            r#"{"a": {"$gte": 0}}"#,
            Some(r#"{"a": 1}"#),
            Some(r#"{"a": -1}"#),
            true,
        ),
        (
            r#"{"list": {"$gte": 0}}"#,
            Some(r#"{"list": 1}"#),
            None,
            false,
        ),
        (
            r#"{"unique": {"$in": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}}"#,
            Some(r#"{"unique": 1}"#),
            None,
            false,
        ),
    ] {
        let documents: Vec<Document> = (0..40)
            .map(|n| doc! {"_id": n, "a": n, "list": [n, n + 1, n + 2], "unique": n})
            .collect();
        let fixture = with_documents(&documents);
        fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
        fixture.index(r#"{"key": {"list": 1}, "name": "list_1"}"#);
        fixture.index(r#"{"key": {"unique": 1}, "name": "unique_1", "unique": true}"#);
        let (filter, hint, sort) = (json(filter), hint.map(json), sort.map(json));
        let mut request = FindRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        request.hint = hint.as_ref().map(|hint| RawValue::Document(hint.as_raw()));
        request.sort = sort.as_ref().map(Document::as_raw);
        let whole = fixture
            .drain(exec::find((&fixture.database).into(), &fixture.operation, request).unwrap());
        let last = whole.len() as i32;
        let (before, after) = ids_after(&fixture, request, 3, |fixture| {
            // Of the second half one is left, and one that matched does not match any more.
            let (low, high) = if is_reversed { (0, 20) } else { (6, 40) };
            fixture.delete(
                &format!(r#"{{"_id": {{"$gte": {low}, "$lt": {high}, "$ne": 10}}}}"#),
                true,
            );
        });
        let expected = match (is_reversed, last) {
            (true, _) => {
                let mut rest = ids(20..37);
                rest.insert(0, 10);
                rest.reverse();
                (vec![39, 38, 37], rest)
            }
            (false, _) => (ids(0..3), [ids(3..6), vec![10]].concat()),
        };
        assert_eq!((before, after), expected, "{filter} {hint:?} {sort:?}");
    }
}

#[test]
fn what_a_batch_left_is_read_again_with_its_skip_and_limit() {
    let documents: Vec<Document> = (0..100).map(|n| doc! {"_id": n, "a": 1}).collect();
    for first in [0, 1, 5, 19, 20] {
        let fixture = with_documents(&documents);
        let filter = json(r#"{"a": 1}"#);
        let mut request = FindRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        (request.skip, request.limit) = (10, Some(20));
        let (before, after) = ids_after(&fixture, request, first, |fixture| {
            let changed = fixture.update(
                r#"{"_id": {"$gte": 15, "$lt": 20}}"#,
                r#"{"$set": {"a": 2}}"#,
                true,
                false,
            );
            assert_eq!(changed.modified, 5);
        });
        assert_eq!(before, (10..10 + first as i32).collect::<Vec<_>>());
        assert_eq!(before.len() + after.len(), 20, "{first}");
        let is_old = |id: &i32| (15..20).contains(id);
        assert!(!after.iter().any(is_old), "{first}: {after:?}");
        assert!(after.is_sorted());
    }
}

#[test]
fn a_document_that_is_put_back_comes_again_as_it_is_then() {
    let documents: Vec<Document> = (0..5).map(|n| doc! {"_id": n, "a": n}).collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
    for filter in [
        "{}",
        r#"{"a": {"$gte": 0}}"#,
        r#"{"_id": {"$in": [0, 1, 2]}}"#,
    ] {
        fixture.update(r#"{"_id": 0}"#, r#"{"$set": {"b": 1}}"#, false, false);
        let filter = json(filter);
        let mut request = FindRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        let mut executor =
            exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
        let mut out = Vec::new();
        assert!(executor.next(&fixture.operation, &mut out).unwrap());
        assert!(executor.put_back(out.len()));
        executor.save(&fixture.operation).unwrap();
        fixture.update(r#"{"_id": 0}"#, r#"{"$set": {"b": 2}}"#, false, false);
        executor
            .restore((&fixture.database).into(), &fixture.operation)
            .unwrap();
        out.clear();
        assert!(executor.next(&fixture.operation, &mut out).unwrap());
        let document = RawDocument::new(&out).unwrap();
        assert_eq!(
            (document.get_i32("_id"), document.get_i32("b")),
            (Some(0), Some(2))
        );
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
        exec::find((&fixture.database).into(), &fixture.operation, request).unwrap()
    };
    let mut out = Vec::new();
    let mut empty = tail();
    assert!(!empty.next(&fixture.operation, &mut out).unwrap());
    assert!(empty.is_dead());
    fixture.insert(&[json(r#"{"_id": 2}"#), json(r#"{"_id": 1}"#)], true);
    let mut executor = tail();
    let read = |executor: &mut Executor| {
        executor
            .restore((&fixture.database).into(), &fixture.operation)
            .unwrap();
        let mut ids = Vec::new();
        let mut out = Vec::new();
        while executor.next(&fixture.operation, &mut out).unwrap() {
            ids.push(RawDocument::new(&out).unwrap().get_i32("_id").unwrap());
            out.clear();
        }
        executor.save(&fixture.operation).unwrap();
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
        .restore((&fixture.database).into(), &fixture.operation)
        .unwrap();
    let lost = executor
        .next(&fixture.operation, &mut Vec::new())
        .unwrap_err();
    assert_eq!(lost.code(), 136);
}

#[test]
fn a_tailable_cursor_needs_a_capped_collection() {
    let fixture = with(&[r#"{"_id": 1}"#]);
    let refused = fixture.find_with("{}", |request| request.is_tailable = true);
    assert_eq!(refused.unwrap_err().code(), 2);
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
        exec::count((&fixture.database).into(), &fixture.operation, request).unwrap()
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
        exec::distinct((&fixture.database).into(), &fixture.operation, request).unwrap()
    };
    assert_eq!(distinct("a"), [1, 2].map(Value::from));
    assert_eq!(distinct("b.c"), [1, 3].map(Value::from));
    let aggregate = |stages: &str| {
        let pipeline = json(&format!(r#"{{"p": {stages}}}"#));
        let request = AggregateRequest::new(
            Over::Collection(&fixture.namespace),
            pipeline.as_raw().get_array("p").unwrap(),
        );
        fixture.drain(
            exec::aggregate((&fixture.database).into(), &fixture.operation, request).unwrap(),
        )
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

/// An insert takes a document of the full size without an `_id`, and makes one.
#[test]
fn the_largest_document_can_be_read_through_every_stage() {
    let room = DOCUMENT_BYTES_MAX - doc! {"t": ""}.as_bytes().len();
    let fixture = with_documents(&[doc! {"t": ("x".repeat(room))}]);
    let context = quarry_query::expression::ExpressionContext::default();
    for pipeline in [
        r#"{"p": [{"$match": {}}, {"$unset": "n"}]}"#,
        r#"{"p": [{"$addFields": {"n": 1}}]}"#,
        r#"{"p": [{"$group": {"_id": "$_id", "t": {"$first": "$t"}}}]}"#,
    ] {
        let pipeline = json(pipeline);
        let over = Over::Collection(&fixture.namespace);
        let mut request = AggregateRequest::new(over, pipeline.get_array("p").unwrap());
        request.context = Some(&context);
        let executor =
            exec::aggregate((&fixture.database).into(), &fixture.operation, request).unwrap();
        assert_eq!(fixture.drain(executor).len(), 1, "{pipeline}");
    }
    let projection = json(r#"{"n": 0}"#);
    let mut request = FindRequest::new(&fixture.namespace);
    request.projection = Some(projection.as_raw());
    let executor = exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
    assert_eq!(fixture.drain(executor).len(), 1);
}

/// Nothing can be compared to undefined, whichever way documents would be found, and whether there are any.
#[test]
fn undefined_is_no_operand_whatever_the_plan() {
    let undefined = r#"{"$undefined": true}"#;
    let operands = [
        "UNDEFINED",
        r#"{"$eq": UNDEFINED}"#,
        r#"{"$ne": UNDEFINED}"#,
        r#"{"$lt": UNDEFINED}"#,
        r#"{"$lte": UNDEFINED}"#,
        r#"{"$gt": UNDEFINED}"#,
        r#"{"$gte": UNDEFINED}"#,
        r#"{"$in": [UNDEFINED]}"#,
        r#"{"$in": [1, UNDEFINED]}"#,
        r#"{"$nin": [UNDEFINED, 1]}"#,
        r#"{"$all": [UNDEFINED]}"#,
        r#"{"$not": {"$eq": UNDEFINED}}"#,
        r#"{"$elemMatch": {"$eq": UNDEFINED}}"#,
        r#"{"$elemMatch": {"b": UNDEFINED}}"#,
        r#"{"$elemMatch": {"$in": [UNDEFINED]}}"#,
    ];
    let plain = [
        r#"{"_id": 1, "a": 1, "u": 1}"#,
        r#"{"_id": 2, "a": [], "u": 2}"#,
    ];
    let with_undefined = format!(r#"{{"_id": 3, "a": {undefined}, "u": {undefined}}}"#);
    for documents in [&[][..], &plain, &[&with_undefined]] {
        let fixture = with(documents);
        fixture.index(r#"{"key": {"a": 1}}"#);
        fixture.index(r#"{"key": {"u": 1}, "unique": true}"#);
        for (operand, path) in operands
            .iter()
            .flat_map(|operand| ["_id", "a", "u", "none", "a.b"].map(|path| (operand, path)))
        {
            let operand = operand.replace("UNDEFINED", undefined);
            let alone = format!(r#"{{"{path}": {operand}}}"#);
            let filters = [
                alone.clone(),
                format!(r#"{{"u": 1, "{path}": {operand}}}"#),
                format!(r#"{{"$or": [{{"a": 1}}, {alone}]}}"#),
            ];
            for filter in filters {
                check_refused(&fixture, &filter);
            }
        }
    }
}

/// Fails unless each way to ask a filter is refused with the code and the words of MongoDB.
fn check_refused(fixture: &Fixture, filter: &str) {
    let (natural, a, id) = (
        json(r#"{"$natural": 1}"#),
        json(r#"{"a": 1}"#),
        json(r#"{"_id": 1}"#),
    );
    let hints = [None, Some(&natural), Some(&a), Some(&id)];
    let parsed = json(filter);
    let change = json(r#"{"$set": {"x": 1}}"#);
    let (scope, operation): (quarry_database::Scope<'_>, _) =
        ((&fixture.database).into(), &fixture.operation);
    for hint in hints.map(|hint| hint.map(|hint| RawValue::Document(hint.as_raw()))) {
        let mut answers = Vec::new();
        let mut find = FindRequest::new(&fixture.namespace);
        (find.filter, find.hint) = (parsed.as_raw(), hint);
        answers.push(exec::find(scope, operation, find).map(drop));
        let mut count = CountRequest::new(&fixture.namespace);
        (count.filter, count.hint) = (parsed.as_raw(), hint);
        answers.push(exec::count(scope, operation, count).map(drop));
        for is_multi in [false, true] {
            let delete = DeleteRequest {
                namespace: &fixture.namespace,
                context: None,
                collation: None,
                filter: parsed.as_raw(),
                is_multi,
                hint,
            };
            answers.push(exec::delete(scope, operation, delete, Level::Written).map(drop));
            let update = UpdateRequest {
                array_filters: None,
                constants: None,
                sort: None,
                namespace: &fixture.namespace,
                context: None,
                collation: None,
                filter: parsed.as_raw(),
                update: RawValue::Document(change.as_raw()),
                is_upsert: false,
                is_multi,
                hint,
                keeps_empty_timestamps: false,
            };
            answers.push(exec::update(scope, operation, update, Level::Written).map(drop));
        }
        let stages = json(&format!(r#"{{"p": [{{"$match": {filter}}}]}}"#));
        let over = Over::Collection(&fixture.namespace);
        let mut aggregate = AggregateRequest::new(over, stages.get_array("p").unwrap());
        aggregate.hint = hint;
        answers.push(exec::aggregate(scope, operation, aggregate).map(drop));
        for (way, answer) in answers.into_iter().enumerate() {
            let error = answer.expect_err(&format!("{filter}, hint {hint:?}, way {way}"));
            assert_eq!(
                (error.code(), &*error.message),
                (2, "cannot compare to undefined"),
                "{filter}, hint {hint:?}, way {way}"
            );
        }
    }
}
