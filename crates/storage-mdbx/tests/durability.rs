//! Tests of what is durable when, which files refuse to open, and what becomes of reclaimed space.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use quarry_storage::{
    Engine, Error, FlushImages, KEY_BYTES_MAX, KeyRange, Readiness, WriteBatch, copy_directory,
};
use quarry_storage_mdbx::{Mdbx, Options, SyncMode};

const PATIENCE: Duration = Duration::from_secs(20);

fn options() -> Options {
    Options {
        growth_bytes: 1 << 20,
        free_bytes_min: 1 << 20,
        ..Options::default()
    }
}

fn open(directory: &Path) -> Mdbx {
    Mdbx::open(directory, &options()).unwrap()
}

fn write(engine: &dyn Engine, lsn: u64) {
    let mut batch = WriteBatch::new();
    batch.put(
        &[b"k", &lsn.to_be_bytes()[..]].concat(),
        &[lsn as u8; 1_000],
    );
    batch.put_applied_lsn(lsn);
    engine.write(&batch).unwrap();
}

fn has(engine: &dyn Engine, lsn: u64) -> bool {
    engine
        .get(&[b"k", &lsn.to_be_bytes()[..]].concat(), &mut |_| ())
        .unwrap()
}

/// libmdbx, left alone, makes a steady point when the file is full; here only we do.
#[test]
fn nothing_becomes_steady_behind_the_journals_back() {
    let directory = tempfile::tempdir().unwrap();
    let unbounded = Options {
        steady_after_bytes: u64::MAX,
        ..options()
    };
    let engine = Mdbx::open(directory.path(), &unbounded).unwrap();
    let asked = Arc::new(AtomicU64::new(0));
    let hook = Arc::clone(&asked);
    engine.set_before_durable(Box::new(move |lsn| {
        hook.fetch_max(lsn, Ordering::SeqCst);
        Ok(())
    }));
    write(&engine, 1);
    engine.sync().unwrap();
    let unflushed = engine.counters().unflushed_bytes;
    let mut grown = unflushed;
    for lsn in 2..=6_000 {
        write(&engine, lsn);
        let now = engine.counters().unflushed_bytes;
        assert!(
            now > grown,
            "a steady point was made at LSN {lsn}: {now} bytes unsynced after {grown}"
        );
        grown = now;
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(engine.durable_lsn(), Ok(1));
    engine.sync().unwrap();
    assert_eq!(engine.durable_lsn(), Ok(6_000));
    assert_eq!(engine.counters().unflushed_bytes, 0);
}

#[test]
fn steady_points_are_made_when_much_is_unsynced() {
    let directory = tempfile::tempdir().unwrap();
    let small = Options {
        steady_after_bytes: 1 << 20,
        ..options()
    };
    let engine = Mdbx::open(directory.path(), &small).unwrap();
    let (asked, refuse) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
    let (hook_asked, hook_refuse) = (Arc::clone(&asked), Arc::clone(&refuse));
    engine.set_before_durable(Box::new(move |lsn| {
        if hook_refuse.load(Ordering::SeqCst) {
            return Err(Error::Io("journal is stuck".into()));
        }
        hook_asked.fetch_max(lsn, Ordering::SeqCst);
        Ok(())
    }));
    let mut lsn = 0;
    wait_until("the refusal shows", || {
        lsn += 1;
        write(&engine, lsn);
        matches!(engine.ready(), Readiness::Failed(_))
    });
    assert_eq!(engine.durable_lsn(), Ok(0));
    refuse.store(false, Ordering::SeqCst);
    wait_until("a steady point is made", || {
        engine.ready() == Readiness::Ready && engine.durable_lsn().unwrap() > 0
    });
    for _ in 0..5_000 {
        lsn += 1;
        wait_until("the engine is ready", || engine.ready() == Readiness::Ready);
        write(&engine, lsn % 500);
        assert!(engine.durable_lsn().unwrap() <= asked.load(Ordering::SeqCst));
    }
    let counters = engine.counters();
    assert!(counters.flushes > 2);
    assert!(
        counters.disk_bytes < 64 << 20,
        "the file grew to {} bytes",
        counters.disk_bytes
    );
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
    }
}

