//! Tests of what is durable when, which files refuse to open, and what a full disk does.

use std::{
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use quarry_storage::{Engine, Error, FlushImages, KeyRange, Readiness, WriteBatch};
use quarry_storage_rocksdb::{Options, RocksDb};

const SMALL_BUFFER_BYTES: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(20);

fn options() -> Options {
    Options {
        cache_bytes: 8 << 20,
        write_buffer_bytes: SMALL_BUFFER_BYTES,
        free_bytes_min: 1 << 20,
        background_bytes_per_s: 0,
        ..Options::default()
    }
}

fn open(directory: &Path) -> RocksDb {
    RocksDb::open(directory, &options()).unwrap()
}

fn batch(lsn: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    let mut value = [0; 1_000];
    for (at, byte) in value.iter_mut().enumerate() {
        *byte = (lsn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at % 57)) as u8;
    }
    batch.put(&[b"k", &lsn.to_be_bytes()[..]].concat(), &value);
    batch.put_applied_lsn(lsn);
    batch
}

fn write(engine: &dyn Engine, lsn: u64) {
    engine.write(&batch(lsn)).unwrap();
}

fn has(engine: &dyn Engine, lsn: u64) -> bool {
    engine
        .get(&[b"k", &lsn.to_be_bytes()[..]].concat(), &mut |_| ())
        .unwrap()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes a table of level 0, which RocksDB compacts when there are four.
fn write_table(engine: &dyn Engine, lsn: u64) {
    write(engine, lsn);
    engine.sync().unwrap();
}

#[test]
fn compactions_wait_for_the_end_of_a_replay_or_for_a_full_level() {
    let directory = tempfile::tempdir().unwrap();
    let for_replay = Options {
        opens_for_replay: true,
        ..options()
    };
    let engine = RocksDb::open(directory.path(), &for_replay).unwrap();
    (1..=6).for_each(|lsn| write_table(&engine, lsn));
    assert_eq!(engine.counters().compactions, 0);
    engine.end_replay();
    wait_until("a compaction has ended", || {
        engine.counters().compactions > 0
    });
    engine.close().unwrap();
    drop(engine);

    let engine = RocksDb::open(directory.path(), &for_replay).unwrap();
    (7..=20).for_each(|lsn| write_table(&engine, lsn));
    wait_until("the full level is compacted", || {
        engine.counters().compactions > 0
    });
    assert!((1..=20).all(|lsn| has(&engine, lsn)));
    engine.close().unwrap();
    drop(engine);

    // One that waits does not hold up a close.
    let directory = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let engine = RocksDb::open(directory.path(), &for_replay).unwrap();
    (1..=6).for_each(|lsn| write_table(&engine, lsn));
    engine.close().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "it waited for the end of a replay"
    );
}

/// Flushes that RocksDB starts by itself never carry an LSN the hook was not asked for.
#[test]
fn the_journal_is_asked_before_every_flush() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    let asked = Arc::new(AtomicU64::new(0));
    let hook = Arc::clone(&asked);
    engine.set_before_durable(Box::new(move |lsn| {
        hook.fetch_max(lsn, Ordering::SeqCst);
        Ok(())
    }));
    for lsn in 1..=3_000 {
        write(&engine, lsn);
        assert!(engine.durable_lsn().unwrap() <= asked.load(Ordering::SeqCst));
    }
    wait_until("a flush that nobody asked for was made", || {
        engine.durable_lsn().unwrap() > 0
    });
    assert!(engine.counters().flushes > 0);
    assert!(engine.durable_lsn().unwrap() <= asked.load(Ordering::SeqCst));
}

#[test]
fn a_flush_waits_while_the_journal_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    let refuse = Arc::new(AtomicBool::new(true));
    let hook = Arc::clone(&refuse);
    engine.set_before_durable(Box::new(move |_| match hook.load(Ordering::SeqCst) {
        true => Err(Error::Io("journal is stuck".into())),
        false => Ok(()),
    }));
    let mut lsn = 0;
    wait_until("the refusal shows", || {
        !matches!(engine.ready(), Readiness::Ready) || {
            write(&engine, lsn + 1);
            false
        }
    });
    lsn += 1;
    assert!(has(&engine, lsn), "reads go on");
    assert_eq!(engine.durable_lsn(), Ok(0));
    assert!(engine.sync().is_err());
    refuse.store(false, Ordering::SeqCst);
    wait_until("the engine is ready again", || {
        engine.ready() == Readiness::Ready
    });
    engine.sync().unwrap();
    assert_eq!(engine.durable_lsn(), Ok(lsn));
}

