//! Durable points, the write-ahead hook, reclaiming, closing and opening again.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::calls::{Noise, get, put, scan};
use crate::{APPLIED_LSN_KEY, Engine, Error, KeyRange, Readiness, WriteBatch};

/// A journal's sync takes so long, where a hook waits for one.
const SLOW_HOOK: Duration = Duration::from_millis(5);

fn write_with_lsn(engine: &dyn Engine, key: &[u8], lsn: u64) {
    let mut batch = WriteBatch::new();
    batch.put(key, &lsn.to_le_bytes());
    batch.put_applied_lsn(lsn);
    engine.write(&batch).expect("a batch is taken");
}

pub fn applied_lsn_becomes_durable_with_a_sync(engine: &dyn Engine) {
    assert_eq!(engine.durable_lsn(), Ok(0));
    assert_eq!(engine.ready(), Readiness::Ready);
    write_with_lsn(engine, b"a", 7);
    assert_eq!(
        get(engine, APPLIED_LSN_KEY),
        Some(7u64.to_le_bytes().to_vec())
    );
    engine.sync().expect("a sync is made");
    assert_eq!(engine.durable_lsn(), Ok(7));
    write_with_lsn(engine, b"b", 8);
    assert!(engine.durable_lsn().expect("an LSN is known") >= 7);
    engine.sync().expect("a sync is made");
    engine.sync().expect("a sync of nothing is made");
    assert_eq!(engine.durable_lsn(), Ok(8));
}

pub fn hook_runs_first_and_can_refuse(engine: &dyn Engine) {
    let asked = Arc::new(Mutex::new((0, false)));
    let hook = Arc::clone(&asked);
    engine.set_before_durable(Box::new(move |lsn| {
        let mut asked = hook.lock().expect("nobody panics with it");
        asked.0 = asked.0.max(lsn);
        if asked.1 {
            Err(Error::Io("journal failed".into()))
        } else {
            Ok(())
        }
    }));
    write_with_lsn(engine, b"a", 5);
    engine.sync().expect("a sync is made");
    let asked_for = asked.lock().expect("nobody panics with it").0;
    assert!(
        asked_for >= 5,
        "LSN 5 became durable and the hook was asked for {asked_for}"
    );
    assert_eq!(engine.durable_lsn(), Ok(5));

    asked.lock().expect("nobody panics with it").1 = true;
    write_with_lsn(engine, b"b", 6);
    assert!(
        engine.sync().is_err(),
        "a refused durable point was reported as made"
    );
    assert_eq!(engine.durable_lsn(), Ok(5));
    assert!(get(engine, b"b").is_some(), "reads go on");

    asked.lock().expect("nobody panics with it").1 = false;
    engine
        .sync()
        .expect("the journal is well again and so is the engine");
    assert_eq!(engine.durable_lsn(), Ok(6));
}

/// The hook before is not running any more, and never will, when another one has been set.
pub fn a_hook_that_runs_is_waited_for_by_who_takes_it_back(engine: &dyn Engine) {
    const ROUNDS: u64 = 5;
    for round in 1..=ROUNDS {
        write_with_lsn(engine, b"a", round);
        let (begun, has_begun) = channel();
        let has_returned = Arc::new(AtomicBool::new(false));
        let returned = Arc::clone(&has_returned);
        engine.set_before_durable(Box::new(move |_| {
            // A flush may ask more than once, and only the first time somebody listens.
            let _ = begun.send(());
            thread::sleep(SLOW_HOOK);
            returned.store(true, Ordering::SeqCst);
            Ok(())
        }));
        thread::scope(|scope| {
            let sync = scope.spawn(|| engine.sync());
            has_begun.recv().expect("a durable point asks the hook");
            engine.set_before_durable(Box::new(|_| Ok(())));
            assert!(has_returned.load(Ordering::SeqCst), "the hook still runs");
            sync.join().expect("no panic").expect("a sync is made");
        });
    }
}