#[test]
fn modes_that_sync_at_commit_ask_at_every_commit() {
    for sync_mode in [SyncMode::Durable, SyncMode::NoMetaSync] {
        let directory = tempfile::tempdir().unwrap();
        let engine = Mdbx::open(
            directory.path(),
            &Options {
                sync_mode,
                ..options()
            },
        )
        .unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let hook = Arc::clone(&asked);
        engine.set_before_durable(Box::new(move |lsn| {
            hook.store(lsn, Ordering::SeqCst);
            Ok(())
        }));
        for lsn in 1..=5 {
            write(&engine, lsn);
            assert_eq!(asked.load(Ordering::SeqCst), lsn);
            assert!(engine.durable_lsn().unwrap() >= lsn - 1);
        }
        engine.set_before_durable(Box::new(|_| Err(Error::Io("journal is stuck".into()))));
        let mut batch = WriteBatch::new();
        batch.put_applied_lsn(6);
        assert!(engine.write(&batch).is_err());
        assert_eq!(
            engine.ready(),
            Readiness::Ready,
            "the journal's failure is not the engine's"
        );
    }
}

#[test]
fn a_life_begins_at_any_steady_point() {
    let root = tempfile::tempdir().unwrap();
    let images = FlushImages::directories(root.path(), |directory| {
        Ok(Arc::new(Mdbx::open(directory, &options())?))
    });
    let engine = images.open().unwrap();
    for lsn in 1..=1_000 {
        write(engine.as_ref(), lsn);
        if lsn % 250 == 0 {
            engine.sync().unwrap();
        }
    }
    drop(engine);
    let lsns = images.lsns();
    assert_eq!(lsns, [0, 250, 500, 750, 1_000]);
    for (index, lsn) in lsns.into_iter().enumerate() {
        let life = images.reopen(index).unwrap();
        assert_eq!(life.durable_lsn(), Ok(lsn));
        assert!(lsn == 0 || has(life.as_ref(), lsn));
        assert!(!has(life.as_ref(), lsn + 1));
    }
}

/// The system keeps what a killed process wrote, unless it could not write it to the device: then it forgets, and nobody is
/// told. So a start goes back to the last steady point, whichever of the later pages have arrived, and lets the journal replay.
#[test]
fn what_a_killed_process_left_unsynced_is_not_trusted() {
    let unbounded = || Options {
        steady_after_bytes: u64::MAX,
        ..options()
    };
    let root = tempfile::tempdir().unwrap();
    let [life, steady, killed] = ["life", "steady", "killed"].map(|name| {
        let directory = root.path().join(name);
        fs::create_dir(&directory).unwrap();
        directory
    });
    let engine = Mdbx::open(&life, &unbounded()).unwrap();
    for lsn in 1..=200 {
        write(&engine, lsn);
    }
    engine.sync().unwrap();
    copy_directory(&life, &steady).unwrap();
    for lsn in 201..=400 {
        write(&engine, lsn);
    }
    copy_directory(&life, &killed).unwrap();
    drop(engine);

    let before = fs::read(steady.join("mdbx.dat")).unwrap();
    let after = fs::read(killed.join("mdbx.dat")).unwrap();
    type HasArrived = fn(usize) -> bool;
    let arrived: [(&str, HasArrived); 4] = [
        ("all", |_| true),
        ("the meta pages alone", |page| page < 3),
        ("even ones", |page| page < 3 || page % 2 == 0),
        ("odd ones", |page| page < 3 || page % 2 == 1),
    ];
    for (which, has_arrived) in arrived {
        let mut file = after.clone();
        for (page, bytes) in file.chunks_mut(4_096).enumerate() {
            if !has_arrived(page) {
                match before.get(page * 4_096..page * 4_096 + bytes.len()) {
                    Some(old) => bytes.copy_from_slice(old),
                    None => bytes.fill(0),
                }
            }
        }
        fs::write(killed.join("mdbx.dat"), file).unwrap();
        // Starts that end before anything is written find the same again.
        for start in 0..4 {
            let engine = Mdbx::open(&killed, &unbounded()).unwrap();
            assert_eq!(engine.durable_lsn(), Ok(200), "{which}, start {start}");
            assert!((1..=200).all(|lsn| has(&engine, lsn)), "{which}");
            assert!(!(201..=400).any(|lsn| has(&engine, lsn)), "{which}");
        }
        let engine = Mdbx::open(&killed, &unbounded()).unwrap();
        for lsn in 201..=300 {
            write(&engine, lsn);
        }
        engine.close().unwrap();
        drop(engine);
        let engine = Mdbx::open(&killed, &unbounded()).unwrap();
        assert_eq!(engine.durable_lsn(), Ok(300), "{which}");
        assert!((1..=300).all(|lsn| has(&engine, lsn)), "{which}");
    }
}

