//! That an index has met an array is known to every plan that can meet its entries, and keeps nobody else waiting.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use quarry_bson::{Document, doc};
use quarry_database::{CollectionSnapshot, Database, Level, Namespace, Operation, Options};
use quarry_journal::SimulatedFiles;
use quarry_storage::{Engine, Faulty, Memory};

const LONG: Duration = Duration::from_secs(20);

fn ns(name: &str) -> Namespace {
    Namespace::parse(name).unwrap()
}

fn insert(database: &Database, name: &str, document: &Document) {
    let (operation, documents) = (Operation::default(), [document.as_raw()]);
    let inserted = database.insert_piece(&operation, &ns(name), &documents, true, Level::Written);
    assert!(inserted.unwrap().errors.is_empty());
}

fn make_index(database: &Database, name: &str) {
    let specs = [doc! { "key": { "a": 1 } }];
    database
        .create_indexes(&ns(name), &specs, &Operation::default(), Level::Written)
        .unwrap();
}

/// Whether plans of the snapshot take its index for one that has met arrays.
fn is_multikey(snapshot: &CollectionSnapshot) -> bool {
    snapshot.index_catalog().unwrap().indexes[0].is_multikey()
}

/// A start has loaded no indexes yet; the snapshot holds the entries for as long as it lives.
#[test]
fn a_snapshot_knows_the_multikey_indexes_of_what_was_dropped_since() {
    type DropIt = fn(&Database);
    let drops: [DropIt; 3] = [
        |database| {
            let dropped = database.drop_database("db", &Operation::default(), Level::Written);
            assert!(dropped.unwrap());
        },
        |database| {
            let operation = Operation::default();
            (database.drop_collection(&ns("db.c"), &operation, Level::Written)).unwrap();
            make_index(database, "db.c");
        },
        |database| {
            let operation = Operation::default();
            (database.drop_all_indexes(&ns("db.c"), &operation, Level::Written)).unwrap();
        },
    ];
    for (number, drop_it) in drops.into_iter().enumerate() {
        let engine: Arc<dyn Engine> = Arc::new(Memory::new());
        let files = SimulatedFiles::new();
        let open = || {
            let (engine, files) = (Arc::clone(&engine), Arc::new(files.clone()));
            Database::open_on(engine, files, Options::default()).unwrap()
        };
        let database = open();
        make_index(&database, "db.c");
        insert(&database, "db.c", &doc! { "_id": 1, "a": [1, 2] });
        drop(database);
        let database = open();
        let snapshot = database.snapshot(&ns("db.c")).unwrap().unwrap();
        let (pinned, _) = database.pin_snapshot(None).unwrap();
        let scope = quarry_database::Scope::at_snapshot(&database, &pinned);
        let shared = scope.snapshot(&ns("db.c"), &Operation::default());
        let shared = shared.unwrap().unwrap();
        drop_it(&database);
        assert!(is_multikey(&snapshot), "drop {number}");
        assert!(is_multikey(&shared), "drop {number}, pinned");
    }
}

/// The engine is slow to take the batch with the mark. Who opens a collection meanwhile does not wait for it.
#[test]
fn a_mark_keeps_nobody_from_other_collections() {
    let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
    let database = Database::open(Arc::clone(&engine) as _, Options::default()).unwrap();
    make_index(&database, "db.c");
    insert(&database, "db.c", &doc! { "_id": 1, "a": 1 });
    database.catch_up();
    engine.hold_all_writes();
    let (told, is_told) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| insert(&database, "db.c", &doc! { "_id": 2, "a": [1, 2] }));
        let begun = Instant::now();
        while engine.held_writes() == 0 {
            assert!(begun.elapsed() < LONG, "the mark is not written");
            std::thread::yield_now();
        }
        scope.spawn(|| {
            // Neither is in the cache.
            let found = database.collection(&ns("db.none")).unwrap().is_some();
            let snapshot = database.snapshot(&ns("db.c")).unwrap().unwrap();
            told.send((found, is_multikey(&snapshot))).unwrap();
        });
        let found = is_told.recv_timeout(LONG / 10);
        engine.heal();
        assert_eq!(found, Ok((false, true)));
    });
}
