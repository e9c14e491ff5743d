//! A transaction sees what a plain database would show after the same writes, whatever the plan; nobody else sees
//! anything of it before its commit; and what others write meanwhile it does not see.

use std::sync::Arc;

use quarry_database::{Scope, Transaction};

use super::agreement::{document, filter, scalar};
use super::*;

/// The indexes beside the one on `_id`. The documents that a test begins with have no arrays, so that the first array in
/// each index is the transaction's.
const PATTERNS: [&str; 4] = [
    r#"{"a": 1}"#,
    r#"{"a.b": 1, "a.c": -1}"#,
    r#"{"d": -1, "a.b": 1}"#,
    r#"{"d": 1}"#,
];

/// A database with a collection `db.c`, its indexes and these documents, and one `db.other` to be looked up.
fn database(documents: &[String]) -> Fixture {
    let documents: Vec<Document> = documents.iter().map(|text| json(text)).collect();
    let fixture = with_documents(&documents);
    for pattern in PATTERNS {
        fixture.index(&format!(r#"{{"key": {pattern}}}"#));
    }
    fixture.index(r#"{"key": {"k": 1}, "unique": true, "sparse": true}"#);
    let other = Namespace::parse("db.other").unwrap();
    let raw: Vec<Document> = (0..3).map(|d| doc! { "_id": d, "d": d }).collect();
    let raw: Vec<RawDocument<'_>> = raw.iter().map(Document::as_raw).collect();
    let request = InsertRequest::new(&other, &raw);
    let scope = (&fixture.database).into();
    exec::insert(scope, &fixture.operation, request, Level::Written).unwrap();
    fixture
}

fn begin(fixture: &Fixture) -> Arc<Transaction> {
    fixture
        .database
        .begin_transaction(&fixture.operation)
        .unwrap()
}

fn commit(fixture: &Fixture, transaction: &Transaction) -> Result<Option<u64>> {
    let (database, operation) = (&fixture.database, &fixture.operation);
    Ok(database.commit_transaction(
        transaction,
        operation,
        Level::Written,
        &quarry_storage::WriteBatch::new(),
    )?)
}

#[derive(Clone, Debug)]
enum Statement {
    Insert(Vec<String>),
    Update(String, String, bool),
    Upsert(i32, String),
    Delete(String, bool),
    FindAndModify(String, Option<String>),
}

fn statement() -> impl Strategy<Value = Statement> {
    let fields = || (0i32..14, document(), proptest::option::of(0i32..20));
    let whole = fields().prop_map(|(id, fields, k)| whole(id, &fields, k));
    let change = prop_oneof![
        scalar().prop_map(|value| format!(r#"{{"$set": {{"d": {value}}}}}"#)),
        scalar().prop_map(|value| format!(r#"{{"$set": {{"a": [{value}, {{"b": {value}}}]}}}}"#)),
        Just(r#"{"$unset": {"a": 1}}"#.to_owned()),
        (0i32..20).prop_map(|k| format!(r#"{{"$set": {{"k": {k}}}}}"#)),
    ];
    prop_oneof![
        3 => proptest::collection::vec(whole, 1..4).prop_map(Statement::Insert),
        3 => (filter(), change.clone(), any::<bool>())
            .prop_map(|(filter, change, is_multi)| Statement::Update(filter, change, is_multi)),
        1 => (0i32..14, change.clone()).prop_map(|(id, change)| Statement::Upsert(id, change)),
        1 => (filter(), any::<bool>())
            .prop_map(|(filter, is_multi)| Statement::Delete(filter, is_multi)),
        1 => (filter(), proptest::option::of(change))
            .prop_map(|(filter, change)| Statement::FindAndModify(filter, change)),
    ]
}

fn whole(id: i32, fields: &str, k: Option<i32>) -> String {
    let mut text = format!(r#"{{"_id": {id}"#);
    if let Some(k) = k {
        text += &format!(r#", "k": {k}"#);
    }
    if !fields.is_empty() {
        text += &format!(", {fields}");
    }
    text + "}"
}

/// Runs a statement and tells its outcome.
fn run(fixture: &Fixture, scope: Scope<'_>, statement: &Statement) -> String {
    let (operation, namespace, level) = (&fixture.operation, &fixture.namespace, Level::Written);
    let update = |filter: &str, change: &str, is_multi, is_upsert| {
        let (filter, change) = (json(filter), json(change));
        let request = UpdateRequest {
            array_filters: None,
            constants: None,
            sort: None,
            namespace,
            context: None,
            collation: None,
            filter: filter.as_raw(),
            update: RawValue::Document(change.as_raw()),
            is_upsert,
            is_multi,
            hint: None,
            keeps_empty_timestamps: false,
        };
        format!("{:?}", exec::update(scope, operation, request, level))
    };
    match statement {
        Statement::Insert(documents) => {
            let documents: Vec<Document> = documents.iter().map(|text| json(text)).collect();
            let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
            let request = InsertRequest::new(namespace, &raw);
            format!("{:?}", exec::insert(scope, operation, request, level))
        }
        Statement::Update(filter, change, is_multi) => update(filter, change, *is_multi, false),
        Statement::Upsert(id, change) => {
            update(&format!(r#"{{"_id": {id}}}"#), change, false, true)
        }
        Statement::Delete(filter, is_multi) => {
            let filter = json(filter);
            let request = DeleteRequest {
                namespace,
                context: None,
                collation: None,
                filter: filter.as_raw(),
                is_multi: *is_multi,
                hint: None,
            };
            format!("{:?}", exec::delete(scope, operation, request, level))
        }
        Statement::FindAndModify(filter, change) => {
            let (filter, change) = (json(filter), change.as_deref().map(json));
            let sort = json(r#"{"d": 1, "_id": 1}"#);
            let mut request = FindAndModifyRequest::new(namespace);
            request.filter = filter.as_raw();
            request.sort = Some(sort.as_raw());
            request.update = change
                .as_ref()
                .map(|change| RawValue::Document(change.as_raw()));
            request.returns_new = true;
            format!(
                "{:?}",
                exec::find_and_modify(scope, operation, request, level)
            )
        }
    }
}

/// Reads the rest of a cursor, a few documents between two `save`s.
fn in_batches(fixture: &Fixture, scope: Scope<'_>, mut executor: Executor) -> Vec<String> {
    let (operation, mut found, mut document) = (&fixture.operation, Vec::new(), Vec::new());
    loop {
        for _ in 0..3 {
            if !executor.next(operation, &mut document).unwrap() {
                return found;
            }
            found.push(extjson::relaxed(RawDocument::new(&document).unwrap()));
            document.clear();
        }
        executor.save(operation).unwrap();
        executor.restore(scope, operation).unwrap();
    }
}

/// The documents that a filter finds, by every index and in every kind of read.
fn look(fixture: &Fixture, scope: Scope<'_>, text: &str) -> Vec<(String, Vec<String>)> {
    let (operation, namespace) = (&fixture.operation, &fixture.namespace);
    let filter = json(text);
    let mut seen = Vec::new();
    for hint in [
        None,
        Some(r#"{"$natural": 1}"#),
        Some(r#"{"$natural": -1}"#),
        Some(PATTERNS[0]),
        Some(PATTERNS[1]),
        Some(PATTERNS[2]),
        Some(PATTERNS[3]),
    ] {
        let parsed = hint.map(|hint| Value::from(json(hint)));
        let mut request = FindRequest::new(namespace);
        request.filter = filter.as_raw();
        request.hint = parsed.as_ref().map(Value::as_raw);
        let executor = exec::find(scope, operation, request).unwrap();
        let mut found = in_batches(fixture, scope, executor);
        found.sort();
        seen.push((format!("find {hint:?}"), found));
        let mut request = CountRequest::new(namespace);
        request.filter = filter.as_raw();
        request.hint = parsed.as_ref().map(Value::as_raw);
        let count = exec::count(scope, operation, request).unwrap();
        seen.push((format!("count {hint:?}"), vec![count.to_string()]));
    }
    for sort in [r#"{"_id": 1}"#, r#"{"d": -1, "_id": 1}"#] {
        let sort = json(sort);
        let mut request = FindRequest::new(namespace);
        request.filter = filter.as_raw();
        request.sort = Some(sort.as_raw());
        let executor = exec::find(scope, operation, request).unwrap();
        let found = in_batches(fixture, scope, executor);
        seen.push((format!("sorted {sort}"), found));
    }
    let all = exec::count(scope, operation, CountRequest::new(namespace)).unwrap();
    seen.push(("count all".to_owned(), vec![all.to_string()]));
    let mut request = DistinctRequest::new(namespace, "d");
    request.filter = filter.as_raw();
    let mut values: Vec<String> = exec::distinct(scope, operation, request)
        .unwrap()
        .iter()
        .map(|value| format!("{value:?}"))
        .collect();
    values.sort();
    seen.push(("distinct".to_owned(), values));
    for stages in [
        format!(r#"[{{"$match": {text}}}, {{"$group": {{"_id": "$d", "n": {{"$sum": 1}}}}}}]"#),
        format!(
            r#"[{{"$match": {text}}}, {{"$lookup":
                {{"from": "other", "localField": "d", "foreignField": "d", "as": "others"}}}}]"#
        ),
        r#"[{"$match": {"_id": {"$lt": 4}}}, {"$lookup":
            {"from": "c", "localField": "d", "foreignField": "a", "as": "same"}}]"#
            .to_owned(),
    ] {
        let pipeline = json(&format!(r#"{{"pipeline": {stages}}}"#));
        let pipeline = pipeline.as_raw().get_array("pipeline").unwrap();
        let request = AggregateRequest::new(Over::Collection(namespace), pipeline);
        let executor = exec::aggregate(scope, operation, request).unwrap();
        let mut found = in_batches(fixture, scope, executor);
        found.sort();
        seen.push((stages, found));
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_transaction_sees_what_a_plain_database_would_show(
        base in proptest::collection::vec((scalar(), scalar()), 0..8),
        statements in proptest::collection::vec((statement(), filter()), 1..8),
    ) {
        let base: Vec<String> = base.iter().enumerate()
            .map(|(id, (a, d))| whole(id as i32, &format!(r#""a": {a}, "d": {d}"#), Some(id as i32)))
            .collect();
        let (plain, subject) = (database(&base), database(&base));
        let before = look(&subject, (&subject.database).into(), "{}");
        let transaction = begin(&subject);
        let scope = Scope::in_transaction(&subject.database, &transaction);
        // Written by somebody else behind the snapshot.
        subject.insert(&[json(r#"{"_id": 100, "a": 1, "d": 1}"#)], true);
        for (statement, filter) in &statements {
            let wanted = run(&plain, (&plain.database).into(), statement);
            let outcome = run(&subject, scope, statement);
            prop_assert_eq!(outcome, wanted, "{:?}", statement);
            let wanted = look(&plain, (&plain.database).into(), filter);
            let seen = look(&subject, scope, filter);
            for (seen, wanted) in seen.iter().zip(&wanted) {
                prop_assert_eq!(seen, wanted, "{}", filter);
            }
        }
        subject.delete(r#"{"_id": 100}"#, false);
        prop_assert_eq!(look(&subject, (&subject.database).into(), "{}"), before);
        commit(&subject, &transaction).unwrap();
        let committed = look(&subject, (&subject.database).into(), "{}");
        prop_assert_eq!(committed, look(&plain, (&plain.database).into(), "{}"));
        let report = subject.database.validate(&subject.namespace, true, &subject.operation).unwrap();
        prop_assert_eq!(report.errors, Vec::<String>::new());
    }
}
