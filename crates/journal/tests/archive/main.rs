//! Tests of the archive: whatever is killed, and wherever the archive's disk stops, it has everything that it says it has, and
//! every group of every life can be come back to.

mod forks;
mod gaps;
#[path = "../owner/mod.rs"]
mod owner;
mod rounds;
mod sealed;
#[path = "../toy_seal/mod.rs"]
mod toy_seal;

use std::sync::Arc;

use owner::{Owner, identity, options};
use quarry_journal::archive::{Archive, Archived, History, Moment};
use quarry_journal::files::simulated::{Crash, Fault};
use quarry_journal::{
    Files, Journal, Level, Options, Result, SegmentHeader, SimulatedFiles, inspect,
};

const HOLD_BYTES: u64 = 1 << 30;

/// The payload of a record says which one it is in which life, and has a length of its own.
fn payload(life: u64, lsn: u64) -> Vec<u8> {
    let mut payload = [life.to_le_bytes(), lsn.to_le_bytes()].concat();
    payload.resize(16 + (lsn * 37 % 900) as usize, lsn as u8);
    payload
}

fn open_with(
    files: &SimulatedFiles,
    applied_lsn: u64,
    owner: &Arc<Owner>,
    hold_bytes: u64,
) -> Journal {
    let options = Options {
        retain_ms: 0,
        archive_hold_bytes: Some(hold_bytes),
        // Records that nobody waits for come into one group.
        gather_ns: 60_000_000_000,
        ..options()
    };
    let files = Arc::new(files.clone());
    Journal::open(files, options, identity(), applied_lsn, owner.clone()).unwrap()
}

fn open(files: &SimulatedFiles) -> Journal {
    open_with(files, 0, &Owner::new(), HOLD_BYTES)
}

fn archive(files: &SimulatedFiles) -> Archive {
    Archive::open(Arc::new(files.clone()), &identity()).unwrap()
}

/// Writes records up to `lsn`, each a group of its own.
fn write_up_to(journal: &Journal, life: u64, lsn: u64) {
    for lsn in journal.last_lsn() + 1..=lsn {
        assert_eq!(journal.submit(&payload(life, lsn)).unwrap().lsn, lsn);
    }
}

fn history(files: &SimulatedFiles) -> History {
    History::read(Arc::new(files.clone())).unwrap()
}

/// The records that a start finds which is made of the backup and of the archive up to `cut_lsn`.
fn rebuilt(
    archived: &SimulatedFiles,
    line: usize,
    backup: &SimulatedFiles,
    backup_lsn: u64,
    cut_lsn: u64,
) -> Vec<owner::Record> {
    let history = history(archived);
    let line = &history.lines().unwrap()[line];
    // The journal is made in a copy of the backup.
    let target = backup.crash(Crash::Kill, 0);
    let made = history
        .rebuild(line, &target, backup_lsn, cut_lsn, &mut |_| {})
        .unwrap();
    assert_eq!(made.last_lsn, cut_lsn);
    let owner = Owner::new();
    let journal = open_with(&target, 0, &owner, HOLD_BYTES);
    assert_eq!(journal.last_lsn(), cut_lsn);
    journal.commit(b"goes on", Level::Durable).unwrap();
    let mut records = owner.records();
    assert_eq!(records.pop(), Some((cut_lsn + 1, b"goes on".to_vec())));
    records
}

fn expected(lives: &[(u64, u64)], cut_lsn: u64) -> Vec<owner::Record> {
    let mut records = Vec::new();
    for &(life, last_lsn) in lives {
        for lsn in records.len() as u64 + 1..=last_lsn.min(cut_lsn) {
            records.push((lsn, payload(life, lsn)));
        }
    }
    records
}

/// An empty backup, made before the first record.
fn backup_of(journal: &Journal) -> (SimulatedFiles, u64) {
    let copy = SimulatedFiles::new();
    let lsn = journal.copy_pinned(&journal.pin(0), &copy).unwrap();
    (copy, lsn)
}

/// How long a segment of these tests is.
const SEGMENT_BYTES: u64 = 16 * 1024;

fn copy_of(journal: &Journal) -> (SimulatedFiles, u64) {
    let copy = SimulatedFiles::new();
    let lsn = journal.copy_pinned(&journal.pin(0), &copy).unwrap();
    (copy, lsn)
}