pub fn reclaim_in_steps_empties_the_range(engine: &dyn Engine) {
    const ENTRIES: u32 = 3_000;
    for prefix in [0x10u8, 0x11, 0x12] {
        let mut batch = WriteBatch::new();
        for number in 0..ENTRIES {
            let mut key = vec![prefix];
            key.extend(number.to_be_bytes());
            batch.put(&key, &[prefix; 200]);
        }
        engine.write(&batch).expect("a batch is taken");
        engine.sync().expect("a sync is made");
    }
    let doomed = KeyRange::prefix(&[0x11]);
    let mut steps = 0;
    while !engine
        .reclaim(doomed.clone(), 64 << 10)
        .expect("a step is made")
        .done
    {
        steps += 1;
        assert!(steps < 1_000, "reclaiming does not end");
    }
    let snapshot = engine.snapshot().expect("a snapshot opens");
    assert!(scan(snapshot.as_ref(), doomed.clone()).is_empty());
    for neighbour in [0x10u8, 0x12] {
        let kept = scan(snapshot.as_ref(), KeyRange::prefix(&[neighbour]));
        assert_eq!(
            kept.len(),
            ENTRIES as usize,
            "a neighbour of the reclaimed range lost entries"
        );
    }
    assert!(
        engine
            .reclaim(doomed.clone(), 1)
            .expect("a step is made")
            .done
    );
    assert!(
        engine
            .reclaim(KeyRange::new("b", "a"), 1)
            .expect("a step is made")
            .done
    );
    put(engine, &[0x11, 1], b"again");
    assert_eq!(
        get(engine, &[0x11, 1]).as_deref(),
        Some(&b"again"[..]),
        "a reclaimed range takes new keys"
    );
}

pub fn size_estimates_follow_the_data(engine: &dyn Engine) {
    let mut noise = Noise(1);
    for number in 0..2_000u32 {
        put(
            engine,
            &[&b"big"[..], &number.to_be_bytes()].concat(),
            &noise.bytes(1_000),
        );
    }
    engine.sync().expect("a sync is made");
    let big = engine
        .size_estimate(&KeyRange::prefix(b"big"))
        .expect("an estimate is made");
    assert!(
        (1_000_000..8_000_000).contains(&big),
        "2 MB of noise were estimated at {big} bytes"
    );
    let none = engine
        .size_estimate(&KeyRange::prefix(b"none"))
        .expect("an estimate is made");
    assert!(none < 200_000, "nothing was estimated at {none} bytes");
}

pub fn closed_engines_refuse(engine: &dyn Engine) {
    put(engine, b"a", b"1");
    engine.close().expect("an engine closes");
    engine.close().expect("closing again does nothing");
    let mut batch = WriteBatch::new();
    batch.put(b"b", b"1");
    assert_eq!(engine.write(&batch), Err(Error::Closed));
    assert_eq!(engine.get(b"a", &mut |_| ()), Err(Error::Closed));
    assert!(engine.snapshot().is_err());
    assert_eq!(engine.sync(), Err(Error::Closed));
    assert_eq!(engine.ready(), Readiness::Failed(Error::Closed));
}

pub fn closed_engines_keep_everything(open: &dyn Fn() -> Arc<dyn Engine>) {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for life in 1..=5u8 {
        let engine = open();
        for key in &kept {
            assert_eq!(
                get(engine.as_ref(), key),
                Some(vec![key[1]; 50_000]),
                "life {life} misses a key"
            );
        }
        assert_eq!(engine.durable_lsn(), Ok(u64::from(life - 1)));
        let key = vec![b'l', life];
        let mut batch = WriteBatch::new();
        batch.put(&key, &[life; 50_000]);
        batch.put_applied_lsn(u64::from(life));
        engine.write(&batch).expect("a batch is taken");
        kept.push(key);
        engine.close().expect("an engine closes");
    }
}

/// A close leaves nothing to replay, however much was written and reclaimed before it without a sync.
pub fn closed_engines_have_all_of_it_durable(open: &dyn Fn() -> Arc<dyn Engine>) {
    const BATCHES: u64 = 200;
    let engine = open();
    let begun = engine.durable_lsn().expect("an LSN is known");
    let key = |prefix: u8, lsn: u64| [&[prefix][..], &lsn.to_be_bytes()].concat();
    let lsns = begun + 1..=begun + BATCHES;
    for lsn in lsns.clone() {
        let mut batch = WriteBatch::new();
        batch.put(&key(b'm', lsn), &[lsn as u8; 20_000]);
        batch.put(&key(b'n', lsn), b"doomed");
        batch.put_applied_lsn(lsn);
        engine.write(&batch).expect("a batch is taken");
    }
    let doomed = || KeyRange::prefix(b"n");
    let reclaim = || engine.reclaim(doomed(), 1 << 10).expect("a step is made");
    while !reclaim().done {}
    engine.close().expect("an engine closes");
    drop(engine);
    for _ in 0..2 {
        let engine = open();
        let applied = begun + BATCHES;
        assert_eq!(engine.durable_lsn(), Ok(applied));
        assert_eq!(
            get(engine.as_ref(), APPLIED_LSN_KEY),
            Some(applied.to_le_bytes().to_vec())
        );
        let snapshot = engine.snapshot().expect("a snapshot opens");
        let kept = scan(snapshot.as_ref(), KeyRange::prefix(b"m"));
        assert!(
            kept.iter()
                .map(|(key, _)| key.clone())
                .eq(lsns.clone().map(|lsn| key(b'm', lsn)))
        );
        assert!(scan(snapshot.as_ref(), doomed()).is_empty());
        drop(snapshot);
        engine.close().expect("an engine closes");
    }
}

