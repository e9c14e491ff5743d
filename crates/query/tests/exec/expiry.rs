//! Documents go when the date in the field of an index with `expireAfterSeconds` is old enough, and no others do.

use quarry_bson::DateTime;
use quarry_database::{ExpiringIndex, IndexChange, Scope};
use quarry_query::ErrorCode;

use super::*;

const NOW: DateTime = DateTime(1_000_000_000_000);

/// A document with a date so many seconds before `NOW`.
fn aged(id: i32, age_s: i64) -> Document {
    let date = RawValue::DateTime(NOW.0 - age_s * 1000);
    doc! { "_id": id, "at": date }
}

/// One pass over all that expires: a piece after the other.
fn pass(fixture: &Fixture) -> u64 {
    let mut deleted = 0;
    for index in fixture.database.expiring_indexes(None).unwrap() {
        let mut behind: Option<Vec<u8>> = None;
        loop {
            let (scope, behind_key) = ((&fixture.database).into(), behind.as_deref());
            let expired = exec::expire(scope, &fixture.operation, &index, behind_key, NOW).unwrap();
            deleted += expired.deleted;
            behind = expired.behind;
            if behind.is_none() {
                break;
            }
        }
    }
    deleted
}

fn ids(fixture: &Fixture) -> Vec<i32> {
    let found = fixture.find_with("{}", |_| {}).unwrap();
    let id = |text: &String| json(text).get_i64("_id").unwrap() as i32;
    let mut ids: Vec<i32> = found.iter().map(id).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn what_is_old_enough_goes_and_what_is_no_date_stays() {
    for direction in [1, -1] {
        let fixture = with_documents(&[
            aged(1, 61),
            aged(2, 60),
            aged(3, 59),
            aged(4, -60),
            json(r#"{"_id": 5}"#),
            json(r#"{"_id": 6, "at": null}"#),
            json(r#"{"_id": 7, "at": 0}"#),
            json(r#"{"_id": 8, "at": "1970-01-01"}"#),
            json(r#"{"_id": 9, "at": {"$timestamp": {"t": 1, "i": 1}}}"#),
            doc! { "_id": 10, "at": (RawValue::DateTime(i64::MIN)) },
        ]);
        // The earliest date of an array counts, whatever else is in it.
        for (id, ages) in [(11, [10, 5]), (12, [10, 100]), (13, [-5, 60])] {
            let dates = ages.map(|age: i64| Value::from(RawValue::DateTime(NOW.0 - age * 1000)));
            let mut document = doc! { "_id": id };
            document.append("at", dates.to_vec());
            fixture.insert(&[document], true);
        }
        fixture.index(&format!(
            r#"{{"key": {{"at": {direction}}}, "expireAfterSeconds": 60}}"#
        ));
        assert_eq!(pass(&fixture), 5);
        assert_eq!(ids(&fixture), [3, 4, 5, 6, 7, 8, 9, 11]);
        assert_eq!(pass(&fixture), 0);
        let report = (fixture.database)
            .validate(&fixture.namespace, true, &fixture.operation)
            .unwrap();
        assert!(report.errors.is_empty(), "{:?}", report.errors);
    }
}

#[test]
fn many_go_piece_by_piece_and_those_that_stay_are_in_nobodys_way() {
    let documents: Vec<Document> = (0..1300).map(|id| aged(id, 100 + i64::from(id))).collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"at": 1}, "expireAfterSeconds": 150}"#);
    assert_eq!(pass(&fixture), 1250);
    assert_eq!(ids(&fixture).len(), 50);
}

#[test]
fn a_partial_index_expires_its_own_documents() {
    let fixture = with_documents(&[aged(1, 90), aged(2, 90)]);
    fixture.update(r#"{"_id": 2}"#, r#"{"$set": {"keep": true}}"#, false, false);
    fixture.index(
        r#"{"key": {"at": 1}, "expireAfterSeconds": 0, "sparse": false,
            "partialFilterExpression": {"keep": true}}"#,
    );
    assert_eq!(pass(&fixture), 1);
    assert_eq!(ids(&fixture), [1]);
}

fn marked(fixture: &Fixture) -> Vec<String> {
    let marked = fixture.database.expiring_indexes(None).unwrap().into_iter();
    marked
        .map(|index: ExpiringIndex| index.namespace.to_string())
        .collect()
}

#[test]
fn the_range_of_expiring_indexes_follows_what_becomes_of_them() {
    let fixture = with(&[r#"{"_id": 1}"#]);
    let (database, operation) = (&fixture.database, &fixture.operation);
    let level = Level::Written;
    fixture.index(r#"{"key": {"at": 1}}"#);
    assert!(marked(&fixture).is_empty());
    let name = RawValue::from("at_1");
    let change = |seconds: i32| IndexChange {
        expire_after_s: Some(seconds),
        ..IndexChange::default()
    };
    // An index that is there already is made one of them, and its number is changed.
    let was = database.modify_index(&fixture.namespace, name, change(5), operation, level);
    assert_eq!(was.unwrap().expire_after_s, None);
    let was = database.modify_index(&fixture.namespace, name, change(7), operation, level);
    assert_eq!(was.unwrap().expire_after_s, Some(5));
    assert_eq!(marked(&fixture), ["db.c"]);
    let other = Namespace::parse("other.d").unwrap();
    let named = |namespace: &Namespace, to: &Namespace| {
        database
            .rename_collection(namespace, to, false, operation, level)
            .unwrap();
    };
    named(&fixture.namespace, &other);
    assert_eq!(marked(&fixture), ["other.d"]);
    let listed = database.list_indexes(&other).unwrap();
    assert_eq!(listed[1].get_i64("expireAfterSeconds"), Some(7));
    named(&other, &fixture.namespace);
    database
        .drop_indexes(&fixture.namespace, &[name], operation, level)
        .unwrap();
    assert!(marked(&fixture).is_empty());
    fixture.index(r#"{"key": {"at": 1}, "expireAfterSeconds": 1}"#);
    database
        .drop_collection(&fixture.namespace, operation, level)
        .unwrap();
    assert!(marked(&fixture).is_empty());
    // One that went with its database is not found any more, whether its mark stands or not.
    fixture.insert(&[aged(1, 90)], true);
    fixture.index(r#"{"key": {"at": 1}, "expireAfterSeconds": 1}"#);
    database.drop_database("db", operation, level).unwrap();
    fixture.insert(&[aged(1, 90)], true);
    assert_eq!(pass(&fixture), 0);
    assert_eq!(ids(&fixture), [1]);
}

#[test]
fn a_transaction_makes_an_expiring_index_with_its_collection() {
    let fixture = with(&[]);
    let (database, operation) = (&fixture.database, &fixture.operation);
    let specs = [json(r#"{"key": {"at": 1}, "expireAfterSeconds": 1}"#)];
    let transaction = database.begin_transaction(operation).unwrap();
    let scope = Scope::in_transaction(database, &transaction);
    scope
        .create_indexes(&fixture.namespace, &specs, operation, Level::Written)
        .unwrap();
    assert!(marked(&fixture).is_empty());
    let nothing = quarry_storage::WriteBatch::new();
    database
        .commit_transaction(&transaction, operation, Level::Written, &nothing)
        .unwrap();
    assert_eq!(marked(&fixture), ["db.c"]);
}

#[test]
fn what_cannot_expire_is_refused_by_mongodbs_codes() {
    let fixture = with(&[r#"{"_id": 1}"#]);
    let refusal = |spec: &str| {
        let (namespace, operation) = (&fixture.namespace, &fixture.operation);
        let created =
            (fixture.database).create_indexes(namespace, &[json(spec)], operation, Level::Written);
        ErrorCode(created.unwrap_err().code())
    };
    for seconds in [
        r#""60""#,
        "-1",
        r#"{"$numberDouble": "NaN"}"#,
        "2147483648",
        "1e300",
        "true",
    ] {
        let spec = format!(r#"{{"key": {{"at": 1}}, "expireAfterSeconds": {seconds}}}"#);
        assert_eq!(refusal(&spec), ErrorCode::CANNOT_CREATE_INDEX, "{seconds}");
    }
    let compound = r#"{"key": {"at": 1, "b": 1}, "expireAfterSeconds": 1}"#;
    assert_eq!(refusal(compound), ErrorCode::CANNOT_CREATE_INDEX);
    let id = r#"{"key": {"_id": 1}, "expireAfterSeconds": 1}"#;
    assert_eq!(refusal(id), ErrorCode::INVALID_INDEX_SPECIFICATION_OPTION);
    fixture.index(r#"{"key": {"at": 1}, "expireAfterSeconds": 2.9}"#);
    let listed = fixture.database.list_indexes(&fixture.namespace).unwrap();
    assert!(matches!(
        listed[1].get("expireAfterSeconds"),
        Some(RawValue::Int32(2))
    ));
    let again = r#"{"key": {"at": 1}, "expireAfterSeconds": 3}"#;
    assert_eq!(refusal(again), ErrorCode::INDEX_OPTIONS_CONFLICT);
    fixture.index(r#"{"key": {"c": 1, "d": 1}}"#);
    let change = IndexChange {
        expire_after_s: Some(1),
        ..IndexChange::default()
    };
    for name in ["c_1_d_1", "_id_"] {
        let (namespace, operation) = (&fixture.namespace, &fixture.operation);
        let changed = (fixture.database).modify_index(
            namespace,
            RawValue::from(name),
            change,
            operation,
            Level::Written,
        );
        let code = ErrorCode(changed.unwrap_err().code());
        assert_eq!(code, ErrorCode::INVALID_OPTIONS, "{name}");
    }
}

/// A clustered collection with `expireAfterSeconds`: one of the documents has an `_id` that is no date.
fn clustered() -> Fixture {
    let fixture = with(&[]);
    let options = json(
        r#"{"clusteredIndex": {"key": {"_id": 1}, "unique": true}, "expireAfterSeconds": 60}"#,
    );
    let (database, operation) = (&fixture.database, &fixture.operation);
    database
        .create_collection(
            &fixture.namespace,
            options.as_raw(),
            operation,
            Level::Written,
        )
        .unwrap();
    let dated = |age_s: i64| doc! { "_id": (RawValue::DateTime(NOW.0 - age_s * 1000)) };
    let documents = [
        dated(61),
        dated(60),
        dated(59),
        dated(-5),
        doc! { "_id": 7 },
    ];
    fixture.insert(&documents, true);
    fixture
}

fn left(fixture: &Fixture) -> usize {
    fixture.find("{}").len()
}

#[test]
fn documents_of_a_clustered_collection_go_by_their_ids() {
    let fixture = clustered();
    assert_eq!((pass(&fixture), left(&fixture)), (2, 3));
    assert_eq!(pass(&fixture), 0);
    let (database, operation) = (&fixture.database, &fixture.operation);
    let set = |seconds| {
        let namespace = &fixture.namespace;
        database.set_expire_after(namespace, seconds, operation, Level::Written)
    };
    set(None).unwrap();
    assert!(database.expiring_indexes(None).unwrap().is_empty());
    set(Some(0)).unwrap();
    assert_eq!((pass(&fixture), left(&fixture)), (1, 2));
    let ordinary = Namespace::parse("db.ordinary").unwrap();
    let refused = database.set_expire_after(&ordinary, Some(1), operation, Level::Written);
    assert!(refused.is_err());
}

#[test]
fn the_mark_of_a_clustered_collection_follows_its_name_and_goes_with_it() {
    let fixture = clustered();
    let to = Namespace::parse("db.d").unwrap();
    let (database, operation) = (&fixture.database, &fixture.operation);
    database
        .rename_collection(&fixture.namespace, &to, false, operation, Level::Written)
        .unwrap();
    let marked = database.expiring_indexes(None).unwrap();
    assert_eq!(marked.len(), 1);
    assert_eq!(marked[0].namespace.as_str(), "db.d");
    assert_eq!(pass(&fixture), 2);
    database
        .drop_collection(&to, operation, Level::Written)
        .unwrap();
    assert!(database.expiring_indexes(None).unwrap().is_empty());
}

#[test]
fn a_clustered_collection_that_a_transaction_makes_expires_too() {
    let fixture = with(&[]);
    let (database, operation) = (&fixture.database, &fixture.operation);
    let options = json(
        r#"{"clusteredIndex": {"key": {"_id": 1}, "unique": true}, "expireAfterSeconds": 60}"#,
    );
    let transaction = database.begin_transaction(operation).unwrap();
    let scope = Scope::in_transaction(database, &transaction);
    scope
        .create_collection(
            &fixture.namespace,
            options.as_raw(),
            operation,
            Level::Written,
        )
        .unwrap();
    let nothing = quarry_storage::WriteBatch::new();
    database
        .commit_transaction(&transaction, operation, Level::Written, &nothing)
        .unwrap();
    assert_eq!(database.expiring_indexes(None).unwrap().len(), 1);
}