fn headers(journal: &SimulatedFiles) -> Vec<SegmentHeader> {
    let names = journal.list().unwrap().into_iter().map(|entry| entry.name);
    names
        .filter(|name| name.ends_with(".segment"))
        .map(|name| inspect::segment_header(&name, &journal.content(&name).unwrap()).unwrap())
        .collect()
}

fn piece_names(archived: &SimulatedFiles) -> Vec<String> {
    let names = archived.list().unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".piece")).collect()
}

fn now_ms() -> u64 {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    unix.unwrap().as_millis() as u64
}

#[test]
fn every_group_can_be_come_back_to() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let mut archive = archive(&archived);
    let (backup, backup_lsn) = backup_of(&journal);
    const LAST: u64 = 150;
    for lsn in 1..=LAST {
        write_up_to(&journal, 1, lsn);
        if lsn % 3 == 0 {
            journal.archive(&mut archive, true).unwrap();
        }
        // Nothing is needed any more but for the archive.
        journal.checkpointed(lsn).unwrap();
    }
    assert!(
        journal.first_lsn() > 50,
        "segments are freed as the archive has them"
    );
    for cut_lsn in backup_lsn..=LAST {
        assert_eq!(
            rebuilt(&archived, 0, &backup, backup_lsn, cut_lsn),
            expected(&[(1, LAST)], cut_lsn),
            "{cut_lsn}"
        );
    }
    let history = history(&archived);
    let line = &history.lines().unwrap()[0];
    let ranges = line.ranges(&history);
    assert_eq!(
        (ranges.len(), ranges[0].first_lsn, ranges[0].last_lsn),
        (1, 1, LAST)
    );
    for lsn in 1..=LAST {
        let cut = line.cut_at(&history, Moment::Lsn(lsn)).unwrap();
        assert_eq!((cut.lsn, cut.is_certain), (lsn, true));
    }
    assert!(
        !line
            .cut_at(&history, Moment::Lsn(LAST + 1))
            .unwrap()
            .is_certain
    );
}

#[test]
fn moments_name_the_last_group_before_them() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let mut archive = archive(&archived);
    let mut times = Vec::new();
    for lsn in 1..=120 {
        let ticket = journal.submit(&payload(1, lsn)).unwrap();
        times.push(ticket.cluster_time);
        if lsn % 7 == 0 {
            journal.archive(&mut archive, true).unwrap();
        }
    }
    journal.archive(&mut archive, true).unwrap();
    let history = history(&archived);
    let line = &history.lines().unwrap()[0];
    let at = |moment| line.cut_at(&history, moment).unwrap();
    for (index, &time) in times.iter().enumerate() {
        let cut = at(Moment::ClusterTime(time));
        assert_eq!((cut.lsn, cut.is_certain), (index as u64 + 1, true));
        assert_eq!(at(Moment::ClusterTime(time - 1)).lsn, index as u64);
    }
    assert_eq!(at(Moment::Latest).lsn, 120);
    let tip = history.tip().unwrap();
    assert_eq!(tip.lsn, 120);
    let now = at(Moment::UnixMs(tip.unix_ms));
    assert_eq!((now.lsn, now.is_certain), (120, true));
    assert!(
        !at(Moment::UnixMs(tip.unix_ms + 2000)).is_certain,
        "nobody knows of what comes"
    );
    assert_eq!(at(Moment::UnixMs(1000)).lsn, 0);
}

