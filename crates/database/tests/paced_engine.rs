//! Writers beside an engine that paces them: what that engine counts is what they wrote.

use std::sync::Arc;

use quarry_bson::doc;
use quarry_database::{Database, Level, Namespace, Operation, Options};
use quarry_storage::{Engine, Faulty, Memory};

const WRITERS: i32 = 4;
const INSERTS: i32 = 20;
const DOCUMENT_BYTES: usize = 4 << 10;
/// Each document takes two milliseconds, so that every one of them has to wait.
const BYTES_PER_S: u64 = 2 << 20;

fn open(engine: &Arc<Faulty>) -> Database {
    Database::open(Arc::clone(engine) as Arc<dyn Engine>, Options::default()).unwrap()
}

fn insert(database: &Database, id: i32) {
    let operation = Operation::default();
    let namespace = Namespace::new("db", "c").unwrap();
    let document = doc! { "_id": id, "filler": "x".repeat(DOCUMENT_BYTES) };
    let documents = [document.as_raw()];
    let inserted = database.insert_piece(&operation, &namespace, &documents, true, Level::Written);
    assert!(inserted.unwrap().errors.is_empty());
}

/// RocksDB counts the bytes of an offer that it refuses: a batch that is offered four times goes at a quarter of the rate.
#[test]
fn a_batch_is_charged_once() {
    let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
    let database = open(&engine);
    insert(&database, 0);
    engine.pace_writes(BYTES_PER_S);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let database = &database;
            scope.spawn(move || {
                for insert_of_writer in 1..=INSERTS {
                    insert(database, writer * INSERTS + insert_of_writer);
                }
            });
        }
    });
    let written = (WRITERS * INSERTS) as usize * DOCUMENT_BYTES;
    let charged = engine.charged_bytes() as usize;
    assert!(
        charged < written + written / 4,
        "{charged} bytes were charged for {written}"
    );
    engine.heal();
    database.close().unwrap();
}

/// A burst ends with a batch that the engine has not taken. A close hands it over, so that the next start replays nothing.
#[test]
fn a_close_hands_over_the_last_batch_of_a_burst() {
    let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
    let database = open(&engine);
    insert(&database, 0);
    let writes = engine.counters().writes;
    engine.pace_writes(BYTES_PER_S);
    insert(&database, 1);
    database.close().unwrap();
    assert_eq!(engine.counters().writes, writes + 1);
}
