//! Crashes of a database over the real engines and a journal of real files.
//!
//! A seeded workload runs; at many moments the directories of engine and journal are copied as they stand. Each copy is
//! then made what a killed process or a power loss would leave, combined with images of the engine that are older and
//! newer than the journal's synced end, and opened. Found must be exactly the documents of a beginning of what was
//! written, in the order of the log, that holds every write acknowledged at its level, with what sessions remember of
//! them; indexes and counters must agree; replaying twice must be replaying once; a reader of changes goes on from its place
//! and is told what is there, or that history is lost where it is; writing goes on, and the next crash comes.
//!
//! In some lives a sync of the journal fails and the kernel forgets what it was to write (`forgetting`). The next life sees
//! it all the same; a power loss behind that takes it, unless that life has written it again.
//!
//! `QUARRY_TORTURE=N` runs N seeds (a push runs few); `QUARRY_TORTURE_SEED=S` begins at seed S. Even seeds write from
//! one thread and repeat exactly; odd ones write from several, so that groups have many writers.

mod follower;
mod forgetting;
mod history;
mod image;
mod life;
mod power_loss;

use std::path::Path;
use std::sync::Arc;

use history::{History, Random};
use image::Outcome;
use life::Life;
use quarry_storage::{Engine, FlushImages, Result};

const SEEDS_A_PUSH: u64 = 10;
const SEEDS_A_PUSH_OF_A_RARE_MODE: u64 = 2;
/// Lives of one database: each begins with the last crash of the one before.
const LIVES: usize = 4;
/// The disk space that one seed takes at most, several times over.
const SCRATCH_BYTES: u64 = 2 << 30;

/// A count of a run's crash points by kind, so that no kind goes missing unseen.
#[derive(Default)]
struct Tally {
    points: u64,
    killed: u64,
    engine_ahead: u64,
    replayed: u64,
    mixed_pages: u64,
    lost_writes: u64,
    /// Kills behind a sync that failed and forgot.
    forgotten: u64,
    /// Power losses in a life that began with such a kill.
    forgotten_lost: u64,
    /// The reader of changes went on.
    followed: u64,
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        self.points += 1;
        self.killed += u64::from(outcome.is_kill);
        self.engine_ahead += u64::from(outcome.is_engine_ahead);
        self.replayed += u64::from(outcome.replayed > 0);
        self.mixed_pages += u64::from(outcome.is_mixed);
        self.lost_writes += u64::from(outcome.lost_writes > 0);
        self.forgotten += u64::from(outcome.is_forgotten);
        self.forgotten_lost += u64::from(outcome.is_forgotten_lost);
        self.followed += u64::from(outcome.is_followed);
    }
}

type Open = fn(&Path) -> Result<Arc<dyn Engine>>;

