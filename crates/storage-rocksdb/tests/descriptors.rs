//! RocksDB in a process that has run out of file descriptors: it waits, says so, and goes on by itself.
//!
//! Alone in its process, because the limit is the process's.

use std::{
    fs::File,
    time::{Duration, Instant},
};

use quarry_storage::{Engine, Error, Readiness, WriteBatch};
use quarry_storage_rocksdb::{Options, RocksDb};

fn batch(lsn: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(&lsn.to_be_bytes(), &[lsn as u8; 4_000]);
    batch.put_applied_lsn(lsn);
    batch
}

fn write(engine: &RocksDb, lsn: u64) {
    engine.write(&batch(lsn)).unwrap();
}

fn has(engine: &RocksDb, lsn: u64) -> bool {
    engine.get(&lsn.to_be_bytes(), &mut |_| ()).unwrap()
}

#[test]
fn flushes_and_compactions_wait_for_descriptors_and_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        cache_bytes: 8 << 20,
        write_buffer_bytes: 64 << 10,
        file_bytes: 32 << 10,
        free_bytes_min: 1 << 20,
        background_bytes_per_s: 0,
        ..Options::default()
    };
    let engine = RocksDb::open(directory.path(), &options).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut lsn = 0;
    for round in 0..3 {
        // Flushes and compactions are under way when the descriptors go.
        for _ in 0..200 {
            while engine.ready() != Readiness::Ready {
                assert!(Instant::now() < deadline, "{:?}", engine.ready());
                std::thread::yield_now();
            }
            lsn += 1;
            write(&engine, lsn);
        }
        // In round 0 at a moment when nothing runs.
        if round == 0 {
            engine.sync().unwrap();
        }
        let taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        let cause = loop {
            match engine.ready() {
                Readiness::Ready => {}
                Readiness::Stalled { cause } if cause.contains("open") => break cause,
                // Memtables are full behind a flush that has not looked yet.
                Readiness::Stalled { .. } => std::thread::yield_now(),
                Readiness::Failed(error) => panic!("{error}"),
            }
            assert!(Instant::now() < deadline, "nobody misses the descriptors");
            // A write that waits for the flush would wait for what this thread holds.
            match engine.try_write(&batch(lsn + 1)) {
                Ok(()) => lsn += 1,
                Err(Error::Stalled(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        assert!(cause.contains("too many files"), "{cause}");
        assert!(has(&engine, lsn) && has(&engine, 1), "reads go on");
        drop(taken);
    }
    while engine.ready() != Readiness::Ready {
        assert!(Instant::now() < deadline, "{:?}", engine.ready());
        std::thread::yield_now();
    }
    lsn += 1;
    write(&engine, lsn);
    engine.sync().unwrap();
    assert_eq!(engine.durable_lsn(), Ok(lsn));
    engine.close().unwrap();
    drop(engine);
    let engine = RocksDb::open(directory.path(), &options).unwrap();
    assert!((1..=lsn).all(|lsn| has(&engine, lsn)));
    engine.close().unwrap();
}
