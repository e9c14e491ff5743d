//! A thread's work tells cached blocks from those that were read.

use std::time::{Duration, Instant};

use quarry_storage::{Engine, KeyRange, WriteBatch, take_thread_work};
use quarry_storage_rocksdb::{Options, RocksDb};

#[test]
fn a_first_read_misses_the_cache_and_a_second_one_hits_it() {
    let directory = tempfile::tempdir().unwrap();
    let open = || RocksDb::open(directory.path(), &Options::default()).unwrap();
    let engine = open();
    let mut batch = WriteBatch::new();
    for number in 0..10_000_u32 {
        batch.put(&number.to_be_bytes(), &[7; 100]);
    }
    engine.write(&batch).unwrap();
    engine.close().unwrap();
    drop(engine);
    let engine = open();
    let get = || {
        take_thread_work();
        assert!(engine.get(&5000_u32.to_be_bytes(), &mut |_| ()).unwrap());
        let work = take_thread_work();
        (work.cache_hits, work.cache_misses)
    };
    assert!(get().1 > 0);
    let (hits, misses) = get();
    assert!(hits > 0 && misses == 0, "{hits} {misses}");
    let snapshot = engine.snapshot().unwrap();
    let scan = || {
        let mut cursor = snapshot.cursor(KeyRange::new([0; 4], [9; 4])).unwrap();
        cursor.first().unwrap();
        while cursor.valid() {
            cursor.next().unwrap();
        }
        drop(cursor);
        take_thread_work()
    };
    assert!(scan().cache_misses > 10);
    let again = scan();
    assert!(
        again.cache_hits > 10 && again.cache_misses == 0,
        "{again:?}"
    );
    std::thread::scope(|scope| {
        let other = scope.spawn(take_thread_work);
        assert_eq!(other.join().unwrap().cache_hits, 0);
    });
    let all = engine.counters();
    assert!(all.cache_hits > 10 && all.cache_misses > 10, "{all:?}");
}

/// Writes one set of values over and over: compactions replace the files, and the cache gives up the blocks of the old ones.
#[test]
fn blocks_of_files_that_are_gone_leave_the_cache() {
    const ROUNDS: u8 = 24;
    const ROUND_BYTES: u64 = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    let engine = RocksDb::open(directory.path(), &Options::default()).unwrap();
    for round in 0..ROUNDS {
        let mut batch = WriteBatch::new();
        for number in 0..1024_u32 {
            // Bytes that do not get shorter.
            let mut state = number | u32::from(round) << 24 | 1;
            let value: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .take((ROUND_BYTES / 1024) as usize)
            .collect();
            batch.put(&number.to_be_bytes(), &value);
        }
        engine.write(&batch).unwrap();
        engine.sync().unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    // A few files wait for their compaction at any time.
    while engine.counters().cache_bytes > u64::from(ROUNDS) / 2 * ROUND_BYTES {
        let counters = engine.counters();
        assert!(Instant::now() < deadline, "{counters:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    engine.close().unwrap();
}
