//! A journal that is sealed: nothing of a record stands in its files, what was changed is damage, and it is opened with its key or
//! not at all. That it keeps its promises over crashes is tested with the other journals (`crash`).

mod owner;
mod toy_seal;

use std::ops::ControlFlow;
use std::sync::Arc;

use owner::{Owner, Record, identity, options};
use quarry_journal::files::simulated::{Crash, Fault};
use quarry_journal::inspect::{self, BehindGap};
use quarry_journal::{
    Error, Files, GroupFormat, Hooks, Journal, Level, Options, Result, SimulatedFiles,
};
use toy_seal::{sealed, sealed_with};

const MARKER: &[u8] = b"a marker that stands in every record";
const HEADER_BYTES: usize = 96;

fn open(files: Arc<dyn Files>, owner: &Arc<Owner>, applied_lsn: u64) -> Result<Journal> {
    let hooks: Arc<dyn Hooks> = owner.clone();
    let options = Options {
        compress_above_bytes: Some(2000),
        ..options()
    };
    Journal::open(files, options, identity(), applied_lsn, hooks)
}

/// Records of several segments, some in compressed groups.
fn write_records(files: Arc<dyn Files>) -> Vec<Record> {
    let owner = Owner::new();
    let journal = open(files, &owner, 0).unwrap();
    for number in 0..40u8 {
        let record = [MARKER, &[number; 300]].concat();
        let record = record.repeat(if number % 4 == 0 { 8 } else { 1 });
        journal.commit(&record, Level::Durable).unwrap();
    }
    journal.close().unwrap();
    owner.records()
}

fn holds_marker(files: &SimulatedFiles) -> bool {
    let names = files.list().unwrap().into_iter().map(|entry| entry.name);
    let mut contents = names.filter_map(|name| files.content(&name));
    contents.any(|content| content.windows(MARKER.len()).any(|bytes| bytes == MARKER))
}

#[test]
fn no_record_stands_in_the_files_and_all_come_back() {
    let plain = SimulatedFiles::new();
    write_records(Arc::new(plain.clone()));
    assert!(holds_marker(&plain), "without a seal it does");

    let files = SimulatedFiles::new();
    let records = write_records(sealed(&files));
    assert!(!holds_marker(&files));
    let owner = Owner::new();
    let journal = open(sealed(&files), &owner, 0).unwrap();
    assert_eq!(owner.records(), records);
    // A reader finds them in the live journal, from any of them on.
    for from_lsn in [1, 5, 23, 40] {
        let mut reader = journal.read(from_lsn).unwrap();
        let mut read = Vec::new();
        while let Some((lsn, payload)) = reader.next().unwrap() {
            read.push((lsn, payload.to_vec()));
        }
        assert_eq!(read, records[from_lsn as usize - 1..]);
    }
}

