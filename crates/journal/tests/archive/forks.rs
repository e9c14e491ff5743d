//! Lives that go on from one place: which groups, segments and tips are of which line, and backups of one life that lead into another.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quarry_journal::archive::Moment;
use quarry_journal::files::simulated::{Crash, NameFault};
use quarry_journal::renew::{self, Remains};
use quarry_journal::{Journal, Level, SimulatedFiles};

use super::owner::{Owner, identity};
use super::{
    HOLD_BYTES, archive, backup_of, copy_of, expected, headers, history, open, open_with, payload,
    rebuilt, write_up_to,
};

/// Writes records up to `lsn` in groups of so many.
fn write_groups(journal: &Journal, life: u64, lsn: u64, group: u64) {
    let mut next = journal.last_lsn() + 1;
    while next <= lsn {
        let mut pending = Vec::new();
        for _ in 0..group {
            let submitted = journal.submit_async(&payload(life, next), Level::Written);
            pending.push(submitted.unwrap());
            next += 1;
        }
        journal.flush();
        for pending in &pending {
            journal.wait(pending).unwrap();
        }
        assert_eq!(journal.last_lsn(), next - 1);
    }
}

/// A moment is looked for among the groups of its own line: those that the given-up life wrote behind the fork do not count.
#[test]
fn groups_of_the_given_up_life_decide_nothing() {
    for (group_before, group_after) in [(3, 1), (1, 3), (3, 2)] {
        let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
        let journal = open(&files);
        let (backup, backup_lsn) = backup_of(&journal);
        let mut first = archive(&archived);
        write_groups(&journal, 1, 90, group_before);
        journal.archive(&mut first, true).unwrap();
        drop((journal, first));
        let before = history(&archived);
        before
            .rebuild(
                &before.lines().unwrap()[0],
                &backup,
                backup_lsn,
                42,
                &mut |_| {},
            )
            .unwrap();
        let journal = open(&backup);
        let mut second = archive(&archived);
        write_groups(&journal, 2, 90, group_after);
        journal.archive(&mut second, true).unwrap();
        let history = history(&archived);
        let lines = history.lines().unwrap();
        for line in &lines {
            let is_new = line.incarnation() == journal.incarnation();
            for lsn in 1..=90 {
                let ends = match (is_new, lsn > 42) {
                    (true, true) => 42 + (lsn - 42) / group_after * group_after,
                    _ => lsn / group_before * group_before,
                };
                let cut = line.cut_at(&history, Moment::Lsn(lsn)).unwrap();
                assert_eq!((cut.lsn, cut.is_certain), (ends, true), "{lsn}, {is_new}");
            }
        }
        assert_eq!(lines.len(), 2);
    }
}

/// Records of the given-up life behind the fork can be come back to, in the same segment as well.
#[test]
fn a_fork_within_the_last_segment_leaves_two_lines() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let (backup, backup_lsn) = backup_of(&journal);
    let mut first = archive(&archived);
    write_up_to(&journal, 1, 12);
    journal.archive(&mut first, true).unwrap();
    let lost_life = journal.incarnation();
    drop((journal, first));
    assert_eq!(headers(&files).len(), 1);
    let before = history(&archived);
    let line = &before.lines().unwrap()[0];
    let cut = before.rebuild(line, &backup, backup_lsn, 8, &mut |_| {});
    assert_eq!(cut.unwrap().last_lsn, 8);
    let journal = open(&backup);
    let mut second = archive(&archived);
    write_up_to(&journal, 2, 15);
    journal.archive(&mut second, true).unwrap();
    let history = history(&archived);
    let ends: Vec<_> = (history.lines().unwrap().iter())
        .map(|line| {
            let cut = line.cut_at(&history, Moment::Latest).unwrap();
            (line.incarnation(), cut.lsn)
        })
        .collect();
    assert_eq!(ends, [(lost_life, 12), (journal.incarnation(), 15)]);
    assert_eq!(history.verify(&mut |_| {}), []);
}

/// A backup is made while a segment is begun: its last file has no records, and the one before it ends in the middle.
#[test]
fn a_backup_that_ends_in_an_empty_segment_goes_on() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let mut archive = archive(&archived);
    write_up_to(&journal, 1, 15);
    let (backup, backup_lsn) = copy_of(&journal);
    assert_eq!(headers(&backup).len(), 1);
    write_up_to(&journal, 1, 60);
    journal.archive(&mut archive, true).unwrap();
    let name = "0000000002.segment";
    let mut empty = files.content(name).unwrap();
    empty[4096..].fill(0);
    backup.replace(name, empty);
    for cut_lsn in backup_lsn..=60 {
        let records = rebuilt(&archived, 0, &backup, backup_lsn, cut_lsn);
        assert_eq!(records, expected(&[(1, 60)], cut_lsn), "{cut_lsn}");
    }
}

