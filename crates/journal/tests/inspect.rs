//! Verify, dump and truncate; and arbitrary bytes in place of a journal.

mod owner;

use std::ops::ControlFlow;

use owner::{Owner, Record};
use quarry_journal::files::simulated::Crash;
use quarry_journal::inspect::{self, BehindGap};
use quarry_journal::{Error, Files, Journal, Level, SimulatedFiles};

fn journal_of(records: u32) -> (SimulatedFiles, Vec<Record>) {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    for number in 0..records {
        journal
            .commit(&[number as u8; 500], Level::Durable)
            .unwrap();
    }
    journal.close().unwrap();
    (files, owner.records())
}

fn segment_names(files: &SimulatedFiles) -> Vec<String> {
    let names = files.list().unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".segment")).collect()
}

#[test]
fn verify_and_dump_see_every_record() {
    let (files, records) = journal_of(60);
    let verified = inspect::verify(&files).unwrap();
    assert_eq!(
        (verified.first_lsn, verified.last_lsn, verified.durable_lsn),
        (1, 60, 60)
    );
    assert_eq!(
        verified
            .segments
            .iter()
            .map(|segment| segment.records)
            .sum::<u64>(),
        60
    );
    assert_eq!(verified.segments.len(), segment_names(&files).len());
    assert!(verified.is_closed);
    let mut next_lsn = 1;
    for segment in verified
        .segments
        .iter()
        .filter(|segment| segment.records > 0)
    {
        assert_eq!(segment.first_lsn, next_lsn);
        next_lsn = segment.last_lsn + 1;
    }
    assert_eq!(next_lsn, 61);
    let mut dumped = Vec::new();
    inspect::dump(&files, 31, &mut |group| {
        dumped.extend(
            group
                .payloads
                .iter()
                .map(|(lsn, payload)| (lsn, payload.to_vec())),
        );
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(dumped, records[30..]);
    let mut visits = 0;
    inspect::dump(&files, 31, &mut |_| {
        visits += 1;
        ControlFlow::Break(())
    })
    .unwrap();
    assert_eq!(visits, 1, "a dump ends when its reader has seen enough");
}

#[test]
fn verify_reads_what_a_start_skips() {
    let (files, _) = journal_of(60);
    let first = segment_names(&files)[0].clone();
    let mut content = files.content(&first).unwrap();
    content[5000] ^= 1;
    files.replace(&first, content);
    assert_eq!(
        Owner::new().open(&files, 60).unwrap().last_lsn(),
        60,
        "the engine does not need it"
    );
    assert!(inspect::verify(&files).unwrap_err().is_corruption());
}

#[test]
fn truncate_gives_up_what_is_damaged() {
    let (files, records) = journal_of(60);
    let second = segment_names(&files)[1].clone();
    let mut content = files.content(&second).unwrap();
    content[4096 + 1000] ^= 1;
    files.replace(&second, content);
    assert!(
        Owner::new()
            .open(&files, 0)
            .err()
            .is_some_and(|error| error.is_corruption())
    );
    let mut last_lsn = 0;
    let dumped = inspect::dump(&files, 1, &mut |group| {
        last_lsn = group.payloads.last_lsn();
        ControlFlow::Continue(())
    });
    assert!(
        dumped.unwrap_err().is_corruption(),
        "a dump says why it ends"
    );
    assert!(last_lsn > 20 && last_lsn < 60);
    inspect::truncate(&files, last_lsn, BehindGap::Keep).unwrap();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    assert_eq!(owner.records(), records[..last_lsn as usize]);
    assert_eq!(journal.submit(b"goes on").unwrap().lsn, last_lsn + 1);
    assert!(inspect::truncate(&SimulatedFiles::new(), 5, BehindGap::Keep).is_err());
}

/// Damage that refuses a start before any group of a segment is read: a person sees what is whole and keeps it.
#[test]
fn what_lies_before_a_lost_segment_can_be_kept() {
    let damages: [fn(&SimulatedFiles, &[String]); 6] = [
        |files, names| {
            let mut content = files.content(&names[2]).unwrap();
            content[20] ^= 1;
            files.replace(&names[2], content);
        },
        |files, names| files.replace(&names[2], vec![0; 16 * 1024]),
        |files, names| files.replace(&names[2], Vec::new()),
        |files, names| files.replace(&names[2], files.content(&names[1]).unwrap()),
        |files, names| files.remove(&names[2]).unwrap(),
        |files, names| {
            let content = files.content(&names[2]).unwrap();
            files.replace(&names[2], content[..6000].to_vec());
        },
    ];
    for (number, damage) in damages.iter().enumerate() {
        let (files, records) = journal_of(120);
        let names = segment_names(&files);
        assert!(names.len() > 4);
        damage(&files, &names);
        let refused = Owner::new().open(&files, 0).err();
        assert!(
            refused.is_some_and(|error| error.is_corruption()),
            "{number}"
        );
        let mut last_lsn = 0;
        let dumped = inspect::dump(&files, 1, &mut |group| {
            last_lsn = group.payloads.last_lsn();
            ControlFlow::Continue(())
        });
        assert!(dumped.unwrap_err().is_corruption(), "{number}");
        assert!(last_lsn > 20 && last_lsn < 120, "{number}: {last_lsn}");
        let cut = |last_lsn, behind_gap| inspect::truncate(&files, last_lsn, behind_gap);
        assert!(cut(last_lsn + 1, BehindGap::GiveUp).is_err(), "{number}");
        cut(last_lsn, BehindGap::GiveUp).unwrap();
        inspect::verify(&files).unwrap();
        let owner = Owner::new();
        let journal = owner.open(&files, 0).unwrap();
        assert_eq!(owner.records().len() as u64, last_lsn, "{number}");
        assert!(owner.records() == records[..last_lsn as usize]);
        assert_eq!(journal.submit(b"goes on").unwrap().lsn, last_lsn + 1);
    }
}

/// The log may be what lies behind the gap. A start knows: it frees what the engine does not need.
#[test]
fn a_cut_does_not_give_up_what_lies_behind_a_gap_unasked() {
    let (files, _) = journal_of(120);
    let found = segment_names(&files);
    files.remove(&found[1]).unwrap();
    let mut last_lsn = 0;
    let dumped = inspect::dump(&files, 1, &mut |group| {
        last_lsn = group.payloads.last_lsn();
        ControlFlow::Continue(())
    });
    assert!(dumped.unwrap_err().is_corruption());
    let before = segment_names(&files);
    for last_lsn in [last_lsn, last_lsn + 1, 100] {
        let refused = inspect::truncate(&files, last_lsn, BehindGap::Keep).unwrap_err();
        let is_named = matches!(&refused, Error::Damaged { segment, .. } if *segment == found[1]);
        assert!(is_named, "{refused}");
    }
    assert_eq!(segment_names(&files), before, "nothing is changed");
    let journal = Owner::new().open(&files, 100).unwrap();
    assert_eq!(journal.last_lsn(), 120);
    journal.close().unwrap();
    assert_eq!(inspect::verify(&files).unwrap().last_lsn, 120);
    inspect::truncate(&files, 110, BehindGap::Keep).unwrap();
    assert_eq!(inspect::verify(&files).unwrap().last_lsn, 110);
}

/// Whatever the bytes are: an error or a prefix of what was written, never a panic, never another record.
#[test]
fn arbitrary_damage_yields_a_prefix_or_an_error() {
    let (files, records) = journal_of(40);
    let names = segment_names(&files);
    let mut random = 88_172_645_463_325_252u64;
    let mut below = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % bound as u64) as usize
    };
    for _ in 0..600 {
        let damaged = SimulatedFiles::new();
        for name in &names {
            damaged.replace(name, files.content(name).unwrap());
        }
        for _ in 0..=below(3) {
            let name = &names[below(names.len())];
            let mut content = damaged.content(name).unwrap();
            let at = below(content.len());
            let length = (1 + below(600)).min(content.len() - at);
            match below(4) {
                0 => content[at] ^= 1 << below(8),
                1 => content[at..at + length].fill_with(|| below(256) as u8),
                2 => content.truncate(at),
                _ => content.copy_within(at..at + length, below(at + 1)),
            }
            damaged.replace(name, content);
        }
        let owner = Owner::new();
        let result = owner.open(&damaged, 0);
        let seen = owner.records();
        assert!(
            seen.len() <= records.len() && seen == records[..seen.len()],
            "{:?}",
            result.err()
        );
    }
}