/// A journal that never comes back: the engine still closes, and nothing slips out on the way.
#[test]
fn a_refused_flush_is_not_durable_after_the_close() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    for lsn in 1..=10 {
        write(&engine, lsn);
    }
    engine.sync().unwrap();
    engine.set_before_durable(Box::new(|_| Err(Error::Io("journal is lost".into()))));
    for lsn in 11..=450 {
        write(&engine, lsn);
    }
    wait_until("the refusal shows", || {
        matches!(engine.ready(), Readiness::Failed(_))
    });
    assert_eq!(engine.close(), Err(Error::Io("journal is lost".into())));
    drop(engine);
    let engine = open(directory.path());
    assert_eq!(engine.durable_lsn(), Ok(10));
    assert!(has(&engine, 10) && !has(&engine, 11));
}

/// An owner that cannot wait has RocksDB flush nothing any more; nobody waits for such a flush.
#[test]
fn what_waits_for_a_flush_ends_when_the_waiting_does() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    write(&engine, 1);
    engine.stop_waiting();
    assert_eq!(engine.sync(), Err(Error::Closed));
    assert_eq!(engine.close(), Err(Error::Closed));
    drop(engine);

    // A flush is under way then.
    let engine = open(directory.path());
    let asked = Arc::new(AtomicU64::new(0));
    let hook = Arc::clone(&asked);
    write(&engine, 1);
    let first = std::thread::scope(|scope| {
        // The call itself is agreed to, its flush is not.
        engine.set_before_durable(Box::new(move |_| {
            match hook.fetch_add(1, Ordering::SeqCst) {
                0 => Ok(()),
                _ => Err(Error::Stalled("the journal is slow".into())),
            }
        }));
        let sync = scope.spawn(|| engine.sync());
        wait_until("the flush has begun", || asked.load(Ordering::SeqCst) > 1);
        engine.stop_waiting();
        sync.join().unwrap()
    });
    assert!(first.is_err());
    assert!(engine.close().is_err());
    drop(engine);
    assert_eq!(open(directory.path()).durable_lsn(), Ok(0));
}

/// RocksDB takes no request for a flush while its memtables are full: a sync waits until they are not.
#[test]
fn a_sync_waits_while_writes_are_stopped() {
    let directory = tempfile::tempdir().unwrap();
    // So few that writes are never merely slowed down.
    let few = Options {
        write_buffers_max: 2,
        ..options()
    };
    let engine = RocksDb::open(directory.path(), &few).unwrap();
    let is_slow = Arc::new(AtomicBool::new(true));
    let is_asked = Arc::new(AtomicBool::new(false));
    let (slow, asked) = (Arc::clone(&is_slow), Arc::clone(&is_asked));
    engine.set_before_durable(Box::new(move |_| {
        if std::thread::current().name() == Some("sync") {
            asked.store(true, Ordering::SeqCst);
            return Ok(());
        }
        let begun = Instant::now();
        while slow.load(Ordering::SeqCst) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }));
    let mut lsn = 0;
    while engine.try_write(&batch(lsn + 1)).is_ok() {
        lsn += 1;
        assert!(lsn < 10_000, "writes are never stopped");
    }
    std::thread::scope(|scope| {
        let sync = std::thread::Builder::new().name("sync".into());
        let sync = sync.spawn_scoped(scope, || engine.sync()).unwrap();
        wait_until("the sync has begun", || is_asked.load(Ordering::SeqCst));
        // Time for a wrong answer; a right one comes only after the journal's.
        let begun = Instant::now();
        while !sync.is_finished() && begun.elapsed() < Duration::from_millis(100) {
            std::thread::yield_now();
        }
        is_slow.store(false, Ordering::SeqCst);
        assert_eq!(sync.join().unwrap(), Ok(()));
    });
    assert_eq!(engine.durable_lsn(), Ok(lsn));
}

