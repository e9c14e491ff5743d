//! What a write waits for: its own commit, and where it changed nothing, what it saw.

use quarry_bson::{Document, RawDocument, RawValue, extjson};
use quarry_database::{Database, Level, Namespace, Operation};
use quarry_query::exec::{self, *};

fn json(text: &str) -> Document {
    extjson::parse(text).unwrap()
}

struct Fixture {
    database: Database,
    operation: Operation,
    namespace: Namespace,
}

impl Fixture {
    fn insert(&self, document: &str, level: Level) -> InsertOutcome {
        let document = json(document);
        let raw: [RawDocument<'_>; 1] = [document.as_raw()];
        let request = InsertRequest::new(&self.namespace, &raw);
        exec::insert(&self.database, &self.operation, request, level).unwrap()
    }

    fn update(&self, filter: &str, update: &str, level: Level) -> UpdateOutcome {
        let (filter, update) = (json(filter), json(update));
        let request = UpdateRequest {
            namespace: &self.namespace,
            filter: filter.as_raw(),
            update: RawValue::Document(update.as_raw()),
            is_upsert: false,
            is_multi: false,
            hint: None,
            keeps_empty_timestamps: false,
        };
        exec::update(&self.database, &self.operation, request, level).unwrap()
    }

    fn delete(&self, filter: &str, level: Level) -> u64 {
        let filter = json(filter);
        let request = DeleteRequest {
            namespace: &self.namespace,
            filter: filter.as_raw(),
            is_multi: false,
            hint: None,
        };
        exec::delete(&self.database, &self.operation, request, level).unwrap()
    }

    fn is_durable(&self) -> bool {
        let journal = self.database.journal();
        journal.durable_lsn() == journal.last_lsn()
    }
}

/// A client that is not sure of its write sends it again, asks for more this time, and hears that it was there already.
#[test]
fn a_write_that_changes_nothing_waits_for_what_it_saw() {
    // No background sync: only who waits makes anything durable.
    let fixture = Fixture {
        database: Database::open_in_memory().unwrap(),
        operation: Operation::new(None),
        namespace: Namespace::parse("db.c").unwrap(),
    };
    let again: [&dyn Fn(Level) -> u64; 4] = [
        &|level| fixture.insert(r#"{"_id": 1, "a": 1}"#, level).errors.len() as u64,
        &|level| {
            fixture
                .update(r#"{"_id": 1}"#, r#"{"$set": {"a": 1}}"#, level)
                .matched
        },
        &|level| {
            fixture
                .update(r#"{"_id": 2}"#, r#"{"$set": {"a": 1}}"#, level)
                .matched
        },
        &|level| fixture.delete(r#"{"_id": 2}"#, level),
    ];
    for (number, again) in again.iter().enumerate() {
        let expected = u64::from(number < 2);
        fixture.insert(r#"{"_id": 1, "a": 1}"#, Level::Written);
        assert_eq!(again(Level::Written), expected);
        assert!(!fixture.is_durable(), "{number}");
        assert_eq!(again(Level::Durable), expected);
        assert!(fixture.is_durable(), "{number}");
        assert_eq!(fixture.delete(r#"{"_id": 1}"#, Level::Written), 1);
    }
}
