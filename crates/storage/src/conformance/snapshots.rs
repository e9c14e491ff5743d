//! Snapshots: what they see, for how long, from where.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use super::calls::{Noise, delete, get, get_at, put, scan};
use crate::{Engine, KeyRange, WriteBatch};

pub fn never_change(engine: &dyn Engine) {
    put(engine, b"a", b"1");
    put(engine, b"b", b"1");
    let snapshot = engine.snapshot().expect("a snapshot opens");
    put(engine, b"a", b"2");
    delete(engine, b"b");
    put(engine, b"c", b"1");
    assert_eq!(get_at(snapshot.as_ref(), b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(get_at(snapshot.as_ref(), b"b").as_deref(), Some(&b"1"[..]));
    assert_eq!(get_at(snapshot.as_ref(), b"c"), None);
    let seen = scan(snapshot.as_ref(), KeyRange::all());
    assert_eq!(
        seen,
        [
            (b"a".to_vec(), b"1".to_vec()),
            (b"b".to_vec(), b"1".to_vec())
        ]
    );
    assert_eq!(get(engine, b"a").as_deref(), Some(&b"2"[..]));
    let later = engine.snapshot().expect("a snapshot opens");
    assert_eq!(scan(later.as_ref(), KeyRange::all()).len(), 2);
}

pub fn outlive_many_writes(engine: &dyn Engine) {
    for number in 0..500u32 {
        put(engine, &number.to_be_bytes(), b"old");
    }
    let snapshot = engine.snapshot().expect("a snapshot opens");
    let mut cursor = snapshot.cursor(KeyRange::all()).expect("a cursor opens");
    cursor.first().expect("a cursor moves");
    for round in 0..4 {
        let mut batch = WriteBatch::new();
        for number in 0..1_000u32 {
            batch.put(&number.to_be_bytes(), &[round; 100]);
        }
        engine.write(&batch).expect("a batch is taken");
        engine.sync().expect("a sync is made");
    }
    for number in 0..500u32 {
        assert_eq!(cursor.key(), number.to_be_bytes());
        assert_eq!(cursor.value(), b"old");
        cursor.next().expect("a cursor moves");
    }
    assert!(!cursor.valid());
}

/// A view of a snapshot sees what the snapshot sees, after other writes and after the snapshot has gone.
pub fn are_shared(engine: &dyn Engine) {
    put(engine, b"a", b"1");
    let mut snapshot = engine.snapshot().expect("a snapshot opens");
    let first = snapshot.share().expect("a snapshot is shared");
    put(engine, b"a", b"2");
    put(engine, b"b", b"2");
    let mut second = snapshot.share().expect("a snapshot is shared later");
    drop(snapshot);
    let third = second.share().expect("a view is shared");
    let seen = [(b"a".to_vec(), b"1".to_vec())];
    std::thread::scope(|scope| {
        for view in [first, second, third] {
            let seen = &seen;
            scope.spawn(move || {
                for _ in 0..100 {
                    assert_eq!(get_at(view.as_ref(), b"a").as_deref(), Some(&b"1"[..]));
                    assert_eq!(scan(view.as_ref(), KeyRange::all()), seen);
                }
            });
        }
    });
    engine.sync().expect("a sync is made");
    assert_eq!(get(engine, b"a").as_deref(), Some(&b"2"[..]));
}

pub fn move_between_threads(engine: &dyn Engine) {
    put(engine, b"a", b"1");
    let snapshot = engine.snapshot().expect("a snapshot opens");
    put(engine, b"a", b"2");
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(move || get_at(snapshot.as_ref(), b"a"));
        reader.join().expect("a reader does not panic")
    });
    assert_eq!(seen.as_deref(), Some(&b"1"[..]));
    assert_eq!(get(engine, b"a").as_deref(), Some(&b"2"[..]));
}

