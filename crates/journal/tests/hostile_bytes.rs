//! Segments hold bytes that clients chose, and a disk holds bytes that anybody chose: a start reads a bounded multiple of
//! what is there, and no position that it reads makes it count beyond what it can.

mod owner;

use std::ops::ControlFlow;
use std::sync::Arc;

use owner::{Owner, identity, options};
use quarry_journal::inspect::{self, BehindGap};
use quarry_journal::{Files, Journal, Level, Options, SimulatedFiles};

/// A start follows the chain, replays it, writes its unsynced part again and searches and zeroes what is behind it.
const READS_MAX: u64 = 6;
const GROUP: usize = 4096;
const GROUP_HEADER: usize = 96;

/// A payload full of headers as a group's, each of which claims a long body.
fn crafted(bytes: usize, incarnation: u64) -> Vec<u8> {
    let mut header = [0u8; GROUP_HEADER];
    header[..4].copy_from_slice(b"QJG2");
    header[8..12].copy_from_slice(&200_000u32.to_le_bytes());
    header[12..16].copy_from_slice(&1u32.to_le_bytes());
    header[16..24].copy_from_slice(&incarnation.to_le_bytes());
    header[24..32].copy_from_slice(&1000u64.to_le_bytes());
    header[32..40].copy_from_slice(&999u64.to_le_bytes());
    header.iter().copied().cycle().take(bytes).collect()
}

/// The bytes that a start reads which finds `crafted` bytes behind the end of the log, beside those that there are.
fn read_by_a_start(incarnation: u64) -> (u64, u64) {
    let files = SimulatedFiles::new();
    let options = Options {
        segment_bytes: 1 << 20,
        group_bytes_max: 1 << 18,
        ..options()
    };
    let open = || {
        let files = Arc::new(files.clone());
        Journal::open(files, options.clone(), identity(), 0, Owner::new())
    };
    let journal = open().unwrap();
    for _ in 0..12 {
        journal.submit(&crafted(300_000, incarnation)).unwrap();
    }
    let last_lsn = journal.sync().unwrap();
    journal.checkpointed(last_lsn).unwrap();
    // The rest of the segment, and a little of one that is used again.
    for _ in 0..4 {
        journal.submit(&crafted(300_000, incarnation)).unwrap();
    }
    files.fail_syncs(true);
    drop(journal);
    files.fail_syncs(false);
    let before = files.bytes_read();
    let owner = Owner::new();
    let again = Journal::open(
        Arc::new(files.clone()),
        options.clone(),
        identity(),
        last_lsn,
        owner,
    );
    assert_eq!(again.unwrap().last_lsn(), last_lsn + 4);
    (files.bytes_read() - before, files.bytes())
}

#[test]
fn a_start_reads_a_bounded_multiple_of_what_is_there() {
    for incarnation in [0, u64::MAX, 1 << 32] {
        let (read, there) = read_by_a_start(incarnation);
        assert!(read <= READS_MAX * there, "{read} bytes of {there}");
    }
}

/// A client that knew the incarnation, which is told to nobody, could not make a start read more either.
#[test]
fn broken_groups_of_the_right_incarnation_are_bounded_too() {
    let files = SimulatedFiles::new();
    let options = Options {
        segment_bytes: 1 << 20,
        ..options()
    };
    let open = |files: &SimulatedFiles| {
        let files = Arc::new(files.clone());
        Journal::open(files, options.clone(), identity(), 0, Owner::new())
    };
    let journal = open(&files).unwrap();
    journal.submit(b"only").unwrap();
    let name = "0000000001.segment";
    let mut content = files.content(name).unwrap();
    let incarnation = u64::from_le_bytes(content[72..80].try_into().unwrap());
    let behind = GROUP + GROUP_HEADER + 4 + 4;
    let hostile = crafted(content.len() - behind, incarnation);
    content[behind..].copy_from_slice(&hostile);
    drop(journal);
    let hostile = SimulatedFiles::new();
    hostile.replace(name, content);
    let before = hostile.bytes_read();
    let error = open(&hostile).err().unwrap();
    assert!(error.is_corruption(), "{error}");
    let read = hostile.bytes_read() - before;
    assert!(read <= READS_MAX * hostile.bytes(), "{read}");
}

