//! Interleavings of readers and the leader, tried one after another: nobody reads what the engine would not show.
//!
//! `cargo test -p quarry-database --features shuttle --lib record_cache::model`; `QUARRY_TORTURE=N` tries N times as many.

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread::{spawn, yield_now};

use super::*;

const INTERLEAVINGS: usize = 2000;
const KEY: &[u8] = b"key";
const GROUPS: u64 = 3;

/// The cache before an engine that holds one record, the number of the group that wrote it.
struct Machine {
    cache: RecordCache,
    stored: AtomicU64,
    /// The last group whose writer was answered.
    answered: AtomicU64,
}

impl Machine {
    fn new() -> Arc<Machine> {
        let machine = Machine {
            cache: RecordCache::new(1 << 12),
            stored: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        };
        Arc::new(machine)
    }

    fn read(&self, reader: Reader, get: impl FnOnce() -> u64) -> u64 {
        let mut found = None;
        let mut note = |bytes: &[u8]| found = bytes.try_into().ok().map(u64::from_le_bytes);
        let read = self.cache.read(KEY, reader, &mut note, |read| {
            let stored = get();
            yield_now();
            read(&stored.to_le_bytes());
            Ok(true)
        });
        assert!(read.unwrap());
        found.expect("eight bytes")
    }

    fn read_latest(&self) -> u64 {
        self.read(self.cache.latest(), || self.stored.load(Ordering::SeqCst))
    }

    fn write_all(&self) {
        for group in 1..=GROUPS {
            let applying = self.cache.apply();
            applying.forget(KEY);
            self.stored.store(group, Ordering::SeqCst);
            applying.keep(KEY, &group.to_le_bytes());
            drop(applying);
            self.answered.store(group, Ordering::SeqCst);
        }
    }
}

fn explore(model: fn()) {
    let times = std::env::var("QUARRY_TORTURE").ok();
    let times = times.and_then(|text| text.parse().ok()).unwrap_or(1);
    shuttle::check_random(model, INTERLEAVINGS / 2 * times);
    shuttle::check_pct(model, INTERLEAVINGS / 2 * times, 3);
}

#[test]
fn a_reader_of_the_latest_sees_what_was_answered_and_never_goes_back() {
    explore(|| {
        let machine = Machine::new();
        let leader = Arc::clone(&machine);
        let mut threads = vec![spawn(move || leader.write_all())];
        threads.extend((0..2).map(|_| {
            let machine = Arc::clone(&machine);
            spawn(move || {
                let mut seen = 0;
                for _ in 0..3 {
                    let answered = machine.answered.load(Ordering::SeqCst);
                    let read = machine.read_latest();
                    assert!(
                        read >= answered.max(seen),
                        "{read} after {answered} and {seen}"
                    );
                    seen = read;
                }
            })
        }));
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(machine.read_latest(), GROUPS);
    });
}

#[test]
fn a_snapshot_sees_what_the_engine_had_and_nothing_else() {
    explore(|| {
        let machine = Machine::new();
        let leader = Arc::clone(&machine);
        let mut threads = vec![spawn(move || leader.write_all())];
        threads.extend((0..2).map(|_| {
            let machine = Arc::clone(&machine);
            spawn(move || {
                let reader = machine.cache.snapshot();
                let snapshot = machine.stored.load(Ordering::SeqCst);
                for _ in 0..2 {
                    assert_eq!(machine.read(reader, || snapshot), snapshot);
                    // What it put in is what the latest reader may find.
                    assert!(machine.read_latest() >= snapshot);
                }
            })
        }));
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(machine.read_latest(), GROUPS);
    });
}
