//! Tests of what a checkpoint keeps: segments within the window of bytes or of time, over restarts too.

mod owner;

use std::sync::Arc;
use std::time::{Duration, Instant};

use owner::{Owner, identity, options};
use quarry_journal::{Journal, Options, SimulatedFiles};

const HOUR_MS: u64 = 3_600_000;

fn open(files: &SimulatedFiles, retain_ms: u64, applied_lsn: u64) -> Journal {
    let options = Options {
        retain_ms,
        ..options()
    };
    let files = Arc::new(files.clone());
    Journal::open(files, options, identity(), applied_lsn, Owner::new()).unwrap()
}

#[test]
fn young_segments_outlive_checkpoints_and_restarts() {
    let files = SimulatedFiles::new();
    let journal = open(&files, HOUR_MS, 0);
    for _ in 0..200 {
        journal.submit(&[7; 500]).unwrap();
    }
    assert_eq!(journal.checkpointed(200).unwrap(), 0);
    drop(journal);
    // The engine needs nothing of it any more: the start reads only where segments begin.
    let journal = open(&files, HOUR_MS, 200);
    assert_eq!(journal.checkpointed(200).unwrap(), 0);
    assert_eq!(journal.first_lsn(), 1);
    let mut reader = journal.read(1).unwrap();
    for lsn in 1..=200 {
        assert_eq!(reader.next().unwrap(), Some((lsn, &[7; 500][..])));
    }
}

#[test]
fn old_segments_go() {
    let files = SimulatedFiles::new();
    let journal = open(&files, 1, 0);
    for _ in 0..200 {
        journal.submit(&[7; 500]).unwrap();
    }
    drop(journal);
    let journal = open(&files, 1, 200);
    let deadline = Instant::now() + Duration::from_secs(20);
    while journal.first_lsn() == 1 {
        assert!(Instant::now() < deadline, "nothing is ever old enough");
        journal.checkpointed(200).unwrap();
    }
}

/// A start that has nothing but its own empty segment left knows that no record comes before the present.
#[test]
fn the_present_is_not_missing_where_all_that_was_is_freed() {
    let files = SimulatedFiles::new();
    let journal = open(&files, 0, 0);
    for _ in 0..20 {
        journal.submit(&[7; 500]).unwrap();
    }
    drop(journal);
    let journal = open(&files, 0, 20);
    assert!(journal.checkpointed(20).unwrap() > 0);
    assert_eq!(journal.first_lsn(), 0);
    let time = journal.cluster_time();
    assert!(journal.first_since(time).is_err());
    assert_eq!(journal.first_since(time + 1).unwrap(), None);
}
