//! The archive of a sealed journal: sealed as the journal is, and read, checked and put together without the key.

use std::sync::Arc;

use quarry_journal::files::simulated::Crash;
use quarry_journal::{Error, Files, Journal, Level, Options, Result, SimulatedFiles};

use crate::owner::{Owner, identity, options};
use crate::toy_seal::{sealed, sealed_with};
use crate::{HOLD_BYTES, archive, backup_of, history, piece_names};

const MARKER: &[u8] = b"a marker that stands in every record";
const LAST: u64 = 90;

fn open(files: Arc<dyn Files>, owner: &Arc<Owner>) -> Result<Journal> {
    let options = Options {
        archive_hold_bytes: Some(HOLD_BYTES),
        compress_above_bytes: Some(2000),
        ..options()
    };
    Journal::open(files, options, identity(), 0, owner.clone())
}

/// An archive of several segments, an empty backup from before the first record, and the owner that saw all records.
fn archived() -> (SimulatedFiles, SimulatedFiles, Arc<Owner>) {
    let (files, archived, owner) = (SimulatedFiles::new(), SimulatedFiles::new(), Owner::new());
    let journal = open(sealed(&files), &owner).unwrap();
    let mut archive = archive(&archived);
    let (backup, backup_lsn) = backup_of(&journal);
    assert_eq!(backup_lsn, 0);
    for lsn in 1..=LAST {
        let record = MARKER.repeat(if lsn % 10 == 0 { 100 } else { 10 });
        journal.commit(&record, Level::Written).unwrap();
        if lsn % 7 == 0 {
            journal.archive(&mut archive, true).unwrap();
        }
    }
    assert_eq!(journal.archive(&mut archive, true).unwrap().lsn, LAST);
    (archived, backup, owner)
}

fn damages(archived: &SimulatedFiles) -> Vec<String> {
    let found = history(archived).verify(&mut |_| {});
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn every_group_of_a_sealed_journal_can_be_come_back_to_without_the_key() {
    let (archived, backup, owner) = archived();
    let names = piece_names(&archived);
    assert!(names.len() > 2, "segments: {names:?}");
    for name in &names {
        let content = archived.content(name).unwrap();
        let holds_marker = content.windows(MARKER.len()).any(|bytes| bytes == MARKER);
        assert!(!holds_marker, "{name}");
    }
    assert_eq!(damages(&archived), [""; 0]);
    let history = history(&archived);
    let line = &history.lines().unwrap()[0];
    for cut_lsn in 1..=LAST {
        let target = backup.crash(Crash::Kill, 0);
        let made = history.rebuild(line, &target, 0, cut_lsn, &mut |_| {});
        assert_eq!(made.unwrap().last_lsn, cut_lsn);
        let found = Owner::new();
        let journal = open(sealed(&target), &found).unwrap();
        assert_eq!(found.records(), owner.records()[..cut_lsn as usize]);
        journal.commit(b"goes on", Level::Durable).unwrap();
    }
}

#[test]
fn the_key_is_asked_for_by_the_start_on_what_was_restored() {
    let (archived, backup, _) = archived();
    let history = history(&archived);
    let line = &history.lines().unwrap()[0];
    (history.rebuild(line, &backup, 0, LAST, &mut |_| {})).unwrap();
    let without = open(Arc::new(backup.clone()), &Owner::new()).err().unwrap();
    assert!(matches!(without, Error::ForeignJournal { .. }), "{without}");
    let wrong = open(sealed_with(2, &backup), &Owner::new()).err().unwrap();
    assert!(matches!(wrong, Error::Damaged { .. }), "{wrong}");
}

#[test]
fn a_changed_byte_of_a_sealed_piece_is_told_without_the_key() {
    let (archived, _, _) = archived();
    for name in piece_names(&archived) {
        let whole = archived.content(&name).unwrap();
        for at in (0..whole.len()).step_by(211) {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            archived.replace(&name, changed);
            let told = quarry_journal::archive::History::read(Arc::new(archived.clone()))
                .map_or(1, |history| history.verify(&mut |_| {}).len());
            assert!(told > 0, "{name} at {at}");
        }
        archived.replace(&name, whole);
    }
    assert_eq!(damages(&archived), [""; 0]);
}
