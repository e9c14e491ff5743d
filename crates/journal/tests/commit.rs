//! Committing, reading back, replay, levels, and the background.

mod owner;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use owner::{Owner, identity, options};
use parking_lot::Mutex;
use quarry_journal::{
    Error, Files, GroupBuilder, HookError, HookErrorKind, Hooks, Journal, Level, Options, Payloads,
    RealFiles, SimulatedFiles, Until,
};

#[test]
fn records_come_back_in_order_after_a_restart() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).expect("a new journal");
    for number in 0..300u32 {
        let level = if number % 7 == 0 {
            Level::Durable
        } else {
            Level::Written
        };
        let committed = journal.commit(&number.to_le_bytes(), level).unwrap();
        assert_eq!(committed.lsn, u64::from(number) + 1);
    }
    assert_eq!(journal.last_lsn(), 300);
    assert!(journal.durable_lsn() >= 295);
    journal.close().unwrap();
    let again = Owner::new();
    let journal = again.open(&files, 0).unwrap();
    assert_eq!(journal.replayed(), 300);
    assert_eq!(again.records(), owner.records());
    assert_eq!(journal.commit(b"next", Level::Written).unwrap().lsn, 301);
    drop(journal);
    let later = Owner::new();
    assert_eq!(later.open(&files, 250).unwrap().replayed(), 51);
}

#[test]
fn many_writers_share_groups_and_lose_nothing() {
    let directory =
        std::env::temp_dir().join(format!("quarry-journal-commit-{}", std::process::id()));
    let owner = Owner::new();
    let files = Arc::new(RealFiles::open(&directory).unwrap());
    let options = quarry_journal::Options {
        background: true,
        segment_bytes: 256 * 1024,
        ..options()
    };
    let hooks = Arc::clone(&owner);
    let journal = Journal::open(files.clone(), options.clone(), identity(), 0, hooks).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..8u32 {
            let journal = &journal;
            scope.spawn(move || {
                for number in 0..500u32 {
                    let mut payload = [writer.to_le_bytes(), number.to_le_bytes()].concat();
                    if number % 200 == 50 {
                        // Larger than a segment, while the next one may be made already.
                        payload.resize(300 * 1024, 7);
                    }
                    let level = if number % 10 == 0 {
                        Level::Durable
                    } else {
                        Level::Written
                    };
                    let committed = journal.commit(&payload, level).unwrap();
                    assert!(level == Level::Written || journal.durable_lsn() >= committed.lsn);
                }
            });
        }
    });
    assert_eq!(journal.last_lsn(), 4000);
    drop(journal);
    let again = Owner::new();
    let journal = Journal::open(files, options, identity(), 0, again.clone()).unwrap();
    assert_eq!(again.records(), owner.records());
    drop(journal);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn writers_that_go_on_are_acknowledged_later() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    let pending: Vec<_> = (0..100u32)
        .map(|n| {
            journal
                .submit_async(&n.to_le_bytes(), Level::Written)
                .unwrap()
        })
        .collect();
    let critical = journal.submit_async(b"critical", Level::Durable).unwrap();
    assert_eq!(journal.wait(&critical).unwrap().lsn, 101);
    assert!(journal.durable_lsn() >= 101);
    for (index, pending) in pending.iter().enumerate() {
        assert!(journal.is_acknowledged(pending));
        assert_eq!(journal.wait(pending).unwrap().lsn, index as u64 + 1);
    }
    assert_eq!(owner.records().len(), 101);
}

#[test]
fn who_waits_does_not_overtake_who_went_on() {
    let options = quarry_journal::Options {
        // Nobody leads who goes on.
        gather_ns: u64::MAX,
        ..options()
    };
    let files = Arc::new(SimulatedFiles::new());
    let journal = Journal::open(files, options, identity(), 0, Owner::new()).unwrap();
    let (mut expected, mut groups) = (0, 0);
    for round in 0..50u64 {
        for level in [Level::Written, Level::Durable] {
            let gone_on: Vec<_> = (0..round % 4)
                .map(|_| journal.submit_async(b"first", Level::Written).unwrap())
                .collect();
            let waited_for = journal.commit(b"then", level).unwrap();
            for pending in &gone_on {
                expected += 1;
                assert_eq!(journal.wait(pending).unwrap().lsn, expected);
            }
            expected += 1;
            assert_eq!(waited_for.lsn, expected);
            // One for those who went on, if there were any, and one for who waited.
            groups += u64::from(!gone_on.is_empty()) + 1;
            assert_eq!(waited_for.report.group, groups);
        }
    }
}

