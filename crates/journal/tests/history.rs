//! The stamps of groups: one history over restarts and crashes, in which times never fall, and in which a record is found
//! by its time.

mod owner;

use std::ops::ControlFlow;

use owner::{Owner, identity, options};
use quarry_journal::files::simulated::Crash;
use quarry_journal::{Error, Journal, Level, Options, SimulatedFiles, inspect};

const RECORD: [u8; 400] = [3; 400];

/// The cluster times of all records, from the groups as they are read back.
fn times(journal: &Journal) -> Vec<u64> {
    let mut groups = journal.log().read(journal.first_lsn()).unwrap();
    let mut times = Vec::new();
    while let Some(payloads) = groups.next_group().unwrap() {
        times.extend((0..payloads.len() as u64).map(|record| payloads.cluster_time() + record));
    }
    times
}

#[test]
fn indexes_are_dense_and_times_rise_over_lives_and_crashes() {
    let mut files = SimulatedFiles::new();
    let mut last_time = 0;
    for life in 0..6u64 {
        let owner = Owner::new();
        owner.set_trailer(life % 2 == 0);
        let journal = owner.open(&files, 0).unwrap();
        assert_eq!(journal.cluster_time(), last_time, "life {life}");
        for number in 0..40 {
            let level = [Level::Written, Level::Durable][number % 2];
            journal.commit(&RECORD, level).unwrap();
        }
        // One client knows of a later time than this machine's clock.
        assert!(journal.advance_cluster_time(journal.cluster_time() + (1 << 32)));
        journal.submit(&RECORD).unwrap();
        let times = times(&journal);
        assert!(times.is_sorted_by(|a, b| a < b), "life {life}");
        assert_eq!(times.last(), Some(&journal.cluster_time()));
        assert!(
            journal.cluster_time() >> 32 > last_time >> 32,
            "life {life}"
        );
        let verified = inspect::verify(&files).unwrap();
        let groups: u64 = verified.segments.iter().map(|segment| segment.groups).sum();
        assert_eq!(verified.stamp.index, groups - life / 2);
        last_time = journal.cluster_time();
        // Every second life closes, and leaves a mark that is no group of the history.
        match life % 2 {
            0 => files = files.crash(Crash::Kill, life),
            _ => journal.close().unwrap(),
        }
    }
}

#[test]
fn the_newest_segment_alone_tells_the_place_in_the_history() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    for _ in 0..60 {
        journal.submit(&RECORD).unwrap();
    }
    let (lsn, time) = (journal.sync().unwrap(), journal.cluster_time());
    let files = files.crash(Crash::Kill, 0);
    // This life writes nothing and frees all that came before it.
    let journal = Owner::new().open(&files, lsn).unwrap();
    journal.checkpointed(lsn).unwrap();
    assert_eq!(journal.first_lsn(), 0);
    let files = files.crash(Crash::Kill, 0);
    let journal = Owner::new().open(&files, lsn).unwrap();
    assert_eq!(journal.cluster_time(), time);
    assert_eq!(journal.log().stamp().unwrap().index, 60);
    journal.submit(&RECORD).unwrap();
    assert!(journal.cluster_time() > time);
}

/// A group becomes visible as a whole, so it has one time for all who wrote it: that of its last record.
#[test]
fn every_writer_is_told_the_time_of_its_group() {
    const WRITERS: usize = 8;
    let owner = Owner::new();
    owner.set_trailer(true);
    let journal = owner.open(&SimulatedFiles::new(), 0).unwrap();
    let begin = std::sync::Barrier::new(WRITERS);
    let tickets: Vec<_> = std::thread::scope(|scope| {
        let write = || {
            begin.wait();
            let submit = |_| journal.submit(&RECORD).unwrap();
            (0..100).map(submit).collect::<Vec<_>>()
        };
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        let tickets = writers.into_iter().map(|writer| writer.join().unwrap());
        tickets.flatten().collect()
    });
    let mut groups = journal.log().read(1).unwrap();
    let mut read = Vec::new();
    while let Some(payloads) = groups.next_group().unwrap() {
        let time = payloads.group_cluster_time();
        read.push((payloads.first_lsn(), payloads.last_lsn(), time));
        for time in [payloads.cluster_time(), time] {
            let found = journal.first_since(time).unwrap();
            assert_eq!(found, Some(payloads.first_lsn()));
        }
    }
    for ticket in tickets {
        let at = read.partition_point(|&(_, last_lsn, _)| last_lsn < ticket.lsn);
        assert!(read[at].0 <= ticket.lsn);
        assert_eq!(ticket.cluster_time, read[at].2);
    }
}

