//! A journal that is begun anew behind its engine: where it goes on, and what nobody is told of it.

mod owner;

use std::sync::Arc;

use owner::{Owner, identity};
use quarry_journal::files::simulated::Crash;
use quarry_journal::renew::{self, Remains, State};
use quarry_journal::{Error, Files, Journal, Level, SimulatedFiles, inspect};

const APPLIED: u64 = 30;

/// A journal of sixty durable records that a killed process leaves; the cluster time of the last one, and its life.
fn killed() -> (SimulatedFiles, u64, u64) {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    for number in 0..60 {
        journal.commit(&[number; 500], Level::Durable).unwrap();
    }
    let fallen = files.crash(Crash::Kill, 0);
    (fallen, journal.cluster_time(), journal.incarnation())
}

fn begin(remains: &Remains) -> SimulatedFiles {
    let files = SimulatedFiles::new();
    renew::begin(Arc::new(files.clone()), identity(), APPLIED, remains).unwrap();
    files
}

/// Nobody goes on from a time of the old journal, and none is given a second time.
fn check_history(journal: &Journal, old_time: u64) {
    assert!(journal.cluster_time() >= old_time);
    for time in [1, old_time - 1, old_time, old_time + 1] {
        let missing = journal.first_since(time).unwrap_err();
        assert!(matches!(missing, Error::HistoryMissing { .. }), "{missing}");
    }
}

/// Starts, writes and ends a few times.
fn check_lives(files: &SimulatedFiles, old_time: u64, old_incarnation: u64) {
    let mut last_time = old_time;
    for life in 1..4 {
        let owner = Owner::new();
        let journal = owner.open(files, APPLIED).unwrap();
        assert_eq!(
            owner.records().len() as u64,
            life - 1,
            "what was written since"
        );
        check_history(&journal, old_time);
        assert_ne!(journal.incarnation(), old_incarnation);
        let committed = journal.commit(b"record", Level::Durable).unwrap();
        assert_eq!(committed.lsn, APPLIED + life);
        assert!(journal.cluster_time() > last_time);
        last_time = journal.cluster_time();
        assert_eq!(journal.first_since(last_time), Ok(Some(committed.lsn)));
        journal.close().unwrap();
        let verified = inspect::verify(files).unwrap();
        assert_eq!(verified.first_lsn, APPLIED + 1);
        assert_eq!(verified.last_lsn, APPLIED + life);
    }
}

#[test]
fn a_lost_journal_goes_on_behind_its_engine() {
    let (_, old_time, old_incarnation) = killed();
    let files = SimulatedFiles::new();
    assert_eq!(
        renew::look(&files, &identity(), APPLIED),
        Ok(State::Missing)
    );
    let remains = Remains::of(&files).unwrap();
    assert_eq!(remains, Remains::default());
    check_lives(&begin(&remains), old_time, old_incarnation);
}

#[test]
fn what_is_left_of_a_damaged_journal_says_what_is_lost_and_which_times_were_given() {
    let (files, old_time, old_incarnation) = killed();
    let whole = State::Whole { last_lsn: 60 };
    assert_eq!(renew::look(&files, &identity(), APPLIED), Ok(whole));
    let second = "0000000002.segment";
    let mut content = files.content(second).unwrap();
    content[4096 + 10 * 600 + 300] ^= 1;
    files.replace(second, content.clone());
    let state = renew::look(&files, &identity(), APPLIED).unwrap();
    assert!(matches!(&state, State::Damaged(Error::Damaged { segment, .. }) if segment == second));
    assert_eq!(
        files.content(second).unwrap(),
        content,
        "nothing is changed"
    );
    let remains = Remains::of(&files).unwrap();
    assert_eq!(remains.last_lsn, 60);
    assert!(remains.cluster_time > old_time);
    check_lives(&begin(&remains), old_time, old_incarnation);
}

/// The clock was far ahead when the old journal was written.
#[test]
fn times_of_what_is_left_are_not_given_again_where_the_clock_was_set_back() {
    let (files, _, _) = killed();
    let mut remains = Remains::of(&files).unwrap();
    remains.cluster_time += 1 << 48;
    let journal = Owner::new().open(&begin(&remains), APPLIED).unwrap();
    journal.commit(b"record", Level::Durable).unwrap();
    assert!(journal.cluster_time() >= remains.cluster_time);
}

/// A foreign journal is no damaged one, and no journal is begun where one is, or before the first record.
#[test]
fn what_is_no_damage_is_refused() {
    let (files, _, _) = killed();
    let foreign = quarry_journal::Identity {
        database: [7; 16],
        ..identity()
    };
    let refused = renew::look(&files, &foreign, APPLIED).unwrap_err();
    assert!(matches!(refused, Error::ForeignJournal { .. }), "{refused}");
    let before = files.list().unwrap();
    let remains = Remains::default();
    assert!(renew::begin(Arc::new(files.clone()), identity(), APPLIED, &remains).is_err());
    assert_eq!(files.list().unwrap().len(), before.len());
    let none = SimulatedFiles::new();
    assert!(renew::begin(Arc::new(none.clone()), identity(), 0, &remains).is_err());
    assert!(none.list().unwrap().is_empty());
}