/// Applies a group of several only once it is durable.
#[derive(Default)]
struct SlowEngine {
    journal: OnceLock<Weak<Journal>>,
    groups_of_several: AtomicU64,
    late: AtomicU64,
}

impl Hooks for SlowEngine {
    fn ready(&self, _bytes: usize) -> Result<(), HookError> {
        Ok(())
    }

    fn finish_group(&self, _group: &mut GroupBuilder<'_>) -> Result<(), HookError> {
        Ok(())
    }

    fn apply(&self, _first_lsn: u64, payloads: &Payloads<'_>) -> Result<(), HookError> {
        let Some(journal) = self.journal.get().and_then(Weak::upgrade) else {
            return Ok(());
        };
        if payloads.len() < 2 {
            // Time for others to come.
            (0..100).for_each(|_| std::thread::yield_now());
            return Ok(());
        }
        self.groups_of_several.fetch_add(1, Ordering::Relaxed);
        let deadline = Instant::now() + Duration::from_secs(5);
        while journal.durable_lsn() < payloads.last_lsn() {
            if Instant::now() > deadline {
                self.late.fetch_add(1, Ordering::Relaxed);
                break;
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

#[test]
fn a_group_is_synced_while_it_is_applied() {
    let engine = Arc::new(SlowEngine::default());
    let options = Options {
        background: false,
        ..options()
    };
    let files = Arc::new(SimulatedFiles::new());
    let journal = Journal::open(files, options, identity(), 0, engine.clone()).unwrap();
    let journal = Arc::new(journal);
    engine.journal.set(Arc::downgrade(&journal)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let until = [Until::Applied, Until::Synced][thread % 2];
            let journal = &journal;
            scope.spawn(move || {
                for _ in 0..50 {
                    let ticket = journal.submit_syncing(b"to sync", until).unwrap();
                    journal.wait_durable(ticket.lsn).unwrap();
                }
            });
        }
    });
    assert!(engine.groups_of_several.load(Ordering::Relaxed) > 0);
    assert_eq!(engine.late.load(Ordering::Relaxed), 0);
    assert_eq!((journal.last_lsn(), journal.durable_lsn()), (800, 800));
}

#[test]
fn a_record_submitted_through_its_sync_is_durable() {
    let options = Options {
        background: false,
        ..options()
    };
    let files = Arc::new(SimulatedFiles::new());
    let journal = Journal::open(files, options, identity(), 0, Owner::new()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..12 {
            let journal = &journal;
            scope.spawn(move || {
                for _ in 0..100 {
                    // Who asks for less shares the groups.
                    if thread % 3 == 0 {
                        journal.submit(b"written").unwrap();
                        continue;
                    }
                    let ticket = journal.submit_syncing(b"through", Until::Synced).unwrap();
                    assert!(journal.durable_lsn() >= ticket.lsn);
                }
            });
        }
    });
    assert_eq!(journal.last_lsn(), 1200);
}

#[test]
fn writers_of_all_kinds_in_one_group_go_on() {
    let options = Options {
        background: false,
        ..options()
    };
    let files = Arc::new(SimulatedFiles::new());
    let journal = Journal::open(files, options, identity(), 0, Owner::new()).unwrap();
    let journal = &journal;
    std::thread::scope(|scope| {
        // One alone that goes on when its group is applied, as an update among inserts.
        scope.spawn(move || {
            for _ in 0..3000 {
                journal.submit_syncing(b"to sync", Until::Applied).unwrap();
            }
        });
        for thread in 0..8 {
            scope.spawn(move || {
                for _ in 0..3000 {
                    match thread % 2 {
                        0 => journal.submit_syncing(b"through sync", Until::Synced),
                        _ => journal.submit(b"written"),
                    }
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(journal.last_lsn(), 27_000);
}

/// Applies a group when it is told to.
struct GatedEngine {
    begun: Mutex<Sender<()>>,
    goes_on: Mutex<Receiver<()>>,
}

impl Hooks for GatedEngine {
    fn ready(&self, _bytes: usize) -> Result<(), HookError> {
        Ok(())
    }

    fn finish_group(&self, _group: &mut GroupBuilder<'_>) -> Result<(), HookError> {
        Ok(())
    }

    fn apply(&self, _first_lsn: u64, _payloads: &Payloads<'_>) -> Result<(), HookError> {
        self.begun.lock().send(()).unwrap();
        self.goes_on.lock().recv().unwrap();
        Ok(())
    }
}

#[test]
fn a_close_waits_for_whoever_waits_to_lead() {
    for round in 0..100 {
        let options = Options {
            background: false,
            ..options()
        };
        let (begun, has_begun) = channel();
        let (go_on, goes_on) = channel();
        let engine = Arc::new(GatedEngine {
            begun: Mutex::new(begun),
            goes_on: Mutex::new(goes_on),
        });
        let files = Arc::new(SimulatedFiles::new());
        let journal = Journal::open(files, options, identity(), 0, engine).unwrap();
        let journal = &journal;
        std::thread::scope(|scope| {
            let first = scope.spawn(|| journal.submit(b"first"));
            has_begun.recv().unwrap();
            let pending = journal.submit_async(b"second", Level::Written).unwrap();
            // Whoever of the two comes first leads the second group when the first one is over.
            let second = scope.spawn(move || journal.wait(&pending));
            let closing = scope.spawn(move || {
                (0..round).for_each(|_| std::thread::yield_now());
                journal.close()
            });
            (0..round).for_each(|_| std::thread::yield_now());
            go_on.send(()).unwrap();
            has_begun.recv().unwrap();
            assert!(!closing.is_finished());
            go_on.send(()).unwrap();
            assert!(first.join().unwrap().is_ok() && second.join().unwrap().is_ok());
            assert!(closing.join().unwrap().is_ok());
        });
        assert_eq!((journal.last_lsn(), journal.durable_lsn()), (2, 2));
    }
}

#[test]
fn nothing_gathers_while_a_lone_durable_record_is_synced() {
    let options = Options {
        gather_ns: u64::MAX,
        background: false,
        ..options()
    };
    let files = Arc::new(SimulatedFiles::new());
    let journal = Journal::open(files, options, identity(), 0, Owner::new()).unwrap();
    let submit = |level| journal.submit_async(b"order", level).unwrap();

    let gathering = submit(Level::Written);
    assert!(!journal.is_acknowledged(&gathering));
    let critical = submit(Level::Durable);
    assert!(journal.is_acknowledged(&gathering), "it went along");
    assert!(!journal.is_acknowledged(&critical), "nobody has synced");
    let beside = submit(Level::Written);
    assert!(journal.is_acknowledged(&beside));
    journal.wait(&critical).unwrap();
    let after = submit(Level::Written);
    assert!(!journal.is_acknowledged(&after), "the sync is over");

    // Where durable records are frequent it is gathered as ever.
    let critical = [submit(Level::Durable), submit(Level::Durable)];
    let beside = submit(Level::Written);
    assert!(!journal.is_acknowledged(&beside));
    for pending in critical {
        journal.wait(&pending).unwrap();
    }
    journal.wait(&beside).unwrap();
    assert_eq!(journal.last_lsn(), 7);
}

#[test]
fn the_background_sync_makes_ordinary_writes_durable() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let options = quarry_journal::Options {
        background: true,
        commit_interval_ms: 5,
        ..options()
    };
    let journal = Journal::open(Arc::new(files), options, identity(), 0, owner).unwrap();
    let lsn = journal.submit(b"ordinary").unwrap().lsn;
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    while journal.durable_lsn() < lsn {
        assert!(std::time::Instant::now() < deadline, "nothing synced");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_prepared_segment_is_there_before_it_is_needed() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    let segments = || -> Vec<u64> {
        let entries = files.list().unwrap().into_iter();
        let segments = entries.filter(|entry| entry.name.ends_with(".segment"));
        segments.map(|entry| entry.bytes).collect()
    };
    assert_eq!(segments(), [options().segment_bytes]);
    journal.prepare_segment().unwrap();
    assert_eq!(segments(), [options().segment_bytes; 2]);
    journal.prepare_segment().unwrap();
    let (record, before_bytes) = (vec![7; 1000], files.bytes());
    while journal.first_lsn() == 0 || journal.live_bytes() == options().segment_bytes {
        journal.submit(&record).unwrap();
    }
    assert_eq!(
        files.bytes(),
        before_bytes,
        "writing goes on in what is there"
    );
}

#[test]
fn the_owner_adds_records_at_commit_order() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    owner.set_trailer(true);
    let journal = owner.open(&files, 0).unwrap();
    assert_eq!(journal.submit(b"one").unwrap().lsn, 1);
    assert_eq!(journal.submit(b"two").unwrap().lsn, 3);
    assert_eq!(owner.records()[3], (4, b"trailer 4".to_vec()));
    drop(journal);
    let again = Owner::new();
    again.open(&files, 0).unwrap();
    assert_eq!(again.records(), owner.records());
}

#[test]
fn a_group_that_is_not_applied_is_the_last_until_a_start_has_replayed_it() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    journal.submit(b"first").unwrap();
    owner.refuse(Some(HookError::new(
        HookErrorKind::NoSpace,
        "engine is full",
    )));
    let error = journal.submit(b"second").unwrap_err();
    assert!(matches!(error, Error::Unapplied(_)) && error.is_outcome_unknown());
    owner.refuse(None);
    assert!(journal.is_latched());
    assert!(matches!(
        journal.submit(b"third"),
        Err(Error::Latched { .. })
    ));
    assert_eq!(owner.records(), [(1, b"first".to_vec())]);
    drop(journal);
    let again = Owner::new();
    let journal = again.open(&files, 1).unwrap();
    assert_eq!(again.records(), [(2, b"second".to_vec())]);
    assert_eq!(journal.submit(b"fourth").unwrap().lsn, 3);
}

#[test]
fn a_reader_follows_the_writers() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reader = journal.read(1).unwrap();
            let mut seen = Vec::new();
            while seen.len() < 400 {
                while let Some((lsn, payload)) = reader.next().unwrap() {
                    seen.push((lsn, payload.to_vec()));
                }
                reader.wait(Duration::from_millis(50));
            }
            seen
        });
        for number in 0..400u32 {
            journal.submit(&number.to_le_bytes()).unwrap();
        }
        assert_eq!(reader.join().unwrap(), owner.records());
    });
    let mut durable = journal.read(399).unwrap().durable_only();
    assert_eq!(durable.next().unwrap(), None);
    journal.sync().unwrap();
    assert_eq!(durable.next().unwrap().unwrap().0, 399);
}

