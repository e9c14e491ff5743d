//! Tests of copies of the journal's end, made while others write and checkpoints free segments.

mod owner;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use owner::{Owner, identity, options};
use quarry_journal::{Journal, Level, Options, SimulatedFiles};

/// The payload of a record says which one it is, and has a length of its own.
fn payload(lsn: u64) -> Vec<u8> {
    let mut payload = lsn.to_le_bytes().to_vec();
    payload.resize(8 + (lsn % 700) as usize, lsn as u8);
    payload
}

fn open(files: &SimulatedFiles, applied_lsn: u64, owner: &Arc<Owner>) -> Journal {
    let options = Options {
        retain_ms: 0,
        ..options()
    };
    let files = Arc::new(files.clone());
    Journal::open(files, options, identity(), applied_lsn, owner.clone()).unwrap()
}

/// Opens the copy as an engine would that holds everything up to `applied_lsn`.
fn check_copy(copy: &SimulatedFiles, applied_lsn: u64, last_lsn: u64) {
    let owner = Owner::new();
    let journal = open(copy, applied_lsn, &owner);
    let expected: Vec<_> = (applied_lsn + 1..=last_lsn)
        .map(|lsn| (lsn, payload(lsn)))
        .collect();
    assert_eq!(owner.records(), expected);
    let committed = journal.commit(&payload(0), Level::Durable).unwrap();
    assert_eq!(committed.lsn, last_lsn + 1);
}

#[test]
fn copies_hold_what_came_after_the_pin() {
    const COPIES: u64 = 40;
    let files = SimulatedFiles::new();
    let journal = open(&files, 0, &Owner::new());
    // What an engine beside the journal would have made durable.
    let (durable_lsn, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (journal, durable_lsn, ends) = (&journal, &durable_lsn, &ends);
        scope.spawn(move || {
            let mut lsn = 1;
            while !ends.load(Ordering::Relaxed) {
                journal.submit(&payload(lsn)).unwrap();
                lsn += 1;
            }
        });
        scope.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let applied_lsn = journal.last_lsn();
                durable_lsn.store(applied_lsn, Ordering::Release);
                journal.checkpointed(applied_lsn).unwrap();
            }
        });
        for number in 0..COPIES {
            while journal.last_lsn() < 20 * (number + 1) {
                thread::yield_now();
            }
            let pin = journal.pin(durable_lsn.load(Ordering::Acquire));
            let of_engine = journal.last_lsn();
            let copy = SimulatedFiles::new();
            let last_lsn = journal.copy_pinned(&pin, &copy).unwrap();
            drop(pin);
            assert!(last_lsn >= of_engine);
            check_copy(&copy, of_engine, last_lsn);
        }
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_is_pinned_is_freed_after_the_pin() {
    let files = SimulatedFiles::new();
    let journal = open(&files, 0, &Owner::new());
    let write = |from: u64| {
        for lsn in from..from + 200 {
            journal.submit(&payload(lsn)).unwrap();
        }
    };
    write(1);
    let (pin, later) = (journal.pin(100), journal.pin(150));
    journal.sync().unwrap();
    journal.checkpointed(200).unwrap();
    let kept = journal.first_lsn();
    assert!((2..=100).contains(&kept), "records from {kept} on are kept");
    drop(pin);
    journal.sync().unwrap();
    journal.checkpointed(200).unwrap();
    let kept = journal.first_lsn();
    assert!(
        (101..=150).contains(&kept),
        "records from {kept} on are kept"
    );
    let copy = SimulatedFiles::new();
    assert_eq!(journal.copy_pinned(&later, &copy).unwrap(), 200);
    check_copy(&copy, 150, 200);
    drop(later);
    write(201);
    journal.sync().unwrap();
    journal.checkpointed(400).unwrap();
    assert!(journal.first_lsn() > 200, "nothing is pinned any more");
}

#[test]
fn a_journal_without_records_is_copied() {
    let files = SimulatedFiles::new();
    let journal = open(&files, 0, &Owner::new());
    let copy = SimulatedFiles::new();
    assert_eq!(journal.copy_pinned(&journal.pin(0), &copy).unwrap(), 0);
    check_copy(&copy, 0, 0);
}

/// A file that is there already is somebody's.
#[test]
fn a_copy_overwrites_nothing() {
    let files = SimulatedFiles::new();
    let journal = open(&files, 0, &Owner::new());
    journal.commit(&payload(1), Level::Durable).unwrap();
    let pin = journal.pin(0);
    journal.copy_pinned(&pin, &files).unwrap_err();
    journal.commit(&payload(2), Level::Durable).unwrap();
}