/// An engine, and how it keeps its files.
#[derive(Clone, Copy)]
struct Subject {
    test: &'static str,
    open: Open,
    /// Pages written since the last durable point may be lost one by one.
    may_lose_pages: bool,
    seeds_a_push: u64,
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb() {
    torture(Subject {
        test: "rocksdb",
        open: |directory| {
            let options = quarry_storage_rocksdb::Options {
                cache_bytes: 4 << 20,
                // Flushes that nobody asked for happen too.
                write_buffer_bytes: 96 << 10,
                free_bytes_min: 1 << 20,
                background_bytes_per_s: 0,
                ..Default::default()
            };
            let engine = quarry_storage_rocksdb::RocksDb::open(directory, &options)?;
            Ok(Arc::new(engine))
        },
        may_lose_pages: false,
        seeds_a_push: SEEDS_A_PUSH,
    });
}

#[cfg(feature = "mdbx")]
#[test]
fn mdbx() {
    torture(Subject {
        test: "mdbx",
        open: |directory| open_mdbx(directory, quarry_storage_mdbx::SyncMode::SafeNoSync),
        may_lose_pages: true,
        seeds_a_push: SEEDS_A_PUSH,
    });
}

#[cfg(feature = "mdbx")]
#[test]
fn durable_mdbx() {
    torture(Subject {
        test: "durable_mdbx",
        open: |directory| open_mdbx(directory, quarry_storage_mdbx::SyncMode::Durable),
        may_lose_pages: false,
        seeds_a_push: SEEDS_A_PUSH_OF_A_RARE_MODE,
    });
}

#[cfg(feature = "mdbx")]
#[test]
fn no_meta_sync_mdbx() {
    torture(Subject {
        test: "no_meta_sync_mdbx",
        open: |directory| open_mdbx(directory, quarry_storage_mdbx::SyncMode::NoMetaSync),
        may_lose_pages: false,
        seeds_a_push: SEEDS_A_PUSH_OF_A_RARE_MODE,
    });
}

#[cfg(feature = "mdbx")]
fn open_mdbx(
    directory: &Path,
    sync_mode: quarry_storage_mdbx::SyncMode,
) -> Result<Arc<dyn Engine>> {
    let options = quarry_storage_mdbx::Options {
        sync_mode,
        growth_bytes: 1 << 20,
        free_bytes_min: 1 << 20,
        ..Default::default()
    };
    let engine = quarry_storage_mdbx::Mdbx::open(directory, &options)?;
    Ok(Arc::new(engine))
}

fn torture(subject: Subject) {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = number("QUARRY_TORTURE").unwrap_or(subject.seeds_a_push);
    let first = number("QUARRY_TORTURE_SEED").unwrap_or(1);
    let name = subject.test;
    let mut tally = Tally::default();
    for seed in first..first + seeds {
        run_reporting(subject, seed, &mut tally);
        if seeds > SEEDS_A_PUSH && seed % 10 == 0 {
            println!("{name}, seed {seed}: {} crash points so far", tally.points);
        }
    }
    println!(
        "{name}: {} crash points: {} kills; {} with the engine ahead of the journal, {} replayed, {} with mixed pages, \
         {} that lost writes which were not yet durable, {} kills behind a sync that forgot, {} power losses behind those; \
         the reader of changes went on behind {}",
        tally.points,
        tally.killed,
        tally.engine_ahead,
        tally.replayed,
        tally.mixed_pages,
        tally.lost_writes,
        tally.forgotten,
        tally.forgotten_lost,
        tally.followed
    );
    if seeds < SEEDS_A_PUSH || subject.seeds_a_push < SEEDS_A_PUSH {
        return;
    }
    assert!(tally.points >= 20 * seeds);
    let kinds = [
        tally.killed,
        tally.engine_ahead,
        tally.replayed,
        tally.lost_writes,
        tally.forgotten,
        tally.forgotten_lost,
        tally.followed,
    ];
    for kind in kinds {
        assert!(kind >= seeds / 2, "a kind of crash has become rare: {kind}");
    }
    assert!(!subject.may_lose_pages || tally.mixed_pages >= seeds);
}

/// A failure prints what repeats it, and keeps its files.
fn run_reporting(subject: Subject, seed: u64, tally: &mut Tally) {
    let scratch = scratch();
    let run = || run(subject, seed, scratch.path(), tally);
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    if let Err(panic) = ran {
        let name = subject.test;
        // Not every failure comes back when it is called: its files are kept.
        eprintln!("its files are in {}", scratch.keep().display());
        eprintln!("failed: {name}, seed {seed}; repeat with");
        eprintln!(
            "  QUARRY_TORTURE=1 QUARRY_TORTURE_SEED={seed} cargo test --release -p quarry-server --test engine_crash \
             -- --exact {name}"
        );
        std::panic::resume_unwind(panic);
    }
}

fn run(subject: Subject, seed: u64, scratch: &Path, tally: &mut Tally) {
    let images = FlushImages::directories(scratch.join("engine"), subject.open);
    let mut random = Random(seed);
    let writers = if seed.is_multiple_of(2) { 1 } else { 3 };
    let mut life = Life::first(&images, scratch, writers);
    let mut history = History::default();
    for number in 0..LIVES {
        let crashes = life.live(&mut random, &mut history);
        drop(life);
        let mut next: Option<(Life, History)> = None;
        for (at, crash) in crashes.iter().enumerate() {
            // The crash before this one was only looked at. Its life ends here: a durable point that its own threads make would
            // be taken for one of the next life.
            if let Some((abandoned, _)) = next.take() {
                Life::remove(abandoned);
            }
            let place = scratch.join(format!("crash-{number}-{at}"));
            let fallen = crash.fall(&mut random, &place, subject.may_lose_pages);
            let (reborn, kept, outcome) = Life::after(&images, &place, &fallen, &history, writers);
            tally.add(&outcome);
            next = Some((reborn, kept));
        }
        let (reborn, kept) = next.expect("every life ends in a crash");
        (life, history) = (reborn, kept);
    }
}

/// In memory where there is room: what is not synced is lost by our own hand, so that a disk would only be slower.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let has_room = rustix::fs::statvfs(memory)
        .is_ok_and(|space| space.f_bavail * space.f_frsize >= SCRATCH_BYTES);
    match has_room {
        true => tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()),
        false => tempfile::tempdir(),
    }
    .unwrap()
}
