//! A sync that fails may forget: the kernel drops what it could not write, readers go on seeing it, and the next sync
//! succeeds without having written anything. A start after that believes no byte that was not known to be durable.

mod owner;

use std::sync::Arc;

use owner::{Owner, identity, options};
use quarry_journal::files::simulated::{Crash, Fault};
use quarry_journal::{Error, Journal, Level, Options, SimulatedFiles};

const RECORD: [u8; 700] = [7; 700];

/// Commits a durable record, writes `unsynced` more, and has a sync of them fail and forget. The process then ends.
fn fail_and_end(files: &SimulatedFiles, unsynced: u64) -> u64 {
    let owner = Owner::new();
    let journal = owner.open(files, 0).unwrap();
    journal.commit(&RECORD, Level::Durable).unwrap();
    for _ in 0..unsynced {
        journal.submit(&RECORD).unwrap();
    }
    files.forget_syncs(true);
    assert!(journal.sync().unwrap_err().is_outcome_unknown());
    drop(journal);
    files.forget_syncs(false);
    1 + unsynced
}

#[test]
fn what_a_failed_sync_forgot_is_written_again_before_it_is_called_durable() {
    // Within one segment, and over several.
    for unsynced in [1, 10, 60] {
        let files = SimulatedFiles::new();
        let last_lsn = fail_and_end(&files, unsynced);
        let owner = Owner::new();
        let journal = owner.open(&files, 0).unwrap();
        assert_eq!(journal.last_lsn(), last_lsn, "the system still shows them");
        let durable = journal.commit(b"after", Level::Durable).unwrap();
        assert_eq!(journal.durable_lsn(), durable.lsn);
        let found = Owner::new();
        found.open(&files.crash(Crash::Drop, 0), 0).unwrap();
        assert_eq!(found.records(), owner.records());
        assert_eq!(found.records().len() as u64, durable.lsn);
    }
}

/// The engine may have applied all of it, and lose that image with the power.
#[test]
fn it_is_written_again_below_the_engines_image_too() {
    let files = SimulatedFiles::new();
    let last_lsn = fail_and_end(&files, 60);
    drop(Owner::new().open(&files, last_lsn).unwrap());
    let found = Owner::new();
    found.open(&files.crash(Crash::Drop, 0), 0).unwrap();
    assert_eq!(found.records().len() as u64, last_lsn);
}

/// A start whose own sync fails and forgets is no better: the next one writes everything again.
#[test]
fn a_start_whose_sync_forgets_is_made_again() {
    let steps_of_a_start = {
        let files = SimulatedFiles::new();
        let last_lsn = fail_and_end(&files, 40);
        let before = files.steps();
        let journal = Owner::new().open(&files, last_lsn).unwrap();
        let after = files.steps();
        drop(journal);
        after - before
    };
    for step in 0..steps_of_a_start {
        let files = SimulatedFiles::new();
        let last_lsn = fail_and_end(&files, 40);
        files.inject(files.steps() + step, Fault::ForgetfulSync);
        let first = Owner::new().open(&files, 0);
        let struck = matches!(first.err(), Some(Error::Io { .. }));
        let journal = Owner::new().open(&files, 0).unwrap();
        assert_eq!(journal.last_lsn(), last_lsn, "step {step}, struck {struck}");
        let found = Owner::new();
        found.open(&files.crash(Crash::Drop, 0), 0).unwrap();
        assert_eq!(found.records().len() as u64, last_lsn, "step {step}");
    }
}

/// A group that was taken out again, so that its writers were told that nothing of it remains, must not come back: the
/// kernel may have written it before it was taken out.
#[test]
fn a_group_that_was_cut_off_does_not_come_back_with_the_power() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    let kept = vec![1; 4000];
    journal.commit(&kept, Level::Durable).unwrap();
    // It enters a page, so that it is written with zeros behind it; the half that arrives is all of the group.
    files.inject(files.steps(), Fault::NoSpace);
    let error = journal.submit(&[9; 100]).unwrap_err();
    assert!(
        error.is_no_space() && !error.is_outcome_unknown(),
        "{error}"
    );
    for crash in Crash::ALL {
        for seed in 0..20 {
            let found = Owner::new();
            found.open(&files.crash(crash, seed), 0).unwrap();
            assert_eq!(found.records(), [(1, kept.clone())], "{crash:?} {seed}");
        }
    }
}

/// An erased header that the disk still has must not continue the log of the next life's past.
#[test]
fn a_header_that_is_erased_only_as_far_as_readers_see_is_erased_again() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    journal.commit(b"kept", Level::Durable).unwrap();
    // The group arrives in part, and the sync of taking it out again is forgotten.
    files.inject(files.steps(), Fault::NoSpace);
    files.inject(files.steps() + 2, Fault::ForgetfulSync);
    let error = journal.submit(&[9; 100]).unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    assert!(journal.is_latched());
    drop(journal);
    let journal = Owner::new().open(&files, 0).unwrap();
    assert_eq!(journal.last_lsn(), 1);
    drop(journal);
    let found = Owner::new();
    found.open(&files.crash(Crash::Drop, 0), 0).unwrap();
    assert_eq!(found.records(), [(1, b"kept".to_vec())]);
}

/// A journal that was closed says that all of it is durable: its start writes nothing again.
#[test]
fn a_clean_start_writes_nothing_again() {
    let steps_of_a_start = |records: u64, closes: bool| {
        let files = SimulatedFiles::new();
        let long = Options {
            segment_bytes: 1 << 20,
            ..options()
        };
        let open = |applied_lsn| {
            let files = Arc::new(files.clone());
            Journal::open(files, long.clone(), identity(), applied_lsn, Owner::new()).unwrap()
        };
        let journal = open(0);
        for _ in 0..records {
            journal.submit(&RECORD).unwrap();
        }
        if !closes {
            files.fail_syncs(true);
        }
        drop(journal);
        files.fail_syncs(false);
        let before = files.steps();
        drop(open(records));
        files.steps() - before
    };
    assert_eq!(steps_of_a_start(1000, true), steps_of_a_start(1, true));
    assert!(steps_of_a_start(1000, false) > steps_of_a_start(1, false));
}
