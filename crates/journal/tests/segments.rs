//! Segments are made, freed and found again while single calls of the file system fail, and no descriptor is kept for one
//! that nobody reads or writes.

mod owner;

use std::sync::Arc;
use std::time::{Duration, Instant};

use owner::{Owner, identity, options};
use quarry_journal::files::simulated::{Crash, NameFault};
use quarry_journal::{Error, Files, Journal, Level, Options, RealFiles, SimulatedFiles, inspect};

const RECORD: [u8; 2968] = [5; 2968];
/// Records that fill four segments of 16 KiB and begin a fifth.
const RECORDS: u64 = 16;

fn names(files: &SimulatedFiles) -> Vec<String> {
    let entries = files.list().unwrap().into_iter();
    entries.map(|entry| entry.name).collect()
}

fn segments(files: &SimulatedFiles) -> usize {
    let is_segment = |name: &&String| name.ends_with(".segment");
    names(files).iter().filter(is_segment).count()
}

fn fill(journal: &Journal, records: u64) -> u64 {
    for _ in 0..records {
        journal.submit(&RECORD).unwrap();
    }
    journal.sync().unwrap()
}

fn open_with(files: &SimulatedFiles, options: Options, applied_lsn: u64) -> Journal {
    let files = Arc::new(files.clone());
    Journal::open(files, options, identity(), applied_lsn, Owner::new()).unwrap()
}

#[test]
fn a_segment_that_could_not_be_freed_is_freed_before_the_next_one() {
    let faults = [NameFault::Io, NameFault::NoDescriptor, NameFault::IoButDone];
    // Renamed or removed; then the directory is synced.
    for (fault, call, spares) in faults
        .into_iter()
        .flat_map(|fault| [(fault, 0, 0), (fault, 0, 4), (fault, 1, 0), (fault, 1, 4)])
    {
        let files = SimulatedFiles::new();
        let options = Options {
            spare_segments_max: spares,
            ..options()
        };
        let journal = open_with(&files, options.clone(), 0);
        let last_lsn = fill(&journal, RECORDS);
        files.inject_name_fault(files.name_calls() + call, fault);
        let error = journal.checkpointed(last_lsn).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        let killed = files.crash(Crash::Kill, 0);
        drop(open_with(&killed, options.clone(), last_lsn));
        let freed = journal.checkpointed(last_lsn).unwrap();
        assert!(freed > 0 && segments(&files) == 1, "{fault:?} {call}");
        // The log goes on in what was freed.
        let last_lsn = fill(&journal, RECORDS);
        drop(journal);
        let journal = open_with(&files, options, last_lsn);
        assert_eq!(journal.last_lsn(), last_lsn);
    }
}

/// A life that went on after it had failed to free a segment left this.
/// Freeing a segment that is too short for a long group may fail with its name already gone. What is written afterwards must
/// not go into it: no start would find it.
#[test]
fn nothing_is_written_into_a_segment_that_was_given_up() {
    // Renamed or removed; then the directory is synced.
    for (call, fault) in [
        (0, NameFault::IoButDone),
        (0, NameFault::Io),
        (1, NameFault::Io),
    ] {
        for (spares, crash) in [
            (0, Crash::Kill),
            (4, Crash::Kill),
            (0, Crash::Drop),
            (4, Crash::Drop),
        ] {
            let files = SimulatedFiles::new();
            let options = Options {
                spare_segments_max: spares,
                ..options()
            };
            let journal = open_with(&files, options.clone(), 0);
            journal.commit(&RECORD, Level::Durable).unwrap();
            journal.prepare_segment().unwrap();
            files.inject_name_fault(files.name_calls() + call, fault);
            let refused = journal.commit(&[6; 30_000], Level::Durable).unwrap_err();
            assert!(matches!(refused, Error::SegmentUnmade { .. }), "{refused}");
            for _ in 0..RECORDS {
                journal.commit(&RECORD, Level::Durable).unwrap();
            }
            let killed = files.crash(crash, 0);
            let found = open_with(&killed, options, 0).last_lsn();
            assert_eq!(
                found,
                RECORDS + 1,
                "{fault:?} at {call}, {spares} spares, then {crash:?}"
            );
        }
    }
}