/// Every batch writes one number under many keys; a reader must never see two numbers at once.
pub fn readers_see_whole_batches(engine: &dyn Engine) {
    const KEYS: u8 = 20;
    const BATCHES: u32 = 300;
    let number_everywhere = |number: u32| {
        let mut batch = WriteBatch::new();
        for key in 0..KEYS {
            batch.put(&[b'n', key], &number.to_le_bytes());
        }
        engine.write(&batch).expect("a batch is taken");
    };
    number_everywhere(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut latest = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let snapshot = engine.snapshot().expect("a snapshot opens");
                    let seen = scan(snapshot.as_ref(), KeyRange::prefix(b"n"));
                    assert_eq!(seen.len(), usize::from(KEYS));
                    assert!(
                        seen.iter().all(|(_, value)| *value == seen[0].1),
                        "half a batch was visible"
                    );
                    let number = seen[0].1.iter().rev().copied().collect::<Vec<u8>>();
                    assert!(number >= latest, "a later snapshot saw an older batch");
                    latest = number;
                }
            });
        }
        for number in 1..=BATCHES {
            number_everywhere(number);
            assert_eq!(get(engine, b"n\x00"), Some(number.to_le_bytes().to_vec()));
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// The entries of a range that is reclaimed while a snapshot is held, under three prefixes so that it has neighbours. Values
/// do not compress, and there are several versions of some, so that an engine of files has them in many.
pub fn read_a_range_that_is_reclaimed(engine: &dyn Engine) {
    const ENTRIES: u32 = 3_000;
    let key = |prefix: u8, number: u32| [&[prefix][..], &number.to_be_bytes()].concat();
    let mut noise = Noise(1);
    for round in 0..4 {
        for prefix in [0x10u8, 0x11, 0x12] {
            let mut batch = WriteBatch::new();
            for number in (0..ENTRIES).filter(|number| number % (round + 1) == 0) {
                batch.put(&key(prefix, number), &noise.bytes(200));
            }
            engine.write(&batch).expect("a batch is taken");
            engine.sync().expect("a sync is made");
        }
    }
    wait_for_compactions(engine);
    let doomed = KeyRange::prefix(&[0x11]);
    let snapshot = engine.snapshot().expect("a snapshot opens");
    let all_before = scan(snapshot.as_ref(), KeyRange::all());
    let before = scan(snapshot.as_ref(), doomed.clone());
    assert_eq!(before.len(), ENTRIES as usize);
    let mut midway = snapshot.cursor(doomed.clone()).expect("a cursor opens");
    let middle = ENTRIES / 2;
    midway
        .seek(&key(0x11, middle))
        .expect("a cursor finds its key");

    let mut steps = 0;
    let mut done = false;
    while !done {
        let step = engine.reclaim(doomed.clone(), 32 << 10);
        done = step.expect("a step is made").done;
        steps += 1;
        assert!(
            steps < 1_000,
            "a held snapshot keeps reclaiming from its end"
        );
        assert!(
            scan(snapshot.as_ref(), doomed.clone()) == before,
            "a cursor made after {steps} steps misses entries of its snapshot"
        );
    }
    for (stored, value) in &before[middle as usize..] {
        assert!(
            midway.key() == stored && midway.value() == value,
            "a cursor made before the reclaim lost its way at {stored:02x?}"
        );
        midway.next().expect("a cursor moves");
    }
    assert!(!midway.valid());
    for (stored, value) in before.iter().step_by(97) {
        assert_eq!(get_at(snapshot.as_ref(), stored).as_ref(), Some(value));
    }
    drop(midway);
    assert!(
        scan(snapshot.as_ref(), KeyRange::all()) == all_before,
        "a scan over the neighbours too misses entries"
    );

    let later = engine.snapshot().expect("a snapshot opens");
    assert!(scan(later.as_ref(), doomed).is_empty());
    assert_eq!(
        scan(later.as_ref(), KeyRange::all()).len(),
        2 * ENTRIES as usize,
        "a neighbour of the reclaimed range lost entries"
    );
}

/// Waits until an engine that moves its data about in the background seems to have ended with it: where files can go, they
/// are those that it has made then.
fn wait_for_compactions(engine: &dyn Engine) {
    const LOOK_EVERY: Duration = Duration::from_millis(20);
    const PATIENCE: Duration = Duration::from_secs(5);
    let begun = Instant::now();
    let mut seen = engine.counters().compactions;
    while seen > 0 && begun.elapsed() < PATIENCE {
        std::thread::sleep(LOOK_EVERY);
        let now = engine.counters().compactions;
        if now == seen {
            return;
        }
        seen = now;
    }
}