#[test]
fn reclaimed_pages_are_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    let mut first_round = 0;
    for round in 0..4 {
        for lsn in 1..=4_000 {
            write(&engine, lsn);
            if lsn % 100 == 0 {
                engine.sync().unwrap();
            }
        }
        first_round = if round == 0 {
            engine.counters().disk_bytes
        } else {
            first_round
        };
        while !engine
            .reclaim(KeyRange::prefix(b"k"), 256 << 10)
            .unwrap()
            .done
        {
            engine.sync().unwrap();
        }
        engine.sync().unwrap();
    }
    let disk_bytes = engine.counters().disk_bytes;
    assert!(
        disk_bytes < 2 * first_round,
        "the file grew from {first_round} to {disk_bytes} bytes"
    );
}

/// Left alone, libmdbx makes a steady point to shrink the file, behind the journal's back.
#[test]
fn a_file_with_a_free_end_waits_for_the_journal() {
    let directory = tempfile::tempdir().unwrap();
    let unbounded = Options {
        steady_after_bytes: u64::MAX,
        growth_bytes: 64 << 10,
        ..options()
    };
    let engine = Mdbx::open(directory.path(), &unbounded).unwrap();
    let mut lsn = 0;
    for round in 0..40 {
        for large in (0..10).chain((0..10).rev()) {
            lsn += 1;
            let mut batch = WriteBatch::new();
            for part in 0..4u8 {
                let key = [b'l', large, part];
                match lsn % 20 {
                    1..=10 => batch.put(&key, &[7; 50_000]),
                    _ => batch.delete(&key),
                }
            }
            batch.put_applied_lsn(lsn);
            let unflushed = engine.counters().unflushed_bytes;
            engine.write(&batch).unwrap();
            let now = engine.counters().unflushed_bytes;
            assert!(
                now > unflushed,
                "a steady point was made at LSN {lsn}: {now} bytes unsynced after {unflushed}"
            );
        }
        if round % 4 == 3 {
            engine.sync().unwrap();
            assert_eq!(engine.durable_lsn(), Ok(lsn));
        }
    }
}

#[test]
fn the_longest_key_is_the_one_that_all_engines_promise() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    let mut batch = WriteBatch::new();
    batch.put(&[1; KEY_BYTES_MAX], b"v");
    engine.write(&batch).unwrap();
}

#[test]
fn two_handles_on_one_store_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _engine = open(directory.path());
    let second = Mdbx::open(directory.path(), &options()).err().unwrap();
    assert!(matches!(second, Error::Locked(_)), "{second:?}");
}

/// A process that is killed while it makes a store leaves an empty file, for example.
#[test]
fn a_store_that_was_never_finished_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    drop(quarry_storage::creation::begin(directory.path()).unwrap());
    fs::write(directory.path().join("mdbx.dat"), b"").unwrap();
    let engine = open(directory.path());
    write(&engine, 1);
    engine.close().unwrap();
    drop(engine);
    assert!(has(&open(directory.path()), 1));
}