/// Writes until a group that is not durable stands in the second segment, and all of the first is durable. Returns its last LSN.
fn fill_first_segment(files: &SimulatedFiles, journal: &Journal) -> u64 {
    let mut durable_lsn = 0;
    while files.content("0000000002.segment").is_none() {
        durable_lsn = journal.sync().unwrap();
        journal.submit(&[7; 500]).unwrap();
    }
    durable_lsn
}

/// A power loss may take all of the segment that the journal goes on in, and leave the first group of the one behind it.
#[test]
fn a_segment_stays_until_the_next_one_durably_says_where_it_begins() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    let durable_lsn = fill_first_segment(&files, &journal);
    assert_eq!(journal.checkpointed(durable_lsn), Ok(0));
    assert_eq!(journal.free_outlived(durable_lsn), Ok(0));
    while files.content("0000000003.segment").is_none() {
        journal.submit(&[7; 500]).unwrap();
    }
    let written = journal.submit(&[7; 500]).unwrap().lsn;
    assert_eq!(journal.checkpointed(durable_lsn), Ok(0));
    let fallen = files.crash(Crash::Kill, 0);
    let second = "0000000002.segment";
    let mut content = fallen.content(second).unwrap();
    content[4096..].fill(0);
    fallen.replace(second, content);
    // An engine that has all that is durable, and one that is older.
    for applied_lsn in [durable_lsn, durable_lsn - 1] {
        let again = Owner::new();
        let files = fallen.crash(Crash::Kill, 0);
        let journal = again.open(&files, applied_lsn).unwrap();
        assert_eq!(journal.last_lsn(), durable_lsn);
        assert_eq!(again.records().len() as u64, durable_lsn - applied_lsn);
    }
    journal.sync().unwrap();
    assert!(journal.checkpointed(durable_lsn).unwrap() > 0);
    assert_eq!(journal.last_lsn(), written);
}

