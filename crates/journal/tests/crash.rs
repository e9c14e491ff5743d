//! A seeded workload is stopped at every step that changes the disk; the machine then loses, tears or
//! reorders what was not synced; the journal is opened again under engine images from the last checkpoint to the
//! newest that its engine could have written, goes on, and crashes again. The power fails inside starts as well: at
//! every step of some, and several times in a row.
//!
//! Checked each time: every record acknowledged at its level is there, byte for byte; a group is whole or
//! absent; replaying twice is replaying once, and so is a replay after any number of starts that the power ended;
//! every image finds the same records above it; what was once recovered stays.
//!
//! `QUARRY_TORTURE=N` runs N seeds (a push runs few); `QUARRY_TORTURE_SEED=S` begins at seed S. What happens in a seed
//! depends on nothing else.

mod owner;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use owner::{Owner, Record, identity};
use quarry_journal::files::simulated::{Crash, Fault};
use quarry_journal::{Error, Files, Journal, Level, Options, SimulatedFiles};

const SEEDS_A_PUSH: u64 = 8;
/// Lives of one journal: each but the last ends in a crash.
const LIVES: usize = 4;
/// Groups in a life that nothing ends.
const COMMITS: u64 = 10;
/// Of so many lives one ends with a kill.
const KILLED_SHARE: u64 = 4;
/// Of so many crashes one is met under every image of the engine; the others under a few.
const ALL_IMAGES_SHARE: u64 = 16;
/// Of so many crashes one is followed by starts that are stopped at every step, each on a copy of the disk.
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

#[derive(Clone)]
struct Machine {
    files: SimulatedFiles,
    promises: Promises,
    /// What the engine holds on its own disk.
    engine_lsn: u64,
    /// What it has applied: it may come back with anything from its checkpoint to here.
    applied_lsn: u64,
    checkpointed_lsn: u64,
    random: Random,
    life: usize,
    will_be_killed: bool,
    /// It was killed, and what it wrote need not be on the disk.
    is_unsynced: bool,
    /// The steps at which starts were stopped since the last life.
    stopped_starts: Vec<u64>,
}

#[derive(Clone)]
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

impl Machine {
    fn new(seed: u64) -> Machine {
        Machine {
            files: SimulatedFiles::new(),
            promises: Promises::default(),
            engine_lsn: 0,
            applied_lsn: 0,
            checkpointed_lsn: 0,
            random: Random(seed),
            life: 0,
            will_be_killed: false,
            is_unsynced: false,
            stopped_starts: Vec::new(),
        }
    }

    fn open(&self, owner: &Arc<Owner>) -> Result<Journal, Error> {
        let files = Arc::new(self.files.clone());
        Journal::open(files, options(), identity(), self.engine_lsn, owner.clone())
    }

    /// The same machine with a disk of its own and an engine that holds everything up to `engine_lsn`.
    fn copy(&self, engine_lsn: u64) -> Machine {
        let mut copy = self.clone();
        // Everything on it is synced, as it is behind a crash.
        copy.files = self.files.crash(Crash::Kill, 0);
        copy.engine_lsn = engine_lsn;
        copy
    }

    /// The part of what was applied that the journal has durably. Beyond it the engine is ahead of the journal.
    fn synced_lsn(&self) -> u64 {
        self.promises.durable_lsn.min(self.applied_lsn)
    }
}

/// Says where a check failed.
impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (life, engine_lsn, stopped) = (self.life, self.engine_lsn, &self.stopped_starts);
            eprintln!("  life {life}, engine at {engine_lsn}, starts stopped at steps {stopped:?}");
        }
    }
}

/// Of so many groups one is to be durable, and one is followed by a checkpoint.
struct Habits {
    durable_share: u64,
    checkpoint_share: u64,
}

