//! Interleavings of the threads of a commit, tried one after another by a scheduler (`shuttle`): the queue and its turn, lone
//! writers, gathering, the backlog of those who went on, the waits for a sync, the latch and the close.
//!
//! Checked in each: a record is applied once, in the order of dense LSNs, and before its writer goes on; what is
//! acknowledged as durable is; nobody overtakes a record that its own thread submitted before; and everybody goes on: the
//! scheduler fails where all threads sleep.
//!
//! `cargo test -p quarry-journal --features shuttle --test model`; `QUARRY_TORTURE=N` tries N times as many interleavings.
//! A failure prints the schedule that repeats it.

mod owner;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use owner::{Owner, identity, options};
use quarry_journal::files::simulated::{Crash, Fault};
use quarry_journal::{
    Error, File, FileEntry, Files, GroupBuilder, HookError, Hooks, Journal, Level, Options,
    Payloads, Result, SimulatedFiles, Until,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread::{JoinHandle, spawn, yield_now};
use shuttle::{Config, Runner};

/// Interleavings of each model on every push, half of them at random and half with few changes of thread (PCT).
const INTERLEAVINGS: usize = 400;
/// Changes of thread that a bug may need.
const DEPTH: usize = 4;

/// A sync takes longer than an append: others come meanwhile, before it has its effect and after.
const SYNC_YIELDS: usize = 8;
/// A start has buffers on its stack.
const STACK_BYTES: usize = 1 << 20;

/// An engine in which other threads run while it is asked and while it applies.
struct Engine {
    owner: Arc<Owner>,
}

impl Hooks for Engine {
    fn ready(&self, _bytes: usize) -> std::result::Result<(), HookError> {
        yield_now();
        Ok(())
    }

    fn finish_group(&self, group: &mut GroupBuilder<'_>) -> std::result::Result<(), HookError> {
        self.owner.finish_group(group)
    }

    fn apply(&self, first_lsn: u64, payloads: &Payloads<'_>) -> std::result::Result<(), HookError> {
        yield_now();
        let applied = self.owner.apply(first_lsn, payloads);
        yield_now();
        applied
    }
}

/// A disk during whose syncs other threads run.
struct SlowFiles(SimulatedFiles);

struct SlowFile(Arc<dyn File>);

impl Files for SlowFiles {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        self.0.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(SlowFile(self.0.open(name)?)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(SlowFile(self.0.create(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.0.sync_directory()
    }
}

impl File for SlowFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        (0..SYNC_YIELDS).for_each(|_| yield_now());
        let synced = self.0.sync();
        (0..SYNC_YIELDS).for_each(|_| yield_now());
        synced
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

/// A journal, its disk and what was applied.
struct Machine {
    files: SimulatedFiles,
    owner: Arc<Owner>,
    journal: Journal,
    /// The disk may have failed.
    may_fail: AtomicBool,
}

impl Machine {
    fn new() -> Arc<Machine> {
        let (files, owner) = (SimulatedFiles::new(), Owner::new());
        let engine = Arc::new(Engine {
            owner: owner.clone(),
        });
        let options = Options {
            segment_bytes: 8 * 1024,
            // Only who is asked hands a backlog over.
            gather_ns: u64::MAX,
            ..options()
        };
        let slow = Arc::new(SlowFiles(files.clone()));
        let journal = Journal::open(slow, options, identity(), 0, engine).unwrap();
        Arc::new(Machine {
            files,
            owner,
            journal,
            may_fail: AtomicBool::new(false),
        })
    }

    fn is_applied(&self, lsn: u64, payload: &[u8]) -> bool {
        let records = self.owner.records();
        records
            .iter()
            .any(|(at, found)| *at == lsn && found == payload)
    }

    /// Checks that the error is one that a writer may get once the disk has failed or the journal is closed.
    fn refusal(&self, error: &Error) {
        let is_expected = match error {
            Error::Closed => true,
            Error::Latched { .. } | Error::OutcomeUnknown { .. } => {
                self.may_fail.load(Ordering::SeqCst)
            }
            _ => false,
        };
        assert!(is_expected, "{error}");
    }

    /// Checks that a record that was acknowledged is what it must be.
    fn check(&self, lsn: u64, payload: &[u8], level: Level) {
        assert!(self.is_applied(lsn, payload), "{lsn} is not applied");
        assert!(level == Level::Written || self.journal.durable_lsn() >= lsn);
    }

    /// All records are there once, in order; a start finds at least those that are durable.
    fn end(self: Arc<Machine>) {
        let records = self.owner.records();
        let lsns = records.iter().map(|(lsn, _)| *lsn);
        assert!(lsns.eq(1..=records.len() as u64));
        let durable_lsn = self.journal.durable_lsn();
        self.files.fail_syncs(true);
        drop(self.journal.close());
        self.files.fail_syncs(false);
        let found = Owner::new();
        let lost = self.files.crash(Crash::Drop, 0);
        drop(found.open(&lost, 0).unwrap());
        let found = found.records();
        assert!(found.len() as u64 >= durable_lsn && records.starts_with(&found));
    }
}

/// How a writer commits.
#[derive(Clone, Copy)]
enum Kind {
    Written,
    UntilApplied,
    UntilSynced,
    Durable,
}

impl Kind {
    const ALL: [Kind; 4] = [
        Kind::Written,
        Kind::UntilApplied,
        Kind::UntilSynced,
        Kind::Durable,
    ];

    fn level(self) -> Level {
        match self {
            Kind::Written => Level::Written,
            _ => Level::Durable,
        }
    }

    fn commit(self, journal: &Journal, payload: &[u8]) -> Result<u64> {
        let ticket = match self {
            Kind::Written | Kind::Durable => return Ok(journal.commit(payload, self.level())?.lsn),
            Kind::UntilApplied => journal.submit_syncing(payload, Until::Applied)?,
            Kind::UntilSynced => journal.submit_syncing(payload, Until::Synced)?,
        };
        journal.wait_durable(ticket.lsn)?;
        Ok(ticket.lsn)
    }
}

/// Commits `records` records, of one kind after another, beginning with the writer's own.
fn write(machine: &Arc<Machine>, writer: usize, records: usize) -> JoinHandle<()> {
    let machine = Arc::clone(machine);
    spawn(move || {
        let mut last_lsn = 0;
        for number in 0..records {
            let kind = Kind::ALL[(writer + number) % Kind::ALL.len()];
            let payload = [writer as u8, number as u8];
            match kind.commit(&machine.journal, &payload) {
                Ok(lsn) => {
                    machine.check(lsn, &payload, kind.level());
                    assert!(lsn > last_lsn, "a record overtook the one before it");
                    last_lsn = lsn;
                }
                Err(error) => machine.refusal(&error),
            }
        }
    })
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Tries interleavings of `model`.
fn explore(model: fn()) {
    let times = std::env::var("QUARRY_TORTURE").ok();
    let times = times.and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    let at_random = RandomScheduler::new(INTERLEAVINGS / 2 * times);
    Runner::new(at_random, config.clone()).run(model);
    let with_few_changes = PctScheduler::new(DEPTH, INTERLEAVINGS / 2 * times);
    Runner::new(with_few_changes, config).run(model);
}

/// Few enough that some find nobody about, and enough that groups form behind them.
#[test]
fn writers_of_all_kinds_share_groups_and_syncs() {
    explore(|| {
        let machine = Machine::new();
        join((0..3).map(|writer| write(&machine, writer, 2)).collect());
        assert_eq!(machine.owner.records().len(), 6);
        machine.end();
    });
}

/// There are enough writers that groups wait for half of those of late.
#[test]
fn writers_that_gather_all_go_on() {
    explore(|| {
        let machine = Machine::new();
        join((0..4).map(|writer| write(&machine, writer, 3)).collect());
        assert_eq!(machine.owner.records().len(), 12);
        machine.end();
    });
}

/// In a group of writers that wait for its sync one is called to make it. If that one goes on when the group is applied, the
/// call must reach another.
#[test]
fn a_call_for_a_sync_reaches_who_sleeps_on() {
    const KINDS: [Kind; 5] = [
        Kind::Written,
        Kind::Durable,
        Kind::UntilApplied,
        Kind::UntilSynced,
        Kind::UntilSynced,
    ];
    explore(|| {
        let machine = Machine::new();
        let threads = KINDS.into_iter().enumerate().map(|(writer, kind)| {
            let machine = Arc::clone(&machine);
            spawn(move || {
                let payload = [writer as u8];
                let lsn = kind.commit(&machine.journal, &payload).unwrap();
                machine.check(lsn, &payload, kind.level());
            })
        });
        join(threads.collect());
        assert_eq!(machine.owner.records().len(), KINDS.len());
        machine.end();
    });
}

/// Those who go on are accepted before what their own thread waits for next, whoever hands them over.
#[test]
fn nobody_overtakes_a_backlog() {
    explore(|| {
        let machine = Machine::new();
        let mut threads = vec![write(&machine, 0, 2)];
        threads.extend((1..3).map(|writer| {
            let machine = Arc::clone(&machine);
            spawn(move || {
                let submit = |number, level| {
                    let payload = [writer as u8, number];
                    machine.journal.submit_async(&payload, level).unwrap()
                };
                let first = submit(0, Level::Written);
                let second = submit(1, [Level::Written, Level::Durable][writer % 2]);
                let third = Kind::ALL[writer].commit(&machine.journal, &[writer as u8, 2]);
                let second_lsn = machine.journal.wait(&second).unwrap().lsn;
                machine.check(second_lsn, &[writer as u8, 1], second.level());
                let first_lsn = machine.journal.wait(&first).unwrap().lsn;
                machine.check(first_lsn, &[writer as u8, 0], Level::Written);
                assert!(machine.journal.is_acknowledged(&first));
                assert!(first_lsn < second_lsn && second_lsn < third.unwrap());
            })
        }));
        join(threads);
        assert_eq!(machine.owner.records().len(), 8);
        machine.end();
    });
}

/// Everybody learns of it, those too who wait for the sync after the one that failed.
#[test]
fn nobody_sleeps_past_a_failed_sync() {
    explore(|| {
        let machine = Machine::new();
        let mut threads: Vec<_> = (0..3).map(|writer| write(&machine, writer, 2)).collect();
        let failing = Arc::clone(&machine);
        threads.push(spawn(move || {
            failing.may_fail.store(true, Ordering::SeqCst);
            failing.files.forget_syncs(true);
        }));
        join(threads);
        machine.files.forget_syncs(false);
        machine.end();
    });
}

/// A failed append throws the latch while a sync runs that succeeds: who is woken for the next one will not make it.
#[test]
fn nobody_sleeps_past_a_failed_append() {
    explore(|| {
        let machine = Machine::new();
        let mut threads: Vec<_> = (0..4).map(|writer| write(&machine, writer, 2)).collect();
        let failing = Arc::clone(&machine);
        threads.push(spawn(move || {
            failing.may_fail.store(true, Ordering::SeqCst);
            let files = &failing.files;
            files.inject(files.steps(), Fault::Io);
        }));
        join(threads);
        machine.end();
    });
}

/// Everything that was acknowledged before is there, and who comes later is refused.
#[test]
fn a_close_among_writers_ends() {
    explore(|| {
        let machine = Machine::new();
        let mut threads: Vec<_> = (0..3).map(|writer| write(&machine, writer, 2)).collect();
        let closing = Arc::clone(&machine);
        threads.push(spawn(move || {
            closing.journal.close().unwrap();
            let last_lsn = closing.journal.last_lsn();
            assert_eq!(closing.journal.durable_lsn(), last_lsn);
            assert_eq!(closing.owner.records().len() as u64, last_lsn);
        }));
        join(threads);
        machine.end();
    });
}
