//! Writes change what matches and nothing else.

use super::*;

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
        (&fixture.database).into(),
        &fixture.operation,
        request,
        Level::Written,
    )
    .unwrap();
    assert_eq!(stamp(&fixture, "t"), (0, 0));
}

#[test]
fn an_insert_of_very_many_index_entries_goes_in_several_pieces_with_each_error_once() {
    let arrays: Vec<Document> = (0..20)
        .map(|id| {
            let numbers: Vec<i32> = (0..3000).map(|number| id * 3000 + number).collect();
            doc! { "_id": id, "a": numbers }
        })
        .collect();
    let mut documents = arrays.clone();
    documents.insert(5, doc! { "_id": [1] });
    documents.insert(12, doc! { "_id": [2] });
    documents.insert(18, doc! { "_id": 3 });
    for (is_ordered, refused, inserted) in [(false, vec![5, 12, 18], 20), (true, vec![5], 5)] {
        let fixture = with(&[]);
        fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
        let outcome = fixture.insert(&documents, is_ordered);
        let positions: Vec<usize> = outcome.errors.iter().map(|(at, _)| *at).collect();
        assert_eq!((positions, outcome.inserted), (refused, inserted));
        let found = fixture.find_with("{}", |_| {}).unwrap();
        assert_eq!(found.len() as u64, inserted);
    }
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

/// The document that has the key may be one that the filter never finds, however often it is asked: one with another array, or a value
/// in an array where the filter asks for a missing field.
#[test]
fn an_upsert_whose_key_is_taken_by_what_it_does_not_find_is_a_duplicate() {
    let cases = [
        ("a", r#"{"_id":1,"a":2}"#, r#"{"a": [1, 2]}"#, r#"{"a":2}"#),
        (
            "a",
            r#"{"_id":1,"a":[3,2]}"#,
            r#"{"a": {"$eq": [2]}}"#,
            r#"{"a":2}"#,
        ),
        (
            "a.b",
            r#"{"_id":1,"a":[5]}"#,
            r#"{"a.b": null}"#,
            r#"{"a.b":null}"#,
        ),
    ];
    for (path, stored, filter, key) in cases {
        let fixture = with(&[stored]);
        fixture.index(&format!(r#"{{"key": {{"{path}": 1}}, "unique": true}}"#));
        let asked = json(filter);
        let sets = json(r#"{"$set": {"n": 1}}"#);
        let updated = exec::update(
            (&fixture.database).into(),
            &fixture.operation,
            UpdateRequest {
                array_filters: None,
                constants: None,
                sort: None,
                namespace: &fixture.namespace,
                context: None,
                collation: None,
                filter: asked.as_raw(),
                update: RawValue::Document(sets.as_raw()),
                is_upsert: true,
                is_multi: false,
                hint: None,
                keeps_empty_timestamps: false,
            },
            Level::Written,
        );
        let request = FindAndModifyRequest {
            filter: asked.as_raw(),
            update: Some(RawValue::Document(sets.as_raw())),
            is_upsert: true,
            ..FindAndModifyRequest::new(&fixture.namespace)
        };
        let scope = (&fixture.database).into();
        let changed =
            exec::find_and_modify(scope, &fixture.operation, request, Level::Written).map(drop);
        for error in [updated.map(drop).unwrap_err(), changed.unwrap_err()] {
            let Some(quarry_database::Error::DuplicateKey(taken)) = error.cause() else {
                panic!("{filter}: {error}");
            };
            assert_eq!(error.code(), 11_000);
            let pattern = json(&format!(r#"{{"{path}": 1}}"#));
            assert_eq!(taken.key_pattern, pattern, "{filter}");
            assert_eq!(extjson::relaxed(taken.key_value.as_raw()), key, "{filter}");
        }
        assert_eq!(fixture.find("{}"), [stored], "{filter}");
    }
}

/// Every way to write over a document an equal `_id` of another type, where an index holds the `_id`'s type.
#[test]
fn an_equal_id_of_another_type_leaves_indexes_valid() {
    let fixture = with(&[
        r#"{"_id": 1, "a": 1}"#,
        r#"{"_id": {"n": {"k": 1}}, "a": 2}"#,
    ]);
    fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
    fixture.index(r#"{"key": {"u": 1}, "name": "u_1", "unique": true, "sparse": true}"#);
    for (id, other) in [("1", "1.0"), (r#"{"n": {"k": 1}}"#, r#"{"n": {"k": 1.0}}"#)] {
        let filter = format!(r#"{{"_id": {other}}}"#);
        let updates = [
            format!(r#"{{"_id": {other}, "a": 3}}"#),
            format!(r#"{{"$set": {{"_id": {other}, "a": 4}}}}"#),
            format!(r#"{{"u": {id}, "_id": {other}}}"#),
        ];
        for update in &updates {
            let outcome = fixture.update(&filter, update, false, true);
            assert_eq!((outcome.matched, outcome.upserted), (1, None), "{update}");
        }
        for update in &updates {
            let (filter, update) = (json(&filter), json(update));
            let request = FindAndModifyRequest {
                filter: filter.as_raw(),
                update: Some(RawValue::Document(update.as_raw())),
                returns_new: true,
                ..FindAndModifyRequest::new(&fixture.namespace)
            };
            exec::find_and_modify(
                (&fixture.database).into(),
                &fixture.operation,
                request,
                Level::Written,
            )
            .unwrap();
            let report = fixture
                .database
                .validate(&fixture.namespace, true, &fixture.operation)
                .unwrap();
            assert_eq!(report.errors, Vec::<String>::new(), "{update:?}");
            assert!(report.indexes.iter().all(|index| index.valid));
        }
        let id = id.replace(' ', "");
        let expected = format!(r#"{{"_id":{id},"u":{id}}}"#);
        assert_eq!(fixture.find(&filter), [expected]);
    }
}

#[test]
fn find_and_modify_refuses_before_it_writes() {
    let stored = r#"{"_id":1,"a":[5,6],"n":0}"#;
    let fixture = with(&[stored]);
    let refused = |filter: &str, update: Option<&str>, fields: &str, returns_new: bool| {
        let (filter, update, fields) = (json(filter), update.map(json), json(fields));
        let request = FindAndModifyRequest {
            filter: filter.as_raw(),
            projection: Some(fields.as_raw()),
            update: update
                .as_ref()
                .map(|update| RawValue::Document(update.as_raw())),
            returns_new,
            is_upsert: update.is_some(),
            ..FindAndModifyRequest::new(&fixture.namespace)
        };
        let outcome = exec::find_and_modify(
            (&fixture.database).into(),
            &fixture.operation,
            request,
            Level::Written,
        );
        assert_eq!(fixture.find("{}"), [stored], "{fields:?}");
        outcome.unwrap_err().code()
    };
    let sets = Some(r#"{"$set": {"n": 1}}"#);
    let positional = r#"{"a.$": 1}"#;
    for filter in [r#"{"a": 5}"#, r#"{"a": 7}"#] {
        assert_eq!(refused(filter, sets, positional, true), 2, "{filter}");
    }
    // The filter says nothing of an element: the document as it was cannot be projected either.
    for (update, fields) in [(sets, positional), (None, positional)] {
        let filter = r#"{"a": {"$size": 2}}"#;
        assert_eq!(refused(filter, update, fields, false), 51_246, "{update:?}");
    }
    // What fails for the new document alone, changed or upserted.
    let divides = r#"{"q": {"$divide": [1, "$n"]}, "a": 1}"#;
    for filter in [r#"{"_id": 1}"#, r#"{"_id": 2}"#] {
        let zero = Some(r#"{"$set": {"n": 0, "m": 1}}"#);
        assert_eq!(refused(filter, zero, divides, true), 2, "{filter}");
    }
    assert_eq!(refused(r#"{"_id": 1}"#, None, divides, false), 2);
    // A constant fails where it is parsed, whether or not there is a document.
    let constant = r#"{"q": {"$cond": ["$n", {"$divide": [1, 0]}, 1]}}"#;
    for filter in [r#"{"_id": 1}"#, r#"{"_id": 2}"#] {
        assert_eq!(refused(filter, None, constant, false), 2, "{filter}");
    }
}

#[test]
fn constants_of_a_projection_fold_and_fail_where_they_are_parsed() {
    let fixture = with(&[]);
    let is_parsed = |fields: &str| {
        let fields = json(fields);
        let mut request = FindRequest::new(&fixture.namespace);
        request.projection = Some(fields.as_raw());
        exec::find((&fixture.database).into(), &fixture.operation, request).is_ok()
    };
    for (fields, is_taken) in [
        (r#"{"q": {"$divide": [1, 0]}}"#, false),
        (r#"{"a": {"b": {"$add": [1, {"$divide": [1, 0]}]}}}"#, false),
        (r#"{"q": [1, {"x": {"$divide": [1, 0]}}]}"#, false),
        (
            r#"{"q": {"$map": {"input": "$a", "in": {"$divide": [1, 0]}}}}"#,
            false,
        ),
        (r#"{"q": {"$divide": ["$n", 0]}}"#, true),
        (
            r#"{"q": {"$let": {"vars": {"z": 0}, "in": {"$divide": [1, "$$z"]}}}}"#,
            true,
        ),
        (
            r#"{"q": {"$size": {"$range": [0, 100000]}}, "m": {"$first": [[]]}}"#,
            true,
        ),
    ] {
        assert_eq!(is_parsed(fields), is_taken, "{fields}");
    }
    fixture.insert(&[json(r#"{"_id": 1, "n": 4}"#)], true);
    let projected = |fields: &str| {
        let fields = json(fields);
        let mut request = FindRequest::new(&fixture.namespace);
        request.projection = Some(fields.as_raw());
        fixture.drain(exec::find((&fixture.database).into(), &fixture.operation, request).unwrap())
    };
    let fields = r#"{"_id": 0, "large": {"$size": {"$range": [0, 100000]}}, "none": {"$first": [[]]},
        "sum": {"$add": ["$n", {"$multiply": [2, 3]}]}, "list": [1, {"$add": [1, 1]}, "$n"]}"#;
    assert_eq!(
        projected(fields),
        [r#"{"large":100000,"sum":10,"list":[1,2,4]}"#]
    );
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
            (&fixture.database).into(),
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

/// As MongoDB: the filter of an upsert is refused before anything is looked for, in whatever it nests.
#[test]
fn an_upsert_cannot_ask_an_expression() {
    let fixture = with(&["{\"_id\": 1, \"a\": 1}"]);
    for filter in [
        r#"{"$expr": {"$eq": ["$a", 1]}}"#,
        r#"{"_id": 1, "$or": [{"b": 1}, {"$and": [{"$expr": true}]}]}"#,
    ] {
        let (filter, change) = (json(filter), json(r#"{"$set": {"b": 1}}"#));
        let mut request = UpdateRequest {
            array_filters: None,
            constants: None,
            sort: None,
            namespace: &fixture.namespace,
            context: None,
            collation: None,
            filter: filter.as_raw(),
            update: RawValue::Document(change.as_raw()),
            is_upsert: true,
            is_multi: false,
            hint: None,
            keeps_empty_timestamps: false,
        };
        let update = |request| {
            let outcome = exec::update(
                (&fixture.database).into(),
                &fixture.operation,
                request,
                Level::Written,
            );
            outcome.map(|outcome| outcome.matched)
        };
        assert_eq!(update(request).unwrap_err().code(), 224);
        let mut and_answer = FindAndModifyRequest::new(&fixture.namespace);
        and_answer.filter = filter.as_raw();
        and_answer.update = Some(RawValue::Document(change.as_raw()));
        and_answer.is_upsert = true;
        let refused = exec::find_and_modify(
            (&fixture.database).into(),
            &fixture.operation,
            and_answer,
            Level::Written,
        );
        assert_eq!(refused.map(|_| ()).unwrap_err().code(), 224);
        assert_eq!(fixture.find("{}"), [r#"{"_id":1,"a":1}"#]);
        request.is_upsert = false;
        assert!(update(request).is_ok());
        fixture.update("{}", r#"{"$unset": {"b": 1}}"#, false, false);
    }
}

/// `{_id: <id>, s: "xx..."}` of so many bytes.
fn of_bytes(id: i32, bytes: usize) -> Document {
    let frame = doc! { "_id": id, "s": "" }.as_bytes().len();
    let document = doc! { "_id": id, "s": "x".repeat(bytes - frame) };
    assert_eq!(document.as_bytes().len(), bytes);
    document
}

fn change(
    fixture: &Fixture,
    filter: Document,
    update: &Document,
    is_upsert: bool,
) -> std::result::Result<u64, i32> {
    let request = UpdateRequest {
        array_filters: None,
        constants: None,
        sort: None,
        namespace: &fixture.namespace,
        context: None,
        collation: None,
        filter: filter.as_raw(),
        update: RawValue::Document(update.as_raw()),
        is_upsert,
        is_multi: false,
        hint: None,
        keeps_empty_timestamps: false,
    };
    let outcome = exec::update(
        (&fixture.database).into(),
        &fixture.operation,
        request,
        Level::Written,
    );
    match outcome {
        Ok(outcome) => Ok(outcome.modified + u64::from(outcome.upserted.is_some())),
        Err(error) => Err(error.code()),
    }
}

#[test]
fn a_document_may_have_16_mib_and_no_byte_more() {
    const MAX: usize = DOCUMENT_BYTES_MAX;
    let fixture = with_documents(&[of_bytes(1, MAX)]);
    // One that is too large is refused alone, the others of its batch are not.
    let outcome = fixture.insert(&[of_bytes(2, MAX + 1), doc! { "_id": 3 }], false);
    assert_eq!((outcome.inserted, outcome.errors.len()), (1, 1));
    let (position, error) = &outcome.errors[0];
    assert_eq!((*position, error.code()), (0, 10334));
    let text = "object to insert too large. size in bytes: 16777217, max size: 16777216";
    assert_eq!(error.to_string(), text);
    // An `_id` that is made for a document has room beyond it.
    let without_id = doc! { "s": "x".repeat(MAX - doc! { "s": "" }.as_bytes().len()) };
    assert_eq!(without_id.as_bytes().len(), MAX);
    let outcome = fixture.insert(&[without_id], true);
    assert_eq!((outcome.inserted, outcome.errors.len()), (1, 0));

    let set = doc! { "$set": { "b": "y" } };
    let set_bytes = doc! { "b": "y" }.as_bytes().len() - doc! {}.as_bytes().len();
    fixture.insert(
        &[
            of_bytes(10, MAX - set_bytes),
            of_bytes(11, MAX - set_bytes + 1),
        ],
        true,
    );
    assert_eq!(change(&fixture, doc! { "_id": 10 }, &set, false), Ok(1));
    let (too_large_update, too_large_upsert) = (Err(17419), Err(17420));
    let changed = change(&fixture, doc! { "_id": 11 }, &set, false);
    assert_eq!(changed, too_large_update);
    for (id, bytes, refused) in [(3, MAX, None), (3, MAX + 1, Some(17419))] {
        let replaced = change(&fixture, doc! { "_id": id }, &of_bytes(id, bytes), false);
        assert_eq!(replaced, refused.map_or(Ok(1), Err), "{bytes}");
    }
    let upserted = change(&fixture, doc! { "_id": 20 }, &of_bytes(20, MAX), true);
    assert_eq!(upserted, Ok(1));
    let upserted = change(&fixture, doc! { "_id": 21 }, &of_bytes(21, MAX + 1), true);
    assert_eq!(upserted, too_large_upsert);
    // The whole document counts, its `_id` from the filter or made for it among it.
    let text = "x".repeat(MAX - doc! { "s": "" }.as_bytes().len());
    let upserted = change(
        &fixture,
        doc! { "a": 1 },
        &doc! { "s": text.as_str() },
        true,
    );
    assert_eq!(upserted, too_large_upsert);
    let set = doc! { "$set": { "s": text.as_str() } };
    assert_eq!(
        change(&fixture, doc! { "_id": 22 }, &set, true),
        too_large_upsert
    );

    let filter = doc! { "_id": 10 };
    let set = doc! { "$set": { "c": 1 } };
    let request = FindAndModifyRequest {
        filter: filter.as_raw(),
        update: Some(RawValue::Document(set.as_raw())),
        ..FindAndModifyRequest::new(&fixture.namespace)
    };
    let outcome = exec::find_and_modify(
        (&fixture.database).into(),
        &fixture.operation,
        request,
        Level::Written,
    );
    assert_eq!(outcome.unwrap_err().code(), 17419);
}

/// `$currentDate` is the moment of the change; `$$NOW` alone is one moment for the whole command.
#[test]
fn the_current_date_is_taken_when_a_document_is_changed() {
    let fixture = with(&[r#"{"_id": 1}"#, r#"{"_id": 2}"#]);
    let context = quarry_query::expression::ExpressionContext::at(1000);
    let change = doc! {"$currentDate": {"d": true}};
    let before = quarry_bson::DateTime::now();
    for id in [1, 3] {
        let filter = doc! {"_id": id};
        let request = UpdateRequest {
            array_filters: None,
            constants: None,
            sort: None,
            namespace: &fixture.namespace,
            context: Some(&context),
            collation: None,
            filter: filter.as_raw(),
            update: RawValue::Document(change.as_raw()),
            is_upsert: true,
            is_multi: false,
            hint: None,
            keeps_empty_timestamps: false,
        };
        exec::update(
            (&fixture.database).into(),
            &fixture.operation,
            request,
            Level::Written,
        )
        .unwrap();
    }
    for id in [2, 4] {
        let filter = doc! {"_id": id};
        let mut request = FindAndModifyRequest::new(&fixture.namespace);
        request.context = Some(&context);
        request.filter = filter.as_raw();
        request.update = Some(RawValue::Document(change.as_raw()));
        request.is_upsert = true;
        let level = Level::Written;
        exec::find_and_modify(
            (&fixture.database).into(),
            &fixture.operation,
            request,
            level,
        )
        .unwrap();
    }
    let since = Value::from(before);
    let since = doc! {"d": {"$gte": since}};
    let mut request = FindRequest::new(&fixture.namespace);
    request.filter = since.as_raw();
    let executor = exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
    assert_eq!(fixture.drain(executor).len(), 4);
}

/// A document is matched once more when it is locked, so that a filter that draws would draw twice: half of a half.
#[test]
fn the_filter_of_a_write_does_not_draw_at_random() {
    let fixture = with(&["{\"_id\": 1, \"a\": 1}"]);
    for filter in [
        r#"{"$sampleRate": 0.5}"#,
        r#"{"a": 1, "$or": [{"$expr": {"$lt": [{"$rand": {}}, 0.5]}}, {"b": 1}]}"#,
    ] {
        let filter = json(filter);
        let request = DeleteRequest {
            namespace: &fixture.namespace,
            context: None,
            collation: None,
            filter: filter.as_raw(),
            is_multi: true,
            hint: None,
        };
        let database = (&fixture.database).into();
        let refused = exec::delete(database, &fixture.operation, request, Level::Written);
        assert_eq!(refused.map_err(|error| error.code()), Err(238), "{filter}");
    }
    assert_eq!(
        fixture.delete("{\"$expr\": {\"$eq\": [\"$a\", 1]}}", true),
        1
    );
}

/// `sort` says which of the documents that match is changed, with an index for the order and without.
#[test]
fn an_update_of_one_document_changes_the_first_in_an_order() {
    for index in [None, Some(r#"{"key": {"a": -1}, "name": "a_-1"}"#)] {
        let fixture = with(&[
            "{\"_id\": 1, \"a\": 5}",
            "{\"_id\": 2, \"a\": 9}",
            "{\"_id\": 3, \"a\": 7}",
        ]);
        if let Some(spec) = index {
            fixture.index(spec);
        }
        let (filter, change) = (json(r#"{"a": {"$gt": 1}}"#), json(r#"{"$set": {"a": 0}}"#));
        let sort = json(r#"{"a": -1}"#);
        let mut request = UpdateRequest {
            namespace: &fixture.namespace,
            context: None,
            collation: None,
            filter: filter.as_raw(),
            update: RawValue::Document(change.as_raw()),
            is_upsert: false,
            is_multi: false,
            hint: None,
            sort: Some(sort.as_raw()),
            array_filters: None,
            constants: None,
            keeps_empty_timestamps: false,
        };
        let update = |request| {
            let database = (&fixture.database).into();
            exec::update(database, &fixture.operation, request, Level::Written)
        };
        for id in [2, 3, 1] {
            assert_eq!(update(request).unwrap().modified, 1);
            let changed = fixture.delete(&format!("{{\"_id\": {id}, \"a\": 0}}"), false);
            assert_eq!(changed, 1, "{id} with index {index:?}");
        }
        request.is_multi = true;
        let refused = update(request).map(|_| ()).map_err(|error| error.code());
        assert_eq!(refused, Err(9));
    }
}
