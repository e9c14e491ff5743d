//! Collations of operations, of collections and of views: what is found, changed and told apart by them.

use quarry_database::parse_collation;
use quarry_query::expression::ExpressionContext;

use super::*;

fn collation(specification: &str) -> quarry_query::Collation {
    parse_collation(json(specification).as_raw())
        .unwrap()
        .unwrap()
}

/// The context of a command with that collation.
fn by(specification: &str) -> ExpressionContext {
    ExpressionContext::default().with_collation(collation(specification))
}

/// Case and accents do not count.
const WEAK: &str = r#"{"locale": "en", "strength": 1}"#;
const SIMPLE: &str = r#"{"locale": "simple"}"#;

impl Fixture {
    fn create(&self, name: &str, options: &str) {
        let namespace = Namespace::parse(name).unwrap();
        let options = json(options);
        let created = self.database.create_collection(
            &namespace,
            options.as_raw(),
            &self.operation,
            Level::Written,
        );
        created.unwrap();
    }

    fn found_by(&self, filter: &str, context: Option<&ExpressionContext>) -> Vec<String> {
        let context = context.map(|context| context.with_collation(context.collation().clone()));
        let filter = json(filter);
        let mut request = FindRequest::new(&self.namespace);
        (request.filter, request.context) = (filter.as_raw(), context.as_ref());
        self.drain(exec::find((&self.database).into(), &self.operation, request).unwrap())
    }

    fn counted_by(&self, filter: &str, context: Option<&ExpressionContext>) -> u64 {
        let filter = json(filter);
        let mut request = CountRequest::new(&self.namespace);
        (request.filter, request.context) = (filter.as_raw(), context);
        exec::count((&self.database).into(), &self.operation, request).unwrap()
    }

    fn distinct_by(&self, key: &str, context: Option<&ExpressionContext>) -> usize {
        let mut request = DistinctRequest::new(&self.namespace, key);
        request.context = context;
        exec::distinct((&self.database).into(), &self.operation, request)
            .unwrap()
            .len()
    }

