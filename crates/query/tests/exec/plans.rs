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
            "SORT FETCH OR [IXSCAN a_1_b_-1, IXSCAN _id_, IXSCAN s_1]",
        ),
        // An index for the whole filter is better than a union, and so is one that gives the order.
        (
            r#"{"a": 1, "$or": [{"u": 1}, {"s": 1}]}"#,
            None,
            "FETCH OR [IXSCAN u_1, IXSCAN s_1]",
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

#[test]
fn what_is_asked_of_an_element_bounds_the_path_through_its_array() {
    let fixture = with(&[
        r#"{"_id": 1, "items": [{"sku": "x", "n": 2}, {"sku": "y", "n": 9}], "tags": [1, 5], "a": [{"items": [{"sku": "x"}]}]}"#,
        r#"{"_id": 3, "": [{"tags": 1}]}"#,
        r#"{"_id": 2, "items": [{"sku": "z", "n": 2}], "tags": [2], "a": {"items": []}}"#,
    ]);
    for path in ["items.sku", "tags", "a.items.sku"] {
        fixture.index(&format!(r#"{{"key": {{"{path}": 1}}}}"#));
    }
    for (filter, plan, bounds, found) in [
        (
            r#"{"items": {"$elemMatch": {"sku": "x", "n": {"$gt": 1}}}}"#,
            "FETCH IXSCAN items.sku_1",
            Some(doc! {"items.sku": ["[\"x\", \"x\"]"]}),
            1,
        ),
        (
            r#"{"items": {"$elemMatch": {"$or": [{"sku": "y"}], "n": 2}}}"#,
            "FETCH IXSCAN items.sku_1",
            Some(doc! {"items.sku": ["[\"y\", \"y\"]"]}),
            0,
        ),
        (
            r#"{"tags": {"$elemMatch": {"$gte": 2, "$lt": 5}}}"#,
            "FETCH IXSCAN tags_1",
            Some(doc! {"tags": ["[2, 5)"]}),
            1,
        ),
        // Two elements may meet them.
        (
            r#"{"$and": [{"tags": {"$elemMatch": {"$gt": 4}}}, {"tags": {"$elemMatch": {"$lt": 2}}}]}"#,
            "FETCH IXSCAN tags_1",
            Some(doc! {"tags": ["(4, inf.0]"]}),
            1,
        ),
        (
            r#"{"a": {"$elemMatch": {"items": {"$elemMatch": {"sku": "x"}}}}}"#,
            "FETCH IXSCAN a.items.sku_1",
            Some(doc! {"a.items.sku": ["[\"x\", \"x\"]"]}),
            1,
        ),
        (
            r#"{"tags": {"$elemMatch": {"$elemMatch": {"$gt": 1}}}}"#,
            "COLLSCAN",
            None,
            0,
        ),
        (
            r#"{"items": {"$elemMatch": {"sku": null}}}"#,
            "COLLSCAN",
            None,
            0,
        ),
        // A field without a name is one.
        (r#"{"": {"$elemMatch": {"tags": 1}}}"#, "COLLSCAN", None, 1),
    ] {
        assert_eq!(fixture.plan(filter, None), plan, "{filter}");
        let explained = fixture.explain(filter, None);
        let shown = explained
            .as_raw()
            .get_path("queryPlanner.winningPlan.inputStage.indexBounds");
        let bounds = bounds.map(Value::from);
        assert_eq!(shown.map(|shown| shown.to_value()), bounds, "{filter}");
        assert_eq!(fixture.find(filter).len(), found, "{filter}");
    }
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

#[test]
fn bounds_and_filters_are_printed_as_mongodb_prints_them() {
    let fixture = with_documents(&[doc! {"_id": 1, "a": "x"}]);
    fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
    for (filter, parsed, bounds) in [
        (r#"{"a": "x"}"#, "{ a: { $eq: 'x' } }", r#"["x", "x"]"#),
        (
            r#"{"a": {"$gt": 1.5}}"#,
            "{ a: { $gt: 1.5 } }",
            "(1.5, inf.0]",
        ),
        (
            r#"{"a": {"$lt": "x"}}"#,
            "{ a: { $lt: 'x' } }",
            r#"["", "x")"#,
        ),
        (
            r#"{"a": {"$gte": {"$date": "1970-01-01T00:00:01Z"}}}"#,
            "{ a: { $gte: ISODate('1970-01-01T00:00:01.000Z') } }",
            "[new Date(1000), new Date(9223372036854775807)]",
        ),
        (
            r#"{"a": {"$regex": "^ab"}}"#,
            "{ a: { $regex: '^ab' } }",
            r#"["ab", "ac")"#,
        ),
    ] {
        let explained = fixture.explain(filter, None);
        let planner = explained.get_document("queryPlanner").unwrap();
        let shown = planner.get_document("parsedQuery").unwrap();
        assert_eq!(shown.to_string(), parsed);
        let mut scan = planner.get_document("winningPlan").unwrap();
        while let Some(below) = scan.get_document("inputStage") {
            scan = below;
        }
        let found = scan.get_path("indexBounds.a.0").unwrap();
        assert_eq!(found.as_str(), Some(bounds), "{explained}");
    }
}

#[test]
fn each_node_of_a_plan_tells_its_steps() {
    let documents: Vec<Document> = (0..100)
        .map(|n| doc! {"_id": n, "a": (n % 10), "b": (n % 4)})
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
    let steps = |stage: RawDocument<'_>| {
        let names = [
            "works",
            "advanced",
            "needTime",
            "needYield",
            "saveState",
            "restoreState",
            "isEOF",
        ];
        names.map(|name| stage.get(name).unwrap().as_i64_exact().unwrap())
    };
    let of = |explained: &Document, wanted: [(&str, [i64; 7]); 2]| {
        let stats = explained.get_document("executionStats").unwrap();
        let upper = stats.get_document("executionStages").unwrap();
        let lower = upper.get_document("inputStage").unwrap();
        let found = [upper, lower].map(|stage| (stage.get_str("stage").unwrap(), steps(stage)));
        assert_eq!(found, wanted, "{explained}");
    };
    // Five of ten keys lead to documents that match.
    of(
        &fixture.explain(r#"{"a": 3, "b": {"$lt": 2}}"#, None),
        [
            ("FETCH", [11, 5, 5, 0, 0, 0, 1]),
            ("IXSCAN", [11, 10, 0, 0, 0, 0, 1]),
        ],
    );
    of(
        &fixture.explain(r#"{"b": 1}"#, Some(r#"{"c": 1}"#)),
        [
            ("SORT", [51, 25, 25, 0, 0, 0, 1]),
            ("COLLSCAN", [101, 25, 75, 0, 0, 0, 1]),
        ],
    );
    // What stands below a limit has not come to its end.
    let mut request = FindRequest::new(&fixture.namespace);
    request.limit = Some(2);
    of(
        &fixture.explained_with(Explained::Find(request), Verbosity::ExecutionStats),
        [
            ("LIMIT", [3, 2, 0, 0, 0, 0, 1]),
            ("COLLSCAN", [2, 2, 0, 0, 0, 0, 0]),
        ],
    );
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