/// The second kind of life reuses segments that it freed itself, the third leaves several that are unsynced.
const HABITS: [Habits; 3] = [
    Habits {
        durable_share: 3,
        checkpoint_share: 12,
    },
    Habits {
        durable_share: 3,
        checkpoint_share: 3,
    },
    Habits {
        durable_share: 60,
        checkpoint_share: 60,
    },
];

/// Opens, writes groups, checkpoints now and then. Ends early when the machine stops, or is killed if that is to be.
fn live(machine: &mut Machine) -> Result<(), Error> {
    let owner = Owner::new();
    let opened = machine.open(&owner);
    note_replayed(machine, &owner.records());
    count(&STOPPED_UNSYNCED, machine.is_unsynced && opened.is_err());
    machine.is_unsynced = false;
    let journal = opened?;
    check_recovered(machine, &owner.records(), journal.last_lsn());
    owner.set_trailer(machine.random.below(2) == 0);
    let commits = match machine.will_be_killed {
        true => machine.random.below(COMMITS),
        false => COMMITS,
    };
    let habits = &HABITS[machine.random.below(HABITS.len() as u64) as usize];
    for _ in 0..commits {
        commit_some(machine, &journal, habits)?;
        if machine.random.below(habits.checkpoint_share) == 0 {
            let lsn = journal.sync()?;
            machine.promises.durable_lsn = lsn;
            machine.engine_lsn = lsn;
            machine.checkpointed_lsn = lsn;
            journal.checkpointed(lsn)?;
        }
    }
    if machine.will_be_killed {
        kill(&machine.files, journal);
    }
    Ok(())
}

/// The process ends before it can sync anything.
fn kill(files: &SimulatedFiles, journal: Journal) {
    files.fail_syncs(true);
    drop(journal);
    files.fail_syncs(false);
}

/// One group of one or several records.
fn commit_some(machine: &mut Machine, journal: &Journal, habits: &Habits) -> Result<(), Error> {
    let level = if machine.random.below(habits.durable_share) == 0 {
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
        let payload = payload(size, machine.random.below(512));
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
    machine.applied_lsn = last_lsn;
    if level == Level::Durable {
        journal.wait_durable(last_lsn)?;
        machine.promises.durable_lsn = last_lsn;
    }
    Ok(())
}

/// Of every other seed it cannot be compressed.
fn payload(bytes: u64, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let byte = |at| match seed % 2 {
        0 => (at as u8).wrapping_mul(31) ^ (seed / 2) as u8,
        _ => random.below(256) as u8,
    };
    (0..bytes).map(byte).collect()
}

/// A start, which may have been stopped, has given the engine this: it continues the engine's image with what was
/// submitted. What is applied is synced, so that it must never be lost again.
fn note_replayed(machine: &mut Machine, replayed: &[Record]) {
    let promises = &mut machine.promises;
    let first = replayed
        .first()
        .map_or(machine.engine_lsn + 1, |(lsn, _)| *lsn);
    assert_eq!(
        first,
        machine.engine_lsn + 1,
        "replay must continue the engine"
    );
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
    let Some((last, _)) = replayed.last() else {
        return;
    };
    assert!(
        promises.ends.contains(last),
        "the journal ends inside a group, at {last}"
    );
    promises.durable_lsn = promises.durable_lsn.max(*last);
    machine.applied_lsn = *last;
}

/// A start that came to its end has reached at least what was promised.
fn check_recovered(machine: &Machine, replayed: &[Record], last_lsn: u64) {
    let durable_lsn = machine.promises.durable_lsn;
    assert!(
        last_lsn >= durable_lsn,
        "durable record lost: {last_lsn} < {durable_lsn}"
    );
    if let Some((last, _)) = replayed.last() {
        assert_eq!(
            *last, last_lsn,
            "a recovered journal ends with what it replayed"
        );
    }
}

/// What the power cut leaves: new files, promises narrowed to what had to survive.
fn lose_power(machine: &mut Machine, crash: Crash) {
    let seed = machine.random.below(1 << 30);
    machine.files = machine.files.crash(crash, seed);
    let promises = &mut machine.promises;
    if crash == Crash::Kill {
        promises.durable_lsn = promises.written_lsn;
    }
}

/// The engine comes back older than the journal's synced end, equal to it or newer.
fn choose_image(machine: &mut Machine) {
    let (oldest, synced) = (machine.checkpointed_lsn, machine.synced_lsn());
    let ahead = machine.applied_lsn - synced;
    machine.engine_lsn = match machine.random.below(4) {
        0 => oldest,
        1 => synced,
        2 if ahead > 0 => {
            // The engine's disk has what the journal's lost. From here on it has no older image.
            let lsn = synced + 1 + machine.random.below(ahead);
            machine.checkpointed_lsn = lsn;
            lsn
        }
        _ => oldest + machine.random.below(synced - oldest + 1),
    };
    machine.applied_lsn = machine.engine_lsn;
}

static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// What was reached.
static POINTS: AtomicU64 = AtomicU64::new(0);
/// Images of the engine besides the oldest, each under a crash.
static IMAGES: AtomicU64 = AtomicU64::new(0);
/// Starts that found an engine with records that the journal had lost.
static GAPS: AtomicU64 = AtomicU64::new(0);
static STOPPED_STARTS: AtomicU64 = AtomicU64::new(0);
/// The start before was stopped as well.
static STOPPED_AGAIN: AtomicU64 = AtomicU64::new(0);
/// A segment had been cut or taken out when the start was stopped.
static STOPPED_CUTTING: AtomicU64 = AtomicU64::new(0);

/// Starts stopped behind a kill, before which the disk did not have everything.
static STOPPED_UNSYNCED: AtomicU64 = AtomicU64::new(0);

fn count(counter: &AtomicU64, is_one: bool) {
    counter.fetch_add(u64::from(is_one), Ordering::Relaxed);
}

/// What a start finds on a disk.
#[derive(PartialEq)]
struct Found {
    records: Vec<Record>,
    last_lsn: u64,
}

/// Without the records.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, last_lsn) = (self.records.len(), self.last_lsn);
        write!(f, "{count} records up to {last_lsn}")
    }
}