#[test]
fn a_checkpoint_frees_segments_and_keeps_the_window() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    for _ in 0..2000 {
        journal.submit(&[7; 32]).unwrap();
    }
    let before = journal.live_bytes();
    let mut slow = journal.read(1).unwrap();
    assert_eq!(slow.next().unwrap().unwrap().0, 1);
    journal.sync().unwrap();
    assert!(journal.checkpointed(1900).unwrap() > 0);
    assert!(
        journal.live_bytes() < before && journal.first_lsn() <= 1901 && journal.first_lsn() > 1
    );
    assert!(matches!(journal.read(1), Err(Error::HistoryMissing { .. })));
    for _ in 0..2000 {
        journal.submit(&[8; 32]).unwrap();
    }
    assert_eq!(slow.next().unwrap().unwrap(), (2, &[7; 32][..]));
    drop((slow, journal));
    assert!(matches!(
        Owner::new().open(&files, 0),
        Err(Error::HistoryMissing { .. })
    ));
    assert_eq!(Owner::new().open(&files, 1900).unwrap().replayed(), 2100);
}

#[test]
fn a_record_larger_than_a_segment_gets_its_own() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
    for size in [10, 100_000, 20, 70_000, 30] {
        journal
            .commit(&vec![size as u8; size], Level::Durable)
            .unwrap();
    }
    drop(journal);
    let again = Owner::new();
    again.open(&files, 0).unwrap();
    assert_eq!(again.records(), owner.records());
}