/// A backup of data that was restored, before anything was written to it, and a way back into the life that was given up.
#[test]
fn a_backup_that_ends_in_an_empty_life_goes_on_in_the_other_one() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let (restored, backup_lsn) = backup_of(&journal);
    let mut archive = archive(&archived);
    write_up_to(&journal, 1, 90);
    journal.archive(&mut archive, true).unwrap();
    let history = history(&archived);
    history
        .rebuild(
            &history.lines().unwrap()[0],
            &restored,
            backup_lsn,
            40,
            &mut |_| {},
        )
        .unwrap();
    let (backup, backup_lsn) = copy_of(&open(&restored));
    assert_eq!(backup_lsn, 40);
    for cut_lsn in [40, 41, 80, 90] {
        let records = rebuilt(&archived, 0, &backup, backup_lsn, cut_lsn);
        assert_eq!(records, expected(&[(1, 90)], cut_lsn), "{cut_lsn}");
    }
}

/// Two directories go on from the same segment, the one of which was cut before the other one's end.
#[test]
fn a_segment_that_was_finished_too_early_is_completed() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let (backup, backup_lsn) = backup_of(&journal);
    write_up_to(&journal, 1, 8);
    let early = files.crash(Crash::Kill, 0);
    write_up_to(&journal, 1, 15);
    let late = files.crash(Crash::Kill, 0);
    assert_eq!(
        headers(&early).len(),
        headers(&late).len(),
        "one segment holds both"
    );
    for (directory, life) in [(&early, 2), (&late, 3)] {
        let journal = open(directory);
        write_up_to(&journal, life, 20);
        journal.archive(&mut archive(&archived), true).unwrap();
        let history = history(&archived);
        let lines = history.lines().unwrap();
        let is_own =
            |line: &quarry_journal::archive::Line| line.incarnation() == journal.incarnation();
        let line = lines.iter().position(is_own).unwrap();
        let fork = if life == 2 { 8 } else { 15 };
        for cut_lsn in [fork, fork + 1, 20] {
            let records = rebuilt(&archived, line, &backup, backup_lsn, cut_lsn);
            assert_eq!(
                records,
                expected(&[(1, fork), (life, 20)], cut_lsn),
                "{life}"
            );
        }
    }
}

/// Data that was restored to record 40 and went on up to `last_lsn`, beside a life that ended at 90.
fn forked(last_lsn: u64) -> (SimulatedFiles, Journal) {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let (restored, backup_lsn) = backup_of(&journal);
    // The last segment stays in several pieces.
    for lsn in [80, 86, 89, 90] {
        write_up_to(&journal, 1, lsn);
        journal.archive(&mut archive(&archived), true).unwrap();
    }
    let before = history(&archived);
    before
        .rebuild(
            &before.lines().unwrap()[0],
            &restored,
            backup_lsn,
            40,
            &mut |_| {},
        )
        .unwrap();
    // Lives of the same millisecond might be in the other order: of both the last segment would be kept.
    let made = SystemTime::now() + Duration::from_millis(1);
    while SystemTime::now() < made {
        std::thread::yield_now();
    }
    let journal = open(&restored);
    write_up_to(&journal, 2, last_lsn);
    journal.archive(&mut archive(&archived), true).unwrap();
    (archived, journal)
}

/// Nobody finishes the last segment of a life that was given up.
#[test]
fn the_end_of_a_given_up_life_is_removed() {
    let (archived, journal) = forked(200);
    let before = history(&archived);
    assert_eq!(before.lines().unwrap().len(), 2);
    before.remove_before(&archived, 150).unwrap();
    let after = history(&archived);
    let lines = after.lines().unwrap();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].incarnation(), journal.incarnation());
    // What is being written stays, wherever the oldest backup is.
    after.remove_before(&archived, 1000).unwrap();
    let left = history(&archived);
    let ranges = left.lines().unwrap()[0].ranges(&left);
    assert_eq!((ranges.len(), ranges[0].last_lsn), (1, 200));
}

