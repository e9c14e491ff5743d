//! Sequential puts in one transaction, through the engine trait and through the bare C interface.
//!
//! For each sync mode: 10,000 (durable) or 100,000 (others) puts of `key:%010d` to `value_%d_data`,
//! commit included. Ours builds a batch and hands it to [`Engine::write`], as the commit path does;
//! beside it run loops over `mdbx_put` and over a cursor's put on the same build of libmdbx. All
//! sides of a mode are measured interleaved, each on a fresh store, and the best of the rounds
//! counts: what disturbs a round only ever slows it down. Prints a table and writes
//! `bench/mdbx.json` below the target directory, and docs/benchmarks/mdbx.md.

#![deny(unsafe_code)]

mod ffi;

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use quarry_storage::{Engine, WriteBatch};
use quarry_storage_mdbx::{Mdbx, Options, SyncMode};

const ROUNDS: usize = 40;
const DURABLE_PUTS: u32 = 10_000;
const OTHER_PUTS: u32 = 100_000;
/// The share of the best bare loop that the apply must reach.
const SHARE_MIN: f64 = 0.9;

struct Mode {
    name: &'static str,
    sync_mode: SyncMode,
    puts: u32,
}

const MODES: [Mode; 4] = [
    Mode {
        name: "durable",
        sync_mode: SyncMode::Durable,
        puts: DURABLE_PUTS,
    },
    Mode {
        name: "no-meta-sync",
        sync_mode: SyncMode::NoMetaSync,
        puts: OTHER_PUTS,
    },
    Mode {
        name: "safe-no-sync",
        sync_mode: SyncMode::SafeNoSync,
        puts: OTHER_PUTS,
    },
    Mode {
        name: "utterly-no-sync",
        sync_mode: SyncMode::UtterlyNoSync,
        puts: OTHER_PUTS,
    },
];

/// Puts a second, best of the rounds.
#[derive(Default)]
struct Rates {
    /// Building the batch and writing it.
    engine: f64,
    /// Writing it alone: the group's batch is there already when a leader applies it.
    engine_write: f64,
    raw_put: f64,
    raw_cursor: f64,
}

impl Rates {
    fn best_raw(&self) -> f64 {
        self.raw_put.max(self.raw_cursor)
    }
}

