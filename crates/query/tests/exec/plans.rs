//! Tests of what is planned, what explain says of it, and what it costs.

use super::*;

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
        (r#"{"_id": 1, "a": 1}"#, None, "FETCH IXSCAN _id_"),
        (r#"{"a": {"$gt": 3, "$lt": 2}}"#, None, "EOF"),
        (r#"{"a": 1}"#, None, "FETCH IXSCAN a_1"),
        (r#"{"a": 1, "b": 2}"#, None, "FETCH IXSCAN a_1_b_-1"),
        (r#"{"a": 1, "u": 2}"#, None, "FETCH IXSCAN u_1"),
        (r#"{"a": {"$gt": 1}}"#, None, "FETCH IXSCAN a_1"),
        (r#"{"b": 1}"#, None, "COLLSCAN"),
        // Constants that no document passes.
        (r#"{"b": 1, "$expr": {"$eq": [1, 2]}}"#, None, "EOF"),
        (r#"{"$nor": [{}]}"#, Some(r#"{"b": 1}"#), "EOF"),
        (
            r#"{"$or": [{"b": {"$in": []}}, {"$expr": false}]}"#,
            None,
            "EOF",
        ),
        (r#"{"$or": [{"b": 1}, {"$expr": false}]}"#, None, "COLLSCAN"),
        (r#"{"s": null}"#, None, "COLLSCAN"),
        (r#"{"s": 1}"#, None, "FETCH IXSCAN s_1"),
        (r#"{"$or": [{"a": 1}, {"b": 1}]}"#, None, "COLLSCAN"),
        (
            r#"{"$or": [{"a": 1}, {"u": 1}]}"#,
            None,
            "SUBPLAN FETCH OR [IXSCAN a_1, IXSCAN u_1]",
        ),
        (
            r#"{"b": 1, "$or": [{"a": {"$gt": 1}, "b": 3}, {"$or": [{"_id": 1}, {"s": 5}]}]}"#,
            Some(r#"{"b": 1}"#),
            "SORT FETCH OR [IXSCAN a_1, IXSCAN _id_, IXSCAN s_1]",
        ),
        // An index for the whole filter is better than a union, and so is one that gives the order.
        (
            r#"{"a": 1, "$or": [{"u": 1}, {"s": 1}]}"#,
            None,
            "FETCH IXSCAN a_1",
        ),
        (
            r#"{"$or": [{"a": 1}, {"s": 1}]}"#,
            Some(r#"{"a": 1}"#),
            "FETCH IXSCAN a_1",
        ),
        (
            r#"{"$or": [{"a": 1}, {"s": 1}]}"#,
            Some(r#"{"_id": -1}"#),
            "FETCH IXSCAN _id_",
        ),
        (
            r#"{"$or": [{"a": 1}, {"s": 1}]}"#,
            Some(r#"{"b": 1}"#),
            "SUBPLAN SORT FETCH OR [IXSCAN a_1, IXSCAN s_1]",
        ),
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

/// Returns the numbers that explain measured of a run: rows, keys and documents.
fn examined(explained: &Document) -> [i64; 3] {
    ["nReturned", "totalKeysExamined", "totalDocsExamined"].map(|field| {
        let plain = explained
            .as_raw()
            .get_path(format!("executionStats.{field}"));
        let within = format!("stages.0.$cursor.executionStats.{field}");
        let value = plain.or_else(|| explained.as_raw().get_path(within));
        value.unwrap().as_i64_exact().unwrap()
    })
}

/// A hundred documents: ten of each `a`, of which every fourth has no `b`; three tags each, of which the first are shared.
fn of_all_kinds() -> Fixture {
    let documents: Vec<Document> = (0..100)
        .map(|n| {
            let mut document = doc! {"_id": n, "a": (n % 10), "u": (n * 2), "tags": ["t", (n % 3), n], "n": {"x": (n % 5)}};
            if n % 4 != 0 {
                document.append("b", n);
            }
            document
        })
        .collect();
    let fixture = with_documents(&documents);
    for index in [
        r#"{"key": {"a": 1, "b": -1}}"#,
        r#"{"key": {"tags": 1}}"#,
        r#"{"key": {"u": 1}, "unique": true}"#,
        r#"{"key": {"n.x": 1, "a": 1}}"#,
        r#"{"key": {"s": 1}, "sparse": true}"#,
    ] {
        fixture.index(index);
    }
    fixture
}

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
            "FETCH SORT_MERGE [IXSCAN a_1_b_-1]",
            20,
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

/// Documents that several indexes have in the order of `b`, behind other fields.
fn in_several_orders() -> Fixture {
    let documents: Vec<Document> = (0..300)
        .map(|n| doc! {"_id": n, "a": (n % 7), "b": ((n * 37) % 100), "c": (n % 5), "d": (n % 3)})
        .collect();
    let fixture = with_documents(&documents);
    for index in [
        r#"{"key": {"a": 1, "b": 1}}"#,
        r#"{"key": {"c": 1, "b": -1, "d": 1}}"#,
        r#"{"key": {"d": -1, "a": 1, "b": 1}}"#,
    ] {
        fixture.index(index);
    }
    fixture
}

/// Where ranges, or the branches of an `$or`, are in the wanted order one by one, they are merged: a limit is met with a few keys.
#[test]
fn ranges_in_the_wanted_order_are_merged() {
    let fixture = in_several_orders();
    let (up, down) = (r#"{"b": 1}"#, r#"{"b": -1}"#);
    let one = "FETCH SORT_MERGE [IXSCAN a_1_b_1]";
    for (filter, sort, plan) in [
        (r#"{"a": {"$in": [1, 2, 5]}}"#, up, one),
        (r#"{"a": {"$in": [1, 2, 5]}}"#, down, one),
        (r#"{"a": {"$in": [1, 5]}, "b": {"$gt": 20}}"#, down, one),
        (r#"{"a": {"$in": [1, 5]}, "x": null}"#, up, one),
        (r#"{"a": 3}"#, up, "FETCH IXSCAN a_1_b_1"),
        (
            r#"{"a": {"$in": [1, 5]}}"#,
            r#"{"a": 1, "b": 1}"#,
            "FETCH IXSCAN a_1_b_1",
        ),
        (
            r#"{"a": {"$in": [1, 5]}}"#,
            r#"{"b": 1, "a": 1}"#,
            "SORT FETCH IXSCAN a_1_b_1",
        ),
        (r#"{"a": {"$gt": 3}}"#, up, "SORT FETCH IXSCAN a_1_b_1"),
        (
            r#"{"$or": [{"a": 1}, {"c": {"$in": [2, 3]}}]}"#,
            up,
            "SUBPLAN FETCH SORT_MERGE [IXSCAN a_1_b_1, IXSCAN c_1_b_-1_d_1]",
        ),
        (
            r#"{"$or": [{"a": 1}, {"c": {"$in": [2, 3]}}, {"d": 0, "a": {"$in": [3, 4]}}]}"#,
            down,
            "SUBPLAN FETCH SORT_MERGE [IXSCAN a_1_b_1, IXSCAN c_1_b_-1_d_1, IXSCAN d_-1_a_1_b_1]",
        ),
        (
            r#"{"x": null, "$or": [{"a": 1}, {"c": 2, "d": {"$lt": 2}}]}"#,
            up,
            "FETCH SORT_MERGE [IXSCAN a_1_b_1, IXSCAN c_1_b_-1_d_1]",
        ),
        (
            r#"{"$or": [{"a": 1}, {"d": 2}]}"#,
            up,
            "SUBPLAN SORT FETCH OR [IXSCAN a_1_b_1, IXSCAN d_-1_a_1_b_1]",
        ),
    ] {
        assert_eq!(fixture.plan(filter, Some(sort)), plan, "{filter} {sort}");
        let mut wanted = fixture.find_with(filter, |request| {
            let natural: &'static Value = Box::leak(Box::new(doc! {"$natural": 1}.into()));
            request.hint = Some(natural.as_raw());
        });
        let all = fixture.sorted(filter, sort, 0, None);
        let pattern = quarry_query::sort::SortPattern::parse(json(sort).as_raw()).unwrap();
        let is_sorted = all.windows(2).all(|pair| {
            let (a, b) = (json(&pair[0]), json(&pair[1]));
            pattern.compare(a.as_raw(), b.as_raw()).unwrap().is_le()
        });
        assert!(is_sorted, "{filter} {sort}");
        assert_eq!(
            fixture.sorted(filter, sort, 3, Some(9)),
            all[3..12],
            "{filter} {sort}"
        );
        let mut found = all;
        found.sort();
        wanted.as_mut().unwrap().sort();
        assert_eq!(found, wanted.unwrap(), "{filter} {sort}");
    }
    let (filter, sort) = (json(r#"{"a": {"$in": [1, 2, 5]}}"#), json(up));
    let mut request = FindRequest::new(&fixture.namespace);
    (request.filter, request.sort) = (filter.as_raw(), Some(sort.as_raw()));
    request.limit = Some(4);
    let explained = fixture.explained(Explained::Find(request));
    assert_eq!(examined(&explained), [4, 4, 4]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Whatever the branches are, however many, and whichever of them share documents.
    #[test]
    fn a_merge_finds_what_a_scan_finds_in_order(
        branches in proptest::collection::vec((0..3usize, proptest::collection::btree_set(0..8i32, 1..4), 0..100i32), 1..5),
        is_or in any::<bool>(),
        is_down in any::<bool>(),
        (skip, limit) in (0..20u64, proptest::option::of(1..50u64)),
    ) {
        let fixture = in_several_orders();
        let branches = branches.iter().map(|(field, list, low)| {
            let (list, other) = (list.iter().map(i32::to_string).collect::<Vec<_>>().join(","), low % 3);
            match field {
                0 => format!(r#"{{"a": {{"$in": [{list}]}}, "b": {{"$gte": {low}}}}}"#),
                1 => format!(r#"{{"c": {{"$in": [{list}]}}, "d": {{"$ne": {other}}}}}"#),
                _ => format!(r#"{{"d": {other}, "a": {{"$in": [{list}]}}}}"#),
            }
        });
        let branches: Vec<String> = branches.collect();
        let filter = if is_or { format!(r#"{{"$or": [{}]}}"#, branches.join(",")) } else { branches[0].clone() };
        let sort = if is_down { r#"{"b": -1}"# } else { r#"{"b": 1}"# };
        let all = fixture.sorted(&filter, sort, 0, None);
        let order = |text: &String| {
            let b = json(text).as_raw().get("b").unwrap().as_i64_exact().unwrap();
            if is_down { -b } else { b }
        };
        prop_assert!(all.is_sorted_by_key(order), "{} {}", filter, sort);
        let part = all.iter().skip(skip as usize).take(limit.map_or(usize::MAX, |limit| limit as usize));
        prop_assert_eq!(&fixture.sorted(&filter, sort, skip, limit), &part.cloned().collect::<Vec<_>>());
        let natural: &'static Value = Box::leak(Box::new(doc! {"$natural": 1}.into()));
        let mut wanted = fixture.find_with(&filter, |request| request.hint = Some(natural.as_raw())).unwrap();
        let mut found = all;
        found.sort();
        wanted.sort();
        prop_assert_eq!(found, wanted, "{} {} by {}", filter, sort, fixture.plan(&filter, Some(sort)));
    }
}

/// A merge goes on where a batch has ended, in every range, whatever was read ahead.
#[test]
fn a_merge_goes_on_where_a_batch_has_ended() {
    let fixture = in_several_orders();
    let filter = r#"{"$or": [{"a": {"$in": [1, 4]}}, {"c": {"$in": [2, 3]}}]}"#;
    let wanted = fixture.sorted(filter, r#"{"b": -1}"#, 0, None);
    let (filter, sort) = (json(filter), json(r#"{"b": -1}"#));
    let mut request = FindRequest::new(&fixture.namespace);
    (request.filter, request.sort) = (filter.as_raw(), Some(sort.as_raw()));
    let scope = || (&fixture.database).into();
    let mut executor = exec::find(scope(), &fixture.operation, request).unwrap();
    let (mut found, mut document) = (Vec::new(), Vec::new());
    while !executor.is_dead() {
        for _ in 0..7 {
            if executor.next(&fixture.operation, &mut document).unwrap() {
                found.push(extjson::relaxed(RawDocument::new(&document).unwrap()));
            }
            document.clear();
        }
        executor.save(&fixture.operation).unwrap();
        executor.restore(scope(), &fixture.operation).unwrap();
    }
    assert_eq!(found, wanted);
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

/// A request of a few kilobytes that asks for tens of thousands of ranges is a scan of the collection.
#[test]
fn a_union_of_too_many_ranges_is_none() {
    let fixture = with(&[r#"{"_id": 1, "a": 1, "b": 2}"#]);
    fixture.index(r#"{"key": {"a": 1, "b": 1}, "name": "ab"}"#);
    let list: Vec<String> = (0..64).map(|n| n.to_string()).collect();
    let list = list.join(",");
    let branch = format!(r#"{{"a": {{"$in": [{list}]}}, "b": {{"$in": [{list}]}}}}"#);
    for (branches, wanted) in [
        (2, "SUBPLAN FETCH OR [IXSCAN ab, IXSCAN ab]"),
        (17, "COLLSCAN"),
    ] {
        let filter = format!(
            r#"{{"$or": [{}]}}"#,
            vec![branch.as_str(); branches].join(",")
        );
        assert_eq!(fixture.plan(&filter, None), wanted, "{branches} branches");
    }
}

/// Explain and currentOp call examined what the engine itself counted: entries that a cursor stood on, and
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
        (
            r#"{"$or": [{"a": 3}, {"a": {"$gte": 2, "$lte": 4}}]}"#,
            2,
            true,
        ),
        (r#"{"$or": [{"a": 3}, {"tags": {"$lt": 2}}]}"#, 2, true),
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

/// Each node counts what it has given itself, and what was read for a node below another one is not the other's.
#[test]
fn each_node_of_a_plan_tells_its_own_counts() {
    let documents: Vec<Document> = (0..100)
        .map(|n| doc! {"_id": n, "a": (n % 10), "b": (n % 4)})
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
    fixture.index(r#"{"key": {"b": 1}, "name": "b_1"}"#);
    let number = |stage: RawDocument<'_>, path: &str| {
        let value = stage.get_path(path).unwrap();
        value.as_i64_exact().unwrap()
    };

    // Of ten keys two lead to documents that match; the keys alone do not say which.
    let explained = fixture.explain(
        r#"{"a": 3, "c": null, "_id": {"$lt": 20}}"#,
        Some(r#"{"c": 1}"#),
    );
    let stages = explained
        .as_raw()
        .get_path("executionStats.executionStages");
    let sort = stages.unwrap().as_document().unwrap();
    assert_eq!(sort.get_str("stage"), Some("SORT"));
    assert_eq!(number(sort, "nReturned"), 2);
    assert_eq!(number(sort, "inputStage.nReturned"), 2);
    assert_eq!(number(sort, "inputStage.docsExamined"), 10);
    assert!(sort.get_path("inputStage.filter").is_some());
    assert_eq!(number(sort, "inputStage.inputStage.nReturned"), 10);
    assert_eq!(number(sort, "inputStage.inputStage.keysExamined"), 10);

    // What the keys answer alone is not asked again.
    let explained = fixture.explain(r#"{"a": 3}"#, None);
    let plan = explained.as_raw().get_path("queryPlanner.winningPlan");
    let plan = plan.unwrap().as_document().unwrap();
    assert_eq!(plan.get_str("stage"), Some("FETCH"));
    assert!(plan.get("filter").is_none());

    // Five documents are met by both branches.
    let explained = fixture.explain(r#"{"$or": [{"a": 3}, {"b": 1}]}"#, None);
    let stages = explained
        .as_raw()
        .get_path("executionStats.executionStages");
    let fetch = stages.unwrap().as_document().unwrap();
    let fetch = fetch.get("inputStage").unwrap().as_document().unwrap();
    assert_eq!(number(fetch, "docsExamined"), 30);
    let or = fetch.get("inputStage").unwrap().as_document().unwrap();
    assert_eq!(number(or, "nReturned"), 30);
    let branches = or.get_array("inputStages").unwrap();
    let keys: Vec<i64> = branches
        .iter()
        .map(|branch| number(branch.as_document().unwrap(), "keysExamined"))
        .collect();
    assert_eq!(keys, [10, 25]);
}

/// The plans of the other indexes that would do are shown, the better ones first, and each of them finds the same when it is
/// hinted at.
#[test]
fn rejected_plans_are_those_of_the_other_indexes() {
    let documents: Vec<Document> = (0..60)
        .map(|n| doc! {"_id": n, "a": (n % 10), "b": (n % 6)})
        .collect();
    let fixture = with_documents(&documents);
    for pattern in [r#"{"a": 1}"#, r#"{"b": 1}"#, r#"{"a": 1, "b": 1}"#] {
        fixture.index(&format!(r#"{{"key": {pattern}}}"#));
    }
    let filter = r#"{"a": 3, "b": {"$gte": 1}}"#;
    let explained = fixture.explain(filter, None);
    let mut names = vec![
        explained
            .as_raw()
            .get_path("queryPlanner.winningPlan")
            .unwrap(),
    ];
    let rejected = explained.as_raw().get_path("queryPlanner.rejectedPlans");
    let RawValue::Array(rejected) = rejected.unwrap() else {
        panic!("an array: {explained}")
    };
    names.extend(rejected.iter());
    let names: Vec<&str> = names
        .iter()
        .map(|plan| {
            let plan = plan.as_document().unwrap();
            plan.get_path("inputStage.indexName")
                .unwrap()
                .as_str()
                .unwrap()
        })
        .collect();
    assert_eq!(names, ["a_1_b_1", "a_1", "b_1"]);
    let mut wanted = fixture.find(filter);
    wanted.sort();
    for name in names {
        let hint = Value::from(name);
        let filter = json(filter);
        let mut request = FindRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        request.hint = Some(hint.as_raw());
        let executor = exec::find((&fixture.database).into(), &fixture.operation, request);
        let mut found = fixture.drain(executor.unwrap());
        found.sort();
        assert_eq!(found, wanted, "{name}");
    }
}

/// UPDATE and DELETE stand above the plan that finds the documents; only a findAndModify gives one back. Nothing is changed.
#[test]
fn an_explained_write_says_what_it_would_do() {
    let fixture = of_all_kinds();
    let (few, none) = (json(r#"{"a": 3}"#), json(r#"{"a": 77}"#));
    let (change, same) = (json(r#"{"$set": {"x": 1}}"#), json(r#"{"$set": {"a": 3}}"#));
    let update = |filter: &'static Document, update: &'static Document, is_multi, is_upsert| {
        Explained::Update(UpdateRequest {
            array_filters: None,
            constants: None,
            sort: None,
            namespace: &fixture.namespace,
            context: None,
            collation: None,
            filter: filter.as_raw(),
            update: RawValue::Document(update.as_raw()),
            is_upsert,
            is_multi,
            hint: None,
            keeps_empty_timestamps: false,
        })
    };
    let [few, none, change, same]: [&'static Document; 4] =
        [few, none, change, same].map(|document| &*Box::leak(Box::new(document)));
    let delete = |is_multi| {
        Explained::Delete(DeleteRequest {
            namespace: &fixture.namespace,
            context: None,
            collation: None,
            filter: few.as_raw(),
            is_multi,
            hint: None,
        })
    };
    let find_and_modify = |update: Option<&'static Document>| {
        Explained::FindAndModify(FindAndModifyRequest {
            filter: few.as_raw(),
            update: update.map(|update| RawValue::Document(update.as_raw())),
            ..FindAndModifyRequest::new(&fixture.namespace)
        })
    };
    let of_update = ["nReturned", "nMatched", "nWouldModify", "nWouldUpsert"];
    let of_delete = ["nReturned", "nWouldDelete"];
    let below = "FETCH IXSCAN a_1_b_-1";
    for (explained, stage, fields, counts) in [
        (
            update(few, change, true, false),
            "UPDATE",
            &of_update[..],
            &[0, 10, 10, 0][..],
        ),
        (
            update(few, change, false, true),
            "UPDATE",
            &of_update,
            &[0, 1, 1, 0],
        ),
        (
            update(few, same, true, false),
            "UPDATE",
            &of_update,
            &[0, 10, 0, 0],
        ),
        (
            update(none, change, true, true),
            "UPDATE",
            &of_update,
            &[0, 0, 0, 1],
        ),
        (delete(true), "DELETE", &of_delete, &[0, 10]),
        (delete(false), "DELETE", &of_delete, &[0, 1]),
        (
            find_and_modify(Some(change)),
            "UPDATE",
            &of_update,
            &[1, 1, 1, 0],
        ),
        (find_and_modify(None), "DELETE", &of_delete, &[1, 1]),
    ] {
        let explained = fixture.explained(explained);
        assert_eq!(stages(&explained), format!("{stage} {below}"));
        let run = explained
            .as_raw()
            .get_path("executionStats.executionStages");
        let run = run.unwrap().as_document().unwrap();
        let found: Vec<i64> = fields
            .iter()
            .map(|field| run.get(field).unwrap().as_i64_exact().unwrap())
            .collect();
        assert_eq!(found, counts, "{explained}");
        assert_eq!(examined(&explained)[0], counts[0], "{explained}");
    }
    assert_eq!(fixture.count("{}", None), 100);
    assert_eq!(fixture.count(r#"{"x": 1}"#, None), 0);
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