/// A checkpoint of an earlier version has freed all segments but the last one, whose groups were then lost unsynced. It does not say where it begins;
/// the next life does.
#[test]
fn a_first_segment_that_lost_all_its_groups_is_no_damage() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    let durable_lsn = fill_first_segment(&files, &journal);
    let files = files.crash(Crash::Drop, 0);
    drop(journal);
    files.remove("0000000001.segment").unwrap();
    let journal = Owner::new().open(&files, durable_lsn).unwrap();
    assert_eq!(journal.submit(b"next").unwrap().lsn, durable_lsn + 1);
    drop(journal);
    let verified = inspect::verify(&files).unwrap();
    let next = durable_lsn + 1;
    assert_eq!((verified.first_lsn, verified.last_lsn), (next, next));
    let mut dumped = Vec::new();
    inspect::dump(&files, 0, &mut |group| {
        dumped.push(group.header.first_lsn);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(dumped[0], next);
}

/// Where the groups of a segment begin.
fn group_offsets(files: &SimulatedFiles, name: &str) -> Vec<usize> {
    let mut offsets = Vec::new();
    inspect::dump(files, 0, &mut |group| {
        if group.segment == name {
            offsets.push(usize::try_from(group.offset).unwrap());
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    offsets
}

/// Changes some bytes of a file.
fn change(
    files: &SimulatedFiles,
    name: &str,
    bytes: std::ops::Range<usize>,
    change: fn(&mut [u8]),
) {
    let mut content = files.content(name).unwrap();
    change(&mut content[bytes]);
    files.replace(name, content);
}

/// A journal whose only segment continues an incarnation: a checkpoint of an earlier version has freed the one before it.
/// `syncs`: whether the second segment's groups are durable, and say so. Returns the last record of the freed segment.
fn only_second_segment(syncs: bool) -> (SimulatedFiles, u64) {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    let durable_lsn = fill_first_segment(&files, &journal);
    for _ in 0..3 {
        journal.submit(&[7; 500]).unwrap();
        if syncs {
            journal.sync().unwrap();
        }
    }
    let fallen = files.crash(Crash::Kill, 0);
    drop(journal);
    fallen.remove("0000000001.segment").unwrap();
    (fallen, durable_lsn)
}

/// A power loss took the first group of the only segment, and left later ones. None was durable.
#[test]
fn verify_and_dump_find_no_damage_where_a_start_finds_none() {
    const SECOND: &str = "0000000002.segment";
    let (files, durable_lsn) = only_second_segment(false);
    let offsets = group_offsets(&files, SECOND);
    assert!(offsets.len() > 2);
    change(&files, SECOND, offsets[0]..offsets[1], |group| {
        group.fill(0);
    });
    let verified = inspect::verify(&files).unwrap();
    assert!(verified.is_unplaced);
    assert_eq!((verified.last_lsn, verified.durable_lsn), (0, durable_lsn));
    assert!(group_offsets(&files, SECOND).is_empty());
    // An engine must hold as much as `verify` says.
    let older = files.crash(Crash::Kill, 0);
    let refused = Owner::new().open(&older, durable_lsn - 1).err();
    assert!(refused.is_some_and(|error| error.is_corruption()));
    let journal = Owner::new().open(&files, durable_lsn).unwrap();
    assert_eq!(journal.submit(b"next").unwrap().lsn, durable_lsn + 1);
    journal.close().unwrap();
    let verified = inspect::verify(&files).unwrap();
    assert!(!verified.is_unplaced);
    assert_eq!(verified.first_lsn, durable_lsn + 1);
}

/// The first group of the first segment was durable, as marks behind it say, and is damaged in its body or its header.
#[test]
fn verify_and_dump_find_durable_records_missing_from_the_first_segment() {
    const SECOND: &str = "0000000002.segment";
    for at in [200, 0] {
        let (files, durable_lsn) = only_second_segment(true);
        let offsets = group_offsets(&files, SECOND);
        change(
            &files,
            SECOND,
            offsets[0] + at..offsets[0] + at + 1,
            |byte| {
                byte[0] ^= 1;
            },
        );
        let dump = || inspect::dump(&files, 0, &mut |_| ControlFlow::Continue(()));
        assert!(inspect::verify(&files).unwrap_err().is_corruption());
        assert!(dump().unwrap_err().is_corruption());
        // A start whose engine holds all goes on, in a segment that says where it begins.
        let journal = Owner::new().open(&files, durable_lsn + 4).unwrap();
        assert_eq!(journal.submit(b"next").unwrap().lsn, durable_lsn + 5);
        journal.close().unwrap();
    }
}

/// A later segment says where it begins, and that what the first one has lost was durable.
#[test]
fn verify_and_dump_read_a_first_segment_that_does_not_say_where_it_begins() {
    for at in [200, 0] {
        let (files, _) = journal_of(120);
        let names = segment_names(&files);
        files.remove(&names[0]).unwrap();
        let offset = group_offsets(&files, &names[1])[0] + at;
        change(&files, &names[1], offset..offset + 1, |byte| byte[0] ^= 1);
        let damage = inspect::verify(&files).unwrap_err();
        assert!(
            matches!(&damage, Error::Damaged { segment, .. } if *segment == names[1]),
            "{damage}"
        );
        let mut visits = 0;
        let dumped = inspect::dump(&files, 0, &mut |_| {
            visits += 1;
            ControlFlow::Continue(())
        });
        assert!(dumped.unwrap_err().is_corruption());
        assert!(visits > 0, "what is whole behind it is shown");
    }
}
