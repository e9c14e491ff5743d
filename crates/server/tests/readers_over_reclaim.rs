//! Reads while indexes, collections and databases come and go, over RocksDB with files so small that a drop gives whole ones back:
//! an engine that removes files does so whatever snapshots there are, and a read that goes on over one would miss documents without
//! an error.
//!
//! The documents that are read never change, so that every read has one right result, whatever plan it has: that of a scan.
//! `QUARRY_TORTURE=N` runs N seeds.

#![cfg(feature = "rocksdb")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_database::{Database, Level, Namespace, Operation, Options};
use quarry_query::exec::{self, FindRequest, InsertRequest};
use quarry_storage::HastyReclaim;
use quarry_storage_rocksdb::RocksDb;

const DOCUMENTS: i32 = 3_000;
const READERS: u64 = 2;
/// Ranges that a seed has reclaimed before it ends.
const RECLAIMED: usize = 8;
/// Definitions that may come and go under one read.
const DEFINITIONS_A_READ: u64 = 3;
const WAIT_MAX: Duration = Duration::from_secs(120);
const QUERY_PLAN_KILLED: i32 = 175;
const BAD_VALUE: i32 = 2;

/// The indexes that come and go, by name and key.
fn indexes() -> [(&'static str, Document); 3] {
    [
        ("a_1", doc! { "a": 1 }),
        ("b_1", doc! { "b": 1 }),
        ("a_1_b_-1", doc! { "a": 1, "b": -1 }),
    ]
}

fn a(n: i32) -> i32 {
    n % 7
}

fn b(n: i32) -> i32 {
    n.wrapping_mul(7_919) % 1_000
}

/// A xorshift generator; the same seed gives the same choices.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

struct Fixture {
    engine: Arc<HastyReclaim>,
    database: Database,
    namespace: Namespace,
    /// Definitions that have come or gone.
    definitions: AtomicU64,
    is_over: AtomicBool,
}

impl Fixture {
    fn new(directory: &std::path::Path) -> Fixture {
        let options = quarry_storage_rocksdb::Options {
            cache_bytes: 8 << 20,
            write_buffer_bytes: 64 << 10,
            file_bytes: 32 << 10,
            free_bytes_min: 1 << 20,
            background_bytes_per_s: 0,
            ..Default::default()
        };
        let rocksdb = RocksDb::open(directory.join("engine"), &options).unwrap();
        let engine = Arc::new(HastyReclaim::new(Arc::new(rocksdb)));
        let options = Options {
            journal_directory: Some(directory.join("journal")),
            ..Options::default()
        };
        let fixture = Fixture {
            database: Database::open(Arc::clone(&engine) as _, options).unwrap(),
            engine,
            namespace: Namespace::parse("db.c").unwrap(),
            definitions: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        };
        fixture.fill(&fixture.namespace, DOCUMENTS);
        fixture
    }

    fn fill(&self, namespace: &Namespace, count: i32) {
        let documents: Vec<Document> = (0..count)
            .map(|n| doc! { "_id": n, "a": (a(n)), "b": (b(n)), "pad": (noise(n)) })
            .collect();
        let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let request = InsertRequest::new(namespace, &raw);
        let operation = Operation::default();
        let inserted = exec::insert((&self.database).into(), &operation, request, Level::Written);
        assert!(inserted.unwrap().errors.is_empty());
    }

    /// Makes or drops something that no read is of, or an index that one may be by.
    fn define(&self, random: &mut Random) {
        let (database, operation) = (&self.database, Operation::default());
        let (name, key) = indexes()[random.below(3) as usize].clone();
        let index = [doc! { "key": key, "name": name }];
        match random.below(6) {
            0 | 1 => {
                let made =
                    database.create_indexes(&self.namespace, &index, &operation, Level::Written);
                made.unwrap();
            }
            2 | 3 => {
                // One that is not there is refused.
                let names = [RawValue::from(name)];
                let _ = database.drop_indexes(&self.namespace, &names, &operation, Level::Written);
            }
            4 => {
                let other = Namespace::parse("db.other").unwrap();
                self.fill(&other, 600);
                database
                    .create_indexes(&other, &index, &operation, Level::Written)
                    .unwrap();
                let dropped = database.drop_collection(&other, &operation, Level::Written);
                assert!(dropped.unwrap().is_some());
            }
            _ => {
                self.fill(&Namespace::parse("gone.c").unwrap(), 600);
                let dropped = database.drop_database("gone", &operation, Level::Written);
                assert!(dropped.unwrap());
            }
        }
        self.definitions.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets definitions come and go.
    fn let_define(&self, count: u64) {
        let (begun, before) = (Instant::now(), self.definitions.load(Ordering::Relaxed));
        while self.definitions.load(Ordering::Relaxed) < before + count
            && !self.is_over.load(Ordering::Relaxed)
        {
            assert!(begun.elapsed() < WAIT_MAX, "nothing is defined any more");
            std::thread::yield_now();
        }
    }

    /// Reads by some plan, with definitions coming and going meanwhile; false where the index it was to go by is not there.
    fn read(&self, random: &mut Random) -> bool {
        let (least, of) = (random.below(7) as i32, random.below(1_000) as i32);
        let filter = match random.below(3) {
            0 => doc! { "a": doc! { "$gte": least } },
            1 => doc! { "b": doc! { "$lt": of } },
            _ => doc! { "a": least, "b": doc! { "$gte": of } },
        };
        let fits = |n: &i32| match filter.get_path("a").is_some() {
            true if filter.get_path("b").is_some() => a(*n) == least && b(*n) >= of,
            true => a(*n) >= least,
            false => b(*n) < of,
        };
        let wanted: BTreeSet<i32> = (0..DOCUMENTS).filter(fits).collect();
        let hint = indexes()[random.below(3) as usize].1.clone();
        let is_hinted = random.below(3) > 0;
        let operation = Operation::default();
        let mut request = FindRequest::new(&self.namespace);
        request.filter = filter.as_raw();
        request.hint = is_hinted.then(|| RawValue::Document(hint.as_raw()));
        let mut executor = match exec::find((&self.database).into(), &operation, request) {
            Ok(executor) => executor,
            Err(error) => {
                assert!(is_hinted && error.code() == BAD_VALUE, "{error}");
                return false;
            }
        };
        let pauses_at = random.below(wanted.len() as u64 + 1);
        let is_saved = random.below(3) == 0;
        let mut found = BTreeSet::new();
        loop {
            if found.len() as u64 == pauses_at {
                if is_saved {
                    executor.save(&operation).unwrap();
                }
                self.let_define(random.below(DEFINITIONS_A_READ));
                if is_saved {
                    executor
                        .restore((&self.database).into(), &operation)
                        .unwrap();
                }
            }
            let mut bytes = Vec::new();
            match executor.next(&operation, &mut bytes) {
                Ok(true) => {
                    let document = RawDocument::validated(&bytes).unwrap();
                    let id = document.get("_id").and_then(|id| id.as_i32()).unwrap();
                    assert!(found.insert(id), "{id} came twice");
                }
                Ok(false) => break,
                // What a saved read was by is gone, and it says so.
                Err(error) if is_saved && error.code() == QUERY_PLAN_KILLED => return true,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(found, wanted, "{filter} by {hint} (hinted: {is_hinted})");
        true
    }
}

/// Text that does not compress, so that the files are as many as they are to be.
fn noise(n: i32) -> String {
    let mut random = Random(n as u64 ^ 0x9e37_79b9_7f4a_7c15);
    (0..12)
        .map(|_| format!("{:016x}", random.below(u64::MAX)))
        .collect()
}

fn run(seed: u64) {
    let directory = tempfile::tempdir().unwrap();
    let fixture = &Fixture::new(directory.path());
    let reads = &AtomicU64::new(0);
    std::thread::scope(|scope| {
        for reader in 1..=READERS {
            scope.spawn(move || {
                let mut random = Random(seed << 8 | reader);
                while !fixture.is_over.load(Ordering::Relaxed) {
                    reads.fetch_add(u64::from(fixture.read(&mut random)), Ordering::Relaxed);
                }
            });
        }
        let mut random = Random(seed << 8);
        let begun = Instant::now();
        while fixture.engine.reclaimed() < RECLAIMED && begun.elapsed() < WAIT_MAX {
            fixture.define(&mut random);
        }
        fixture.is_over.store(true, Ordering::Relaxed);
    });
    assert!(
        fixture.engine.reclaimed() >= RECLAIMED,
        "nothing is reclaimed"
    );
    assert!(reads.load(Ordering::Relaxed) >= READERS, "nothing was read");
}

#[test]
fn every_read_finds_all_that_a_scan_finds() {
    let seeds = std::env::var("QUARRY_TORTURE").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(2);
    (1..=seeds).for_each(run);
}