impl Found {
    /// What an engine that holds everything up to `lsn` must find on the same disk.
    fn above(&self, lsn: u64) -> Found {
        let records = self.records.iter().filter(|(record, _)| *record > lsn);
        Found {
            records: records.cloned().collect(),
            last_lsn: self.last_lsn,
        }
    }
}

/// Opens the files as the machine is: promises are kept.
fn replay(machine: &mut Machine) -> Found {
    let owner = Owner::new();
    let journal = machine.open(&owner);
    let journal = journal.expect("a crash must leave a journal that opens");
    let (records, last_lsn) = (owner.records(), journal.last_lsn());
    note_replayed(machine, &records);
    check_recovered(machine, &records, last_lsn);
    Found { records, last_lsn }
}

/// Opens a copy of the files twice from the same image: the same records, no record more.
fn replay_twice(machine: &Machine, engine_lsn: u64) -> Found {
    let mut copy = machine.copy(engine_lsn);
    let first = replay(&mut copy);
    assert!(first == replay(&mut copy), "the second replay differs");
    first
}

/// The records that a crash has left are the same under every image of the engine, from the image on. Only an engine
/// that is ahead of them may find none, or some that hang on records that it has and the journal lost. Returns what
/// the image finds that the machine goes on with.
fn check_images(machine: &mut Machine) -> Found {
    let (oldest, newest) = (machine.checkpointed_lsn, machine.applied_lsn);
    let any = oldest + machine.random.below(newest - oldest + 1);
    let images = match machine.random.below(ALL_IMAGES_SHARE) {
        0 => (oldest..=newest).collect(),
        _ => BTreeSet::from([any, newest]),
    };
    let found = replay_twice(machine, oldest);
    for &lsn in images.iter().filter(|&&lsn| lsn > oldest) {
        let under = replay(&mut machine.copy(lsn));
        let is_ahead = lsn > found.last_lsn;
        assert!(
            is_ahead || under == found.above(lsn),
            "an engine at {lsn} finds {under}, one at {oldest} {found}"
        );
        count(&IMAGES, true);
        count(&GAPS, is_ahead && under.records.is_empty());
    }
    choose_image(machine);
    if machine.engine_lsn > found.last_lsn {
        return replay_twice(machine, machine.engine_lsn);
    }
    found
}

