//! Each failure, and what everybody in the group hears of it.

use super::*;

#[test]
fn a_failed_write_answers_the_whole_group_and_latches() {
    for kinds in MIXES {
        let struck = strike(kinds, |files, _| {
            files.inject(files.steps(), Fault::Io);
            Ok(())
        });
        let error = struck.error();
        assert!(matches!(error, Error::Latched { .. }), "{error}");
        assert!(!error.is_outcome_unknown() && !error.is_retryable());
        struck.check_no_trace();
        struck.check_latched();
        struck.check_no_trace();
    }
}

#[test]
fn of_a_group_that_cannot_be_cut_off_nobody_knows_the_outcome() {
    for kinds in MIXES {
        let struck = strike(kinds, |files, _| {
            files.inject(files.steps(), Fault::Io);
            files.inject(files.steps() + 1, Fault::Io);
            Ok(())
        });
        let error = struck.error();
        assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
        assert!(error.is_outcome_unknown() && !error.is_retryable());
        struck.check_only_first_is_visible();
        struck.check_latched();
    }
}

#[test]
fn a_segment_that_cannot_be_made_answers_the_whole_group_and_goes_on() {
    for kinds in MIXES {
        let struck = strike_behind(3000, kinds, |files, _| {
            files.inject(files.steps(), Fault::Io);
            Ok(())
        });
        let error = struck.error();
        assert!(matches!(error, Error::SegmentUnmade { .. }), "{error}");
        assert!(!error.is_outcome_unknown() && error.is_retryable());
        struck.check_goes_on();
    }
}

#[test]
fn a_full_disk_refuses_the_whole_group_and_leaves_no_hole() {
    for kinds in MIXES {
        let in_the_write = strike(kinds, |files, _| {
            files.inject(files.steps(), Fault::NoSpace);
            Ok(())
        });
        let in_the_next_segment = strike_behind(3000, kinds, |files, _| {
            files.inject(files.steps() + 1, Fault::NoSpace);
            Ok(())
        });
        for struck in [in_the_write, in_the_next_segment] {
            let error = struck.error();
            assert!(matches!(error, Error::NoSpace { .. }), "{error}");
            assert!(error.is_no_space() && error.is_retryable() && !error.is_outcome_unknown());
            struck.check_goes_on();
        }
    }
}

const KINDS_OF_REFUSAL: [HookErrorKind; 3] = [
    HookErrorKind::NoSpace,
    HookErrorKind::Stalled,
    HookErrorKind::Failed,
];

#[test]
fn an_engine_that_is_not_ready_refuses_the_whole_group() {
    let strikes: [Strike; 3] = [
        |_, _| Err(refusal(HookErrorKind::NoSpace)),
        |_, _| Err(refusal(HookErrorKind::Stalled)),
        |_, _| Err(refusal(HookErrorKind::Failed)),
    ];
    for (kind, told_to_refuse) in KINDS_OF_REFUSAL.into_iter().zip(strikes) {
        let struck = strike(&Kind::ALL, told_to_refuse);
        let error = struck.error();
        assert_eq!(error, Error::Refused(refusal(kind)));
        assert!(!error.is_outcome_unknown());
        assert_eq!(error.is_retryable(), kind != HookErrorKind::Failed);
        assert_eq!(error.is_no_space(), kind == HookErrorKind::NoSpace);
        assert_eq!(struck.steps, 0, "nothing is written");
        struck.check_goes_on();
    }
}

#[test]
fn a_group_that_cannot_be_finished_is_refused_as_a_whole() {
    for kinds in MIXES {
        let struck = strike(kinds, |_, owner| {
            owner.leave_next_unfinished(refusal(HookErrorKind::Failed));
            Ok(())
        });
        assert_eq!(
            struck.error(),
            Error::Refused(refusal(HookErrorKind::Failed))
        );
        assert_eq!(struck.steps, 0, "nothing is written");
        struck.check_goes_on();
    }
}

/// The log has the group, so that it stands; nobody may write behind it before a start has replayed it.
#[test]
fn a_group_that_is_not_applied_latches_and_is_replayed_by_a_start() {
    for kinds in MIXES {
        let struck = strike(kinds, |_, owner| {
            owner.refuse(Some(refusal(HookErrorKind::NoSpace)));
            Ok(())
        });
        let error = struck.error();
        assert_eq!(error, Error::Unapplied(refusal(HookErrorKind::NoSpace)));
        assert!(error.is_outcome_unknown() && !error.is_retryable());
        struck.check_only_first_is_visible();
        struck.owner.refuse(None);
        struck.check_latched();
        struck.check_only_first_is_visible();
        let killed = found_in(&struck.files.crash(Crash::Kill, 0));
        struck.check_group_in(&killed);
    }
}

#[test]
fn a_failed_sync_answers_those_of_the_group_who_wait_for_it() {
    for kinds in MIXES {
        let struck = strike(kinds, |files, _| {
            files.fail_syncs(true);
            Ok(())
        });
        let records = struck.owner.records();
        struck.check_group_in(&records);
        for (&writer, answer) in &struck.answers {
            let kind = kind_in(kinds, writer);
            match (kind.level(), answer) {
                (Level::Written, Ok(lsn)) => {
                    assert!(records.contains(&(*lsn, record_of(writer))));
                }
                (Level::Durable, Err(error)) => {
                    let is_unknown = matches!(error, Error::OutcomeUnknown { .. });
                    assert!(is_unknown && !error.is_retryable(), "{error}");
                }
                _ => panic!("{kind:?}: {answer:?}"),
            }
        }
        struck.files.fail_syncs(false);
        let syncs = struck.journal.sync_counters().syncs;
        let again = struck.journal.wait_durable(STRUCK_LSN).unwrap_err();
        assert!(again.is_outcome_unknown(), "a second sync would lie");
        struck.check_latched();
        assert_eq!(struck.journal.sync_counters().syncs, syncs);
        assert_eq!(struck.journal.durable_lsn(), 0);
        let killed = found_in(&struck.files.crash(Crash::Kill, 0));
        assert!(killed == records, "a killed process loses nothing");
    }
}
