//! Rounds that fail, are given up or find damage: what they leave, what waits meanwhile, and what the next one makes of it.

use quarry_journal::archive::{Archived, Moment};
use quarry_journal::files::simulated::{Crash, Fault, NameFault};
use quarry_journal::{Error, SimulatedFiles};

use super::owner::Owner;
use super::{
    HOLD_BYTES, SEGMENT_BYTES, archive, backup_of, expected, history, now_ms, open, open_with,
    piece_names, rebuilt, write_up_to,
};

#[test]
fn what_waits_is_bounded_before_the_archive_is_looked_into() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let hold_bytes = 5 * SEGMENT_BYTES;
    let journal = open_with(&files, 0, &Owner::new(), hold_bytes);
    write_up_to(&journal, 1, 60);
    assert!(journal.waiting_for_archive().unwrap().bytes > 0);
    write_up_to(&journal, 1, 400);
    assert_eq!(
        journal.trouble(),
        None,
        "nobody knows yet what the archive has"
    );
    journal.sync().unwrap();
    journal.checkpointed(400).unwrap();
    let waiting = journal.waiting_for_archive().unwrap();
    assert!(
        waiting.bytes <= hold_bytes && waiting.given_up > 0,
        "{waiting:?}"
    );
    // What the archive has does not wait, from the moment on that it is opened.
    journal.archive(&mut archive(&archived), true).unwrap();
    drop(journal);
    let journal = open_with(&files.crash(Crash::Kill, 0), 400, &Owner::new(), hold_bytes);
    let before = journal.waiting_for_archive().unwrap().bytes;
    journal.begin_archive(&archive(&archived));
    let after = journal.waiting_for_archive().unwrap().bytes;
    assert!(after <= SEGMENT_BYTES && before > after, "{before} {after}");
}

/// The archive's disk fails in the middle of a round: what came there before does not wait any more.
#[test]
fn a_round_that_fails_keeps_what_it_has_come_to() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let mut archive = archive(&archived);
    let (backup, backup_lsn) = backup_of(&journal);
    write_up_to(&journal, 1, 200);
    let before = journal.waiting_for_archive().unwrap().bytes;
    // Several steps for each segment, and several segments.
    archived.inject(archived.steps() + 20, Fault::Io);
    assert!(journal.archive(&mut archive, true).is_err());
    let waiting = journal.waiting_for_archive().unwrap();
    assert!(0 < waiting.bytes && waiting.bytes < before, "{waiting:?}");
    journal.checkpointed(200).unwrap();
    assert!(journal.first_lsn() > 1);
    journal.archive(&mut archive, true).unwrap();
    let records = rebuilt(&archived, 0, &backup, backup_lsn, 200);
    assert_eq!(records, expected(&[(1, 200)], 200));
}

/// The journal's disk has changed bytes that the archive has verified: it keeps its own.
#[test]
fn good_pieces_are_not_replaced_with_damaged_bytes() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let mut archive = archive(&archived);
    let (backup, backup_lsn) = backup_of(&journal);
    write_up_to(&journal, 1, 10);
    journal.archive(&mut archive, true).unwrap();
    let before = piece_names(&archived);
    let name = "0000000001.segment";
    write_up_to(&journal, 1, 60);
    journal.sync().unwrap();
    let whole = files.content(name).unwrap();
    let mut changed = whole.clone();
    changed[4096 + 200] ^= 1;
    files.replace(name, changed);
    let refused = journal.archive(&mut archive, true);
    assert!(
        matches!(&refused, Err(error) if error.is_corruption()),
        "{refused:?}"
    );
    assert_eq!(piece_names(&archived), before);
    assert_eq!(
        rebuilt(&archived, 0, &backup, backup_lsn, 10),
        expected(&[(1, 10)], 10)
    );
    files.replace(name, whole);
    journal.archive(&mut archive, true).unwrap();
    assert_eq!(
        rebuilt(&archived, 0, &backup, backup_lsn, 60),
        expected(&[(1, 60)], 60)
    );
}

/// A round is given up at each place where it asks whether it is wanted, and the next one goes on.
#[test]
fn a_round_that_is_given_up_goes_on_later() {
    for asked_max in 0.. {
        let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
        let journal = open(&files);
        let mut archive = archive(&archived);
        let (backup, backup_lsn) = backup_of(&journal);
        write_up_to(&journal, 1, 60);
        let asked = std::cell::Cell::new(0);
        let is_over = || asked.replace(asked.get() + 1) >= asked_max;
        let round = journal.archive_unless(&mut archive, true, &is_over);
        if round.is_ok() {
            assert!(asked_max > 5, "{asked_max}");
            break;
        }
        assert_eq!(round, Err(Error::Interrupted));
        journal.archive(&mut archive, true).unwrap();
        let records = rebuilt(&archived, 0, &backup, backup_lsn, 60);
        assert_eq!(records, expected(&[(1, 60)], 60), "{asked_max}");
    }
}

/// A server was started again, has freed all that it had archived, and nobody writes.
#[test]
fn a_quiet_time_after_a_start_is_certain() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    write_up_to(&journal, 1, 60);
    journal.close().unwrap();
    let journal = open_with(&files, 60, &Owner::new(), HOLD_BYTES);
    journal.archive(&mut archive(&archived), true).unwrap();
    journal.checkpointed(60).unwrap();
    assert_eq!(journal.first_lsn(), 0, "the journal has no record any more");
    let before = history(&archived).tip().unwrap();
    while now_ms() <= before.unix_ms + 2 {
        std::thread::yield_now();
    }
    journal.archive(&mut archive(&archived), true).unwrap();
    let history = history(&archived);
    let tip = history.tip().unwrap();
    assert!(tip.unix_ms > before.unix_ms);
    let line = &history.lines().unwrap()[0];
    let cut = line.cut_at(&history, Moment::UnixMs(tip.unix_ms)).unwrap();
    assert_eq!((cut.lsn, cut.is_certain), (60, true));
}

/// A directory's sync fails behind a rename. What the next round finds there and believes has to survive a power loss.
#[test]
fn what_a_failed_round_has_left_is_made_durable() {
    let mut has_failed = 0;
    for call in 0..40 {
        let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
        let journal = open(&files);
        let mut archive = archive(&archived);
        let (backup, backup_lsn) = backup_of(&journal);
        write_up_to(&journal, 1, 10);
        journal.archive(&mut archive, true).unwrap();
        write_up_to(&journal, 1, 60);
        journal.sync().unwrap();
        archived.inject_name_fault(archived.name_calls() + call, NameFault::Io);
        has_failed += u64::from(journal.archive(&mut archive, false).is_err());
        let said = journal.archive(&mut archive, false);
        // The fault may have struck the second round.
        let Ok(Archived { lsn, .. }) = said else {
            continue;
        };
        assert_eq!(lsn, 60);
        let left = archived.crash(Crash::Drop, 0);
        let records = rebuilt(&left, 0, &backup, backup_lsn, lsn);
        assert_eq!(records, expected(&[(1, 60)], 60), "call {call}");
    }
    assert!(has_failed > 8, "{has_failed}");
}