#[test]
fn a_journal_of_another_database_or_engine_is_refused() {
    let files = SimulatedFiles::new();
    drop(Owner::new().open(&files, 0).unwrap());
    for foreign in [
        quarry_journal::Identity {
            database: [9; 16],
            ..identity()
        },
        quarry_journal::Identity {
            engine: "other".to_owned(),
            ..identity()
        },
    ] {
        let result = Journal::open(Arc::new(files.clone()), options(), foreign, 0, Owner::new());
        assert!(matches!(result.err(), Some(Error::ForeignJournal { .. })));
    }
}

#[test]
fn the_retention_window_outlives_a_checkpoint() {
    let files = SimulatedFiles::new();
    let options = quarry_journal::Options {
        retain_ms: 3_600_000,
        retain_bytes_max: 96 * 1024,
        ..options()
    };
    let journal = Journal::open(Arc::new(files), options, identity(), 0, Owner::new()).unwrap();
    for _ in 0..4000 {
        journal.submit(&[7; 32]).unwrap();
    }
    assert!(journal.live_bytes() > 256 * 1024);
    journal.sync().unwrap();
    assert!(journal.checkpointed(4000).unwrap() > 0);
    assert!(journal.live_bytes() >= 64 * 1024 && journal.live_bytes() <= 96 * 1024);
    let first_lsn = journal.first_lsn();
    assert!(first_lsn > 1 && first_lsn < 3900, "{first_lsn}");
    assert_eq!(
        journal.read(first_lsn).unwrap().next().unwrap().unwrap().0,
        first_lsn
    );
}