#[test]
fn it_is_opened_with_its_key_or_not_at_all() {
    let refused = |result: Result<Journal>, why: &str| match result {
        Err(Error::ForeignJournal { reason, .. }) => assert!(reason.contains(why), "{reason}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    };
    let files = SimulatedFiles::new();
    write_records(sealed(&files));
    let before = files.bytes_written();
    let plain: Arc<dyn Files> = Arc::new(files.clone());
    refused(open(plain.clone(), &Owner::new(), 0), "no key was given");
    assert!(inspect::verify(&*plain).is_err());
    let wrong = sealed_with(2, &files);
    let opened = open(wrong.clone(), &Owner::new(), 0);
    assert!(matches!(opened.err(), Some(Error::Damaged { .. })));
    assert!(inspect::verify(&*wrong).is_err());
    assert_eq!(files.bytes_written(), before, "nothing was changed");
    assert!(open(sealed(&files), &Owner::new(), 0).is_ok());

    let files = SimulatedFiles::new();
    write_records(Arc::new(files.clone()));
    refused(open(sealed(&files), &Owner::new(), 0), "not encrypted");
}

#[test]
fn people_look_at_it_with_the_key() {
    let files = SimulatedFiles::new();
    let records = write_records(sealed(&files));
    let files = sealed(&files);
    let verified = inspect::verify(&*files).unwrap();
    assert_eq!((verified.last_lsn, verified.is_closed), (40, true));
    let mut dumped = Vec::new();
    let mut compressed = 0;
    inspect::dump(&*files, 1, &mut |group| {
        assert_eq!(group.header.format, GroupFormat::Sealed);
        compressed += u32::from(group.header.plain_bytes > 0);
        let payloads = group.payloads.iter();
        dumped.extend(payloads.map(|(lsn, payload)| (lsn, payload.to_vec())));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(dumped, records);
    assert_eq!(compressed, 10);
    assert_eq!(inspect::truncate(&*files, 20, BehindGap::Keep).unwrap(), 20);
    let owner = Owner::new();
    drop(open(files, &owner, 0).unwrap());
    assert_eq!(owner.records(), records[..20]);
}

/// Flips a bit of each group's header and body, with the checksum as it was and with one that is right again.
#[test]
fn what_was_changed_is_damage_even_with_a_right_checksum() {
    let files = SimulatedFiles::new();
    let records = write_records(sealed(&files));
    let mut groups = Vec::new();
    inspect::dump(&*sealed(&files), 1, &mut |group| {
        let (segment, bytes) = (group.segment.to_owned(), group.header.group_bytes());
        groups.push((segment, group.offset as usize, bytes as usize));
        ControlFlow::Continue(())
    })
    .unwrap();
    // Some of the groups, compressed ones among them, and the mark of closing.
    let some = (groups.into_iter().enumerate())
        .filter(|(number, _)| number % 6 == 0 || *number >= records.len());
    for (number, (segment, offset, bytes)) in some {
        let content = files.content(&segment).unwrap();
        for at in [
            8,
            12,
            17,
            25,
            33,
            41,
            45,
            50,
            60,
            70,
            HEADER_BYTES,
            bytes - 1,
        ] {
            for has_right_sum in [false, true] {
                let mut changed = content.clone();
                let group = &mut changed[offset..offset + bytes];
                group[at] ^= 4;
                if has_right_sum {
                    let crc = crc32c::crc32c(&group[8..]);
                    group[4..8].copy_from_slice(&crc.to_le_bytes());
                }
                let copy = files.crash(Crash::Kill, 0);
                copy.replace(&segment, changed);
                let owner = Owner::new();
                let opened = open(sealed(&copy), &owner, 0);
                // The journal was closed: all of it is known to be durable, but for the mark at its end, and what stands
                // behind that mark cannot say so.
                let is_mark = number >= records.len();
                assert!(
                    opened.is_err() || (is_mark && owner.records() == records),
                    "group {number}, byte {at}, {has_right_sum}"
                );
            }
        }
    }
}

/// A failed write is cut off, and the same position is written again: with other bytes, however alike the records are.
#[test]
fn a_position_that_is_written_again_is_sealed_anew() {
    let files = SimulatedFiles::new();
    let journal = open(sealed(&files), &Owner::new(), 0).unwrap();
    let record = [MARKER, &[7; 100]].concat();
    let body = || {
        let content = files.content("0000000001.segment").unwrap();
        let bytes = 4 + record.len();
        content[4096 + HEADER_BYTES..4096 + HEADER_BYTES + bytes].to_vec()
    };
    // The disk takes the first half of the write, in which the group is.
    files.inject(files.steps(), Fault::NoSpace);
    assert!(journal.commit(&record, Level::Written).is_err());
    let torn = body();
    assert!(torn.iter().any(|byte| *byte != 0), "a part was written");
    let committed = journal.commit(&record, Level::Written).unwrap();
    assert_eq!(committed.lsn, 1);
    let whole = body();
    let alike = torn.iter().zip(&whole).filter(|(a, b)| a == b && **a != 0);
    let alike = alike.count();
    assert!(alike < whole.len() / 8, "{alike} of {} bytes", whole.len());
}