/// Starts, and loses the power again at a step of the start; false if the start ends before.
fn stop_start(machine: &mut Machine, stop: u64, crash: Crash) -> bool {
    let mut stopped = machine.copy(machine.engine_lsn);
    stopped.files.inject(stop, Fault::PowerOff);
    let owner = Owner::new();
    let Err(error) = stopped.open(&owner) else {
        return false;
    };
    assert!(matches!(error, Error::Io { .. }), "{error}");
    note_replayed(&mut stopped, &owner.records());
    count(&STOPPED_STARTS, true);
    count(&STOPPED_AGAIN, !stopped.stopped_starts.is_empty());
    count(&STOPPED_CUTTING, has_cut(&machine.files, &stopped.files));
    stopped.stopped_starts.push(stop);
    lose_power(&mut stopped, crash);
    // The engine may have kept any of what it was given.
    let given = stopped.applied_lsn - stopped.engine_lsn;
    stopped.engine_lsn += stopped.random.below(given + 1);
    stopped.applied_lsn = stopped.engine_lsn;
    *machine = stopped;
    true
}

/// Whether a segment is not what it was before.
fn has_cut(before: &SimulatedFiles, after: &SimulatedFiles) -> bool {
    let entries = before.list().unwrap().into_iter();
    let mut segments = entries.filter(|entry| entry.name.ends_with(".segment"));
    segments.any(|entry| before.content(&entry.name) != after.content(&entry.name))
}

/// Stops the next start at each of its steps, and some of the starts after it at any step.
fn check_all_stops(machine: &Machine, found: &Found) {
    for stop in 0.. {
        let mut copy = machine.copy(machine.engine_lsn);
        copy.random.0 ^= stop;
        let any = |random: &mut Random| Crash::ALL[random.below(5) as usize];
        let crash = any(&mut copy.random);
        if !stop_start(&mut copy, stop, crash) {
            return;
        }
        stop_some_starts(&mut copy, any);
        check_found(&copy, found);
    }
}

/// Stops none, one or several starts.
fn stop_some_starts(machine: &mut Machine, crash: impl Fn(&mut Random) -> Crash) {
    while machine.random.below(2) == 0 {
        let stop = machine.random.below(START_STEPS);
        let crash = crash(&mut machine.random);
        if !stop_start(machine, stop, crash) {
            return;
        }
    }
}

fn check_found(machine: &Machine, found: &Found) {
    let later = replay(&mut machine.copy(machine.engine_lsn));
    assert!(
        later == found.above(machine.engine_lsn),
        "a start after others that were stopped finds {later}, an undisturbed one {found}"
    );
}

/// What is on the disk when the power is back must never be lost again. What is not is gone.
fn keep_found(promises: &mut Promises, last_lsn: u64) {
    (promises.durable_lsn, promises.written_lsn) = (last_lsn, last_lsn);
    promises.submitted.retain(|&lsn, _| lsn <= last_lsn);
    promises.ends.retain(|&lsn| lsn <= last_lsn);
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
    println!("{points} crash points, {images} more engine images, {gaps} with the engine ahead");
    println!(
        "{stopped} starts stopped, {again} of them again, {cutting} after a cut, {unsynced} behind a kill"
    );
    if seeds < SEEDS_A_PUSH {
        return;
    }
    assert!(points > 3000, "only {points} crash points were reached");
    assert!(images > 6000, "only {images} more images of the engine");
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