#[test]
fn a_life_begins_at_any_flush() {
    let root = tempfile::tempdir().unwrap();
    let images = FlushImages::directories(root.path(), |directory| {
        Ok(Arc::new(RocksDb::open(directory, &options())?))
    });
    let engine = images.open().unwrap();
    for lsn in 1..=2_000 {
        write(engine.as_ref(), lsn);
        if lsn % 400 == 0 {
            engine.sync().unwrap();
        }
    }
    drop(engine);
    let lsns = images.lsns();
    assert_eq!(lsns, [0, 400, 800, 1_200, 1_600, 2_000]);
    for (index, lsn) in lsns.into_iter().enumerate() {
        let life = images.reopen(index).unwrap();
        assert_eq!(life.durable_lsn(), Ok(lsn));
        assert!(lsn == 0 || has(life.as_ref(), lsn));
        assert!(!has(life.as_ref(), lsn + 1));
    }
}

#[test]
fn reclaimed_space_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    for lsn in 1..=20_000 {
        write(&engine, lsn);
    }
    let mut batch = WriteBatch::new();
    batch.put(b"l", b"the neighbour at the very end of the range");
    engine.write(&batch).unwrap();
    engine.sync().unwrap();
    let before = engine.counters().disk_bytes;
    let mut steps = 0;
    while !engine
        .reclaim(KeyRange::prefix(b"k"), 1 << 20)
        .unwrap()
        .done
    {
        steps += 1;
    }
    assert!(
        steps <= 30,
        "20 MB were reclaimed in {steps} steps of 1 MiB"
    );
    assert!(engine.get(b"l", &mut |_| ()).unwrap());
    engine.sync().unwrap();
    wait_until("files are gone", || {
        engine.counters().disk_bytes < before / 4
    });
}

#[test]
fn reclaiming_asks_the_journal_first() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    write(&engine, 1);
    engine.set_before_durable(Box::new(|_| Err(Error::Io("journal is stuck".into()))));
    assert!(engine.reclaim(KeyRange::prefix(b"k"), 1).is_err());
    assert!(has(&engine, 1));
}

#[test]
fn two_handles_on_one_store_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _engine = open(directory.path());
    assert!(matches!(
        RocksDb::open(directory.path(), &options()),
        Err(Error::Locked(_))
    ));
}

/// A process that is killed while it makes a store leaves some of its files.
#[test]
fn a_store_that_was_never_finished_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    drop(quarry_storage::creation::begin(directory.path()).unwrap());
    for name in ["IDENTITY", "LOG", "MANIFEST-000001"] {
        fs::write(directory.path().join(name), b"half").unwrap();
    }
    let engine = open(directory.path());
    write(&engine, 1);
    engine.close().unwrap();
    drop(engine);
    assert!(has(&open(directory.path()), 1));
}

#[test]
fn foreign_and_damaged_directories_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("mdbx.dat"), b"something else").unwrap();
    assert!(matches!(
        RocksDb::open(directory.path(), &options()),
        Err(Error::Incompatible(_))
    ));

    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    write(&engine, 1);
    engine.close().unwrap();
    drop(engine);
    let manifest = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let manifest = manifest
        .into_iter()
        .find(|path| path.to_string_lossy().contains("MANIFEST"))
        .unwrap();
    let good = fs::read(&manifest).unwrap();
    let mut bad = good.clone();
    for byte in &mut bad[10..40] {
        *byte ^= 0x55;
    }
    fs::write(&manifest, &bad).unwrap();
    let damaged = RocksDb::open(directory.path(), &options()).err().unwrap();
    assert!(damaged.is_corruption(), "{damaged}");
    fs::write(&manifest, &good).unwrap();
    fs::remove_file(directory.path().join("CURRENT")).unwrap();
    let headless = RocksDb::open(directory.path(), &options()).err().unwrap();
    assert!(headless.is_corruption(), "{headless}");
}

/// A store of a hundred records in one table, some of whose blocks are damaged.
fn make_damaged_store(directory: &Path) {
    let engine = open(directory);
    for lsn in 1..=100 {
        write(&engine, lsn);
    }
    engine.close().unwrap();
    drop(engine);
    let table = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let table = table
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "sst"))
        .unwrap();
    let mut bytes = fs::read(&table).unwrap();
    // Neither the first block, which holds the applied LSN, nor what the open itself reads.
    for byte in &mut bytes[300..2_000] {
        *byte ^= 1;
    }
    fs::write(&table, &bytes).unwrap();
}