#[test]
fn foreign_and_damaged_directories_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("CURRENT"), b"something else").unwrap();
    assert!(matches!(
        Mdbx::open(directory.path(), &options()),
        Err(Error::Incompatible(_))
    ));

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mdbx.dat");
    let engine = open(directory.path());
    for lsn in 1..=100 {
        write(&engine, lsn);
    }
    engine.close().unwrap();
    drop(engine);
    let good = fs::read(&file).unwrap();

    let outcomes = [
        Vec::new(),
        good[..5_000].to_vec(),
        good[..40_000].to_vec(),
        vec![0x5a; good.len()],
        {
            let mut metas_gone = good.clone();
            metas_gone[..3 * 4_096].fill(0);
            metas_gone
        },
    ];
    for bad in outcomes {
        fs::write(&file, &bad).unwrap();
        let opened = Mdbx::open(directory.path(), &options()).map(|engine| has(&engine, 1));
        let length = bad.len();
        assert!(
            opened.as_ref().is_err_and(Error::is_corruption),
            "{length} bytes: {opened:?}"
        );
    }
    fs::write(&file, &good).unwrap();
    assert!(has(&open(directory.path()), 100));
}

#[test]
fn a_file_at_its_bound_refuses_and_serves_reads() {
    let directory = tempfile::tempdir().unwrap();
    let small = Options {
        size_bytes_max: 4 << 20,
        ..options()
    };
    let engine = Mdbx::open(directory.path(), &small).unwrap();
    let mut lsn = 0u64;
    let error = loop {
        lsn += 1;
        let mut batch = WriteBatch::new();
        batch.put(&[b"k", &lsn.to_be_bytes()[..]].concat(), &[7; 10_000]);
        if let Err(error) = engine.write(&batch) {
            break error;
        }
        assert!(lsn < 1_000, "the bound of the file was not kept");
    };
    assert!(error.is_no_space() && error.is_retryable(), "{error:?}");
    assert!(has(&engine, lsn - 1) && !has(&engine, lsn));
    while !engine
        .reclaim(KeyRange::prefix(b"k"), 200_000)
        .unwrap()
        .done
    {
        engine.sync().unwrap();
    }
    engine.sync().unwrap();
    write(&engine, 1);
    assert!(has(&engine, 1), "writes go on when there is space again");
}

#[test]
fn little_space_is_reported_before_a_write() {
    let directory = tempfile::tempdir().unwrap();
    let greedy = Options {
        free_bytes_min: u64::MAX,
        ..options()
    };
    let engine = Mdbx::open(directory.path(), &greedy).unwrap();
    assert!(matches!(engine.ready(), Readiness::Failed(error) if error.is_no_space()));
}

#[test]
fn many_readers_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    write(&engine, 1);
    let snapshots: Vec<_> = (0..1_000).map(|_| engine.snapshot().unwrap()).collect();
    write(&engine, 2);
    assert!(snapshots.iter().all(|snapshot| {
        !snapshot
            .get(&[b"k", &2u64.to_be_bytes()[..]].concat(), &mut |_| ())
            .unwrap()
    }));
    drop(snapshots);
    assert!(has(&engine, 2));
}

/// Slots for readers are bounded: one too many is told to try again, and everything goes on once one is free.
#[test]
fn a_reader_without_a_slot_is_told_to_try_again() {
    let directory = tempfile::tempdir().unwrap();
    let few = Options {
        readers_max: 8,
        ..options()
    };
    let engine = Mdbx::open(directory.path(), &few).unwrap();
    write(&engine, 1);
    let mut snapshots = Vec::new();
    let error = loop {
        match engine.snapshot() {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(error) => break error,
        }
        assert!(snapshots.len() < 1_000, "slots have no bound");
    };
    assert!(snapshots.len() >= 8);
    assert!(error.is_retryable(), "{error:?}");
    let gotten = engine.get(b"k", &mut |_| ()).unwrap_err();
    assert!(gotten.is_retryable(), "{gotten:?}");
    // Writers and steady points need none, and the store is not taken for failed.
    write(&engine, 2);
    engine.sync().unwrap();
    assert_eq!(engine.ready(), Readiness::Ready);
    snapshots.pop();
    assert!(has(&engine, 2));
}