#[test]
fn segments_before_a_gap_that_the_engine_has_are_freed() {
    let files = SimulatedFiles::new();
    let journal = open_with(&files, options(), 0);
    let last_lsn = fill(&journal, RECORDS);
    journal.close().unwrap();
    let found = names(&files);
    files.remove(&found[1]).unwrap();
    // An engine that lacks what was in it cannot be helped.
    let refused = Owner::new().open(&files, 0).err();
    assert!(matches!(&refused, Some(Error::Damaged { segment, .. }) if *segment == found[1]));
    assert!(
        names(&files).contains(&found[0]),
        "a refused start changes nothing"
    );
    let journal = open_with(&files, options(), last_lsn);
    assert!(!names(&files).contains(&found[0]));
    assert_eq!(fill(&journal, 1), last_lsn + 1);
    drop(journal);
    inspect::verify(&files).unwrap();
}

/// A prepared segment is given up for a longer one that then cannot be made; its sequence is used again for another file.
#[test]
fn no_file_is_listed_twice_as_a_spare() {
    let files = SimulatedFiles::new();
    let options = Options {
        spare_segments_max: 8,
        ..options()
    };
    let journal = open_with(&files, options, 0);
    // Three segments, and a fourth one that is made ahead.
    let last_lsn = fill(&journal, 9);
    journal.prepare_segment().unwrap();
    // The prepared segment is renamed and the directory synced; then the longer one is not created.
    files.inject_name_fault(files.name_calls() + 2, NameFault::NoSpace);
    assert!(journal.submit(&[1; 20_000]).unwrap_err().is_no_space());
    // Two more spares are used before that one: the fourth segment is another file, and is freed while that one waits.
    journal.checkpointed(last_lsn).unwrap();
    let last_lsn = fill(&journal, 8);
    journal.checkpointed(last_lsn).unwrap();
    // As many segments as spares are listed, each with a file of its own.
    let first_lsn = last_lsn + 1;
    let records: Vec<_> = (0..24u8).map(|number| vec![number; 3000]).collect();
    for record in &records {
        journal.submit(record).unwrap();
    }
    assert_eq!(journal.sync().unwrap(), last_lsn + 24);
    let mut reader = journal.read(first_lsn).unwrap();
    for record in &records {
        let read = reader.next().unwrap().map(|(_, payload)| payload.to_vec());
        assert_eq!(read.as_ref(), Some(record));
    }
    drop(journal);
    let owner = Owner::new();
    owner.open(&files, last_lsn).unwrap();
    assert!(owner.records().iter().map(|(_, found)| found).eq(&records));
}

/// Nothing was written, so nothing is in doubt: the write is refused, and the next one goes on.
#[test]
fn a_segment_that_cannot_be_made_does_not_latch() {
    for fault in [NameFault::NoDescriptor, NameFault::Io, NameFault::IoButDone] {
        // Created, renamed, and the directory synced.
        for call in 0..3 {
            let files = SimulatedFiles::new();
            let owner = Owner::new();
            let journal = owner.open(&files, 0).unwrap();
            fill(&journal, 4);
            files.inject_name_fault(files.name_calls() + call, fault);
            let error = journal.submit(&RECORD).unwrap_err();
            assert!(
                matches!(error, Error::SegmentUnmade { .. }) && error.is_retryable(),
                "{error}"
            );
            assert!(!journal.is_latched());
            assert_eq!(journal.submit(&RECORD).unwrap().lsn, 5);
            drop(journal);
            let found = Owner::new();
            found.open(&files, 0).unwrap();
            assert_eq!(found.records(), owner.records());
        }
    }
}