#[test]
fn a_removal_that_stops_anywhere_leaves_a_whole_archive_and_is_gone_on_with() {
    let mut is_done = false;
    let mut call = 0;
    while !is_done {
        let (archived, _journal) = forked(200);
        let before = history(&archived);
        archived.inject_name_fault(archived.name_calls() + call, NameFault::Io);
        is_done = before.remove_before(&archived, 150).is_ok();
        let found = archived.crash(Crash::Kill, 0);
        let left = history(&found);
        let damages = left.verify(&mut |_| {});
        assert!(damages.is_empty(), "call {call}: {damages:?}");
        left.remove_before(&found, 150).unwrap();
        assert_eq!(history(&found).lines().unwrap().len(), 1, "call {call}");
        call += 1;
    }
    assert!(call > 4);
}

/// A backup of long ago was restored on a machine whose clock is behind: its segments are older than those that the archive begins with.
#[test]
fn lower_segments_of_another_life_are_not_taken_for_removed_ones() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let (restored, _) = backup_of(&journal);
    let other = open(&restored);
    write_up_to(&other, 2, 120);
    write_up_to(&journal, 1, 300);
    journal.archive(&mut archive(&archived), true).unwrap();
    history(&archived).remove_before(&archived, 250).unwrap();
    other.archive(&mut archive(&archived), true).unwrap();
    let history = history(&archived);
    let lines = history.lines().unwrap();
    let line = lines
        .iter()
        .find(|line| line.incarnation() == other.incarnation());
    let ranges = line.unwrap().ranges(&history);
    assert_eq!(ranges.len(), 1);
    assert_eq!((ranges[0].first_lsn, ranges[0].last_lsn), (1, 120));
}

#[test]
fn a_record_in_the_middle_of_a_group_names_where_the_group_ends() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    write_groups(&journal, 1, 40, 4);
    journal.archive(&mut archive(&archived), true).unwrap();
    let history = history(&archived);
    let line = &history.lines().unwrap()[0];
    for lsn in 1..=40 {
        let cut = line.cut_at(&history, Moment::Lsn(lsn)).unwrap();
        let whole = lsn / 4 * 4;
        let ends_at = (whole < lsn).then_some(whole + 4);
        assert_eq!((cut.lsn, cut.group_ends_at), (whole, ends_at), "{lsn}");
    }
}

/// Both lives end at the same record, in segments of the same sequence.
#[test]
fn the_tip_speaks_for_its_own_line_alone() {
    let (archived, journal) = forked(90);
    let history = history(&archived);
    let tip = history.tip().unwrap();
    assert_eq!(tip.lsn, 90);
    let mut told = Vec::new();
    for line in history.lines().unwrap() {
        let is_own = line.incarnation() == journal.incarnation();
        let cut = line.cut_at(&history, Moment::UnixMs(tip.unix_ms)).unwrap();
        assert_eq!((cut.lsn, cut.is_certain), (90, is_own));
        assert_eq!(line.tip(&history).is_some(), is_own);
        told.push(is_own);
    }
    told.sort_unstable();
    assert_eq!(told, [false, true]);
}

/// The engine holds as much as the archive has of the lost journal, or less; a backup of before leads nowhere beyond.
#[test]
fn a_journal_that_was_begun_anew_is_a_line_of_its_own() {
    for applied_lsn in [4, 10] {
        let (lost, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
        let mut archive = archive(&archived);
        {
            let journal = open(&lost);
            write_up_to(&journal, 1, 10);
            journal.archive(&mut archive, true).unwrap();
        }
        let files = SimulatedFiles::new();
        let begun = Arc::new(files.clone());
        renew::begin(begun, identity(), applied_lsn, &Remains::default()).unwrap();
        let journal = open_with(&files, applied_lsn, &Owner::new(), HOLD_BYTES);
        write_up_to(&journal, 2, 20);
        journal.archive(&mut archive, true).unwrap();
        let history = history(&archived);
        let mut ranges: Vec<Vec<(u64, u64)>> = Vec::new();
        for line in history.lines().unwrap() {
            let of_line = line.ranges(&history).into_iter();
            ranges.push(
                of_line
                    .map(|range| (range.first_lsn, range.last_lsn))
                    .collect(),
            );
        }
        ranges.sort();
        assert_eq!(ranges, [vec![(1, 10)], vec![(applied_lsn + 1, 20)]]);
        assert!(history.verify(&mut |_| {}).is_empty());
    }
}
