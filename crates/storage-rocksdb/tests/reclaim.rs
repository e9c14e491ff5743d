//! Reclaiming where whole files go: RocksDB drops files without asking its snapshots, so the engine has to.
//!
//! Files are small here, so that most of a range's lie inside it whole. How many do is read from the store's manifest by a
//! second, read-only handle: each test first shows that there are files that could go.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use quarry_storage::{Engine, KeyRange, Snapshot, WriteBatch};
use quarry_storage_rocksdb::{Options, RocksDb};
use rust_rocksdb::DB;

const STEP_BYTES: u64 = 64 << 10;
const VALUE_BYTES: usize = 200;

fn open(directory: &Path) -> RocksDb {
    let options = Options {
        cache_bytes: 8 << 20,
        write_buffer_bytes: 64 << 10,
        file_bytes: 32 << 10,
        free_bytes_min: 1 << 20,
        background_bytes_per_s: 0,
        ..Options::default()
    };
    RocksDb::open(directory, &options).unwrap()
}

fn key(prefix: u8, number: u32) -> Vec<u8> {
    [&[prefix][..], &number.to_be_bytes()].concat()
}

/// A value that does not compress and names its key and round.
fn value(prefix: u8, number: u32, round: u64) -> Vec<u8> {
    let mut noise = (u64::from(prefix) << 56) ^ (u64::from(number) << 20) ^ round;
    let bytes = std::iter::repeat_with(|| {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise as u8
    });
    [
        round.to_le_bytes().to_vec(),
        bytes.take(VALUE_BYTES).collect(),
    ]
    .concat()
}

fn fill(engine: &RocksDb, prefix: u8, numbers: std::ops::Range<u32>, round: u64) {
    for start in numbers.clone().step_by(100) {
        let mut batch = WriteBatch::new();
        for number in start..(start + 100).min(numbers.end) {
            batch.put(&key(prefix, number), &value(prefix, number, round));
        }
        engine.write(&batch).unwrap();
    }
}

fn scan(snapshot: &dyn Snapshot, range: KeyRange) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = snapshot.cursor(range).unwrap();
    let mut found = Vec::new();
    cursor.first().unwrap();
    while cursor.valid() {
        found.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next().unwrap();
    }
    found
}

/// Files below level 0 that hold keys of this prefix only: what a drop of files would take.
fn files_inside(directory: &Path, prefix: u8) -> usize {
    let options = rust_rocksdb::Options::default();
    // A compaction may remove a file between the manifest's reading and its own.
    let mut opens = (0..100).map(|_| DB::open_for_read_only(&options, directory, false));
    let db = opens.find_map(Result::ok).expect("a store that opens");
    let is_inside = |key: &Option<Vec<u8>>| key.as_ref().is_some_and(|key| key[0] == prefix);
    let files = db.live_files().unwrap();
    let inside = files
        .iter()
        .filter(|file| file.level > 0 && is_inside(&file.start_key) && is_inside(&file.end_key));
    inside.count()
}

/// Waits until compactions have brought at least so many files below level 0.
fn wait_for_files_inside(directory: &Path, prefix: u8, at_least: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while files_inside(directory, prefix) < at_least {
        assert!(Instant::now() < deadline, "compactions made no such files");
        std::thread::yield_now();
    }
}

/// Reclaims to the end.
fn reclaim(engine: &RocksDb, prefix: u8) {
    for _ in 0..1_000 {
        let range = KeyRange::prefix(&[prefix]);
        if engine.reclaim(range, STEP_BYTES).unwrap().done {
            return;
        }
    }
    panic!("reclaiming does not end");
}

fn filled(directory: &Path) -> RocksDb {
    let engine = open(directory);
    for round in 0..2 {
        for prefix in [0x10, 0x11, 0x12] {
            fill(&engine, prefix, 0..4_000, round);
        }
    }
    engine.sync().unwrap();
    wait_for_files_inside(directory, 0x11, 8);
    engine
}

/// Takes steps of a key each until no file is left inside the range: files that a compaction has in its hands wait for it.
fn step_until_files_are_gone(engine: &RocksDb, directory: &Path, prefix: u8) {
    for _ in 0..1_000 {
        engine.reclaim(KeyRange::prefix(&[prefix]), 1).unwrap();
        if files_inside(directory, prefix) == 0 {
            return;
        }
    }
    panic!("files inside the range are still there");
}

