//! Indexes with collations: whom they serve, what their keys are, and how they are made.

use super::*;

impl Fixture {
    /// Makes an index; the error, if it is refused.
    fn refused_index(&self, spec: &str) -> quarry_database::Error {
        let level = Level::Written;
        let made =
            self.database
                .create_indexes(&self.namespace, &[json(spec)], &self.operation, level);
        made.err().unwrap()
    }

    /// The errors that `validate` finds in the collection and its indexes.
    pub(super) fn broken(&self) -> Vec<String> {
        self.database
            .validate(&self.namespace, true, &self.operation)
            .unwrap()
            .errors
    }

    /// The names of the indexes that the plan of a find goes through, and the names of its stages.
    fn stages(&self, filter: &str, sort: Option<&str>, context: &ExpressionContext) -> String {
        let (filter, sort) = (json(filter), sort.map(json));
        let mut request = FindRequest::new(&self.namespace);
        (request.filter, request.context) = (filter.as_raw(), Some(context));
        request.sort = sort.as_ref().map(Document::as_raw);
        let shown = Document::build(|out| {
            let scope = (&self.database).into();
            let explained = Explained::Find(request);
            exec::explain(
                scope,
                &self.operation,
                explained,
                Verbosity::QueryPlanner,
                out,
            )
            .unwrap();
        });
        let mut stages = Vec::new();
        let mut at = shown.as_raw().get_path("queryPlanner.winningPlan");
        while let Some(RawValue::Document(stage)) = at {
            let name = stage.get_str("indexName");
            let kind = stage.get_str("stage").unwrap_or_default();
            stages.push(name.map_or(kind.to_owned(), |name| format!("{kind} {name}")));
            at = stage.get("inputStage");
        }
        stages.join(" < ")
    }
}