/// A compaction reads what no operation has read for long.
#[test]
fn damage_that_a_compaction_meets_is_told_by_whatever_writes() {
    let directory = tempfile::tempdir().unwrap();
    make_damaged_store(directory.path());
    let engine = open(directory.path());
    let (mut lsn, begun) = (100, Instant::now());
    let failed = loop {
        if let Readiness::Failed(error) = engine.ready() {
            break error;
        }
        assert!(begun.elapsed() < PATIENCE, "no compaction reads the table");
        lsn += 1;
        // Either may have met it before `ready` was asked.
        let _ = engine.write(&batch(lsn)).and_then(|()| engine.sync());
    };
    assert!(failed.is_corruption(), "{failed}");
    assert!(engine.sync().unwrap_err().is_corruption());
    assert!(has(&engine, 100), "what is whole is read");
    assert!(engine.close().unwrap_err().is_corruption());
}

/// A flipped byte in a table is an error that says so, never another document.
#[test]
fn a_damaged_table_is_named() {
    let directory = tempfile::tempdir().unwrap();
    make_damaged_store(directory.path());
    let engine = open(directory.path());
    let outcomes: Vec<_> = (1..=100u64)
        .map(|lsn| engine.get(&[b"k", &lsn.to_be_bytes()[..]].concat(), &mut |_| ()))
        .collect();
    assert!(
        outcomes
            .iter()
            .any(|outcome| outcome.as_ref().is_err_and(Error::is_corruption))
    );
    assert!(outcomes.iter().all(|outcome| {
        outcome
            .as_ref()
            .map_or_else(Error::is_corruption, |found| *found)
    }));
    let snapshot = engine.snapshot().unwrap();
    let mut cursor = snapshot.cursor(KeyRange::prefix(b"k")).unwrap();
    let mut moved = cursor.first();
    while moved.is_ok() && cursor.valid() {
        moved = cursor.next();
    }
    assert!(
        moved.as_ref().is_err_and(Error::is_corruption),
        "a scan ended before the damage: {moved:?}"
    );
    assert!(!cursor.valid());
}

#[test]
fn little_space_is_reported_before_a_write() {
    let directory = tempfile::tempdir().unwrap();
    let greedy = Options {
        free_bytes_min: u64::MAX,
        ..options()
    };
    let engine = RocksDb::open(directory.path(), &greedy).unwrap();
    assert!(matches!(engine.ready(), Readiness::Failed(error) if error.is_no_space()));
}

/// The highest LSN asked for never runs behind what a reopened engine shows, under load.
#[test]
fn what_survives_a_drop_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let asked = Arc::new(Mutex::new(0));
    let mut lsn = 0;
    for _ in 0..5 {
        let engine = open(directory.path());
        let first = engine.durable_lsn().unwrap();
        assert!(first <= *asked.lock().unwrap());
        assert!(first == 0 || has(&engine, first));
        assert!(!has(&engine, first + 1));
        let hook = Arc::clone(&asked);
        engine.set_before_durable(Box::new(move |lsn| {
            let mut asked = hook.lock().unwrap();
            *asked = lsn.max(*asked);
            Ok(())
        }));
        lsn = lsn.max(first);
        for _ in 0..1_111 {
            lsn += 1;
            write(&engine, lsn);
        }
        lsn = first + 1_111;
    }
}

/// The journal has the rest for whoever copies, and one that takes nothing for now is in no copy's way.
#[test]
fn a_copy_is_made_without_a_flush() {
    let root = tempfile::tempdir().unwrap();
    let engine = open(&root.path().join("engine"));
    write(&engine, 1);
    engine.sync().unwrap();
    write(&engine, 2);
    let flushes = engine.counters().flushes;
    engine.set_before_durable(Box::new(|_| Err(Error::Io("the journal is gone".into()))));
    engine.copy_to(&root.path().join("copy")).unwrap();
    assert_eq!(engine.counters().flushes, flushes);
    assert_eq!(engine.durable_lsn(), Ok(1));
    assert!(has(&engine, 2));
    let copy = open(&root.path().join("copy"));
    assert_eq!(copy.durable_lsn(), Ok(1));
    assert!(has(&copy, 1) && !has(&copy, 2));
}