#[test]
fn a_record_is_found_by_its_time() {
    let files = SimulatedFiles::new();
    let options = Options {
        segment_bytes: 64 * 1024,
        ..options()
    };
    let open = |applied_lsn| {
        let files = std::sync::Arc::new(files.clone());
        Journal::open(
            files,
            options.clone(),
            identity(),
            applied_lsn,
            Owner::new(),
        )
        .unwrap()
    };
    let journal = open(0);
    assert_eq!(journal.first_since(1).unwrap(), None);
    let mut expected = Vec::new();
    for number in 0..400 {
        if number % 7 == 0 {
            assert!(journal.advance_cluster_time(journal.cluster_time() + (3 << 32)));
        }
        let lsn = journal.submit(&RECORD).unwrap().lsn;
        expected.push((journal.cluster_time(), lsn));
    }
    let check = |journal: &Journal, expected: &[(u64, u64)]| {
        for (number, &(time, lsn)) in expected.iter().enumerate() {
            assert_eq!(journal.first_since(time).unwrap(), Some(lsn));
            if number > 0 {
                // No other record has the time right before, unless it is the one before.
                let before = journal.first_since(time - 1).unwrap();
                assert!(before == Some(lsn) || expected[number - 1] == (time - 1, lsn - 1));
            }
            assert_eq!(journal.read(lsn).unwrap().next().unwrap().unwrap().0, lsn);
        }
        assert_eq!(
            journal.first_since(journal.cluster_time() + 1).unwrap(),
            None
        );
    };
    check(&journal, &expected);
    assert_eq!(journal.first_since(0).unwrap(), Some(1));
    let lsn = journal.sync().unwrap();
    drop(journal);
    // Segments that the start did not read have no marks, and are found all the same.
    let journal = open(lsn);
    check(&journal, &expected);
    journal.checkpointed(lsn / 2).unwrap();
    let first_lsn = journal.first_lsn();
    assert!(first_lsn > 100);
    check(&journal, &expected[first_lsn as usize - 1..]);
    for time in [0, expected[0].0, expected[first_lsn as usize - 3].0] {
        let error = journal.first_since(time).unwrap_err();
        assert!(matches!(error, Error::HistoryMissing { .. }), "{error}");
    }
}

#[test]
fn a_time_far_ahead_of_the_clock_is_not_taken_over() {
    let journal = Owner::new().open(&SimulatedFiles::new(), 0).unwrap();
    journal.submit(&RECORD).unwrap();
    let time = journal.cluster_time();
    for too_far in [time + (40_000_000 << 32), u64::MAX] {
        assert!(!journal.advance_cluster_time(too_far));
    }
    journal.submit(&RECORD).unwrap();
    assert!(journal.cluster_time() >> 32 <= (time >> 32) + 1000);
}

/// The engine was further than the journal, whose next life begins behind what was lost.
#[test]
fn a_position_in_a_recorded_gap_is_history_missing() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    for _ in 0..3 {
        journal.submit(&RECORD).unwrap();
    }
    journal.sync().unwrap();
    let files = files.crash(Crash::Kill, 0);
    let journal = Owner::new().open(&files, 9).unwrap();
    let is_missing = |journal: &Journal, lsn| {
        let mut groups = journal.log().read(lsn).unwrap();
        let group = groups.next_group();
        matches!(group, Err(Error::HistoryMissing { .. }))
    };
    for lsn in 4..10 {
        assert!(
            is_missing(&journal, lsn),
            "{lsn}, before the first group behind the gap"
        );
    }
    journal.submit(&RECORD).unwrap();
    // Whoever reads on meets what comes behind the gap, and sees that it is not what was asked for.
    for lsn in 4..11 {
        let mut groups = journal.log().read(lsn).unwrap();
        assert_eq!(groups.next_group().unwrap().unwrap().first_lsn(), 10);
    }
}