fn main() {
    let mut json = Vec::new();
    let mut page = String::from(PAGE_HEAD);
    println!(
        "{:<16} {:>8} {:>12} {:>12} {:>12} {:>12}",
        "mode", "puts", "engine/s", "apply/s", "mdbx_put/s", "cursor/s"
    );
    for mode in &MODES {
        let rates = measure(mode);
        println!(
            "{:<16} {:>8} {:>12.0} {:>12.0} {:>12.0} {:>12.0}   {:.2} and {:.2} of the best bare loop",
            mode.name,
            mode.puts,
            rates.engine,
            rates.engine_write,
            rates.raw_put,
            rates.raw_cursor,
            rates.engine / rates.best_raw(),
            rates.engine_write / rates.best_raw(),
        );
        json.push(case_json(mode, &rates));
        page.push_str(&page_line(mode, &rates));
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks/mdbx.md");
    fs::write(&docs, page).expect("docs/benchmarks is writable");
    let path = target_directory().join("bench").join("mdbx.json");
    fs::create_dir_all(
        path.parent()
            .expect("the path has two components below a directory"),
    )
    .and_then(|()| fs::write(&path, format!("[\n{}\n]\n", json.join(",\n"))))
    .expect("the target directory is writable");
    println!("written to {}", path.display());
}

const PAGE_HEAD: &str = "# libmdbx's sync modes beside its raw C API

Reproduce with `make bench-mdbx`. Millions of puts a second, all in one transaction with its commit, each round on a fresh
store, the best of 40 rounds of each side in turns. `apply` is what the commit path does with a group: a batch
that is there already goes to the engine. `with its building` adds making the batch. The shares are of the better bare loop; of
the apply's at least 0.9 is asked for.

A put into a batch is two copies and their lengths: 8 ns in a loop of its own, four checked appends to memory that is there
already, which a reservation up front, one growth for all four, or a buffer on the stack did not shorten. A bare cursor put of safe-no-sync takes 64 ns, so that
the sum cannot come above 0.89 of it while the apply costs what the bare loop costs. The leader of a group does not pay
it: each writer makes its own batch before it queues, and the leader joins their bytes.

| mode | puts | apply | with its building | `mdbx_put` | cursor put | share of the apply | | share with its building |
|---|---:|---:|---:|---:|---:|---:|---|---:|
";

fn page_line(mode: &Mode, rates: &Rates) -> String {
    let share = rates.engine_write / rates.best_raw();
    let verdict = if share >= SHARE_MIN {
        "reached"
    } else {
        "missed"
    };
    let [apply, built, put, cursor] = [
        rates.engine_write,
        rates.engine,
        rates.raw_put,
        rates.raw_cursor,
    ]
    .map(|rate| rate / 1e6);
    format!(
        "| {} | {} | {apply:.2} | {built:.2} | {put:.2} | {cursor:.2} | {share:.2} | {verdict} | {:.2} |\n",
        mode.name,
        mode.puts,
        rates.engine / rates.best_raw()
    )
}

fn measure(mode: &Mode) -> Rates {
    let entries: Vec<(String, String)> = (0..mode.puts)
        .map(|number| (format!("key:{number:010}"), format!("value_{number}_data")))
        .collect();
    let mut rates = Rates::default();
    let mut batch = WriteBatch::new();
    for round in 0..=ROUNDS {
        let (built_and_written, written) = engine_round(mode, &entries, &mut batch);
        let measured = Rates {
            engine: rate(mode, built_and_written),
            engine_write: rate(mode, written),
            raw_put: rate(mode, ffi::put_round(mode.sync_mode, &entries)),
            raw_cursor: rate(mode, ffi::cursor_round(mode.sync_mode, &entries)),
        };
        // The first round warms up.
        if round > 0 {
            rates.engine = rates.engine.max(measured.engine);
            rates.engine_write = rates.engine_write.max(measured.engine_write);
            rates.raw_put = rates.raw_put.max(measured.raw_put);
            rates.raw_cursor = rates.raw_cursor.max(measured.raw_cursor);
        }
    }
    rates
}

fn rate(mode: &Mode, seconds: f64) -> f64 {
    f64::from(mode.puts) / seconds
}

/// Seconds with and without building the batch.
///
/// The batch's memory is used again from round to round, as a writer's is.
fn engine_round(mode: &Mode, entries: &[(String, String)], batch: &mut WriteBatch) -> (f64, f64) {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let options = Options {
        sync_mode: mode.sync_mode,
        ..Options::default()
    };
    let engine = Mdbx::open(directory.path(), &options).expect("a fresh store opens");
    let start = Instant::now();
    batch.clear();
    for (key, value) in entries {
        batch.put(key.as_bytes(), value.as_bytes());
    }
    let built = start.elapsed().as_secs_f64();
    engine.write(batch).expect("a batch is taken");
    let written = start.elapsed().as_secs_f64();
    (written, written - built)
}

/// Two cases a mode: with the batch's building, and without.
fn case_json(mode: &Mode, rates: &Rates) -> String {
    let mut json = String::new();
    for (case, ours) in [("puts", rates.engine), ("apply", rates.engine_write)] {
        let separator = if json.is_empty() { "" } else { ",\n" };
        write!(
            json,
            "{separator}  {{\"case\": \"{case}/{}\", \"unit\": \"ops/s\", \"ours\": {ours:.0}, \
             \"peers\": {{\"mdbx_put\": {:.0}, \"mdbx_cursor_put\": {:.0}}}, \"limit\": null}}",
            mode.name, rates.raw_put, rates.raw_cursor
        )
        .expect("a string takes what is written");
    }
    json
}

fn target_directory() -> PathBuf {
    if let Some(directory) = std::env::var_os("CARGO_TARGET_DIR") {
        return directory.into();
    }
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    home.join(".cache/quarry/target")
}
