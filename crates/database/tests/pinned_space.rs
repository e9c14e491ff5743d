//! The space that transactions and pinned snapshots keep an engine from giving back: counted, and bounded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_database::{
    Change, Database, Error, Level, Namespace, NewDocument, Operation, PinnedSnapshot, Scope,
};

const DOCUMENT_BYTES: u64 = 100_000;
/// A record has so much more than its documents: keys, and what it says of its changes. Far less than a document.
const SLACK_BYTES: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);

fn name(text: &str) -> Namespace {
    Namespace::parse(text).unwrap()
}

fn document(id: i32) -> Document {
    doc! { "_id": id, "text": "x".repeat(DOCUMENT_BYTES as usize) }
}

struct Fixture {
    database: Database,
    operation: Operation,
}

impl Fixture {
    /// A database with a collection of three documents.
    fn new() -> Fixture {
        let fixture = Fixture {
            database: Database::open_in_memory().unwrap(),
            operation: Operation::default(),
        };
        fixture.fill("db.c");
        fixture
    }

    fn fill(&self, namespace: &str) {
        let documents = [1, 2, 3].map(document);
        let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let (operation, level) = (&self.operation, Level::Written);
        let inserted = (self.database).insert_piece(operation, &name(namespace), &raw, true, level);
        assert!(inserted.unwrap().errors.is_empty());
    }

    /// Puts a small document in the place of that one, or deletes it.
    fn change(&self, id: i32, change: Change) {
        let namespace = name("db.c");
        let collection = self.database.collection(&namespace).unwrap().unwrap();
        let keys = [collection.record_key(RawValue::Int32(id))];
        let new = doc! { "_id": id };
        let mut compute = |_: usize, _: RawDocument<'_>, out: &mut NewDocument| {
            if change == Change::Replace {
                out.extend_from_slice(new.as_bytes());
            }
            Ok(change)
        };
        let (operation, ident) = (&self.operation, collection.ident);
        let changed = (self.database).modify_piece(
            operation,
            &namespace,
            ident,
            &keys,
            Level::Written,
            &mut compute,
        );
        assert_eq!(changed.unwrap().matched, 1);
    }

    fn count(&self, pinned: &PinnedSnapshot) -> Result<u64, Error> {
        let scope = Scope::at_snapshot(&self.database, pinned);
        let collection = scope.collection(&name("db.c"), &self.operation)?;
        scope.count(&collection.expect("nobody drops it"))
    }

    /// Waits until the background thread has seen to it.
    fn wait_until(&self, what: &str, is_so: impl Fn(&Database) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.database) {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::yield_now();
        }
    }
}

fn is_about(found: u64, expected: u64) {
    let range = expected..expected + SLACK_BYTES;
    assert!(range.contains(&found), "{found} instead of {expected}");
}

#[test]
fn what_was_replaced_since_the_oldest_began_is_counted() {
    let fixture = Fixture::new();
    let database = &fixture.database;
    let begin = || database.begin_transaction(&fixture.operation).unwrap();
    assert_eq!(database.transaction_counters().pinned_bytes, 0);
    let first = begin();
    fixture.fill("db.new");
    is_about(database.pinned_bytes_of(&first), 0);
    fixture.change(1, Change::Replace);
    is_about(database.pinned_bytes_of(&first), DOCUMENT_BYTES);
    let second = begin();
    let (pinned, _) = database.pin_snapshot(None).unwrap();
    fixture.change(2, Change::Delete);
    is_about(database.pinned_bytes_of(&first), 2 * DOCUMENT_BYTES);
    is_about(database.pinned_bytes_of(&second), DOCUMENT_BYTES);
    is_about(database.pinned_figures().pinned_bytes, DOCUMENT_BYTES);
    // One that reads an older snapshot keeps what that keeps.
    let third = database.begin_transaction_at(&pinned, &fixture.operation);
    is_about(database.pinned_bytes_of(&third.unwrap()), DOCUMENT_BYTES);
    is_about(
        database.transaction_counters().pinned_bytes,
        2 * DOCUMENT_BYTES,
    );
    first.end();
    is_about(database.transaction_counters().pinned_bytes, DOCUMENT_BYTES);
    second.end();
    assert_eq!(database.transaction_counters().pinned_bytes, 0);
}

#[test]
fn a_dropped_collection_is_counted_once_its_space_waits() {
    let fixture = Fixture::new();
    fixture.fill("db.d");
    let database = &fixture.database;
    let transaction = database.begin_transaction(&fixture.operation).unwrap();
    database
        .drop_collection(&name("db.d"), &fixture.operation, Level::Written)
        .unwrap();
    fixture.wait_until("the drop is not counted", |database| {
        database.pinned_bytes_of(&transaction) >= 3 * DOCUMENT_BYTES
    });
    is_about(database.pinned_bytes_of(&transaction), 3 * DOCUMENT_BYTES);
}

#[test]
fn a_snapshot_beyond_the_bound_is_too_old_for_everybody() {
    let fixture = Fixture::new();
    let database = &fixture.database;
    let (pinned, time) = database.pin_snapshot(None).unwrap();
    fixture.change(1, Change::Replace);
    let (later, later_time) = database.pin_snapshot(None).unwrap();
    fixture.change(2, Change::Replace);
    assert_eq!(fixture.count(&pinned).unwrap(), 3);
    database.set_pinned_bytes_max(Some(DOCUMENT_BYTES + SLACK_BYTES));
    fixture.wait_until("it is not given up", |database| {
        database.pinned_figures().given_up == 1
    });
    let code = |error: Option<Error>| error.map_or(0, |error| error.code());
    assert_eq!(code(fixture.count(&pinned).err()), 239);
    let transaction = database.begin_transaction_at(&pinned, &fixture.operation);
    assert_eq!(code(transaction.err()), 239);
    assert_eq!(code(database.pin_snapshot(Some(time)).err()), 239);
    // The one that costs less stays, and is counted alone.
    assert_eq!(fixture.count(&later).unwrap(), 3);
    let (again, _) = database.pin_snapshot(Some(later_time)).unwrap();
    assert!(Arc::ptr_eq(&later, &again));
    is_about(database.pinned_figures().pinned_bytes, DOCUMENT_BYTES);
    assert_eq!(database.pinned_figures().count, 1);
    database.set_pinned_bytes_max(None);
    fixture.change(3, Change::Delete);
    drop(pinned);
    assert_eq!(fixture.count(&later).unwrap(), 3);
    assert_eq!(database.pinned_figures().given_up, 1);
}