/// A journal that is opened again and again, and an archive that now and then does not keep up.
#[test]
fn lives_follow_each_other() {
    let (mut files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let (backup, backup_lsn) = backup_of(&journal);
    drop(journal);
    let (mut last_lsn, mut lives) = (0, Vec::new());
    for life in 1..=12 {
        let owner = Owner::new();
        let journal = open_with(&files, 0, &owner, HOLD_BYTES);
        let mut archive = archive(&archived);
        last_lsn += 1 + life * 7 % 23;
        write_up_to(&journal, life, last_lsn);
        lives.push((life, last_lsn));
        match life % 3 {
            0 => {}
            1 => drop(journal.archive(&mut archive, true).unwrap()),
            _ => drop(journal.close()),
        }
        // What is not durable survives a killed process.
        files = files.crash(Crash::Kill, life);
    }
    let journal = open(&files);
    let mut archive = archive(&archived);
    journal.archive(&mut archive, true).unwrap();
    let tip = history(&archived).tip().unwrap();
    assert_eq!(tip.lsn, last_lsn);
    for cut_lsn in (0..=last_lsn).rev().step_by(5) {
        assert_eq!(
            rebuilt(&archived, 0, &backup, backup_lsn, cut_lsn),
            expected(&lives, cut_lsn),
            "{cut_lsn}"
        );
    }
}

/// Data that was restored goes on in another life; the archive keeps both, and either can be come back to.
#[test]
fn a_history_forks() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let (backup, backup_lsn) = backup_of(&journal);
    let mut first = archive(&archived);
    write_up_to(&journal, 1, 90);
    journal.archive(&mut first, true).unwrap();
    drop((journal, first));

    let restored = backup.crash(Crash::Kill, 1);
    {
        let history = history(&archived);
        let line = &history.lines().unwrap()[0];
        history
            .rebuild(line, &restored, backup_lsn, 40, &mut |_| {})
            .unwrap();
    }
    let journal = open(&restored);
    let mut second = archive(&archived);
    write_up_to(&journal, 2, 120);
    journal.archive(&mut second, true).unwrap();

    let history = history(&archived);
    let lines = history.lines().unwrap();
    assert_eq!(lines.len(), 2);
    let ends: Vec<u64> = lines
        .iter()
        .map(|line| line.ranges(&history)[0].last_lsn)
        .collect();
    assert_eq!(ends, [90, 120], "the latest life is the last");
    for cut_lsn in [0, 39, 40, 41, 65, 90] {
        assert_eq!(
            rebuilt(&archived, 0, &backup, backup_lsn, cut_lsn),
            expected(&[(1, 90)], cut_lsn),
            "{cut_lsn}"
        );
    }
    for cut_lsn in [0, 39, 40, 41, 65, 90, 120] {
        assert_eq!(
            rebuilt(&archived, 1, &backup, backup_lsn, cut_lsn),
            expected(&[(1, 40), (2, 120)], cut_lsn),
            "{cut_lsn}"
        );
    }
}

#[test]
fn what_waits_is_bounded_and_a_gap_is_named() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open_with(&files, 0, &Owner::new(), 100_000);
    let mut archive = archive(&archived);
    write_up_to(&journal, 1, 60);
    journal.archive(&mut archive, true).unwrap();
    // A full segment waits, and stays.
    write_up_to(&journal, 1, 150);
    journal.sync().unwrap();
    journal.checkpointed(150).unwrap();
    let waiting = journal.waiting_for_archive().unwrap();
    assert!(waiting.bytes > 0 && waiting.given_up == 0);
    assert!(journal.first_lsn() <= 60);
    assert_eq!(journal.trouble(), None);
    // Too many do.
    write_up_to(&journal, 1, 600);
    assert!(journal.trouble().unwrap().contains("gap"));
    journal.sync().unwrap();
    journal.checkpointed(600).unwrap();
    let waiting = journal.waiting_for_archive().unwrap();
    assert!(
        waiting.given_up > 0 && waiting.bytes <= waiting.bytes_max,
        "{waiting:?}"
    );
    assert_eq!(journal.archive(&mut archive, true).unwrap().gaps, 1);
    assert_eq!(journal.waiting_for_archive().unwrap().bytes, 0);
    assert_eq!(journal.trouble(), None);
    let history = history(&archived);
    let line = &history.lines().unwrap();
    let line = line.last().unwrap();
    let ranges = line.ranges(&history);
    assert_eq!(ranges.last().unwrap().last_lsn, 600);
    assert!(ranges.last().unwrap().first_lsn > 150);
}

#[test]
fn what_nobody_needs_is_removed_and_not_written_again() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let mut first = archive(&archived);
    write_up_to(&journal, 1, 100);
    journal.archive(&mut first, true).unwrap();
    let backup = SimulatedFiles::new();
    let backup_lsn = journal
        .copy_pinned(&journal.pin(journal.last_lsn()), &backup)
        .unwrap();
    write_up_to(&journal, 1, 200);
    journal.archive(&mut first, true).unwrap();
    let before = history(&archived);
    let freed = before.remove_before(&archived, backup_lsn).unwrap();
    assert!(freed > 20_000 && freed < before.bytes());
    assert_eq!(before.remove_before(&archived, 0).unwrap(), 0);
    // Neither this life of the archive nor the next one brings it back, though the journal has it yet.
    write_up_to(&journal, 1, 210);
    assert_eq!(journal.archive(&mut first, true).unwrap().gaps, 0);
    drop(first);
    let mut second = archive(&archived);
    write_up_to(&journal, 1, 220);
    assert_eq!(journal.archive(&mut second, true).unwrap().gaps, 0);
    let after = history(&archived);
    let line = &after.lines().unwrap()[0];
    let ranges = line.ranges(&after);
    assert_eq!((ranges.len(), ranges[0].last_lsn), (1, 220));
    assert!(ranges[0].first_lsn > 50 && ranges[0].first_lsn <= backup_lsn);
    let owner = Owner::new();
    after
        .rebuild(line, &backup, backup_lsn, 215, &mut |_| {})
        .unwrap();
    let journal = open_with(&backup, backup_lsn, &owner, HOLD_BYTES);
    assert_eq!(journal.last_lsn(), 215);
    let expected: Vec<_> = (backup_lsn + 1..=215)
        .map(|lsn| (lsn, payload(1, lsn)))
        .collect();
    assert_eq!(owner.records(), expected);
}