/// Nobody knows the times of records that only an engine has. Each of them is before the time that the journal goes on
/// from, however soon one such start follows another.
#[test]
fn a_time_that_lost_records_may_have_is_history_missing() {
    let open = |files: &SimulatedFiles, applied_lsn| {
        let journal = Owner::new().open(files, applied_lsn).unwrap();
        let behind = journal.cluster_time();
        (journal, behind)
    };
    let is_missing = |journal: &Journal, time| {
        let first = journal.first_since(time);
        matches!(first, Err(Error::HistoryMissing { .. }))
    };
    let mut files = SimulatedFiles::new();
    let (journal, _) = open(&files, 0);
    journal.submit(&RECORD).unwrap();
    files = files.crash(Crash::Drop, 0);
    let (journal, first_behind) = open(&files, 1);
    assert!(is_missing(&journal, 0), "nothing is left before the gap");
    assert!(is_missing(&journal, first_behind));
    assert_eq!(journal.first_since(first_behind + 1).unwrap(), None);
    // Nothing more is lost by a start that only repeats it: whoever waits behind the gap goes on.
    files = files.crash(Crash::Kill, 0);
    let (journal, behind) = open(&files, 1);
    assert_eq!(behind, first_behind);
    journal.submit(&RECORD).unwrap();
    assert!(journal.cluster_time() > behind);
    files = files.crash(Crash::Drop, 0);
    let (journal, behind) = open(&files, 2);
    assert!(is_missing(&journal, first_behind + 1), "record 2 had it");
    for lsn in 3..5 {
        assert_eq!(journal.submit(&RECORD).unwrap().lsn, lsn);
        assert_eq!(journal.first_since(behind + 1).unwrap(), Some(3));
    }
    let kept = journal.cluster_time();
    journal.sync().unwrap();
    files = files.crash(Crash::Kill, 0);
    let (journal, _) = open(&files, 9);
    let check = |journal: &Journal, behind| {
        assert_eq!(journal.first_since(behind + 1).unwrap(), None);
        assert_eq!(journal.first_since(kept).unwrap(), Some(4));
        assert!(is_missing(journal, kept + 1) && is_missing(journal, behind));
    };
    check(&journal, journal.cluster_time());
    let behind = journal.cluster_time();
    let lsn = journal.submit(&RECORD).unwrap().lsn;
    assert!(is_missing(&journal, behind));
    journal.sync().unwrap();
    files = files.crash(Crash::Kill, 0);
    let (journal, _) = open(&files, lsn);
    assert_eq!(journal.first_since(behind + 1).unwrap(), Some(lsn));
    assert!(is_missing(&journal, kept + 1) && is_missing(&journal, behind));

    // The gap is remembered where the segment behind it is the only one left and holds nothing.
    files = files.crash(Crash::Kill, 0);
    let (journal, behind) = open(&files, lsn + 7);
    assert!(journal.checkpointed(lsn + 7).unwrap() > 0);
    assert_eq!(journal.first_lsn(), 0);
    files = files.crash(Crash::Kill, 0);
    let (journal, still_behind) = open(&files, lsn + 7);
    assert_eq!(still_behind, behind);
    journal.submit(&RECORD).unwrap();
    assert!(is_missing(&journal, behind));
    assert_eq!(journal.first_since(behind + 1).unwrap(), Some(lsn + 8));
}

/// The end of one segment was lost and the beginning of the next one was not, all of it unsynced; the engine has it all, and
/// needs only what comes behind. The log ends before the hole, and no durable record is missing in it.
#[test]
fn a_hole_before_the_segment_that_an_engine_ahead_needs_ends_the_log() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    for _ in 0..3 {
        journal.submit(&RECORD).unwrap();
    }
    let durable_lsn = journal.sync().unwrap();
    let mut last_lsn = durable_lsn;
    while files.content("0000000003.segment").is_none() {
        last_lsn = journal.submit(&RECORD).unwrap().lsn;
    }
    let files = files.crash(Crash::Kill, 0);
    let mut groups = Vec::new();
    inspect::dump(&files, 0, &mut |group| {
        groups.push((group.segment.to_owned(), group.offset, group.header));
        ControlFlow::Continue(())
    })
    .unwrap();
    let last = groups.pop().unwrap();
    let (segment, offset, lost) = groups.pop().unwrap();
    assert_eq!(
        [&*segment, &*last.0],
        ["0000000002.segment", "0000000003.segment"]
    );
    assert!(lost.first_lsn > durable_lsn);
    let mut content = files.content(&segment).unwrap();
    let place = offset as usize..offset as usize + lost.group_bytes() as usize;
    content[place].fill(0);
    files.replace(&segment, content);

    let journal = Owner::new().open(&files, last_lsn).unwrap();
    assert_eq!(journal.submit(&RECORD).unwrap().lsn, last_lsn + 1);
    let read = |lsn| {
        journal
            .log()
            .read(lsn)
            .unwrap()
            .next_group()
            .map(|group| group.unwrap().first_lsn())
    };
    assert_eq!(read(lost.first_lsn - 1).unwrap(), lost.first_lsn - 1);
    for lsn in lost.first_lsn..=last_lsn {
        // What comes behind the gap is not what was asked for.
        assert_eq!(read(lsn).unwrap(), last_lsn + 1);
    }
    drop(journal);
    let verified = inspect::verify(&files).unwrap();
    assert_eq!(verified.last_lsn, last_lsn + 1);
}
