//! A seeded workload is stopped at every step that changes the disk; the machine then loses, tears or
//! reorders what was not synced; the journal is opened again under engine images from the last checkpoint to the
//! newest that its engine could have written, goes on, and crashes again. The power fails inside starts as well: at
//! every step of some, and several times in a row. Some processes end after a sync that failed and forgot what it was to
//! write: the next start sees it, and must not take it for durable.
//!
//! Checked each time: every record acknowledged at its level is there, byte for byte; a group is whole or
//! absent; replaying twice is replaying once, and so is a replay after any number of starts that the power ended;
//! every image finds the same records above it; what was once recovered stays.
//!
//! The journal of every other seed is sealed.
//!
//! `QUARRY_TORTURE=N` runs N seeds (a push runs few); `QUARRY_TORTURE_SEED=S` begins at seed S. What happens in a seed
//! depends on nothing else.

mod counters;
mod living;
mod machine;
#[path = "../owner/mod.rs"]
mod owner;
mod starting;
#[path = "../toy_seal/mod.rs"]
mod toy_seal;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use counters::*;
use living::*;
use machine::*;
use owner::{Owner, Record, identity};
use quarry_journal::files::simulated::{Crash, Fault};
use quarry_journal::{Error, Files, Journal, Level, Options, SimulatedFiles};
use starting::*;

const SEEDS_A_PUSH: u64 = 8;
/// Lives of one journal: each but the last ends in a crash.
const LIVES: usize = 4;
/// Groups in a life that nothing ends.
const COMMITS: u64 = 10;
/// One of this many lives ends with a kill.
const KILLED_SHARE: u64 = 4;
/// One of this many crashes is met under every image of the engine; the others under a few.
const ALL_IMAGES_SHARE: u64 = 16;
/// One of this many crashes is followed by starts that are stopped at every step, each on a copy of the disk.
const ALL_STOPS_SHARE: u64 = 10;
/// Most starts take fewer steps.
const START_STEPS: u64 = 24;
/// Most lives take fewer steps, their start included.
const LIFE_STEPS: u64 = 60;

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

/// The power is back: the next start is checked under images of the engine and is stopped, on copies of the disk and
/// at last on the disk itself.
fn check_crash(machine: &mut Machine, crash: Crash) {
    let found = check_images(machine);
    keep_found(&mut machine.promises, found.last_lsn);
    if machine.random.below(ALL_STOPS_SHARE) == 0 {
        check_all_stops(machine, &found);
    }
    stop_some_starts(machine, |_| crash);
    if !machine.stopped_starts.is_empty() {
        check_found(machine, &found);
    }
}

/// The process was killed and the power stays: the next start finds all that was written. It has yet to be synced, so
/// that the power may still take it, until that start has given it to the engine.
fn check_killed(machine: &mut Machine) {
    let mut copy = machine.copy(machine.engine_lsn);
    copy.promises.durable_lsn = copy.promises.written_lsn;
    check_images(&mut copy);
    let (oldest, newest) = (machine.checkpointed_lsn, machine.applied_lsn);
    machine.engine_lsn = oldest + machine.random.below(newest - oldest + 1);
    machine.applied_lsn = machine.engine_lsn;
    machine.is_unsynced = true;
}

/// Some lives end with a kill between two groups. Else the power fails at a step, which may be one of the start.
fn plan_end(machine: &mut Machine) {
    machine.will_be_killed = machine.random.below(KILLED_SHARE) == 0;
    if machine.will_be_killed {
        return;
    }
    let steps = match machine.is_unsynced {
        true => START_STEPS,
        false => LIFE_STEPS,
    };
    let stop = machine.files.steps() + machine.random.below(steps);
    machine.files.inject(stop, Fault::PowerOff);
}