#[test]
fn an_archive_belongs_to_one_database() {
    let archived = SimulatedFiles::new();
    drop(archive(&archived));
    let mut other = identity();
    other.database[0] ^= 1;
    assert!(Archive::open(Arc::new(archived.clone()), &other).is_err());
    let taken = SimulatedFiles::new();
    taken.create("letter").unwrap();
    assert!(Archive::open(Arc::new(taken), &identity()).is_err());
}

/// Every byte of a piece that means something is under a checksum.
#[test]
fn damage_is_noticed() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let (backup, backup_lsn) = backup_of(&journal);
    write_up_to(&journal, 1, 40);
    let mut archive = archive(&archived);
    journal.archive(&mut archive, true).unwrap();
    let pieces: Vec<String> = (archived.list().unwrap().into_iter())
        .map(|entry| entry.name)
        .filter(|name| name.ends_with(".piece"))
        .collect();
    let mut noticed = 0;
    for name in pieces {
        let content = archived.content(&name).unwrap();
        for at in (0..content.len()).step_by(97) {
            let mut changed = content.clone();
            changed[at] ^= 0x10;
            let copy = archived.crash(Crash::Kill, 0);
            copy.replace(&name, changed);
            let tried: Result<u64> = (|| {
                let history = History::read(Arc::new(copy.clone()))?;
                let lines = history.lines()?;
                let target = backup.crash(Crash::Kill, 0);
                Ok(history
                    .rebuild(&lines[0], &target, backup_lsn, 40, &mut |_| {})?
                    .last_lsn)
            })();
            assert!(tried.is_err(), "byte {at} of {name}");
            noticed += 1;
        }
    }
    assert!(noticed > 50);
}

/// The archive's machine stops at each of its steps; the next life of the archive goes on, and loses nothing that it had said.
#[test]
fn an_archive_that_is_stopped_anywhere_goes_on() {
    let mut step = 0;
    loop {
        let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
        let journal = open(&files);
        let (backup, backup_lsn) = backup_of(&journal);
        archived.inject(step, Fault::PowerOff);
        let said = run_until_it_stops(&journal, &archived);
        let has_stopped = archived.steps() > step;
        for (seed, crash) in Crash::ALL.into_iter().enumerate() {
            let left = archived.crash(crash, seed as u64);
            // What it had said by then is there.
            if said > 0 {
                let records = rebuilt(&left, 0, &backup, backup_lsn, said);
                assert_eq!(
                    records,
                    expected(&[(1, said)], said),
                    "step {step}, {crash:?}"
                );
            }
            let mut archive = archive(&left);
            let journal_files = files.crash(Crash::Kill, 0);
            let journal = open(&journal_files);
            let last_lsn = journal.last_lsn();
            journal.archive(&mut archive, true).unwrap();
            let records = rebuilt(&left, 0, &backup, backup_lsn, last_lsn);
            assert_eq!(
                records,
                expected(&[(1, last_lsn)], last_lsn),
                "step {step}, {crash:?}"
            );
        }
        if !has_stopped {
            break;
        }
        step += 1;
    }
    assert!(step > 40, "{step} steps");
}

/// Archives while records are written, until a step fails; up to where a round has succeeded.
fn run_until_it_stops(journal: &Journal, archived: &SimulatedFiles) -> u64 {
    let mut said = 0;
    let Ok(mut archive) = Archive::open(Arc::new(archived.clone()), &identity()) else {
        return said;
    };
    for lsn in [9, 20, 24, 30, 31, 60, 61] {
        write_up_to(journal, 1, lsn);
        match journal.archive(&mut archive, true) {
            Ok(Archived { lsn, .. }) => said = lsn,
            Err(_) => return said,
        }
    }
    said
}
