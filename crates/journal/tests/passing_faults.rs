//! Every list, open, creation, rename, removal and directory sync of a workload fails once. The journal goes on, nothing
//! that was acknowledged is lost, and the next start succeeds, whether the process is then killed or the power fails.

mod owner;

use std::collections::BTreeMap;
use std::sync::Arc;

use owner::{Owner, identity, options};
use quarry_journal::files::simulated::{Crash, NameFault};
use quarry_journal::{Error, Hooks, Journal, Level, Options, SimulatedFiles};

const FAULTS: [NameFault; 4] = [
    NameFault::Io,
    NameFault::NoDescriptor,
    NameFault::NoSpace,
    NameFault::IoButDone,
];
const CRASHES: [Crash; 3] = [Crash::Kill, Crash::Drop, Crash::Reorder];

/// The records that were acknowledged.
#[derive(Default)]
struct Promises {
    records: BTreeMap<u64, Vec<u8>>,
    durable_lsn: u64,
    checkpointed_lsn: u64,
}

fn open(files: &SimulatedFiles, applied_lsn: u64, owner: &Arc<Owner>) -> Result<Journal, Error> {
    let options = Options {
        segment_bytes: 8 * 1024,
        spare_segments_max: 1,
        retain_ms: 3_600_000,
        retain_bytes_max: 3 * 8 * 1024,
        ..options()
    };
    let hooks: Arc<dyn Hooks> = owner.clone();
    Journal::open(
        Arc::new(files.clone()),
        options,
        identity(),
        applied_lsn,
        hooks,
    )
}

/// A fault is answered once: the same call again succeeds.
fn again<T>(mut call: impl FnMut() -> Result<T, Error>) -> T {
    match call() {
        Ok(done) => done,
        Err(error) => {
            let is_unmade = matches!(error, Error::SegmentUnmade { .. } | Error::NoSpace { .. });
            let is_expected = is_unmade || matches!(error, Error::Io { .. });
            assert!(is_expected, "{error}");
            call().unwrap()
        }
    }
}

fn commit(journal: &Journal, promises: &mut Promises, bytes: usize, level: Level) {
    let payload = vec![promises.records.len() as u8; bytes];
    let committed = again(|| journal.commit(&payload, level));
    assert!(!journal.is_latched(), "no record was touched");
    promises.records.insert(committed.lsn, payload);
    if level == Level::Durable {
        promises.durable_lsn = committed.lsn;
    }
}

/// Commits a group that no segment made ahead of need has room for. If it is refused, others go on with short ones until the
/// next segment is begun, and it is not tried again.
fn commit_long(journal: &Journal, promises: &mut Promises) {
    let payload = vec![promises.records.len() as u8; 12_000];
    match journal.commit(&payload, Level::Written) {
        Ok(committed) => {
            promises.records.insert(committed.lsn, payload);
        }
        Err(error) => {
            assert!(
                matches!(error, Error::SegmentUnmade { .. } | Error::NoSpace { .. }),
                "{error}"
            );
            for _ in 0..6 {
                commit(journal, promises, 1500, Level::Durable);
            }
        }
    }
}

/// Two lives with segments made ahead of need and not, a group longer than a segment, checkpoints, and readers.
fn work(files: &SimulatedFiles) -> Promises {
    let mut promises = Promises::default();
    for life in 0..2 {
        let applied_lsn = promises.checkpointed_lsn;
        let journal = again(|| open(files, applied_lsn, &Owner::new()));
        for round in 0..2 {
            for number in 0..4 {
                let level = [Level::Written, Level::Durable][number % 2];
                commit(&journal, &mut promises, 1500, level);
            }
            let _ = journal.prepare_segment();
            if round == life {
                commit_long(&journal, &mut promises);
            }
            let from_lsn = promises.checkpointed_lsn + 1;
            again(|| {
                let mut reader = journal.read(from_lsn)?;
                let mut next_lsn = from_lsn;
                while let Some((lsn, payload)) = reader.next()? {
                    assert_eq!((lsn, payload), (next_lsn, &promises.records[&lsn][..]));
                    next_lsn += 1;
                }
                assert_eq!(next_lsn, journal.last_lsn() + 1);
                Ok(())
            });
            let lsn = journal.sync().unwrap();
            (promises.durable_lsn, promises.checkpointed_lsn) = (lsn, lsn);
            again(|| journal.checkpointed(lsn));
        }
        commit(&journal, &mut promises, 700, Level::Written);
        if life == 0 {
            journal.close().unwrap();
        } else {
            files.fail_syncs(true);
            drop(journal);
            files.fail_syncs(false);
        }
    }
    promises
}

fn check(files: &SimulatedFiles, promises: &Promises, crash: Crash, context: &str) {
    let owner = Owner::new();
    let journal = open(files, promises.checkpointed_lsn, &owner);
    let journal = journal.unwrap_or_else(|error| panic!("{context}: {error}"));
    let promised_lsn = match crash {
        Crash::Kill => *promises.records.keys().next_back().unwrap(),
        _ => promises.durable_lsn,
    };
    assert!(journal.last_lsn() >= promised_lsn, "{context}");
    for (lsn, payload) in owner.records() {
        assert_eq!(promises.records[&lsn], payload, "{context}");
    }
    journal.commit(b"goes on", Level::Durable).unwrap();
}

#[test]
fn a_fault_of_any_call_passes() {
    let calls = {
        let files = SimulatedFiles::new();
        work(&files);
        files.name_calls()
    };
    assert!(calls > 60, "{calls} calls");
    for fault in FAULTS {
        for call in 0..calls {
            let files = SimulatedFiles::new();
            files.inject_name_fault(call, fault);
            let promises = work(&files);
            let crash = CRASHES[call as usize % CRASHES.len()];
            {
                let context = format!("{fault:?} at call {call}, then {crash:?}");
                check(&files.crash(crash, call), &promises, crash, &context);
            }
        }
    }
}