#[test]
fn an_index_serves_the_collation_that_it_has() {
    let fixture = with(&[
        r#"{"_id": 1, "a": "x", "b": 1}"#,
        r#"{"_id": 2, "a": "X", "b": 2}"#,
        r#"{"_id": 3, "a": 5, "b": 3}"#,
    ]);
    fixture.index(&format!(
        r#"{{"key": {{"a": 1}}, "name": "weak", "collation": {WEAK}}}"#
    ));
    let (weak, simple, other) = (by(WEAK), by(SIMPLE), by(r#"{"locale": "de"}"#));
    let filter = r#"{"a": "x"}"#;
    assert_eq!(fixture.stages(filter, None, &weak), "FETCH < IXSCAN weak");
    assert_eq!(fixture.found_by(filter, Some(&weak)).len(), 2);
    for context in [&simple, &other] {
        assert_eq!(fixture.stages(filter, None, context), "COLLSCAN");
        assert_eq!(fixture.found_by(filter, Some(context)).len(), 1);
        // What has no string is found by it all the same, and an order is not given.
        assert_eq!(
            fixture.stages(r#"{"a": 5}"#, None, context),
            "FETCH < IXSCAN weak"
        );
        assert_eq!(
            fixture.stages("{}", Some(r#"{"a": 1}"#), context),
            "SORT < COLLSCAN"
        );
    }
    assert_eq!(
        fixture.stages("{}", Some(r#"{"a": -1}"#), &weak),
        "FETCH < IXSCAN weak"
    );
    // Its keys count documents, and have no strings to be shown.
    let counted = || fixture.counted_by(filter, Some(&weak));
    assert_eq!(counted(), 2);
    let projection = json(r#"{"_id": 0, "a": 1}"#);
    let raw = json(filter);
    let mut request = FindRequest::new(&fixture.namespace);
    (request.filter, request.projection) = (raw.as_raw(), Some(projection.as_raw()));
    request.context = Some(&weak);
    let executor = exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
    assert_eq!(fixture.drain(executor), [r#"{"a":"x"}"#, r#"{"a":"X"}"#]);
    assert_eq!(fixture.distinct_by("a", Some(&weak)), 2);
    assert_eq!(fixture.distinct_by("a", Some(&simple)), 3);
}

#[test]
fn indexes_have_the_collation_of_their_collection_and_differ_by_theirs() {
    let fixture = names();
    fixture.index(r#"{"key": {"n": 1}, "name": "inherited"}"#);
    fixture.index(r#"{"key": {"n": 1}, "name": "bytes", "collation": {"locale": "simple"}}"#);
    fixture.index(r#"{"key": {"n": 1}, "name": "de", "collation": {"locale": "de"}}"#);
    let listed = fixture.database.list_indexes(&fixture.namespace).unwrap();
    let locale = |index: &Document| {
        let collation = index.get_document("collation");
        collation.map_or("none".to_owned(), |collation| {
            collation.get_str("locale").unwrap().to_owned()
        })
    };
    let locales: Vec<String> = listed.iter().map(locale).collect();
    assert_eq!(locales, ["none", "en", "none", "de"]);
    assert_eq!(listed[1].get_document("collation").unwrap().len(), 10);
    // The same again is no error; another collation under the same name is.
    fixture.index(r#"{"key": {"n": 1}, "name": "inherited"}"#);
    let refused = fixture
        .refused_index(r#"{"key": {"n": 1}, "name": "inherited", "collation": {"locale": "fr"}}"#);
    assert_eq!(refused.code(), 86);
    for (spec, code) in [
        (r#"{"key": {"n": "2d"}, "name": "flat"}"#, 67),
        (r#"{"key": {"n": "hashed"}, "name": "hashes"}"#, 67),
        (r#"{"key": {"n": 1}, "name": "q", "collation": {}}"#, 2),
        (r#"{"key": {"n": 1}, "name": "q", "collation": 1}"#, 14),
        (
            r#"{"key": {"n": 1}, "name": "q", "collation": {"locale": "xx"}}"#,
            2,
        ),
    ] {
        assert_eq!(fixture.refused_index(spec).code(), code, "{spec}");
    }
    fixture.index(r#"{"key": {"p": "2dsphere", "n": 1}, "name": "sphere"}"#);
    let point = json(r#"{"_id": "p", "p": {"type": "Point", "coordinates": [1, 2]}, "n": "Tea"}"#);
    assert!(fixture.insert(&[point], true).errors.is_empty());
    let near = r#"{"n": "TEA", "p": {"$geoWithin": {"$centerSphere": [[1, 2], 0.1]}}}"#;
    assert_eq!(fixture.find(near).len(), 1);
    assert_eq!(
        fixture.stages(r#"{"n": "tea"}"#, None, &by(SIMPLE)),
        "FETCH < IXSCAN bytes"
    );
    assert_eq!(
        fixture.stages(r#"{"n": "tea"}"#, None, &by(WEAK)),
        "FETCH < IXSCAN inherited"
    );
}

#[test]
fn a_unique_index_is_unique_by_its_collation() {
    let fixture = with(&[r#"{"_id": 1, "a": "x"}"#]);
    fixture.index(&format!(
        r#"{{"key": {{"a": 1}}, "name": "u", "unique": true, "collation": {WEAK}}}"#
    ));
    let refused = fixture
        .insert(&[json(r#"{"_id": 2, "a": "X"}"#)], true)
        .errors
        .pop()
        .unwrap()
        .1;
    assert_eq!(refused.code.0, 11_000);
    assert!(
        refused.message.contains(" index: u collation: {"),
        "{}",
        refused.message
    );
    assert!(
        refused.message.contains("dup key: { a: \"0x"),
        "{}",
        refused.message
    );
    assert!(
        fixture
            .insert(&[json(r#"{"_id": 3, "a": "y"}"#)], true)
            .errors
            .is_empty()
    );
    // An upsert by the collation finds the document; one byte by byte meets the key of one that it does not mean.
    let upsert = |collation: Option<&str>| {
        let (filter, update) = (json(r#"{"a": "Y"}"#), json(r#"{"$set": {"b": 1}}"#));
        let collation = collation.map(json);
        let request = UpdateRequest {
            namespace: &fixture.namespace,
            context: None,
            collation: collation.as_ref().map(Document::as_raw),
            filter: filter.as_raw(),
            update: RawValue::Document(update.as_raw()),
            is_upsert: true,
            is_multi: false,
            hint: None,
            sort: None,
            array_filters: None,
            constants: None,
            keeps_empty_timestamps: false,
        };
        exec::update(
            (&fixture.database).into(),
            &fixture.operation,
            request,
            Level::Written,
        )
    };
    assert_eq!(upsert(Some(WEAK)).unwrap().matched, 1);
    assert_eq!(upsert(None).unwrap_err().code.0, 11_000);
    // Its entries go and come with the documents, whose strings may change without their keys.
    assert_eq!(
        fixture
            .update(r#"{"a": "x"}"#, r#"{"$set": {"a": "X"}}"#, false, false)
            .modified,
        1
    );
    assert_eq!(
        fixture
            .update(r#"{"a": "X"}"#, r#"{"$set": {"a": "z"}}"#, false, false)
            .modified,
        1
    );
    assert!(
        fixture
            .insert(&[json(r#"{"_id": 4, "a": "x"}"#)], true)
            .errors
            .is_empty()
    );
    assert_eq!(fixture.broken(), [""; 0]);
}

#[test]
fn a_partial_index_filters_by_its_collation() {
    let fixture = with(&[
        r#"{"_id": 1, "a": "x", "b": 1}"#,
        r#"{"_id": 2, "a": "X", "b": 2}"#,
        r#"{"_id": 3, "a": "y", "b": 3}"#,
    ]);
    fixture.index(&format!(
        r#"{{"key": {{"b": 1}}, "name": "p", "partialFilterExpression": {{"a": "x"}}, "collation": {WEAK}}}"#
    ));
    let filter = r#"{"a": "X", "b": {"$gt": 0}}"#;
    assert_eq!(fixture.stages(filter, None, &by(WEAK)), "FETCH < IXSCAN p");
    assert_eq!(fixture.found_by(filter, Some(&by(WEAK))).len(), 2);
    assert_eq!(fixture.stages(filter, None, &by(SIMPLE)), "COLLSCAN");
    assert_eq!(fixture.found_by(filter, Some(&by(SIMPLE))).len(), 1);
}

#[test]
fn out_and_merge_keep_to_the_collations_of_their_targets() {
    let fixture = names();
    fixture.index(r#"{"key": {"n": 1}, "name": "inherited"}"#);
    fixture.index(r#"{"key": {"n": -1}, "name": "bytes", "collation": {"locale": "simple"}}"#);
    let before = fixture.database.list_indexes(&fixture.namespace).unwrap();
    fixture
        .aggregated("db.c", r#"[{"$match": {"n": "tea"}}, {"$out": "c"}]"#, None)
        .unwrap();
    assert_eq!(
        fixture.database.list_indexes(&fixture.namespace).unwrap(),
        before
    );
    assert_eq!(fixture.find(r#"{"n": "TEA"}"#).len(), 1);
    let into = |on: &str| {
        format!(
            r#"[{{"$project": {{"_id": 0, "n": 1, "m": "new"}}}}, {{"$merge": {{"into": "t", "on": "{on}"}}}}]"#
        )
    };
    fixture.create("db.t", "{}");
    let t = Namespace::parse("db.t").unwrap();
    let index = |spec: &str| {
        fixture
            .database
            .create_indexes(&t, &[json(spec)], &fixture.operation, Level::Written)
            .unwrap()
    };
    index(r#"{"key": {"n": 1}, "name": "u", "unique": true}"#);
    assert_eq!(
        fixture
            .aggregated("db.c", &into("n"), None)
            .unwrap_err()
            .code
            .0,
        51_183
    );
    index(&format!(
        r#"{{"key": {{"n": 1}}, "name": "w", "unique": true, "collation": {WEAK}}}"#
    ));
    let other = json(r#"{"_id": 1, "n": "TEA"}"#);
    let request = [other.as_raw()];
    let request = InsertRequest::new(&t, &request);
    exec::insert(
        (&fixture.database).into(),
        &fixture.operation,
        request,
        Level::Written,
    )
    .unwrap();
    fixture.aggregated("db.c", &into("n"), None).unwrap();
    assert_eq!(
        fixture.aggregated("db.t", "[]", None).unwrap(),
        [r#"{"_id":1,"n":"tea","m":"new"}"#]
    );
}

/// Sort keys of another version are nothing that anybody could find, or keep up to date.
#[test]
fn an_index_with_sort_keys_of_another_version_is_refused_by_name() {
    use quarry_storage::{Engine, WriteBatch};
    let engine = Arc::new(quarry_storage::Memory::new());
    let journal = std::env::temp_dir().join(format!("quarry-collations-{}", std::process::id()));
    let open = || {
        let options = Options {
            journal_directory: Some(journal.clone()),
            commit_interval_ms: 0,
            filter_language: quarry_query::filter_language(),
            index_kinds: quarry_query::index_kinds(),
            ..Options::default()
        };
        Fixture {
            database: Database::open(Arc::clone(&engine) as Arc<dyn Engine>, options).unwrap(),
            operation: Operation::new(None),
            namespace: Namespace::parse("db.c").unwrap(),
        }
    };
    let fixture = open();
    assert!(
        fixture
            .insert(
                &[
                    json(r#"{"_id": 1, "a": "x"}"#),
                    json(r#"{"_id": 2, "b": 1}"#)
                ],
                true
            )
            .errors
            .is_empty()
    );
    fixture.index(&format!(
        r#"{{"key": {{"a": 1}}, "name": "weak", "collation": {WEAK}}}"#
    ));
    drop(fixture);
    let key = [&[0x00, 0x10][..], b"db\0c"].concat();
    let mut entry = Vec::new();
    assert!(
        engine
            .get(&key, &mut |value| entry.extend_from_slice(value))
            .unwrap()
    );
    let version = quarry_database::SORT_KEYS_VERSION.as_bytes();
    let at = entry
        .windows(version.len())
        .position(|window| window == version)
        .unwrap();
    entry[at] = b'x';
    let mut batch = WriteBatch::new();
    batch.put(&key, &entry);
    engine.write(&batch).unwrap();
    let fixture = open();
    let weak = by(WEAK);
    // Not used, and refused where it is named.
    assert_eq!(fixture.stages(r#"{"a": "X"}"#, None, &weak), "COLLSCAN");
    assert_eq!(fixture.found_by(r#"{"a": "X"}"#, Some(&weak)).len(), 1);
    let hinted = fixture.find_with("{}", |request| request.hint = Some(RawValue::from("weak")));
    assert_eq!(hinted.unwrap_err().code.0, 161);
    let refused = fixture
        .insert(&[json(r#"{"_id": 3, "a": "y"}"#)], true)
        .errors
        .pop()
        .unwrap()
        .1;
    assert_eq!(refused.code.0, 161);
    assert!(refused.message.contains("`weak`"), "{}", refused.message);
    // A change that leaves its field alone goes on; another index does not make it new.
    assert_eq!(
        fixture
            .update(r#"{"_id": 1}"#, r#"{"$set": {"b": 1}}"#, false, false)
            .modified,
        1
    );
    fixture.index(r#"{"key": {"b": 1}, "name": "b"}"#);
    assert_eq!(fixture.stages(r#"{"a": "X"}"#, None, &weak), "COLLSCAN");
    let drop_index = |name: &str| {
        fixture.database.drop_indexes(
            &fixture.namespace,
            &[RawValue::from(name)],
            &fixture.operation,
            Level::Written,
        )
    };
    drop_index("weak").unwrap();
    fixture.index(&format!(
        r#"{{"key": {{"a": 1}}, "name": "weak", "collation": {WEAK}}}"#
    ));
    assert_eq!(
        fixture.stages(r#"{"a": "X"}"#, None, &weak),
        "FETCH < IXSCAN weak"
    );
    assert!(
        fixture
            .insert(&[json(r#"{"_id": 3, "a": "y"}"#)], true)
            .errors
            .is_empty()
    );
    drop(fixture);
    std::fs::remove_dir_all(&journal).unwrap();
}

#[test]
fn hashes_and_wildcard_keys_without_a_collation_are_of_the_strings_themselves() {
    let fixture = names();
    // MongoDB refuses a hashed one, too.
    let refused = fixture.refused_index(r#"{"key": {"n": "hashed"}, "name": "i"}"#);
    let text = refused.to_string();
    assert_eq!(refused.code(), 67, "{text}");
    assert!(text.contains("does not support collation"), "{text}");
    assert!(
        text.contains(r#"`collation: {locale: "simple"}`"#),
        "{text}"
    );
    // A hashed index has no arrays.
    fixture.delete(r#"{"_id": 1}"#, true);
    let documents = [
        r#"{"_id": 2, "n": 7, "m": "Tea"}"#,
        r#"{"_id": 3, "n": {"k": 1}, "m": 7}"#,
        r#"{"_id": 4, "n": {"k": "X"}, "m": 8}"#,
    ];
    let documents: Vec<Document> = documents.iter().map(|text| json(text)).collect();
    assert!(fixture.insert(&documents, true).errors.is_empty());
    let (weak, simple) = (by(WEAK), by(SIMPLE));
    let cases = [
        (r#"{"n": 7}"#, "hashes", 1),
        (r#"{"n": {"k": 1}}"#, "hashes", 1),
        (r#"{"n": {"$in": [7, {"k": 1}]}}"#, "hashes", 2),
        (r#"{"m": 7}"#, "all", 1),
        (r#"{"m": {"$gte": 7}}"#, "all", 2),
        (r#"{"m": {"$regex": "^T"}}"#, "all", 1),
        (r#"{"n": "cafe"}"#, "", 2),
        (r#"{"n": {"$in": [7, "cafe"]}}"#, "", 3),
        (r#"{"n": {"k": "x"}}"#, "", 1),
        (r#"{"m": "TEA"}"#, "", 1),
        (r#"{"m": {"$gt": "a"}}"#, "", 1),
        (r#"{"$or": [{"n": 7}, {"m": "TEA"}]}"#, "", 1),
    ];
    let filters = cases.map(|(filter, _, _)| filter);
    let before = filters.map(|filter| fixture.found_by(filter, Some(&simple)).len());
    for spec in [
        r#"{"key": {"n": "hashed"}, "name": "hashes", "collation": {"locale": "simple"}}"#,
        r#"{"key": {"$**": 1}, "name": "all", "collation": {"locale": "simple"},
            "wildcardProjection": {"n": 0}}"#,
    ] {
        fixture.index(spec);
    }
    for (filter, index, wanted) in cases {
        let plan = match index {
            "" => "COLLSCAN".to_owned(),
            index => format!("FETCH < IXSCAN {index}"),
        };
        assert_eq!(fixture.stages(filter, None, &weak), plan, "{filter}");
        assert_eq!(fixture.found_by(filter, None).len(), wanted, "{filter}");
    }
    let after = filters.map(|filter| fixture.found_by(filter, Some(&simple)).len());
    assert_eq!(before, after);
    // The keys are in the order of bytes.
    let (filter, sort) = (r#"{"m": {"$gt": 1}}"#, Some(r#"{"m": 1}"#));
    let stages = |context| fixture.stages(filter, sort, context);
    assert_eq!(stages(&simple), "FETCH < IXSCAN all");
    assert_eq!(stages(&weak), "SORT < FETCH < IXSCAN all");
    assert!(fixture.broken().is_empty());
}

#[test]
fn a_wildcard_index_keeps_sort_keys_of_values_and_paths_as_they_are() {
    let fixture = names();
    let documents = [
        r#"{"_id": 2, "m": "Tea", "N": "x", "k": "one"}"#,
        r#"{"_id": 3, "m": "TEA", "in": {"m": "Crème"}, "k": "ONE"}"#,
        r#"{"_id": 4, "m": 7, "in": [{"m": "creme"}, {"m": "z"}], "k": "two"}"#,
    ];
    let documents: Vec<Document> = documents.iter().map(|text| json(text)).collect();
    // The first of these comes before the indexes.
    assert!(fixture.insert(&documents[..1], true).errors.is_empty());
    fixture.index(r#"{"key": {"$**": 1}, "name": "all", "wildcardProjection": {"k": 0}}"#);
    fixture.index(r#"{"key": {"k": 1, "in.$**": 1}, "name": "inner"}"#);
    assert!(fixture.insert(&documents[1..], true).errors.is_empty());
    let (weak, simple) = (by(WEAK), by(SIMPLE));
    for (filter, by_weak, found, by_simple) in [
        (r#"{"n": "CAFE"}"#, "FETCH < IXSCAN all", 3, "COLLSCAN"),
        (r#"{"m": "tea"}"#, "FETCH < IXSCAN all", 2, "COLLSCAN"),
        (r#"{"in.m": "CREME"}"#, "FETCH < IXSCAN all", 2, "COLLSCAN"),
        (
            r#"{"m": {"$gte": "TEA"}}"#,
            "FETCH < IXSCAN all",
            2,
            "COLLSCAN",
        ),
        (
            r#"{"m": {"$in": [7, "tea"]}}"#,
            "FETCH < IXSCAN all",
            3,
            "COLLSCAN",
        ),
        (r#"{"m": 7}"#, "FETCH < IXSCAN all", 1, "FETCH < IXSCAN all"),
        // Names of fields are none of the strings that are compared.
        (r#"{"N": "X"}"#, "FETCH < IXSCAN all", 1, "COLLSCAN"),
        (
            r#"{"N": {"$exists": true}}"#,
            "FETCH < IXSCAN all",
            1,
            "FETCH < IXSCAN all",
        ),
    ] {
        assert_eq!(fixture.stages(filter, None, &weak), by_weak, "{filter}");
        assert_eq!(fixture.found_by(filter, None).len(), found, "{filter}");
        assert_eq!(fixture.stages(filter, None, &simple), by_simple, "{filter}");
    }
    // A field before the wildcard one.
    let filter = r#"{"k": "One", "in.m": "creme"}"#;
    assert_eq!(fixture.found_by(filter, None).len(), 1);
    let hinted = |filter: &str, context| {
        let (filter, hint) = (json(filter), Value::from("inner"));
        let mut request = FindRequest::new(&fixture.namespace);
        (request.filter, request.context) = (filter.as_raw(), context);
        request.hint = Some(hint.as_raw());
        let executor = exec::find((&fixture.database).into(), &fixture.operation, request);
        let found = executor.map(|executor| fixture.drain(executor).len());
        found.map_err(|error| error.code())
    };
    assert_eq!(hinted(filter, None), Ok(1));
    assert_eq!(hinted(r#"{"k": "TWO", "in.m": "Z"}"#, None), Ok(1));
    assert_eq!(hinted(filter, Some(&simple)), Err(291));
    // The order of the keys is that of the collation, and of no other one.
    let (filter, sort) = (r#"{"m": {"$gt": "a"}}"#, Some(r#"{"m": 1}"#));
    assert_eq!(fixture.stages(filter, sort, &weak), "FETCH < IXSCAN all");
    assert_eq!(
        fixture.stages(r#"{"m": {"$gt": 1}}"#, sort, &simple),
        "SORT < FETCH < IXSCAN all"
    );
    assert_eq!(fixture.delete(r#"{"m": "TEA"}"#, true), 2);
    assert!(fixture.broken().is_empty());
}

#[test]
fn the_fields_beside_a_place_go_by_the_collation() {
    let fixture = names();
    fixture.index(r#"{"key": {"n": 1, "p": "2dsphere"}, "name": "sphere"}"#);
    let point = json(r#"{"_id": "p", "p": {"type": "Point", "coordinates": [1, 2]}, "n": "Tea"}"#);
    assert!(fixture.insert(&[point], true).errors.is_empty());
    let near = r#"{"n": "TEA", "p": {"$geoWithin": {"$centerSphere": [[1, 2], 0.1]}}}"#;
    let stages = fixture.stages(near, None, &by(WEAK));
    assert!(stages.ends_with("IXSCAN sphere"), "{stages}");
    assert_eq!(fixture.find(near).len(), 1);
    assert!(fixture.found_by(near, Some(&by(SIMPLE))).is_empty());
    assert!(fixture.broken().is_empty());
}

#[test]
fn bounds_of_keys_are_meant_by_the_collation_of_the_index() {
    let fixture = names();
    fixture.index(r#"{"key": {"n": 1}, "name": "weak"}"#);
    fixture.index(r#"{"key": {"n": 1}, "name": "bytes", "collation": {"locale": "simple"}}"#);
    let (weak, simple) = (by(WEAK), by(SIMPLE));
    let find = |hint: &str, (min, max): (&str, &str), returns_key, context| {
        let (min, max) = (json(min), json(max));
        let hint = Value::from(RawValue::from(hint));
        let mut request = FindRequest::new(&fixture.namespace);
        (request.hint, request.context) = (Some(hint.as_raw()), Some(context));
        let options = request.key_options();
        (options.min, options.max) = (Some(min.as_raw()), Some(max.as_raw()));
        options.returns_key = returns_key;
        let executor = exec::find((&fixture.database).into(), &fixture.operation, request);
        let found = executor.map(|executor| fixture.drain(executor).len());
        found.map_err(|error| error.code())
    };
    let texts = (r#"{"n": "CAFE"}"#, r#"{"n": "TEA"}"#);
    assert_eq!(find("weak", texts, false, &weak), Ok(3));
    assert_eq!(find("bytes", texts, false, &simple), Ok(2));
    // Strings of another collation than the index's are none of its keys.
    assert_eq!(find("weak", texts, false, &simple), Err(51_174));
    assert_eq!(find("bytes", texts, false, &weak), Err(51_174));
    let numbers = (r#"{"n": 1}"#, r#"{"n": 9}"#);
    assert_eq!(find("weak", numbers, false, &simple), Ok(0));
    // A sort key does not tell its string.
    assert_eq!(find("weak", texts, true, &weak), Err(238));
    assert_eq!(find("bytes", texts, true, &simple), Ok(2));
}

#[test]
fn the_key_of_an_index_with_a_collation_is_not_returned() {
    let fixture = names();
    fixture.index(r#"{"key": {"n": 1}, "name": "weak"}"#);
    let find = |filter: &str, returns_key, projection: Option<&str>| {
        let (filter, projection) = (json(filter), projection.map(json));
        let mut request = FindRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        request.projection = projection.as_ref().map(Document::as_raw);
        if returns_key {
            request.key_options().returns_key = true;
        }
        let executor = exec::find((&fixture.database).into(), &fixture.operation, request);
        let found = executor.map(|executor| fixture.drain(executor));
        found.map_err(|error| error.code())
    };
    let meta = Some(r#"{"k": {"$meta": "indexKey"}}"#);
    for filter in [r#"{"n": "tea"}"#, r#"{"n": {"$gt": 5}}"#] {
        assert_eq!(find(filter, true, None), Err(238), "{filter}");
        assert_eq!(find(filter, false, meta), Err(238), "{filter}");
    }
    // A whole `_id` that no collation has a say in, and no index at all.
    assert_eq!(
        find(r#"{"_id": 1}"#, true, None),
        Ok(vec![r#"{"_id":1}"#.to_owned()])
    );
    assert_eq!(find(r#"{"m": 1}"#, true, None), Ok(Vec::new()));
    let order = Some(r#"{"k": {"$meta": "recordId"}}"#);
    assert_eq!(find(r#"{"n": "tea"}"#, false, order).unwrap().len(), 1);
}
