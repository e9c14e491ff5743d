//! The journal on a log that refuses, delays, reorders and forgets, and the trait over the local files.

mod owner;

use std::sync::Arc;
use std::time::{Duration, Instant};

use owner::{Owner, Record, options};
use quarry_journal::{
    Error, Journal, Level, Log, LogTicket, MemoryLog, Result, SimulatedFiles, Stage, Trouble,
};

fn open_on(log: &MemoryLog, owner: &Arc<Owner>, applied_lsn: u64) -> Result<Journal> {
    Journal::open_on(Arc::new(log.clone()), options(), applied_lsn, owner.clone())
}

/// The content of the log, record by record.
fn content(log: &dyn Log) -> Vec<Record> {
    let mut reader = log.read(1).unwrap();
    let mut records = Vec::new();
    while let Some(payloads) = reader.next_group().unwrap() {
        records.extend(
            payloads
                .iter()
                .map(|(lsn, payload)| (lsn, payload.to_vec())),
        );
    }
    records
}

fn wait_until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came");
        std::thread::yield_now();
    }
}

#[test]
fn records_are_committed_read_and_replayed_over_any_log() {
    let log = MemoryLog::new();
    let owner = Owner::new();
    let journal = open_on(&log, &owner, 0).unwrap();
    for number in 0..100u32 {
        let level = if number % 9 == 0 {
            Level::Durable
        } else {
            Level::Written
        };
        let lsn = journal.commit(&number.to_le_bytes(), level).unwrap().lsn;
        assert_eq!(lsn, u64::from(number) + 1);
        assert!(level == Level::Written || journal.durable_lsn() >= lsn);
    }
    assert_eq!((journal.first_lsn(), journal.last_lsn()), (1, 100));
    let mut reader = journal.read(60).unwrap();
    assert_eq!(reader.next().unwrap(), Some((60, &59u32.to_le_bytes()[..])));
    journal.close().unwrap();
    assert_eq!(log.durable_lsn(), 100);
    let again = Owner::new();
    let journal = open_on(&log, &again, 40).unwrap();
    assert_eq!(journal.replayed(), 60);
    assert_eq!(again.records(), owner.records()[40..]);
    assert_eq!(journal.submit(b"next").unwrap().lsn, 101);
}

#[test]
fn nothing_is_applied_before_the_log_accepts_it() {
    let log = MemoryLog::new();
    let owner = Owner::new();
    let journal = open_on(&log, &owner, 0).unwrap();
    log.trouble(Trouble::Delay);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| journal.submit(b"held back").unwrap().lsn);
        wait_until(|| log.delayed() == 1);
        assert!(owner.records().is_empty() && journal.last_lsn() == 0);
        assert_eq!(journal.read(1).unwrap().next().unwrap(), None);
        log.deliver(0);
        assert_eq!(writer.join().unwrap(), 1);
    });
    assert_eq!(owner.records(), [(1, b"held back".to_vec())]);
}

#[test]
fn a_refused_group_leaves_no_trace() {
    let log = MemoryLog::new();
    let owner = Owner::new();
    let journal = open_on(&log, &owner, 0).unwrap();
    journal.submit(b"first").unwrap();
    log.trouble(Trouble::Refuse);
    let error = journal.submit(b"refused").unwrap_err();
    assert!(
        error.is_no_space() && !error.is_outcome_unknown(),
        "{error}"
    );
    assert!(!journal.is_latched());
    assert_eq!(journal.submit(b"second").unwrap().lsn, 2);
    assert_eq!(content(&log), owner.records());
}