/// Runs one journal through its lives; the first is stopped at `step`. False when it ended before.
fn run(seed: u64, crash: Crash, step: u64) -> bool {
    let mut machine = Machine::new(seed);
    machine.files.inject(step, Fault::PowerOff);
    let mut reached = true;
    for life in 0..LIVES {
        machine.life = life;
        machine.stopped_starts.clear();
        let ended = live(&mut machine);
        reached &= life > 0 || ended.is_err();
        machine.random.0 ^= step.wrapping_mul(977);
        if machine.will_be_killed {
            check_killed(&mut machine);
        } else {
            lose_power(&mut machine, crash);
            check_crash(&mut machine, crash);
            count(&POINTS, true);
        }
        plan_end(&mut machine);
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
    let next = AtomicU64::new(first);
    let run_seeds = || {
        while !HAS_FAILED.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                return;
            }
            run_seed(seed);
            if seeds > SEEDS_A_PUSH {
                println!("seed {seed}: {} crash points so far", reached(&POINTS));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(run_seeds);
        }
    });
    check_totals(seeds);
}

/// Stops a workload at every step.
fn run_seed(seed: u64) {
    for crash in Crash::ALL {
        let mut step = 0;
        while run_reporting(seed, crash, step) {
            step += 1;
        }
    }
}

/// A failure prints what repeats it.
fn run_reporting(seed: u64, crash: Crash, step: u64) -> bool {
    let result = std::panic::catch_unwind(|| run(seed, crash, step));
    result.unwrap_or_else(|panic| {
        HAS_FAILED.store(true, Ordering::Relaxed);
        eprintln!(
            "failed: seed {seed}, crash {crash:?}, step {step}; repeat with\n  \
             QUARRY_TORTURE=1 QUARRY_TORTURE_SEED={seed} cargo test -p quarry-journal --test crash"
        );
        std::panic::resume_unwind(panic)
    })
}

fn reached(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Prints what was reached. A run of few seeds need not reach much: it repeats a failure.
fn check_totals(seeds: u64) {
    let (points, images, gaps) = (reached(&POINTS), reached(&IMAGES), reached(&GAPS));
    let (stopped, again) = (reached(&STOPPED_STARTS), reached(&STOPPED_AGAIN));
    let (cutting, unsynced) = (reached(&STOPPED_CUTTING), reached(&STOPPED_UNSYNCED));
    let forgotten = reached(&FORGOTTEN);
    println!("{forgotten} lives ended with a sync that failed and forgot");
    println!("{points} crash points, {images} more engine images, {gaps} with the engine ahead");
    println!(
        "{stopped} starts stopped, {again} of them again, {cutting} after a cut, {unsynced} behind a kill"
    );
    if seeds < SEEDS_A_PUSH {
        return;
    }
    assert!(points > 3000, "only {points} crash points were reached");
    assert!(images > 6000, "only {images} more images of the engine");
    assert!(forgotten > 200, "only {forgotten} syncs forgot");
    assert!(gaps > 1000, "only {gaps} starts had an engine ahead");
    assert!(stopped > 3000, "only {stopped} starts were stopped");
    assert!(again > 600, "only {again} starts were stopped again");
    assert!(cutting > 800, "only {cutting} starts had cut something");
    assert!(
        unsynced > 80,
        "only {unsynced} starts were stopped behind a kill"
    );
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

/// If the engine's newest image goes with the power, records before it are needed again.
#[test]
fn what_a_killed_process_left_unsynced_is_synced_where_the_engine_has_it_too() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    for number in 0..40u8 {
        journal.submit(&[number; 1000]).unwrap();
    }
    kill(&files, journal);
    // The system's memory has the engine's file as of the last record.
    let journal = Owner::new().open(&files, 40).unwrap();
    let durable = journal.commit(b"durable", Level::Durable).unwrap();
    assert_eq!((durable.lsn, journal.durable_lsn()), (41, 41));
    let owner = Owner::new();
    drop(owner.open(&files.crash(Crash::Drop, 0), 0).unwrap());
    assert_eq!(owner.records().len(), 41);
}