/// Dropped without a close: the durable LSN of the next life covers the last sync, and what it
/// covers is there.
pub fn dropped_engines_keep_what_was_durable(open: &dyn Fn() -> Arc<dyn Engine>) {
    let engine = open();
    write_with_lsn(engine.as_ref(), b"synced", 100);
    engine.sync().expect("a sync is made");
    write_with_lsn(engine.as_ref(), b"unsynced", 101);
    drop(engine);
    let engine = open();
    let durable_lsn = engine.durable_lsn().expect("an LSN is known");
    assert!((100..=101).contains(&durable_lsn));
    assert!(get(engine.as_ref(), b"synced").is_some());
    assert_eq!(
        get(engine.as_ref(), b"unsynced").is_some(),
        durable_lsn == 101,
        "half of a batch came back"
    );
    engine.close().expect("an engine closes");
}

/// Copies are made while somebody writes batches of two keys: a copy has what was durable before it, and whole batches up to one of them.
pub fn copies_open_beside_the_engine(open: &dyn Fn(&Path) -> Arc<dyn Engine>, root: &Path) {
    const COPIES: u64 = 3;
    // Perhaps nothing is durable that was written since the copy before it.
    const LEFT_TO_A_JOURNAL: u64 = 1;
    let engine = open(&root.join("engine"));
    let (written, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    let copies: Vec<(std::path::PathBuf, u64)> = std::thread::scope(|scope| {
        let (engine, written, ends) = (&engine, &written, &ends);
        scope.spawn(move || {
            let mut lsn = 1;
            while !ends.load(Ordering::Acquire) {
                let mut batch = WriteBatch::new();
                batch.put(&key(b'a', lsn), b"first");
                batch.put(&key(b'b', lsn), b"second");
                batch.put_applied_lsn(lsn);
                engine.write(&batch).expect("a batch is taken");
                written.store(lsn, Ordering::Release);
                lsn += 1;
            }
        });
        let copies = (0..COPIES).map(|number| {
            // Each copy has batches of its own to be made of.
            while written.load(Ordering::Acquire) < 50 * (number + 1) {
                std::thread::yield_now();
            }
            let copy = root.join(format!("copy{number}"));
            if number != LEFT_TO_A_JOURNAL {
                engine.sync().expect("a sync is made");
            }
            let before = engine.durable_lsn().expect("an LSN is known");
            engine.copy_to(&copy).expect("a copy is made");
            (copy, before)
        });
        let copies = copies.collect();
        ends.store(true, Ordering::Release);
        copies
    });
    for (directory, before) in copies {
        let copy = open(&directory);
        let last = copy.durable_lsn().expect("an LSN is known");
        assert!(
            last >= before,
            "a copy ends at {last}, {before} was durable"
        );
        for lsn in 1..=last + 1 {
            let found = [get(&*copy, &key(b'a', lsn)), get(&*copy, &key(b'b', lsn))];
            let is_there = found.iter().filter(|value| value.is_some()).count();
            assert_eq!(
                is_there,
                if lsn <= last { 2 } else { 0 },
                "batch {lsn} of {last}"
            );
        }
        write_with_lsn(&*copy, b"c", last + 1);
        copy.close().expect("a copy closes");
        assert_eq!(
            get(&*engine, b"c"),
            None,
            "the engine has what its copy was given"
        );
    }
    let taken = root.join("copy0");
    engine
        .copy_to(&taken)
        .expect_err("a directory that is there is not copied into");
    engine.close().expect("the engine closes");
    engine
        .copy_to(&root.join("late"))
        .expect_err("a closed engine is not copied");
}

fn key(kind: u8, lsn: u64) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&lsn.to_be_bytes());
    key
}
