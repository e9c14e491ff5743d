//! Measures what `{j: true}` costs: inserts that survive power loss beside inserts that survive a killed process, and how long
//! the former take while the engine flushes, compacts and checkpoints; and how fast a start replays what a killed server left.
//!
//! One server an engine. Both levels take turns on it, and so do the quiet machine and the loaded one. Servers of their own are
//! killed. Against each bar the report says what was reached.

mod replay;
mod tail;
mod throughput;

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use quarry_bson::{Document, Value, doc};

use crate::concurrent::latencies;
use crate::documents;
use crate::engine_work::EngineWork;
use crate::process::{Server, target_directory};
use crate::raw_client::RawClient;
use crate::report::{Report, reached};

const DATABASE: &str = "quarry_bench_durability";

/// The documents that one command of the write load inserts.
const LOAD_DOCUMENTS: u64 = 16;
const LOAD_DOCUMENT_BYTES: usize = 4096;
/// Written before anything is measured, so that flushes and compactions have something to do.
const FILLER_COMMANDS: u64 = 2000;

/// The options of `quarry-bench durability`.
pub struct Options {
    /// The engines, each with a server of its own.
    pub engines: Vec<String>,
    /// The numbers of connections, each of which is a case.
    pub connections: Vec<u32>,
    /// How long one turn of one side lasts.
    pub turn: Duration,
    /// How often the sides take turns.
    pub rounds: u32,
    /// How long the quiet machine and the loaded one are measured, in turns.
    pub tail_turn: Duration,
    /// How often the quiet machine and the loaded one take turns.
    pub tail_rounds: u32,
    /// How often a server is killed and started again.
    pub replay_rounds: u32,
    /// The bytes written before a kill, in MiB; a sixteenth more with each round.
    pub replay_mib: u64,
    /// Whether nothing but the replay is measured.
    pub only_replay: bool,
}

#[derive(Clone, Copy)]
enum Level {
    Written,
    Durable,
}

impl Level {
    fn concern(self) -> Document {
        match self {
            Level::Written => doc! { "w": 1 },
            Level::Durable => doc! { "w": 1, "j": true },
        }
    }
}

/// The sum of all turns of one side.
struct Total {
    latency: Histogram<u64>,
    seconds: f64,
}

impl Total {
    fn new() -> Total {
        Total {
            latency: latencies(),
            seconds: 0.0,
        }
    }

    /// Adds a turn and returns its inserts a second.
    fn add(&mut self, latency: &Histogram<u64>, seconds: f64) -> io::Result<f64> {
        self.latency.add(latency).map_err(io::Error::other)?;
        self.seconds += seconds;
        Ok(latency.len() as f64 / seconds)
    }

    fn per_second(&self) -> f64 {
        self.latency.len() as f64 / self.seconds
    }

    fn us_at(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Runs the bench, prints its tables and writes its reports.
pub fn run(options: &Options) -> io::Result<()> {
    let scratch = target_directory()
        .join("bench/data")
        .join(std::process::id().to_string());
    let mut report = Report::new(
        "durability",
        "What a durable write costs",
        "make bench-durability",
    );
    report.note(
        "`driver` is the `mongodb` crate, `raw` the bench's own client, which costs next to nothing. `{w: 1}` waits for no \
         sync. On 64 connections both levels use up the processors, which they share with the client: a durable insert pays \
         its part of a sync, which runs while its group goes to the engine, and a longer sleep.",
    );
    for engine in &options.engines {
        if !options.only_replay {
            measure_writes(engine, &scratch.join(engine), options, &mut report)?;
        }
        replay::measure(
            engine,
            &scratch.join(format!("{engine}-replay")),
            options,
            &mut report,
        )?;
    }
    report.publish("durable")?;
    std::fs::remove_dir_all(&scratch)
}

/// Measures both levels, and the tail of one beside the engine's work.
fn measure_writes(
    engine: &str,
    directory: &Path,
    options: &Options,
    report: &mut Report,
) -> io::Result<()> {
    let mut server = Server::start(engine, directory)?;
    let mut bench = Bench {
        address: format!("127.0.0.1:{}", server.port),
        engine,
        turns: 0,
    };
    bench.fill()?;
    bench.throughput(options, report)?;
    bench.tail(options, report)?;
    server.stop()
}

struct Bench<'b> {
    address: String,
    engine: &'b str,
    /// Gives every turn `_id`s of its own.
    turns: u64,
}

impl Bench<'_> {
    fn fill(&self) -> io::Result<()> {
        eprintln!("{}: filling", self.engine);
        let mut client = RawClient::connect(&self.address)?;
        for number in 0..FILLER_COMMANDS {
            client.command(&load_command(number))?;
        }
        self.settle()
    }

    /// Returns when the engine has nothing under way any more.
    fn settle(&self) -> io::Result<()> {
        const LOOK: Duration = Duration::from_millis(500);
        const LOOKS_MAX: u32 = 60;
        let mut before = EngineWork::of(&self.address)?;
        for _ in 0..LOOKS_MAX {
            thread::sleep(LOOK);
            let now = EngineWork::of(&self.address)?;
            if now == before {
                return Ok(());
            }
            before = now;
        }
        Err(io::Error::other("the engine does not come to rest"))
    }
}

/// Returns the times of the inserts.
fn insert_until(
    client: &mut RawClient,
    level: Level,
    prefix: &str,
    deadline: Instant,
) -> io::Result<Histogram<u64>> {
    let mut latency = latencies();
    for count in 0.. {
        if Instant::now() >= deadline {
            break;
        }
        let batch: Vec<Value> = vec![documents::simple(prefix, count).into()];
        let command = doc! {
            "insert": "simple", "documents": batch, "writeConcern": (level.concern()), "$db": DATABASE
        };
        let started = Instant::now();
        client.command(&command)?;
        latency.saturating_record(started.elapsed().as_nanos() as u64);
    }
    Ok(latency)
}

/// Documents whose `_id`s fall anywhere among those before, so that compactions have to move them.
fn load_command(number: u64) -> Document {
    let filler = "x".repeat(LOAD_DOCUMENT_BYTES);
    let batch: Vec<Value> = (0..LOAD_DOCUMENTS)
        .map(|at| {
            let id = (number * LOAD_DOCUMENTS + at).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            doc! { "_id": (id as i64), "filler": (filler.as_str()) }.into()
        })
        .collect();
    doc! { "insert": "load", "documents": batch, "$db": DATABASE }
}
