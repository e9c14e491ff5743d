//! Those who went on without waiting ask later what became of their records.

use super::*;

/// Three records that nobody waits for, in one group that is not led yet.
fn gathered(
    files: &SimulatedFiles,
    owner: &Arc<Owner>,
) -> (Arc<Journal>, Vec<quarry_journal::Pending>) {
    let journal = open(files, options(), owner.clone());
    let submit = |_| journal.submit_async(b"gathered", Level::Written).unwrap();
    let pending = (0..3).map(submit).collect();
    (journal, pending)
}

#[test]
fn who_went_on_learns_what_a_flush_met() {
    let faults = [Fault::Io, Fault::NoSpace];
    for fault in faults {
        let (files, owner) = (SimulatedFiles::new(), Owner::new());
        let (journal, pending) = gathered(&files, &owner);
        files.inject(files.steps(), fault);
        journal.flush();
        for pending in &pending {
            assert!(journal.is_acknowledged(pending), "it has its answer");
            let error = journal.wait(pending).unwrap_err();
            assert_eq!(error.is_no_space(), fault == Fault::NoSpace, "{error}");
            assert_eq!(matches!(error, Error::Latched { .. }), fault == Fault::Io);
        }
        assert_eq!((owner.records().len(), journal.last_lsn()), (0, 0));
        assert_eq!(journal.submit(b"next").is_ok(), fault == Fault::NoSpace);
        assert!(owner.records().len() <= 1);
    }
}

#[test]
fn a_failed_group_has_an_answer_for_who_asks_and_does_not_wait() {
    let (files, owner) = (SimulatedFiles::new(), Owner::new());
    let (journal, pending) = gathered(&files, &owner);
    files.inject(files.steps(), Fault::NoSpace);
    let durable = journal.submit_async(b"leads", Level::Durable).unwrap();
    let is_answered = |pending| journal.is_acknowledged(pending);
    assert!(pending.iter().all(is_answered));
    assert!(is_answered(&durable));
    assert!(journal.wait(&durable).unwrap_err().is_no_space());
}

#[test]
fn who_went_on_learns_what_a_close_met() {
    for fault in [Fault::Io, Fault::NoSpace] {
        let (files, owner) = (SimulatedFiles::new(), Owner::new());
        let (journal, pending) = gathered(&files, &owner);
        files.inject(files.steps(), fault);
        let closed = journal.close();
        assert_eq!(closed.is_ok(), fault == Fault::NoSpace, "{closed:?}");
        for pending in &pending {
            let error = journal.wait(pending).unwrap_err();
            assert_eq!(error.is_no_space(), fault == Fault::NoSpace, "{error}");
        }
        assert_eq!(found_in(&files.crash(Crash::Kill, 0)), []);
    }
}

#[test]
fn who_went_on_learns_what_the_background_met() {
    let (files, owner) = (SimulatedFiles::new(), Owner::new());
    owner.refuse(Some(refusal(HookErrorKind::Stalled)));
    let options = Options {
        background: true,
        commit_interval_ms: 1,
        ..options()
    };
    let journal = open(&files, options, owner.clone());
    let submit = |_| journal.submit_async(b"gathered", Level::Written).unwrap();
    let pending: Vec<_> = (0..3).map(submit).collect();
    wait_until("the background", || {
        pending.iter().all(|one| journal.is_acknowledged(one))
    });
    // The thread may have come between two of them.
    let errors: Vec<_> = pending
        .iter()
        .map(|one| journal.wait(one).unwrap_err())
        .collect();
    assert!(matches!(errors[0], Error::Unapplied(_)), "{errors:?}");
    let refused = |error: &Error| matches!(error, Error::Unapplied(_) | Error::Latched { .. });
    assert!(errors.iter().all(refused), "{errors:?}");
    let unapplied = errors
        .iter()
        .filter(|error| error.is_outcome_unknown())
        .count();
    assert_eq!(found_in(&files.crash(Crash::Kill, 0)).len(), unapplied);
}

#[test]
fn after_a_failed_sync_who_asks_learns_that_there_is_an_answer() {
    let (files, owner) = (SimulatedFiles::new(), Owner::new());
    let (journal, _) = gathered(&files, &owner);
    let durable = journal.submit_async(b"leads", Level::Durable).unwrap();
    files.inject(files.steps(), Fault::Io);
    assert!(!journal.is_acknowledged(&durable));
    assert!(journal.sync().is_err());
    assert!(journal.is_acknowledged(&durable));
    assert!(journal.wait(&durable).unwrap_err().is_outcome_unknown());
}
