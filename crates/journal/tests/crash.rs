//! A seeded workload is stopped at every step that changes the disk; the machine then loses, tears or
//! reorders what was not synced; the journal is opened again under an engine image older than its synced end,
//! equal to it or newer, goes on, and crashes again.
//!
//! Checked each time: every record acknowledged at its level is there, byte for byte; a group is whole or
//! absent; replaying twice is replaying once; what was once recovered stays.
//!
//! `QUARRY_TORTURE=N` runs N seeds (a push runs few); `QUARRY_TORTURE_SEED=S` begins at seed S.

mod owner;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use owner::{Owner, Record, identity};
use quarry_journal::files::simulated::{Crash, Fault};
use quarry_journal::{Error, Journal, Level, Options, SimulatedFiles};

const SEEDS_A_PUSH: u64 = 8;
/// Lives of one journal: each but the last ends in a crash.
const LIVES: usize = 3;

fn options() -> Options {
    Options {
        segment_bytes: 8 * 1024,
        spare_segments_max: 1,
        // Some groups are compressed, some are not.
        compress_above_bytes: Some(400),
        // The workload decides what a group is.
        gather_ns: u64::MAX,
        ..owner::options()
    }
}

/// What clients were told, over all lives.
#[derive(Clone, Default)]
struct Promises {
    /// Every payload that was ever submitted, by LSN; a later life may reuse the LSN of a lost record.
    submitted: BTreeMap<u64, Vec<u8>>,
    written_lsn: u64,
    durable_lsn: u64,
    /// Groups by their last LSN: a journal may end only there.
    ends: Vec<u64>,
}

