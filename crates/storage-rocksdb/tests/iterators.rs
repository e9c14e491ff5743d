//! Cursors share iterators one after another: none may see what another was for.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use quarry_storage::{Engine, KeyRange, Snapshot, WriteBatch};
use quarry_storage_rocksdb::{Options, RocksDb};

fn open(directory: &Path) -> RocksDb {
    let options = Options {
        cache_bytes: 8 << 20,
        write_buffer_bytes: 256 << 10,
        free_bytes_min: 1 << 20,
        background_bytes_per_s: 0,
        ..Options::default()
    };
    RocksDb::open(directory, &options).unwrap()
}

fn put(engine: &RocksDb, keys: &[&str], value: u64) {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(key.as_bytes(), &[value.to_le_bytes(); 8].concat());
    }
    engine.write(&batch).unwrap();
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

/// Every key of the range with its number.
fn scan(snapshot: &dyn Snapshot, from: &str, to: &str) -> Vec<(String, u64)> {
    let mut cursor = snapshot.cursor(KeyRange::new(from, to)).unwrap();
    let mut found = Vec::new();
    cursor.first().unwrap();
    while cursor.valid() {
        let key = String::from_utf8(cursor.key().to_vec()).unwrap();
        found.push((key, number(cursor.value())));
        cursor.next().unwrap();
    }
    found
}

fn pairs(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    let owned = expected
        .iter()
        .map(|(key, value)| ((*key).to_owned(), *value));
    owned.collect()
}

#[test]
fn each_cursor_sees_its_snapshot_and_its_range() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    put(&engine, &["a", "b", "c"], 1);
    let first = engine.snapshot().unwrap();
    assert_eq!(scan(&*first, "b", "c"), pairs(&[("b", 1)]));
    put(&engine, &["b", "d"], 2);
    let second = engine.snapshot().unwrap();
    assert_eq!(scan(&*first, "b", ""), pairs(&[("b", 1), ("c", 1)]));
    assert_eq!(
        scan(&*second, "b", ""),
        pairs(&[("b", 2), ("c", 1), ("d", 2)])
    );
    engine.sync().unwrap();
    put(&engine, &["b"], 3);
    let third = engine.snapshot().unwrap();
    assert_eq!(scan(&*third, "a", "c"), pairs(&[("a", 1), ("b", 3)]));
    assert_eq!(scan(&*second, "a", "c"), pairs(&[("a", 1), ("b", 2)]));
    assert_eq!(scan(&*first, "a", "c"), pairs(&[("a", 1), ("b", 1)]));
    // Two at once over one snapshot.
    let mut behind = third.cursor(KeyRange::new("c", "")).unwrap();
    behind.first().unwrap();
    assert_eq!(scan(&*third, "a", "b"), pairs(&[("a", 1)]));
    assert_eq!(behind.key(), b"c");
    behind.last().unwrap();
    assert_eq!(behind.key(), b"d");
}

/// A renewed iterator would see newer writes than the gets of its snapshot.
#[test]
fn gets_and_cursors_agree_beside_a_writer() {
    const ROUNDS: u64 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    put(&engine, &["a", "z"], 0);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !is_done.load(Ordering::Relaxed) {
                    let snapshot = engine.snapshot().unwrap();
                    let found = scan(&*snapshot, "a", "");
                    let mut gotten = 0;
                    assert!(
                        snapshot
                            .get(b"z", &mut |value| gotten = number(value))
                            .unwrap()
                    );
                    assert_eq!(found, pairs(&[("a", gotten), ("z", gotten)]));
                    assert!(gotten >= last);
                    last = gotten;
                }
            });
        }
        for round in 1..=ROUNDS {
            put(&engine, &["a", "z"], round);
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_store_closes_and_opens_again_after_cursors() {
    let directory = tempfile::tempdir().unwrap();
    for life in 1..4 {
        let engine = open(directory.path());
        put(&engine, &["a"], life);
        let snapshot = engine.snapshot().unwrap();
        assert_eq!(scan(&*snapshot, "a", ""), pairs(&[("a", life)]));
        let cursor = snapshot.cursor(KeyRange::all()).unwrap();
        engine.close().unwrap();
        drop(cursor);
        drop(snapshot);
    }
}
