//! Plans that read no documents, because keys have all that is asked for.

use super::*;

/// A count whose filter the keys of an index answer reads no documents; each document counts once, however many keys it has.
#[test]
fn a_count_that_an_index_answers_reads_no_documents() {
    let fixture = of_all_kinds();
    for (filter, plan, counted, keys, docs) in [
        (r#"{"a": 3}"#, "COUNT COUNT_SCAN a_1_b_-1", 10, 10, 0),
        (
            r#"{"a": {"$gte": 3, "$lt": 5}}"#,
            "COUNT COUNT_SCAN a_1_b_-1",
            20,
            20,
            0,
        ),
        (
            r#"{"a": {"$in": [1, 2, 77]}}"#,
            "COUNT IXSCAN a_1_b_-1",
            20,
            20,
            0,
        ),
        (
            r#"{"a": 3, "b": {"$gt": 50}}"#,
            "COUNT COUNT_SCAN a_1_b_-1",
            5,
            5,
            0,
        ),
        // The key of null says too little.
        (r#"{"a": 0, "b": null}"#, "COUNT IXSCAN a_1_b_-1", 5, 5, 5),
        // What the ranges leave open is asked of the keys.
        (
            r#"{"a": {"$gt": 3}, "b": {"$mod": [5, 0]}}"#,
            "COUNT IXSCAN a_1_b_-1",
            10,
            60,
            15,
        ),
        (r#"{"u": 6}"#, "COUNT COUNT_SCAN u_1", 1, 1, 0),
        (r#"{"u": {"$in": [6, 7, 8]}}"#, "COUNT IXSCAN u_1", 2, 2, 0),
        (r#"{"tags": "t"}"#, "COUNT COUNT_SCAN tags_1", 100, 100, 0),
        (
            r#"{"tags": {"$gte": 0}}"#,
            "COUNT COUNT_SCAN tags_1",
            100,
            197,
            0,
        ),
        // Either bound may be met by another element.
        (
            r#"{"tags": {"$gte": 90, "$lt": 95}}"#,
            "COUNT FETCH IXSCAN tags_1",
            10,
            10,
            10,
        ),
        (
            r#"{"_id": {"$lt": 30}}"#,
            "COUNT COUNT_SCAN _id_",
            30,
            30,
            0,
        ),
        (
            r#"{"_id": {"$in": [3, 500]}}"#,
            "COUNT FETCH IXSCAN _id_",
            1,
            2,
            1,
        ),
        (r#"{"_id": 3}"#, "COUNT IDHACK", 1, 1, 1),
        (r#"{"c": 3}"#, "COUNT COLLSCAN", 0, 0, 100),
    ] {
        let document = json(filter);
        let mut request = CountRequest::new(&fixture.namespace);
        request.filter = document.as_raw();
        let explained = fixture.explained(Explained::Count(request));
        assert_eq!(stages(&explained), plan, "{filter}");
        let stage = explained
            .as_raw()
            .get_path("executionStats.executionStages.nCounted");
        assert_eq!(stage.unwrap().as_i64_exact(), Some(counted), "{filter}");
        assert_eq!(examined(&explained)[1..], [keys, docs], "{filter}");
        assert_eq!(fixture.count(filter, None), counted as u64, "{filter}");
    }
}

/// A pipeline of which nobody reads the documents, or only fields that an index has.
#[test]
fn a_pipeline_reads_no_documents_where_keys_have_its_fields() {
    let fixture = of_all_kinds();
    for (pipeline, plan, docs) in [
        (
            r#"[{"$match": {"a": 3}}, {"$count": "n"}]"#,
            "COUNT_SCAN a_1_b_-1",
            0,
        ),
        (
            r#"[{"$match": {"a": 3}}, {"$group": {"_id": null, "n": {"$sum": 1}}}]"#,
            "COUNT_SCAN a_1_b_-1",
            0,
        ),
        (
            r#"[{"$match": {"a": {"$gt": 0}}}, {"$group": {"_id": "$a"}}]"#,
            "DISTINCT_SCAN a_1_b_-1",
            0,
        ),
        (
            r#"[{"$group": {"_id": "$n.x"}}]"#,
            "DISTINCT_SCAN n.x_1_a_1",
            0,
        ),
        (
            r#"[{"$match": {"a": 4}}, {"$group": {"_id": "$b"}}]"#,
            "DISTINCT_SCAN a_1_b_-1",
            5,
        ),
        (r#"[{"$group": {"_id": "$tags"}}]"#, "COLLSCAN", 100),
        // The first document of each value in the order of the index.
        (
            r#"[{"$sort": {"a": 1, "b": -1}}, {"$group": {"_id": "$a", "f": {"$first": "$$ROOT"}}}]"#,
            "DISTINCT_SCAN a_1_b_-1",
            10,
        ),
        (
            r#"[{"$match": {"a": {"$gt": 3}}}, {"$sort": {"a": 1}}, {"$group": {"_id": "$a", "f": {"$first": "$a"}}}]"#,
            "DISTINCT_SCAN a_1_b_-1",
            6,
        ),
        (
            r#"[{"$match": {"a": 4}}, {"$sort": {"b": -1}}, {"$group": {"_id": "$b", "f": {"$first": "$u"}}}]"#,
            "DISTINCT_SCAN a_1_b_-1",
            6,
        ),
        (
            r#"[{"$match": {"a": {"$in": [3, 4]}}}, {"$sort": {"b": -1}}, {"$group": {"_id": "$b", "f": {"$first": "$_id"}}}]"#,
            "SORT_MERGE [IXSCAN a_1_b_-1]",
            5,
        ),
        (
            r#"[{"$sort": {"a": 1, "b": 1}}, {"$group": {"_id": "$a", "f": {"$first": "$u"}}}]"#,
            "SORT COLLSCAN",
            100,
        ),
        (
            r#"[{"$sort": {"a": 1, "b": -1}}, {"$group": {"_id": "$a", "f": {"$last": "$u"}}}]"#,
            "FETCH IXSCAN a_1_b_-1",
            100,
        ),
        (r#"[{"$group": {"_id": "$s"}}]"#, "COLLSCAN", 100),
        (
            r#"[{"$sort": {"a": 1}}, {"$limit": 5}, {"$group": {"_id": "$a"}}]"#,
            "LIMIT IXSCAN a_1_b_-1",
            0,
        ),
        // The documents without `b` are read: their keys could mean a null.
        (
            r#"[{"$match": {"a": {"$gt": 7}}}, {"$group": {"_id": "$a", "n": {"$max": "$b"}}}]"#,
            "IXSCAN a_1_b_-1",
            5,
        ),
        (
            r#"[{"$match": {"a": {"$gt": 7}}}, {"$group": {"_id": "$a", "n": {"$max": "$u"}}}]"#,
            "FETCH IXSCAN a_1_b_-1",
            20,
        ),
        (
            r#"[{"$match": {"a": {"$gt": 7}}}, {"$group": {"_id": "$$ROOT"}}]"#,
            "FETCH IXSCAN a_1_b_-1",
            20,
        ),
    ] {
        let document = json(&format!(r#"{{"pipeline": {pipeline}}}"#));
        let stages_of = document.as_raw().get_array("pipeline").unwrap();
        let request = AggregateRequest::new(Over::Collection(&fixture.namespace), stages_of);
        let explained = fixture.explained(Explained::Aggregate(request));
        assert_eq!(stages(&explained), plan, "{pipeline}");
        assert_eq!(examined(&explained)[2], docs, "{pipeline}");
        let natural = Value::from(doc! {"$natural": 1});
        let [mut found, mut wanted] = [None, Some(natural.as_raw())].map(|hint| {
            let request = AggregateRequest { hint, ..request };
            let scope = (&fixture.database).into();
            fixture.drain(exec::aggregate(scope, &fixture.operation, request).unwrap())
        });
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{pipeline}");
    }
}

/// Groups by the values of an index whose first array comes before the first document is asked for.
#[test]
fn groups_are_of_whole_arrays_when_their_index_meets_one() {
    let documents: Vec<Document> = (0..10).map(|n| doc! {"_id": n, "a": (n % 2)}).collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1}}"#);
    let document = json(r#"{"pipeline": [{"$group": {"_id": "$a"}}]}"#);
    let stages_of = document.as_raw().get_array("pipeline").unwrap();
    let request = AggregateRequest::new(Over::Collection(&fixture.namespace), stages_of);
    let scope = || (&fixture.database).into();
    let mut executor = exec::aggregate(scope(), &fixture.operation, request).unwrap();
    executor.save(&fixture.operation).unwrap();
    fixture.update(r#"{"_id": 8}"#, r#"{"$set": {"a": [0, 7]}}"#, false, false);
    executor.restore(scope(), &fixture.operation).unwrap();
    let mut found = fixture.drain(executor);
    found.sort();
    assert_eq!(found, [r#"{"_id":0}"#, r#"{"_id":1}"#, r#"{"_id":[0,7]}"#]);
}

#[test]
fn a_projection_of_what_an_index_has_reads_no_documents() {
    let fixture = of_all_kinds();
    let covered = "PROJECTION_COVERED IXSCAN a_1_b_-1";
    for (filter, projection, sort, plan, docs) in [
        (r#"{"a": 3}"#, r#"{"a": 1, "_id": 0}"#, "{}", covered, 0),
        (r#"{"a": 3}"#, r#"{"a": 1}"#, "{}", covered, 0),
        (r#"{"a": 3}"#, r#"{"_id": 1}"#, "{}", covered, 0),
        (r#"{"a": 3}"#, r#"{"b": 1, "a": 1}"#, "{}", covered, 0),
        (r#"{"a": 4}"#, r#"{"b": 1, "a": 1}"#, "{}", covered, 5),
        (r#"{"a": 3}"#, r#"{"a": 1}"#, r#"{"b": 1}"#, covered, 0),
        (
            r#"{"a": {"$gt": 8}}"#,
            r#"{"a": 1}"#,
            r#"{"b": 1}"#,
            "PROJECTION_COVERED SORT IXSCAN a_1_b_-1",
            0,
        ),
        (
            r#"{"a": {"$in": [3, 5]}}"#,
            r#"{"a": 1}"#,
            r#"{"b": 1}"#,
            "PROJECTION_DEFAULT SORT_MERGE [IXSCAN a_1_b_-1]",
            0,
        ),
        // Five documents of these have no `b`.
        (
            r#"{"a": {"$in": [3, 4]}}"#,
            r#"{"a": 1, "b": 1}"#,
            r#"{"b": 1}"#,
            "PROJECTION_DEFAULT SORT_MERGE [IXSCAN a_1_b_-1]",
            5,
        ),
        (
            r#"{"a": {"$in": [3, 5]}, "u": {"$gt": 9}}"#,
            r#"{"a": 1}"#,
            r#"{"b": 1}"#,
            "PROJECTION_SIMPLE FETCH SORT_MERGE [IXSCAN a_1_b_-1]",
            20,
        ),
        (
            r#"{"a": 3}"#,
            r#"{"a": 1}"#,
            r#"{"u": 1}"#,
            "PROJECTION_SIMPLE SORT FETCH IXSCAN a_1_b_-1",
            10,
        ),
        (
            r#"{"a": 3, "u": {"$gt": 9}}"#,
            r#"{"a": 1}"#,
            "{}",
            "PROJECTION_SIMPLE FETCH IXSCAN a_1_b_-1",
            10,
        ),
        (
            r#"{"u": {"$lt": 20}}"#,
            r#"{"u": 1}"#,
            "{}",
            "PROJECTION_COVERED IXSCAN u_1",
            0,
        ),
        (
            r#"{"n.x": 3}"#,
            r#"{"n.x": 1, "a": 1}"#,
            "{}",
            "PROJECTION_DEFAULT IXSCAN n.x_1_a_1",
            0,
        ),
        (
            r#"{"n.x": 3}"#,
            r#"{"n": 1}"#,
            "{}",
            "PROJECTION_SIMPLE FETCH IXSCAN n.x_1_a_1",
            20,
        ),
        (
            r#"{"tags": 3}"#,
            r#"{"tags": 1}"#,
            "{}",
            "PROJECTION_SIMPLE FETCH IXSCAN tags_1",
            1,
        ),
        (
            r#"{"a": 3}"#,
            r#"{"b": 0}"#,
            "{}",
            "PROJECTION_SIMPLE FETCH IXSCAN a_1_b_-1",
            10,
        ),
        (
            r#"{"a": 3}"#,
            r#"{"a": {"$add": ["$a", 1]}}"#,
            "{}",
            "PROJECTION_DEFAULT FETCH IXSCAN a_1_b_-1",
            10,
        ),
        (
            r#"{"_id": {"$lt": 5}}"#,
            r#"{"_id": 1}"#,
            "{}",
            "PROJECTION_SIMPLE FETCH IXSCAN _id_",
            5,
        ),
    ] {
        let [of_filter, of_projection, of_sort] = [filter, projection, sort].map(json);
        let mut request = FindRequest::new(&fixture.namespace);
        (request.filter, request.projection) = (of_filter.as_raw(), Some(of_projection.as_raw()));
        request.sort = Some(of_sort.as_raw());
        let explained = fixture.explained(Explained::Find(request));
        assert_eq!(stages(&explained), plan, "{filter} {projection} {sort}");
        assert_eq!(
            examined(&explained)[2],
            docs,
            "{filter} {projection} {sort}"
        );
    }
}

/// A distinct of what an index has reads a key a value and looks at the next one; only where the key of null or of an empty
/// array says too little are documents fetched.
#[test]
fn a_distinct_passes_over_the_keys_between_two_values() {
    let fixture = of_all_kinds();
    for (key, filter, plan, values, keys, docs) in [
        ("a", "{}", "DISTINCT_SCAN a_1_b_-1", 10, 10, 0),
        (
            "a",
            r#"{"a": {"$gte": 7}}"#,
            "DISTINCT_SCAN a_1_b_-1",
            3,
            3,
            0,
        ),
        ("b", r#"{"a": 3}"#, "DISTINCT_SCAN a_1_b_-1", 10, 10, 0),
        (
            "b",
            r#"{"a": {"$in": [3, 5]}, "b": {"$gt": 50}}"#,
            "DISTINCT_SCAN a_1_b_-1",
            10,
            10,
            0,
        ),
        // Five documents of these have no `b`.
        ("b", r#"{"a": 4}"#, "DISTINCT_SCAN a_1_b_-1", 5, 10, 5),
        ("u", "{}", "DISTINCT_SCAN u_1", 100, 100, 0),
        ("tags", "{}", "DISTINCT_SCAN tags_1", 101, 101, 0),
        ("n.x", "{}", "DISTINCT_SCAN n.x_1_a_1", 5, 5, 0),
        // The documents with such an element have others, too.
        ("tags", r#"{"tags": 3}"#, "FETCH IXSCAN tags_1", 3, 1, 1),
        ("a", r#"{"b": 3}"#, "COLLSCAN", 1, 0, 100),
        (
            "a",
            r#"{"a": {"$gt": 3}, "b": {"$mod": [7, 0]}}"#,
            "IXSCAN a_1_b_-1",
            5,
            60,
            15,
        ),
        (
            "_id",
            r#"{"_id": {"$lt": 3}}"#,
            "FETCH IXSCAN _id_",
            3,
            3,
            3,
        ),
    ] {
        let filter_of = json(filter);
        let mut request = DistinctRequest::new(&fixture.namespace, key);
        request.filter = filter_of.as_raw();
        let explained = fixture.explained(Explained::Distinct(request));
        assert_eq!(stages(&explained), plan, "{key} {filter}");
        assert_eq!(examined(&explained)[1..], [keys, docs], "{key} {filter}");
        let found = exec::distinct((&fixture.database).into(), &fixture.operation, request);
        assert_eq!(found.unwrap().len(), values, "{key} {filter}");
    }
}

/// A cursor whose index meets its first array between two batches shows whole arrays, not elements.
#[test]
fn a_covered_cursor_goes_on_when_its_index_meets_arrays() {
    let documents: Vec<Document> = (0..10).map(|n| doc! {"_id": n, "a": n}).collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1}}"#);
    let (filter, projection) = (json(r#"{"a": {"$gte": 0}}"#), json(r#"{"a": 1, "_id": 0}"#));
    let mut request = FindRequest::new(&fixture.namespace);
    (request.filter, request.projection) = (filter.as_raw(), Some(projection.as_raw()));
    let scope = || (&fixture.database).into();
    let mut executor = exec::find(scope(), &fixture.operation, request).unwrap();
    let mut document = Vec::new();
    assert!(executor.next(&fixture.operation, &mut document).unwrap());
    executor.save(&fixture.operation).unwrap();
    fixture.update(
        r#"{"_id": 8}"#,
        r#"{"$set": {"a": [70, 80]}}"#,
        false,
        false,
    );
    executor.restore(scope(), &fixture.operation).unwrap();
    let left = fixture.drain(executor);
    assert!(left.contains(&r#"{"a":[70,80]}"#.to_owned()), "{left:?}");
    assert!(!left.contains(&r#"{"a":70}"#.to_owned()), "{left:?}");
}

/// Stages between the scan and the group read fields that they have made themselves: the keys have all the others.
#[test]
fn stages_before_a_group_leave_its_scan_covered() {
    let numbered: Vec<Document> = (0..60)
        .map(|n| doc! { "_id": n, "a": (n % 6), "b": n, "c": "not in the index" })
        .collect();
    let fixture = with_documents(&numbered);
    fixture.index(r#"{"key": {"a": 1, "b": 1}}"#);
    let first = r#"{"$match": {"a": {"$gte": 2}}}"#;
    for (stages, docs) in [
        (
            r#"{"$addFields": {"x": {"$mod": ["$b", 4]}}}, {"$match": {"x": {"$gt": 0}, "b": {"$lt": 50}}}, {"$group": {"_id": "$x", "n": {"$sum": "$a"}}}"#,
            0,
        ),
        (
            r#"{"$project": {"x": "$a", "b": 1, "c": 1}}, {"$group": {"_id": "$x", "n": {"$sum": "$b"}}}"#,
            0,
        ),
        // Records are kept by `_id`, which is in their keys.
        (
            r#"{"$project": {"x": "$a", "b": 1}}, {"$group": {"_id": "$_id"}}, {"$count": "n"}"#,
            0,
        ),
        (
            r#"{"$project": {"_id": 0, "x": "$a", "b": 1}}, {"$set": {"y": {"$add": ["$x", "$b"]}}}, {"$group": {"_id": "$x", "n": {"$sum": "$y"}}}"#,
            0,
        ),
        (
            r#"{"$unwind": {"path": "$b", "includeArrayIndex": "c"}}, {"$group": {"_id": "$a", "c": {"$max": "$c"}, "n": {"$sum": "$b"}}}"#,
            0,
        ),
        (
            r#"{"$addFields": {"c": {"$add": ["$a", 1]}}}, {"$count": "n"}"#,
            0,
        ),
        // This one is not made.
        (
            r#"{"$addFields": {"x": "$c"}}, {"$group": {"_id": "$x", "n": {"$sum": "$a"}}}"#,
            40,
        ),
        (
            r#"{"$addFields": {"c.d": "$a"}}, {"$group": {"_id": "$c", "n": {"$sum": "$a"}}}"#,
            40,
        ),
    ] {
        let examined = || fixture.operation.docs_examined.load(Relaxed);
        let before = examined();
        let mut found = aggregated(&fixture, &format!("[{first}, {stages}]")).unwrap();
        assert_eq!(examined() - before, docs, "{stages}");
        let hinted = json(r#"{"$natural": 1}"#);
        let pipeline = json(&format!(r#"{{"p": [{first}, {stages}]}}"#));
        let over = Over::Collection(&fixture.namespace);
        let mut request = AggregateRequest::new(over, pipeline.get_array("p").unwrap());
        request.hint = Some(RawValue::Document(hinted.as_raw()));
        let scanned = exec::aggregate((&fixture.database).into(), &fixture.operation, request);
        let mut expected = fixture.drain(scanned.unwrap());
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{stages}");
    }
}
