//! Tests of what a write and a definition wait for: their own commit, and where they changed nothing, what they saw.

use quarry_database::IndexChange;

use super::*;

fn is_durable(database: &Database) -> bool {
    let journal = database.journal();
    journal.durable_lsn() == journal.last_lsn()
}

/// A client that is not sure of its write sends it again, asks for more this time, and hears that it was there already.
#[test]
fn a_write_that_changes_nothing_waits_for_what_it_saw() {
    // No background sync: only who waits makes anything durable.
    let fixture = with_documents(&[]);
    let document = [json(r#"{"_id": 1, "a": 1}"#)];
    let set = r#"{"$set": {"a": 1}}"#;
    let again: [&dyn Fn(Level) -> u64; 4] = [
        &|level| fixture.insert_at(level, &document, true).errors.len() as u64,
        &|level| {
            fixture
                .update_at(level, r#"{"_id": 1}"#, set, false, false)
                .matched
        },
        &|level| {
            fixture
                .update_at(level, r#"{"_id": 2}"#, set, false, false)
                .matched
        },
        &|level| fixture.delete_at(level, r#"{"_id": 2}"#, false),
    ];
    for (number, again) in again.iter().enumerate() {
        let expected = u64::from(number < 2);
        fixture.insert(&document, true);
        assert_eq!(again(Level::Written), expected);
        assert!(!is_durable(&fixture.database), "{number}");
        assert_eq!(again(Level::Durable), expected);
        assert!(is_durable(&fixture.database), "{number}");
        assert_eq!(fixture.delete(r#"{"_id": 1}"#, false), 1);
    }
}

/// Definitions that are there already, or gone already, one of each kind.
#[test]
fn a_definition_that_changes_nothing_waits_for_what_it_saw() {
    let hide = IndexChange {
        hidden: Some(true),
        ..IndexChange::default()
    };
    let fixture = with_documents(&[]);
    let (database, operation) = (&fixture.database, &fixture.operation);
    let namespace = |name: &str| Namespace::parse(name).unwrap();
    let (kept, gone) = (namespace("db.kept"), namespace("db.gone"));
    let index = [json(r#"{"key": {"a": 1}, "name": "a_1"}"#)];
    let again: [&dyn Fn(Level); 6] = [
        &|level| {
            let options = RawDocument::EMPTY;
            (database.create_collection(&kept, options, operation, level)).unwrap();
        },
        &|level| {
            let created = database.create_indexes(&kept, &index, operation, level);
            assert_eq!(created.unwrap().after, 2);
        },
        &|level| {
            // The collection is new, and has the one index that is asked for.
            let id = [json(r#"{"key": {"_id": 1}, "name": "_id_"}"#)];
            let name = namespace(&format!("db.new{}", database.journal().last_lsn()));
            database
                .create_indexes(&name, &id, operation, level)
                .unwrap();
        },
        &|level| {
            let name = RawValue::from("a_1");
            let was = database.modify_index(&kept, name, hide, operation, level);
            assert_eq!(was.unwrap().hidden, Some(true));
        },
        &|level| {
            let dropped = database.drop_collection(&gone, operation, level);
            assert_eq!(dropped.unwrap(), None);
        },
        &|level| assert!(!database.drop_database("gone", operation, level).unwrap()),
    ];
    let written = Level::Written;
    let options = RawDocument::EMPTY;
    (database.create_collection(&kept, options, operation, written)).unwrap();
    (database.create_indexes(&kept, &index, operation, written)).unwrap();
    let name = RawValue::from("a_1");
    (database.modify_index(&kept, name, hide, operation, written)).unwrap();
    for (number, again) in again.iter().enumerate() {
        fixture.insert(&[doc! {"n": (number as i32)}], true);
        again(Level::Written);
        assert!(!is_durable(database), "{number}");
        again(Level::Durable);
        assert!(is_durable(database), "{number}");
    }
}