/// A broken group may claim any length. What counts is what is read of it: a tail with such groups is a tail.
#[test]
fn broken_groups_that_claim_too_much_are_a_tail() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    owner.open(&files, 0).unwrap().submit(b"only").unwrap();
    let name = "0000000001.segment";
    let mut content = files.content(name).unwrap();
    let incarnation = u64::from_le_bytes(content[72..80].try_into().unwrap());
    // Behind the group of `only` and the mark of closing, which is lost.
    let behind = GROUP + GROUP_HEADER + 4 + 4;
    let mut claims = crafted(content.len() - behind, incarnation);
    for header in claims.chunks_exact_mut(GROUP_HEADER) {
        header[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    }
    content[behind..].copy_from_slice(&claims);
    let claiming = SimulatedFiles::new();
    claiming.replace(name, content);
    let owner = Owner::new();
    let journal = owner.open(&claiming, 0).unwrap();
    assert_eq!(journal.last_lsn(), 1);
    assert_eq!(owner.records(), [(1, b"only".to_vec())]);
    assert!(claiming.bytes_read() <= READS_MAX * claiming.bytes());
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Sets the checksums of the header and of the first group, which holds `body` bytes, right.
fn seal(content: &mut [u8], body: usize) {
    let crc = crc32c::crc32c(&content[..124]).to_le_bytes();
    content[124..128].copy_from_slice(&crc);
    let crc = crc32c::crc32c(&content[..160]).to_le_bytes();
    content[160..164].copy_from_slice(&crc);
    content[GROUP + 40..GROUP + 44].copy_from_slice(&crc);
    let crc = crc32c::crc32c(&content[GROUP + 8..GROUP + GROUP_HEADER + body]);
    content[GROUP + 4..GROUP + 8].copy_from_slice(&crc.to_le_bytes());
}

/// Debug builds panic where a sum overflows.
#[test]
fn forged_positions_do_not_overflow() {
    let files = SimulatedFiles::new();
    drop(Owner::new().open(&files, 0).unwrap());
    let journal = Owner::new().open(&files, 0).unwrap();
    let body = 4 + 100;
    journal.commit(&[1; 100], Level::Durable).unwrap();
    journal.close().unwrap();
    let names: Vec<_> = files.list().unwrap();
    let last = names.iter().rfind(|entry| entry.name.ends_with(".segment"));
    let name = last.unwrap().name.clone();
    let whole = files.content(&name).unwrap();
    // Sequence to time of making, the stamp that the incarnation goes on from; a group's incarnation to mark, its time and
    // its stamp.
    let fields = (64..112).step_by(8).chain((128..160).step_by(8));
    let fields = fields.chain([GROUP + 16, GROUP + 24, GROUP + 32, GROUP + 48]);
    let fields = fields.chain((GROUP + 56..GROUP + 88).step_by(8));
    let extremes = [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 62) + 1, 1 << 62, 0];
    for (field, value) in fields.flat_map(|field| extremes.map(|value| (field, value))) {
        for also_first in [None, Some(value)] {
            let mut forged = whole.clone();
            put(&mut forged, field, value);
            if let Some(value) = also_first {
                // The header and its first group agree.
                put(&mut forged, 88, value);
                put(&mut forged, GROUP + 24, value);
            }
            seal(&mut forged, body);
            let forge = || {
                let copy = SimulatedFiles::new();
                for entry in &names {
                    let content = files.content(&entry.name).unwrap();
                    copy.replace(&entry.name, content);
                }
                copy.replace(&name, forged.clone());
                copy
            };
            for applied_lsn in [0, 1, 1 << 62, u64::MAX] {
                drop(Owner::new().open(&forge(), applied_lsn));
            }
            let _ = inspect::verify(&forge());
            let _ = inspect::dump(&forge(), u64::MAX, &mut |_| ControlFlow::Continue(()));
            for last_lsn in [value, u64::MAX] {
                for behind_gap in [BehindGap::Keep, BehindGap::GiveUp] {
                    let _ = inspect::truncate(&forge(), last_lsn, behind_gap);
                }
            }
        }
    }
}