struct Machine {
    files: SimulatedFiles,
    promises: Promises,
    /// What the engine holds on its own disk.
    engine_lsn: u64,
    checkpointed_lsn: u64,
    random: Random,
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Opens, writes `commits` groups, checkpoints now and then. Ends early when the machine stops.
fn live(machine: &mut Machine, commits: u64) -> Result<(), Error> {
    let owner = Owner::new();
    let open = |files: &SimulatedFiles, lsn: u64, owner: &Arc<Owner>| {
        Journal::open(
            Arc::new(files.clone()),
            options(),
            identity(),
            lsn,
            owner.clone(),
        )
    };
    let journal = open(&machine.files, machine.engine_lsn, &owner)?;
    check_recovered(machine, &owner.records(), journal.last_lsn());
    owner.set_trailer(machine.random.below(2) == 0);
    for _ in 0..commits {
        commit_some(machine, &journal)?;
        if machine.random.below(12) == 0 {
            let lsn = journal.sync()?;
            machine.promises.durable_lsn = lsn;
            machine.engine_lsn = lsn;
            machine.checkpointed_lsn = lsn;
            journal.checkpointed(lsn)?;
        }
    }
    Ok(())
}

/// One group of one or several records.
fn commit_some(machine: &mut Machine, journal: &Journal) -> Result<(), Error> {
    let level = if machine.random.below(3) == 0 {
        Level::Durable
    } else {
        Level::Written
    };
    let first_lsn = journal.last_lsn() + 1;
    let count = 1 + machine.random.below(3);
    let mut pending = Vec::new();
    let mut payloads = Vec::new();
    for _ in 0..count {
        let size = if count == 1 && machine.random.below(8) == 0 {
            9000
        } else {
            machine.random.below(700)
        };
        let seed = machine.random.below(256) as u8;
        let payload: Vec<u8> = (0..size)
            .map(|at| (at as u8).wrapping_mul(31) ^ seed)
            .collect();
        pending.push(journal.submit_async(&payload, Level::Written)?);
        payloads.push(payload);
    }
    for (index, payload) in payloads.into_iter().enumerate() {
        machine
            .promises
            .submitted
            .insert(first_lsn + index as u64, payload);
    }
    machine.promises.ends.push(first_lsn + count - 1);
    machine.promises.ends.push(first_lsn + count);
    assert_eq!(
        journal.last_lsn() + 1,
        first_lsn,
        "the group is led by the flush"
    );
    journal.flush();
    for pending in &pending {
        journal.wait(pending)?;
    }
    let last_lsn = journal.last_lsn();
    if last_lsn == first_lsn + count {
        machine
            .promises
            .submitted
            .insert(last_lsn, format!("trailer {last_lsn}").into_bytes());
    }
    machine.promises.written_lsn = last_lsn;
    if level == Level::Durable {
        journal.wait_durable(last_lsn)?;
        machine.promises.durable_lsn = last_lsn;
    }
    Ok(())
}

/// `replayed` must continue the engine's image, and reach at least what was promised.
fn check_recovered(machine: &Machine, replayed: &[Record], last_lsn: u64) {
    let promises = &machine.promises;
    assert!(
        last_lsn >= promises.durable_lsn,
        "durable record lost: {last_lsn} < {}",
        promises.durable_lsn
    );
    if let Some((first, _)) = replayed.first() {
        assert_eq!(
            *first,
            machine.engine_lsn + 1,
            "replay must continue the engine"
        );
    }
    for (lsn, payload) in replayed {
        match promises.submitted.get(lsn) {
            Some(submitted) => assert!(
                submitted == payload,
                "record {lsn} is not what was submitted"
            ),
            None => assert_eq!(
                payload,
                format!("trailer {lsn}").as_bytes(),
                "record {lsn} came from nowhere"
            ),
        }
    }
    if let Some((last, _)) = replayed.last() {
        assert!(
            promises.ends.contains(last),
            "the journal ends inside a group, at {last}"
        );
        assert_eq!(
            *last, last_lsn,
            "a recovered journal ends with what it replayed"
        );
    }
}

/// What the power cut leaves: new files, promises narrowed to what had to survive, another engine image.
fn lose_power(machine: &mut Machine, crash: Crash, seed: u64) {
    machine.files = machine.files.crash(crash, seed);
    let promises = &mut machine.promises;
    if crash == Crash::Kill {
        promises.durable_lsn = promises.written_lsn;
    }
    let oldest = machine.checkpointed_lsn;
    let ahead = promises.written_lsn - promises.durable_lsn;
    machine.engine_lsn = match machine.random.below(4) {
        0 => oldest,
        1 => promises.durable_lsn,
        2 if ahead > 0 => {
            // The engine's disk has what the journal's lost. From here on it has no older image.
            let lsn = promises.durable_lsn + 1 + machine.random.below(ahead);
            machine.checkpointed_lsn = lsn;
            lsn
        }
        _ => oldest + machine.random.below(promises.durable_lsn - oldest + 1),
    };
}

/// Starts that found an engine with records that the journal had lost.
static GAPS: AtomicU64 = AtomicU64::new(0);

/// Opens the same files twice from the same image: the same records, no record more.
fn check_replay_twice(machine: &Machine) -> u64 {
    let open = || {
        let owner = Owner::new();
        let files = Arc::new(machine.files.clone());
        let journal = Journal::open(
            files,
            options(),
            identity(),
            machine.engine_lsn,
            owner.clone(),
        )
        .expect("a crash must leave a journal that opens");
        (owner.records(), journal.last_lsn())
    };
    let first = open();
    check_recovered(machine, &first.0, first.1);
    let has_gap = first.0.is_empty() && first.1 == machine.engine_lsn;
    let was_ahead = machine.engine_lsn > machine.promises.durable_lsn;
    GAPS.fetch_add(u64::from(has_gap && was_ahead), Ordering::Relaxed);
    let second = open();
    assert!(first == second, "the second replay differs");
    first.1
}

fn new_machine(seed: u64) -> Machine {
    Machine {
        files: SimulatedFiles::new(),
        promises: Promises::default(),
        engine_lsn: 0,
        checkpointed_lsn: 0,
        random: Random(seed),
    }
}

/// Runs one journal through its lives; the first is stopped at `step`. False when it ended before.
fn run(seed: u64, crash: Crash, step: u64) -> bool {
    let mut machine = new_machine(seed);
    machine.files.inject(step, Fault::PowerOff);
    let mut reached = true;
    for life in 0..LIVES {
        if live(&mut machine, 10).is_ok() && life == 0 {
            reached = false;
        }
        lose_power(
            &mut machine,
            crash,
            seed ^ step.wrapping_mul(977) ^ life as u64,
        );
        let last_lsn = check_replay_twice(&machine);
        // What a start has recovered is synced: it must never be lost again. What it has not is gone.
        let promises = &mut machine.promises;
        (promises.durable_lsn, promises.written_lsn) = (last_lsn, last_lsn);
        promises.submitted.retain(|&lsn, _| lsn <= last_lsn);
        promises.ends.retain(|&lsn| lsn <= last_lsn);
        let stop = machine.files.steps() + 5 + machine.random.below(60);
        machine.files.inject(stop, Fault::PowerOff);
    }
    reached
}

#[test]
fn every_crash_point_keeps_every_promise() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let seeds = number("QUARRY_TORTURE").unwrap_or(SEEDS_A_PUSH);
    let first = number("QUARRY_TORTURE_SEED").unwrap_or(1);
    let mut points = 0;
    for seed in first..first + seeds {
        for crash in Crash::ALL {
            let mut step = 0;
            while run_reporting(seed, crash, step) {
                step += 1;
                points += LIVES as u64;
            }
        }
        if seeds > SEEDS_A_PUSH {
            println!("seed {seed}: {points} crash points so far");
        }
    }
    let gaps = GAPS.load(Ordering::Relaxed);
    println!("{points} crash points, {gaps} with the engine ahead");
    assert!(gaps > 20, "only {gaps} starts had an engine ahead");
    assert!(points > 1000, "only {points} crash points were reached");
}

/// A failure prints what repeats it.
fn run_reporting(seed: u64, crash: Crash, step: u64) -> bool {
    let result = std::panic::catch_unwind(|| run(seed, crash, step));
    result.unwrap_or_else(|panic| {
        eprintln!("failed: seed {seed}, crash {crash:?}, step {step}; repeat with");
        eprintln!("  QUARRY_TORTURE=1 QUARRY_TORTURE_SEED={seed} cargo test -p quarry-journal --test crash");
        std::panic::resume_unwind(panic)
    })
}

#[test]
fn an_engine_ahead_of_the_journal_leaves_a_recorded_gap() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    for number in 0..10u8 {
        journal.submit(&[number]).unwrap();
    }
    journal.wait_durable(10).unwrap();
    drop(journal);
    // The engine's disk got ahead, which the write-ahead rule forbids: its records are not lost.
    let ahead = Owner::new();
    let journal = ahead.open(&files, 25).unwrap();
    assert_eq!(journal.replayed(), 0);
    assert_eq!(
        journal
            .commit(b"after the gap", Level::Durable)
            .unwrap()
            .lsn,
        26
    );
    drop(journal);
    assert_eq!(Owner::new().open(&files, 25).unwrap().replayed(), 1);
    // An engine image from before the gap cannot be brought over it.
    for older in [0, 10, 24] {
        assert!(
            matches!(
                Owner::new().open(&files, older).err(),
                Some(Error::HistoryMissing { .. })
            ),
            "{older}"
        );
    }
}