    fn aggregated(
        &self,
        name: &str,
        pipeline: &str,
        context: Option<&ExpressionContext>,
    ) -> Result<Vec<String>> {
        let namespace = Namespace::parse(name).unwrap();
        let stages = json(&format!(r#"{{"p": {pipeline}}}"#));
        let mut request =
            AggregateRequest::new(Over::Collection(&namespace), stages.get_array("p").unwrap());
        request.context = context;
        let executor = exec::aggregate((&self.database).into(), &self.operation, request)?;
        Ok(self.drain(executor))
    }
}

fn names() -> Fixture {
    let fixture = with(&[]);
    fixture.create("db.c", &format!(r#"{{"collation": {WEAK}}}"#));
    let documents = [
        r#"{"_id": "a", "n": "Café"}"#,
        r#"{"_id": "A", "n": "cafe"}"#,
        r#"{"_id": "b", "n": "tea"}"#,
        r#"{"_id": 1, "n": ["CAFE", "x"]}"#,
    ];
    let documents: Vec<Document> = documents.iter().map(|text| json(text)).collect();
    assert!(fixture.insert(&documents, true).errors.is_empty());
    fixture
}

#[test]
fn an_operation_compares_as_it_says_and_else_as_its_collection() {
    let fixture = names();
    let (simple, weak) = (by(SIMPLE), by(WEAK));
    for context in [None, Some(&weak)] {
        assert_eq!(fixture.found_by(r#"{"n": "cafe"}"#, context).len(), 3);
        assert_eq!(fixture.counted_by(r#"{"n": "cafe"}"#, context), 3);
        assert_eq!(fixture.distinct_by("n", context), 3);
        // Records stand under their `_id`s byte by byte, and are found by the collation all the same.
        assert_eq!(fixture.found_by(r#"{"_id": "a"}"#, context).len(), 2);
        assert_eq!(
            fixture.counted_by(r#"{"_id": {"$in": ["A", 1]}}"#, context),
            3
        );
        assert_eq!(fixture.found_by(r#"{"_id": 1}"#, context).len(), 1);
    }
    assert_eq!(fixture.found_by(r#"{"n": "cafe"}"#, Some(&simple)).len(), 1);
    assert_eq!(fixture.counted_by(r#"{"_id": "a"}"#, Some(&simple)), 1);
    assert_eq!(fixture.distinct_by("n", Some(&simple)), 5);
    let grouped = |context| {
        let pipeline = r#"[{"$unwind": "$n"}, {"$group": {"_id": "$n", "c": {"$sum": 1}}}]"#;
        fixture.aggregated("db.c", pipeline, context).unwrap().len()
    };
    assert_eq!((grouped(None), grouped(Some(&simple))), (3, 5));
}

#[test]
fn writes_compare_as_their_collection_or_their_own_collation() {
    let fixture = names();
    // By `_id`: the first that is equal, or all.
    assert_eq!(
        fixture
            .update(r#"{"_id": "a"}"#, r#"{"$set": {"m": 1}}"#, true, false)
            .matched,
        2
    );
    assert_eq!(
        fixture
            .update(r#"{"_id": "a"}"#, r#"{"$set": {"m": 2}}"#, false, false)
            .matched,
        1
    );
    assert_eq!(
        fixture
            .update(
                r#"{"n": "CAFÉ"}"#,
                r#"{"$addToSet": {"s": {"$each": ["x", "X"]}}}"#,
                true,
                false
            )
            .matched,
        3
    );
    assert_eq!(fixture.find(r#"{"s": {"$size": 1}}"#).len(), 3);
    // An upsert that finds one by the collation inserts none.
    assert_eq!(
        fixture
            .update(r#"{"n": "TEA"}"#, r#"{"$set": {"m": 3}}"#, false, true)
            .matched,
        1
    );
    let delete = |filter: &str, collation: Option<&str>| {
        let (filter, collation) = (json(filter), collation.map(json));
        let request = DeleteRequest {
            namespace: &fixture.namespace,
            context: None,
            collation: collation.as_ref().map(Document::as_raw),
            filter: filter.as_raw(),
            is_multi: true,
            hint: None,
        };
        exec::delete(
            (&fixture.database).into(),
            &fixture.operation,
            request,
            Level::Written,
        )
        .unwrap()
    };
    assert_eq!(delete(r#"{"n": "CAFE", "_id": "A"}"#, Some(SIMPLE)), 0);
    assert_eq!(delete(r#"{"n": "CAFE"}"#, None), 3);
    assert_eq!(delete(r#"{"_id": "B"}"#, None), 1);
    let mut request = FindAndModifyRequest::new(&fixture.namespace);
    let (filter, update) = (json(r#"{"_id": "z"}"#), json(r#"{"$set": {"n": "Q"}}"#));
    (request.filter, request.update, request.is_upsert) = (
        filter.as_raw(),
        Some(RawValue::Document(update.as_raw())),
        true,
    );
    let run = || {
        exec::find_and_modify(
            (&fixture.database).into(),
            &fixture.operation,
            request,
            Level::Written,
        )
        .unwrap()
    };
    assert!(!run().matched);
    let again = json(r#"{"_id": "Z"}"#);
    request.filter = again.as_raw();
    let run = || {
        exec::find_and_modify(
            (&fixture.database).into(),
            &fixture.operation,
            request,
            Level::Written,
        )
        .unwrap()
    };
    assert!(run().matched);
}

#[test]
fn a_view_compares_as_it_says_and_takes_no_other_collation() {
    let fixture = names();
    fixture.create("db.plain", r#"{"viewOn": "c", "pipeline": []}"#);
    fixture.create(
        "db.weak",
        &format!(
            r#"{{"viewOn": "c", "pipeline": [{{"$match": {{"n": "tea"}}}}], "collation": {WEAK}}}"#
        ),
    );
    let count = |view: &str, filter: &str, context: Option<&ExpressionContext>| {
        fixture
            .aggregated(view, &format!(r#"[{{"$match": {filter}}}]"#), context)
            .map(|found| found.len())
    };
    // The collation of what it is on is nothing to a view.
    assert_eq!(count("db.plain", r#"{"n": "TEA"}"#, None).unwrap(), 0);
    assert_eq!(count("db.weak", r#"{"n": "TEA"}"#, None).unwrap(), 1);
    assert_eq!(
        count("db.weak", r#"{"n": "TEA"}"#, Some(&by(WEAK))).unwrap(),
        1
    );
    for (view, context) in [("db.plain", by(WEAK)), ("db.weak", by(SIMPLE))] {
        assert_eq!(
            count(view, "{}", Some(&context)).unwrap_err().code.0,
            167,
            "{view}"
        );
    }
    let lookup = |from: &str| {
        let pipeline = format!(
            r#"[{{"$lookup": {{"from": "{from}", "localField": "n", "foreignField": "n", "as": "f"}}}}]"#
        );
        fixture.aggregated("db.c", &pipeline, None)
    };
    assert!(lookup("weak").is_ok());
    assert_eq!(lookup("plain").unwrap_err().code.0, 167);
    let check = |on: &str, specification: &str| {
        let name = Namespace::parse("db.upon").unwrap();
        let stages = json(r#"{"p": []}"#);
        let stages = stages.get_array("p").unwrap();
        let scope = (&fixture.database).into();
        exec::check_view(
            scope,
            &fixture.operation,
            &name,
            on,
            stages,
            &collation(specification),
        )
    };
    assert!(check("weak", WEAK).is_ok());
    assert_eq!(check("weak", SIMPLE).unwrap_err().code.0, 167);
    assert!(check("c", SIMPLE).is_ok());
}

#[test]
fn a_validator_compares_as_its_collection() {
    let fixture = with(&[]);
    fixture.create(
        "db.c",
        &format!(r#"{{"collation": {WEAK}, "validator": {{"kind": "Tea"}}}}"#),
    );
    assert!(
        fixture
            .insert(&[json(r#"{"kind": "TÉA"}"#)], true)
            .errors
            .is_empty()
    );
    assert_eq!(
        fixture
            .insert(&[json(r#"{"kind": "coffee"}"#)], true)
            .errors
            .len(),
        1
    );
}

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
    fn broken(&self) -> Vec<String> {
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
        (r#"{"key": {"$**": 1}, "name": "all"}"#, 67),
        (
            r#"{"key": {"x.$**": 1}, "name": "x", "collation": {"locale": "de"}}"#,
            67,
        ),
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

fn text() -> BoxedStrategy<String> {
    let letter = prop::sample::select(vec![
        "a", "A", "b", "B", "e", "é", "E", "o", "ö", "oe", "z", "å", "ch", "1", "10", "2", " ",
        "-", "ß", "ss", "ı", "I", "あ", "ア",
    ]);
    proptest::collection::vec(letter, 0..3)
        .prop_map(|letters| letters.concat())
        .boxed()
}

/// A value of a document or of a filter, mostly a string.
fn textual() -> BoxedStrategy<String> {
    prop_oneof![
        8 => text().prop_map(|text| format!("\"{text}\"")),
        1 => (0..3).prop_map(|n: i32| n.to_string()),
        1 => Just("null".to_owned()),
        1 => text().prop_map(|text| format!(r#"{{"x": "{text}"}}"#)),
    ]
    .boxed()
}

fn textual_field() -> BoxedStrategy<String> {
    prop_oneof![
        6 => textual(),
        1 => proptest::collection::vec(textual(), 0..3).prop_map(|list| format!("[{}]", list.join(","))),
    ]
    .boxed()
}

fn textual_condition() -> BoxedStrategy<String> {
    let op = prop::sample::select(vec!["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]);
    let field = prop::sample::select(vec!["a", "b"]);
    prop_oneof![
        4 => (field.clone(), op, textual()).prop_map(|(field, op, value)| format!(r#"{{"{field}": {{"{op}": {value}}}}}"#)),
        2 => (field.clone(), proptest::collection::vec(textual(), 0..3), any::<bool>()).prop_map(|(field, list, is_in)| {
            let op = if is_in { "$in" } else { "$nin" };
            format!(r#"{{"{field}": {{"{op}": [{}]}}}}"#, list.join(","))
        }),
        1 => (field, prop::sample::select(vec!["^a", "^B", "o"])).prop_map(|(field, regex)| format!(r#"{{"{field}": {{"$regex": "{regex}"}}}}"#)),
    ]
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// By an index as by a scan, and in the order in which the collation compares.
    #[test]
    fn an_index_with_a_collation_finds_and_orders_as_a_scan(
        specification in prop::sample::select(vec![
            r#"{"locale": "en", "strength": 1}"#, r#"{"locale": "sv"}"#, r#"{"locale": "de@collation=phonebook", "strength": 2}"#,
            r#"{"locale": "es@collation=traditional"}"#, r#"{"locale": "tr", "caseLevel": true, "strength": 1}"#,
            r#"{"locale": "fr_CA", "numericOrdering": true}"#, r#"{"locale": "ja", "strength": 4}"#,
            r#"{"locale": "en", "alternate": "shifted", "strength": 5}"#,
        ]),
        documents in proptest::collection::vec((proptest::option::of(textual_field()), textual()), 1..25),
        conditions in proptest::collection::vec((textual_condition(), textual_condition(), 0..3u8), 6..12),
    ) {
        let documents: Vec<Document> = documents.iter().enumerate().map(|(id, (a, b))| {
            let a = a.as_ref().map_or(String::new(), |a| format!(r#""a": {a}, "#));
            json(&format!(r#"{{"_id": {id}, {a}"b": {b}}}"#))
        }).collect();
        let fixture = with_documents(&documents[..documents.len() / 2]);
        // Half of the documents come before their indexes are built, and half behind.
        for (name, key) in [("a", r#"{"a": 1}"#), ("ba", r#"{"b": -1, "a": 1}"#), ("b", r#"{"b": 1}"#)] {
            fixture.index(&format!(r#"{{"key": {key}, "name": "{name}", "collation": {specification}}}"#));
        }
        fixture.index(r#"{"key": {"b": 1}, "name": "bytes"}"#);
        let outcome = fixture.insert(&documents[documents.len() / 2..], true);
        prop_assert!(outcome.errors.is_empty());
        prop_assert_eq!(fixture.broken(), Vec::<String>::new());
        for (first, second, shape) in &conditions {
            let filter = match shape {
                0 => first.clone(),
                1 => format!(r#"{{"$and": [{first}, {second}]}}"#),
                _ => format!(r#"{{"$or": [{first}, {second}]}}"#),
            };
            let raw = json(&filter);
            for context in [by(specification), by(SIMPLE), by(r#"{"locale": "da"}"#)] {
                let natural = Value::from(doc! { "$natural": 1 });
                let find = |hint: Option<RawValue<'_>>, sort: Option<&Document>| {
                    let mut request = FindRequest::new(&fixture.namespace);
                    (request.filter, request.hint, request.context) = (raw.as_raw(), hint, Some(&context));
                    request.sort = sort.map(Document::as_raw);
                    fixture.drain(exec::find((&fixture.database).into(), &fixture.operation, request).unwrap())
                };
                let sorted = |mut found: Vec<String>| { found.sort(); found };
                let wanted = sorted(find(Some(natural.as_raw()), None));
                for hint in [None, Some("a"), Some("ba"), Some("b"), Some("bytes")] {
                    let found = sorted(find(hint.map(RawValue::from), None));
                    prop_assert_eq!(&found, &wanted, "{} by {:?} and {:?}", filter, context.collation(), hint);
                }
                prop_assert_eq!(fixture.counted_by(&filter, Some(&context)), wanted.len() as u64);
                for (direction, order) in [(1, "b"), (-1, "b")] {
                    let sort = doc! { order: direction, "_id": 1 };
                    let by_b = doc! { order: direction };
                    for found in [find(None, Some(&sort)), find(None, Some(&by_b)), find(Some(RawValue::from("b")), Some(&by_b))] {
                        prop_assert_eq!(&sorted(found.clone()), &wanted);
                        let values: Vec<Value> = found.iter().map(|text| json(text).get("b").unwrap().to_value()).collect();
                        for pair in values.windows(2) {
                            let order = context.collation().compare(pair[0].as_raw(), pair[1].as_raw());
                            let order = if direction == 1 { order } else { order.reverse() };
                            prop_assert!(order.is_le(), "{} before {} by {:?}", pair[0], pair[1], context.collation());
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn hashes_and_wildcard_keys_are_of_the_strings_themselves() {
    let fixture = names();
    // MongoDB refuses a hashed one for good.
    let refusals = [
        (r#"{"n": "hashed"}"#, "does not support collation"),
        (r#"{"$**": 1}"#, "not supported yet"),
    ];
    for (key, why) in refusals {
        let refused = fixture.refused_index(&format!(r#"{{"key": {key}, "name": "i"}}"#));
        let text = refused.to_string();
        assert_eq!(refused.code(), 67, "{text}");
        assert!(text.contains(why), "{text}");
        assert!(
            text.contains(r#"`collation: {locale: "simple"}`"#),
            "{text}"
        );
    }
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