/// Whether the group arrived is not known: the node stops writing, and a restart finds out.
#[test]
fn a_lost_answer_is_an_unknown_outcome_until_a_restart() {
    for (trouble, kept) in [(Trouble::LoseAnswer, 2), (Trouble::LoseGroup, 1)] {
        let log = MemoryLog::new();
        let owner = Owner::new();
        let journal = open_on(&log, &owner, 0).unwrap();
        journal.submit(b"first").unwrap();
        log.trouble(trouble);
        let error = journal.submit(b"in doubt").unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        assert_eq!(owner.records().len(), 1, "what is in doubt is not applied");
        assert!(journal.is_latched());
        assert!(matches!(
            journal.submit(b"later"),
            Err(Error::Latched { .. })
        ));
        let again = Owner::new();
        let journal = open_on(&log, &again, 1).unwrap();
        assert_eq!(journal.replayed(), kept - 1);
        assert_eq!(journal.submit(b"goes on").unwrap().lsn, kept + 1);
    }
}

#[test]
fn a_node_that_was_overtaken_stops_and_writes_nothing() {
    let log = MemoryLog::new();
    let stale = open_on(&log, &Owner::new(), 0).unwrap();
    stale.submit(b"one").unwrap();
    let owner = Owner::new();
    let journal = open_on(&log, &owner, 0).unwrap();
    journal.submit(b"two").unwrap();
    let error = stale.submit(b"never").unwrap_err();
    let moved = Error::PositionMoved {
        expected_lsn: 2,
        next_lsn: 3,
    };
    assert_eq!(error, moved);
    assert!(stale.is_latched());
    journal.submit(b"three").unwrap();
    assert_eq!(content(&log), owner.records());
}

#[test]
fn of_two_groups_for_one_position_the_first_to_arrive_wins() {
    let log = MemoryLog::new();
    let owners = [Owner::new(), Owner::new()];
    let journals = [
        open_on(&log, &owners[0], 0).unwrap(),
        open_on(&log, &owners[1], 0).unwrap(),
    ];
    log.trouble_after(0, Trouble::Delay);
    log.trouble_after(1, Trouble::Delay);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| journals[0].submit(b"sent first").map(|ticket| ticket.lsn));
        wait_until(|| log.delayed() == 1);
        let second = scope.spawn(|| journals[1].submit(b"sent second").map(|ticket| ticket.lsn));
        wait_until(|| log.delayed() == 2);
        log.deliver(1);
        assert_eq!(second.join().unwrap(), Ok(1));
        log.deliver(0);
        let late = first.join().unwrap().unwrap_err();
        assert!(matches!(late, Error::PositionMoved { .. }), "{late}");
    });
    assert!(owners[0].records().is_empty());
    assert_eq!(content(&log), [(1, b"sent second".to_vec())]);
}

#[test]
fn a_log_that_cannot_make_durable_is_not_asked_twice() {
    let log = MemoryLog::new();
    let journal = open_on(&log, &Owner::new(), 0).unwrap();
    log.fail_syncs(true);
    let error = journal.commit(b"written", Level::Durable).unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    log.fail_syncs(false);
    assert!(journal.is_latched());
    assert!(matches!(
        journal.commit(b"later", Level::Durable),
        Err(Error::Latched { .. })
    ));
    assert_eq!(journal.durable_lsn(), 0);
}

#[test]
fn the_local_log_is_read_and_waited_for_through_the_trait() {
    let owner = Owner::new();
    let journal = owner.open(&SimulatedFiles::new(), 0).unwrap();
    for number in 0..200u32 {
        journal.submit(&[number as u8; 300]).unwrap();
    }
    let log = journal.log();
    assert_eq!(content(&*log), owner.records());
    assert_eq!((log.first_lsn(), log.durable_lsn()), (1, 0));
    log.wait(&LogTicket::up_to(150), Stage::Accepted).unwrap();
    log.wait(&LogTicket::up_to(150), Stage::Durable).unwrap();
    assert!(log.durable_lsn() >= 150);
    let mut reader = log.read(200).unwrap();
    assert_eq!(reader.next_group().unwrap().unwrap().last_lsn(), 200);
    assert!(reader.next_group().unwrap().is_none());
    journal.submit(b"one more").unwrap();
    assert_eq!(reader.next_group().unwrap().unwrap().first_lsn(), 201);
}
