//! Raw appends: 64 B to 64 KiB, 1 to 64 producers, each waiting for its own record at its level.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quarry_journal::{
    Files, GroupBuilder, HookError, Hooks, Identity, Journal, Level, Options, Payloads, RealFiles,
};

use crate::limits;
use crate::place::{Place, SEGMENT_BYTES, Zeros};
use crate::table::{CASE_TIME, REPETITIONS, Table};

/// How long one repetition at `Written` lasts.
const WRITTEN_TIME: Duration = Duration::from_millis(80);
const DURABLE_TIME: Duration = Duration::from_millis(150);

/// An engine that takes everything at no cost: the journal alone is measured.
struct Nothing;

impl Hooks for Nothing {
    fn ready(&self, _bytes: usize) -> Result<(), HookError> {
        Ok(())
    }

    fn finish_group(&self, _group: &mut GroupBuilder<'_>) -> Result<(), HookError> {
        Ok(())
    }

    fn apply(&self, _first_lsn: u64, _payloads: &Payloads<'_>) -> Result<(), HookError> {
        Ok(())
    }
}

/// When a repetition ends: after its time, or when its records would leave the first segment.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub time: Duration,
    pub records: u64,
}

/// The case that is asked for, on segments as the journal makes them.
const BY_PAGES: (Level, u64, u64) = (Level::Written, 1, 256);

pub fn measure(place: &mut Place, table: &mut Table) {
    for level in [Level::Written, Level::Durable] {
        for producers in [1, 8, 64] {
            for bytes in [64, 256, 4096, 65_536] {
                let name = format!("append/{level:?}/{producers} x {bytes} B");
                case(place, table, &name, Zeros::Large, level, producers, bytes);
                if (level, producers, bytes) == BY_PAGES {
                    let name = format!("{name}, zeroed by pages");
                    case(place, table, &name, Zeros::Page, level, producers, bytes);
                }
            }
        }
    }
}

fn case(
    place: &mut Place,
    table: &mut Table,
    name: &str,
    zeros: Zeros,
    level: Level,
    producers: u64,
    bytes: u64,
) {
    if !table.wants(name) {
        return;
    }
    place.renew(zeros);
    let time = match level {
        Level::Written => WRITTEN_TIME,
        Level::Durable => DURABLE_TIME,
    };
    let bounds = Bounds {
        time,
        records: (SEGMENT_BYTES - SEGMENT_BYTES / 16) / (bytes + 68),
    };
    let (mut ours, mut bare) = (0f64, 0f64);
    let begun = Instant::now();
    for repetition in 0..REPETITIONS {
        if repetition > 0 && begun.elapsed() > CASE_TIME {
            break;
        }
        let rate = limits::append(&place.bare(), level, producers, bytes, bounds);
        bare = bare.max(rate);
        ours = ours.max(append(&place.recycled(), level, producers, bytes, bounds));
    }
    table.add(name, "ops/s", ours, Some(bare));
}

pub fn open(directory: &Path) -> Journal {
    let files: Arc<dyn Files> =
        Arc::new(RealFiles::open(directory).expect("the directory is ours"));
    let identity = Identity {
        database: [1; 16],
        engine: "none".to_owned(),
    };
    let options = Options {
        segment_bytes: SEGMENT_BYTES,
        ..Options::default()
    };
    Journal::open(files, options, identity, 0, Arc::new(Nothing)).expect("a new journal opens")
}

fn append(directory: &Path, level: Level, producers: u64, bytes: u64, bounds: Bounds) -> f64 {
    let journal = open(directory);
    let payload = vec![0x5a; bytes as usize];
    let rate = repeat(producers, bounds, &|_| {
        journal.commit(&payload, level).expect("the disk works");
    });
    journal.close().expect("the disk works");
    rate
}

/// Calls `step` from every producer until the bounds are reached; returns the calls a second.
pub fn repeat(producers: u64, bounds: Bounds, step: &(dyn Fn(u64) + Sync)) -> f64 {
    let done = AtomicU64::new(0);
    let begun = Instant::now();
    let deadline = begun + bounds.time;
    let share = bounds.records / producers;
    let produce = |producer: u64| {
        let mut mine = 0;
        while mine < share && Instant::now() < deadline {
            step(producer * share + mine);
            mine += 1;
        }
        done.fetch_add(mine, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for producer in 1..producers {
            let produce = &produce;
            scope.spawn(move || produce(producer));
        }
        produce(0);
    });
    done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}