#[test]
fn a_segment_that_cannot_be_made_ahead_is_tried_again() {
    let files = SimulatedFiles::new();
    let journal = open_with(&files, options(), 0);
    fill(&journal, 3);
    files.inject_name_fault(files.name_calls(), NameFault::NoDescriptor);
    assert!(journal.prepare_segment().is_err());
    assert!(!journal.is_latched());
    fill(&journal, 1);
    journal.prepare_segment().unwrap();
    let calls = files.name_calls();
    fill(&journal, 1);
    assert_eq!(files.name_calls(), calls, "going on in it opens nothing");

    // The same by the thread whose work it is.
    let files = SimulatedFiles::new();
    let background = Options {
        background: true,
        ..options()
    };
    let journal = open_with(&files, background, 0);
    files.inject_name_fault(files.name_calls(), NameFault::NoDescriptor);
    journal.submit(&RECORD).unwrap();
    journal.submit(&RECORD).unwrap();
    journal.submit(&RECORD).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while files.content("0000000002.segment").is_none() {
        assert!(!journal.is_latched() && Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[test]
fn a_segment_that_is_waited_for_is_reserved_and_one_made_ahead_has_zeros() {
    let files = SimulatedFiles::new();
    let journal = open_with(&files, options(), 0);
    let segment_bytes = options().segment_bytes;
    let records_bytes = |records: u64| records * RECORD.len() as u64;
    let before = files.bytes_written();
    // Segment after segment becomes full, and nobody has made the next one ahead.
    let last_lsn = fill(&journal, RECORDS);
    let beside_records = files.bytes_written() - before - records_bytes(RECORDS);
    let made_late = segments(&files) as u64 - 1;
    assert!(made_late >= 3);
    // The ends of pages behind the records, and no zeros in their place before.
    assert!(
        beside_records < made_late * segment_bytes,
        "{beside_records}"
    );
    for entry in files.list().unwrap() {
        assert_eq!(entry.bytes, segment_bytes, "{}", entry.name);
    }
    let before = files.bytes_written();
    journal.prepare_segment().unwrap();
    let written = files.bytes_written() - before;
    assert!(written >= segment_bytes, "{written}");
    // Whatever a loss of power does to a reserved segment, what was synced is there.
    for (seed, crash) in (0..10).flat_map(|seed| [(seed, Crash::Drop), (seed, Crash::Tear)]) {
        let crashed = files.crash(crash, seed);
        let owner = Owner::new();
        let again = Journal::open(Arc::new(crashed), options(), identity(), 0, owner.clone());
        drop(again.unwrap());
        assert_eq!(owner.records().len() as u64, last_lsn);
    }
}

#[test]
fn a_long_journal_takes_few_descriptors() {
    let directory = std::env::temp_dir().join(format!("quarry-descriptors-{}", std::process::id()));
    let path = directory.clone();
    let descriptors = move || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        targets.filter(|target| target.starts_with(&path)).count()
    };
    let open = |applied_lsn| {
        let files = Arc::new(RealFiles::open(&directory).unwrap());
        Journal::open(files, options(), identity(), applied_lsn, Owner::new()).unwrap()
    };
    let journal = open(0);
    let last_lsn = fill(&journal, 200);
    // The directory, its lock, and the segment that is written.
    assert_eq!(descriptors(), 3);
    journal.prepare_segment().unwrap();
    assert_eq!(descriptors(), 4);
    let mut reader = journal.read(1).unwrap();
    while reader.next().unwrap().is_some() {}
    assert_eq!(descriptors(), 5);
    drop(reader);
    drop(journal);
    assert_eq!(descriptors(), 0);
    for applied_lsn in [0, last_lsn] {
        let journal = open(applied_lsn);
        assert_eq!(descriptors(), 3);
        assert_eq!(journal.last_lsn(), last_lsn);
        drop(journal);
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// A reader that is in a segment keeps it; one that comes for a segment that is gone is told so.
#[test]
fn a_reader_outlives_the_segment_that_it_reads() {
    let files = SimulatedFiles::new();
    let journal = open_with(&files, options(), 0);
    let last_lsn = fill(&journal, RECORDS);
    let mut reader = journal.read(1).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().0, 1);
    journal.checkpointed(last_lsn).unwrap();
    journal.commit(&RECORD, Level::Durable).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().0, 2);
    assert!(matches!(
        journal.read(1).err(),
        Some(Error::HistoryMissing { .. })
    ));
}