#[test]
fn a_report_accounts_for_the_whole_commit() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    let begun = std::time::Instant::now();
    let report = journal.commit(b"timed", Level::Durable).unwrap().report;
    let wall_ns = begun.elapsed().as_nanos() as u64;
    let sum_ns = report.wait_ns + report.append_ns + report.apply_ns + report.sync_wait_ns;
    assert!(
        sum_ns > 0 && sum_ns <= wall_ns,
        "{report:?} in {wall_ns} ns"
    );
    assert!(report.append_ns > 0 && report.sync_wait_ns > 0);
    assert_eq!((report.group, report.group_writers), (1, 1));
}

#[test]
fn an_open_does_not_wait_for_a_whole_segment_of_zeros() {
    let files = SimulatedFiles::new();
    let options = quarry_journal::Options {
        segment_bytes: 16 * 1024 * 1024,
        background: true,
        ..options()
    };
    let owner = Owner::new();
    let open = |owner: &Arc<Owner>| {
        let files = Arc::new(files.clone());
        Journal::open(files, options.clone(), identity(), 0, owner.clone()).unwrap()
    };
    let journal = open(&owner);
    assert_eq!(journal.live_bytes(), 8 * 1024 * 1024);
    for number in 0..11u8 {
        journal
            .commit(&vec![number; 1024 * 1024], Level::Written)
            .unwrap();
    }
    assert!(
        journal.live_bytes() >= 24 * 1024 * 1024,
        "a whole one follows"
    );
    drop(journal);
    let again = Owner::new();
    drop(open(&again));
    assert!(again.records() == owner.records());
}

#[test]
fn large_groups_are_compressed_and_come_back() {
    let files = SimulatedFiles::new();
    let owner = Owner::new();
    let open = |compress_above_bytes, owner: &Arc<Owner>| {
        let options = quarry_journal::Options {
            segment_bytes: 64 * 1024,
            compress_above_bytes,
            ..options()
        };
        let files = Arc::new(files.clone());
        Journal::open(files, options, identity(), 0, owner.clone()).unwrap()
    };
    let journal = open(Some(1000), &owner);
    let mut durable = journal.read(1).unwrap();
    // Ten times what a segment holds, and records above and below the size.
    for number in 0..200u8 {
        let bytes = if number % 2 == 0 { 6000 } else { 900 };
        journal
            .commit(&vec![number; bytes], Level::Written)
            .unwrap();
    }
    assert!(journal.live_bytes() <= 3 * 64 * 1024);
    for (lsn, payload) in owner.records() {
        assert_eq!(durable.next().unwrap(), Some((lsn, &payload[..])));
    }
    journal.close().unwrap();
    drop(journal);
    let again = Owner::new();
    let journal = open(None, &again);
    assert!(again.records() == owner.records());
    journal.commit(&[1; 6000], Level::Durable).unwrap();
    drop(journal);
    let later = Owner::new();
    drop(open(Some(1000), &later));
    assert_eq!(later.records().len(), 201);
}

#[test]
fn closing_gives_up_the_segment_that_is_being_made() {
    use quarry_journal::Files;
    let directory =
        std::env::temp_dir().join(format!("quarry-journal-close-{}", std::process::id()));
    let files = Arc::new(RealFiles::open(&directory).unwrap());
    let owner = Owner::new();
    let options = quarry_journal::Options::default();
    let journal = Journal::open(files.clone(), options, identity(), 0, owner.clone()).unwrap();
    journal.commit(b"only", Level::Durable).unwrap();
    journal.close().unwrap();
    let left: Vec<_> = files.list().unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].bytes, 8 * 1024 * 1024);
    std::fs::remove_dir_all(directory).unwrap();
}
