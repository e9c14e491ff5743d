//! The cache of records beside its engine: readers and writers at once, small enough that records come and go. A read
//! never goes back, and what a snapshot gets by key is what its cursor shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_database::{Change, Database, KeyRange, Level, Namespace, Operation, Options};
use quarry_journal::SimulatedFiles;
use quarry_storage::Memory;

const DOCUMENTS: i32 = 48;
const ROUNDS: i64 = 200;
const WRITERS: i32 = 2;
const READERS: usize = 3;

fn open(engine: &Arc<Memory>, files: &Arc<SimulatedFiles>, record_cache_bytes: usize) -> Database {
    let options = Options {
        commit_interval_ms: 0,
        record_cache_bytes,
        ..Options::default()
    };
    Database::open_on(Arc::clone(engine) as _, Arc::clone(files) as _, options).unwrap()
}

fn namespace() -> Namespace {
    Namespace::parse("db.c").unwrap()
}

fn insert(database: &Database, document: &Document) {
    let inserted = database
        .insert_piece(
            &Operation::default(),
            &namespace(),
            &[document.as_raw()],
            true,
            Level::Written,
        )
        .unwrap();
    assert!(inserted.errors.is_empty(), "{:?}", inserted.errors);
}

/// Sets `n` of a document, or takes the document away.
fn change(database: &Database, id: i32, n: Option<i64>) {
    let collection = database.collection(&namespace()).unwrap().unwrap();
    let key = Database::record_key(&collection, RawValue::Int32(id));
    let modified = database
        .modify_piece(
            &Operation::default(),
            &namespace(),
            collection.ident,
            &[key],
            Level::Written,
            &mut |_, _, new| {
                let Some(n) = n else {
                    return Ok(Change::Delete);
                };
                new.extend_from_slice(doc! { "_id": id, "n": n }.as_raw().as_bytes());
                Ok(Change::Replace)
            },
        )
        .unwrap();
    assert!(modified.error.is_none(), "{:?}", modified.error);
    assert_eq!(modified.modified + modified.deleted, 1);
}

fn n_of(bytes: &[u8]) -> i64 {
    match RawDocument::new(bytes).unwrap().get("n") {
        Some(RawValue::Int64(n)) => n,
        other => panic!("{other:?}"),
    }
}

/// Reads every document by key and by cursor; `seen` is what this reader saw before.
fn look(database: &Database, seen: &mut [i64]) {
    let collection = database.collection(&namespace()).unwrap().unwrap();
    for id in 0..DOCUMENTS {
        let key = Database::record_key(&collection, RawValue::Int32(id));
        let mut latest = None;
        database
            .get_record(&key, &mut |bytes| latest = Some(n_of(bytes)))
            .unwrap();
        if let Some(n) = latest {
            assert!(n >= seen[id as usize], "document {id} went back to {n}");
            seen[id as usize] = n;
        }
    }
    let snapshot = database.snapshot(&namespace()).unwrap().unwrap();
    let mut cursor = snapshot
        .cursor(KeyRange::prefix(collection.prefix.as_bytes()))
        .unwrap();
    for id in 0..DOCUMENTS {
        let key = Database::record_key(&collection, RawValue::Int32(id));
        let mut by_key = None;
        snapshot
            .get(&key, &mut |bytes| by_key = Some(n_of(bytes)))
            .unwrap();
        cursor.seek(&key).unwrap();
        let by_cursor = (cursor.valid() && cursor.key() == key).then(|| n_of(cursor.value()));
        assert_eq!(by_key, by_cursor, "document {id} of one snapshot");
        if let Some(n) = by_key {
            assert!(n >= seen[id as usize], "document {id} went back to {n}");
            seen[id as usize] = n;
        }
    }
}

fn readers_and_writers(record_cache_bytes: usize) {
    let database = open(
        &Arc::new(Memory::new()),
        &Arc::new(SimulatedFiles::new()),
        record_cache_bytes,
    );
    for id in 0..DOCUMENTS {
        insert(&database, &doc! { "_id": id, "n": 0i64 });
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let mut seen = vec![0; DOCUMENTS as usize];
                while !is_over.load(Ordering::Relaxed) {
                    look(&database, &mut seen);
                }
                look(&database, &mut seen);
            });
        }
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let database = &database;
                scope.spawn(move || {
                    for n in 1..=ROUNDS {
                        for id in (writer..DOCUMENTS).step_by(WRITERS as usize) {
                            let _replying_first = (n % 2 == 0).then(|| database.reply_first());
                            if (n + i64::from(id)) % 16 == 0 {
                                change(database, id, None);
                                insert(database, &doc! { "_id": id, "n": n });
                            } else {
                                change(database, id, Some(n));
                            }
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = writers
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        is_over.store(true, Ordering::Relaxed);
        for result in ended {
            result.unwrap();
        }
    });
    let mut seen = vec![ROUNDS; DOCUMENTS as usize];
    look(&database, &mut seen);
    let report = database
        .validate(&namespace(), true, &Operation::default())
        .unwrap();
    assert_eq!(report.errors, Vec::<String>::new());
    let counters = database.record_cache_counters().unwrap();
    assert!(counters.hits > 0 && counters.misses > 0, "{counters:?}");
    assert!(counters.bytes <= record_cache_bytes as u64, "{counters:?}");
    database.close().unwrap();
}

#[test]
fn a_long_scan_leaves_most_of_the_cache_to_others() {
    let (engine, files) = (Arc::new(Memory::new()), Arc::new(SimulatedFiles::new()));
    let database = open(&engine, &files, 0);
    for id in 0..500 {
        insert(&database, &doc! { "_id": id, "n": 0i64 });
    }
    assert_eq!(database.record_cache_counters(), None);
    drop(database);
    let database = open(&engine, &files, 1 << 20);
    let snapshot = database.snapshot(&namespace()).unwrap().unwrap();
    for id in 0..500 {
        let key = Database::record_key(&snapshot.collection, RawValue::Int32(id));
        assert!(snapshot.get(&key, &mut |_| {}).unwrap());
    }
    // A record takes at most 64 bytes.
    let bytes = database.record_cache_counters().unwrap().bytes;
    assert!((1..=250 * 64).contains(&bytes), "{bytes}");
}

#[test]
fn reads_never_go_back_where_every_record_has_room() {
    readers_and_writers(1 << 20);
}

#[test]
fn reads_never_go_back_where_records_come_and_go() {
    readers_and_writers(96 << 10);
}
