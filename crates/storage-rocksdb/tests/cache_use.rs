//! A thread's work tells cached blocks from those that were read.

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