#[test]
fn files_of_a_range_that_nobody_reads_go_first() {
    let directory = tempfile::tempdir().unwrap();
    let engine = filled(directory.path());
    step_until_files_are_gone(&engine, directory.path(), 0x11);
    engine.close().unwrap();
}

#[test]
fn files_stay_until_the_snapshots_before_the_first_step_have_gone() {
    let directory = tempfile::tempdir().unwrap();
    let engine = filled(directory.path());
    let doomed = || KeyRange::prefix(&[0x11]);
    let snapshot = engine.snapshot().unwrap();
    let before = scan(snapshot.as_ref(), doomed());
    assert_eq!(before.len(), 4_000);
    for _ in 0..4 {
        assert!(!engine.reclaim(doomed(), STEP_BYTES).unwrap().done);
        assert!(files_inside(directory.path(), 0x11) > 0);
        assert!(
            scan(snapshot.as_ref(), doomed()) == before,
            "a cursor that was made after a step misses rows"
        );
    }
    // A reader that comes later holds nothing up, and what it sees of other ranges is whole.
    let later = engine.snapshot().unwrap();
    drop(snapshot);
    step_until_files_are_gone(&engine, directory.path(), 0x11);
    assert_eq!(scan(later.as_ref(), KeyRange::prefix(&[0x10])).len(), 4_000);
    drop(later);
    reclaim(&engine, 0x11);
    let newest = engine.snapshot().unwrap();
    assert!(scan(newest.as_ref(), doomed()).is_empty());
    assert_eq!(
        scan(newest.as_ref(), KeyRange::all()).len(),
        8_000,
        "a neighbour lost rows"
    );
    drop(newest);
    engine.close().unwrap();
}

/// Prefixes come and go, as those of indexes do that are built and dropped, while readers hold snapshots and scan them in
/// pieces, each with a new cursor. Every scan of a prefix that lived when its snapshot was made must be whole, and the same
/// twice.
#[test]
fn scans_are_whole_while_ranges_are_built_and_reclaimed() {
    const ENTRIES: u32 = 1_500;
    const LIVE: u8 = 0x10;
    const PIECE: usize = 128;
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    fill(&engine, LIVE, 0..ENTRIES, 0);
    fill(&engine, 0x20, 0..ENTRIES, 0);
    // The prefix that is whole now and not to be dropped before a later one is.
    let newest = AtomicU64::new(0x20);
    let is_done = AtomicBool::new(false);
    let scans = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    // Who reads a prefix that is about to be dropped must have its snapshot before the drop, which the layer
                    // above sees to: here by looking again whether the prefix is still the newest.
                    let prefix = newest.load(Ordering::SeqCst) as u8;
                    let snapshot = engine.snapshot().unwrap();
                    if newest.load(Ordering::SeqCst) as u8 != prefix {
                        continue;
                    }
                    for prefix in [prefix, LIVE] {
                        let seen = scan_in_pieces(snapshot.as_ref(), prefix, PIECE);
                        assert_eq!(seen, u64::from(ENTRIES), "prefix {prefix:02x}");
                    }
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _done = Done(&is_done);
        for prefix in 0x21..0x2a {
            fill(&engine, prefix, 0..ENTRIES, 0);
            wait_for_files_inside(directory.path(), prefix - 1, 2);
            newest.store(u64::from(prefix), Ordering::SeqCst);
            // As long as scans go on in it the one before is still read, and its files must wait.
            let waited_for = scans.load(Ordering::Relaxed) + 1;
            reclaim(&engine, prefix - 1);
            let deadline = Instant::now() + Duration::from_secs(60);
            while scans.load(Ordering::Relaxed) < waited_for {
                assert!(Instant::now() < deadline, "the readers have ended");
                std::thread::yield_now();
            }
        }
    });
    engine.close().unwrap();
}

/// Ends the readers, also when the writer fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Counts the entries of a prefix, each piece with a cursor of its own.
fn scan_in_pieces(snapshot: &dyn Snapshot, prefix: u8, piece: usize) -> u64 {
    let mut from = vec![prefix];
    let mut seen = 0;
    loop {
        let range = KeyRange::new(from.clone(), [prefix + 1]);
        let mut cursor = snapshot.cursor(range).unwrap();
        cursor.first().unwrap();
        for _ in 0..piece {
            if !cursor.valid() {
                return seen;
            }
            seen += 1;
            from = cursor.key().to_vec();
            cursor.next().unwrap();
        }
        // The key behind the last one.
        from.push(0);
    }
}
