//! What `{j: true}` costs: inserts that survive power loss beside inserts that survive a killed process, and how long
//! the former take while the engine flushes, compacts and checkpoints.
//!
//! One server an engine. Both levels take turns on it, and so do the quiet machine and the loaded one. Against each bar
//! the report says what was reached.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use quarry_bson::{Document, Value, doc};

use crate::concurrent::LATENCY_NS_MAX;
use crate::documents;
use crate::engine_work::EngineWork;
use crate::process::{Server, target_directory};
use crate::raw_client::RawClient;
use crate::report::Report;

const DATABASE: &str = "quarry_bench_durability";

/// Of the write load: commands a second, and what each inserts. 16 MiB a second flush RocksDB every two seconds.
const LOAD_COMMANDS_A_SECOND: u32 = 256;
const LOAD_DOCUMENTS: u64 = 16;
const LOAD_DOCUMENT_BYTES: usize = 4096;
/// Written before anything is measured, so that flushes and compactions have something to do.
const FILLER_COMMANDS: u64 = 2000;

/// The bars.
const THROUGHPUT_MIN: f64 = 0.8;
const THROUGHPUT_CONNECTIONS: u32 = 64;
const P99_MAX: f64 = 5.0;

/// What to run.
pub struct Options {
    pub engines: Vec<String>,
    pub connections: Vec<u32>,
    pub turn: Duration,
    pub rounds: u32,
    /// How long the quiet machine and the loaded one are measured, in turns.
    pub tail_turn: Duration,
    pub tail_rounds: u32,
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

/// What the turns of one side came to.
struct Total {
    latency: Histogram<u64>,
    seconds: f64,
}

impl Total {
    fn new() -> Total {
        Total {
            latency: new_histogram(),
            seconds: 0.0,
        }
    }

    fn per_second(&self) -> f64 {
        self.latency.len() as f64 / self.seconds
    }

    fn us_at(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e3
    }
}

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
        "`{w: 1}` waits for no sync. On 64 connections both levels use up the processors, which they share with the client: \
         a durable insert pays its part of a sync, which runs while its group goes to the engine, and sleeps once more if the \
         sync takes longer.",
    );
    for engine in &options.engines {
        let mut server = Server::start(engine, &scratch.join(engine))?;
        let mut bench = Bench {
            address: format!("127.0.0.1:{}", server.port),
            engine,
            turns: 0,
        };
        bench.fill()?;
        bench.throughput(options, &mut report)?;
        bench.tail(options, &mut report)?;
        server.stop()?;
    }
    report.publish("durable")?;
    std::fs::remove_dir_all(&scratch)
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

    fn throughput(&mut self, options: &Options, report: &mut Report) -> io::Result<()> {
        for &connections in &options.connections {
            eprintln!("{}: {connections} connections", self.engine);
            let (mut written, mut durable) = (Total::new(), Total::new());
            let mut ratios = Vec::new();
            // A bar needs more pairs than a line of the table does.
            let rounds = match connections {
                THROUGHPUT_CONNECTIONS => options.rounds,
                _ => options.rounds.div_ceil(4),
            };
            for round in 0..rounds {
                let mut rates = [0.0; 2];
                // The side that comes first changes with the round.
                for side in [round % 2, (round + 1) % 2] {
                    let (level, total) = match side {
                        0 => (Level::Written, &mut written),
                        _ => (Level::Durable, &mut durable),
                    };
                    rates[side as usize] = self.turn(level, connections, options.turn, total)?;
                }
                ratios.push(rates[1] / rates[0]);
            }
            let case = format!("{}/insert/{connections}", self.engine);
            let sides = |figure: &dyn Fn(&Total) -> f64| {
                [
                    ("durable".to_owned(), figure(&durable)),
                    ("written".to_owned(), figure(&written)),
                ]
            };
            report.push(&case, "ops/s", "durable", &sides(&Total::per_second));
            for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
                let name = format!("{case} {name}");
                report.push(
                    &name,
                    "us",
                    "durable",
                    &sides(&|total| total.us_at(quantile)),
                );
            }
            if connections == THROUGHPUT_CONNECTIONS {
                let [lower, ratio, upper] = quartiles(ratios);
                report.note(format!(
                    "{} at {connections} connections: durable inserts reach {ratio:.2} of `{{w: 1}}`, at least {THROUGHPUT_MIN} \
                     asked for: {}. That is the median of {} pairs of turns, half of which lie between {lower:.2} and \
                     {upper:.2}; all turns together come to {:.2}.",
                    self.engine,
                    reached(ratio >= THROUGHPUT_MIN),
                    rounds,
                    durable.per_second() / written.per_second(),
                ));
            }
        }
        Ok(())
    }

    /// One connection's `{j: true}` inserts, on the quiet server and beside a steady load.
    fn tail(&mut self, options: &Options, report: &mut Report) -> io::Result<()> {
        let (mut quiet, mut loaded) = (Total::new(), Total::new());
        let mut work = EngineWork::default();
        for round in 0..options.tail_rounds {
            eprintln!("{}: quiet and loaded, round {round}", self.engine);
            self.settle()?;
            self.turn(Level::Durable, 1, options.tail_turn, &mut quiet)?;
            let before = EngineWork::of(&self.address)?;
            let is_over = AtomicBool::new(false);
            let first = FILLER_COMMANDS + u64::from(round) * (1 << 32);
            thread::scope(|scope| {
                let load = scope.spawn(|| self.load(first, &is_over));
                let client = self.turn_shared(options.tail_turn, &mut loaded, round);
                is_over.store(true, Ordering::Relaxed);
                let load = load
                    .join()
                    .map_err(|_| io::Error::other("the load panicked"))?;
                client.and(load)
            })?;
            work = work + (EngineWork::of(&self.address)? - before);
        }
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            let sides = [
                ("durable".to_owned(), loaded.us_at(quantile)),
                ("quiet".to_owned(), quiet.us_at(quantile)),
            ];
            let case = format!("{}/insert/1 beside a write load {name}", self.engine);
            report.push(&case, "us", "durable", &sides);
        }
        let ratio = loaded.us_at(0.99) / quiet.us_at(0.99);
        report.note(format!(
            "{}: beside a load of {} MiB a second, with {} flushes or steady points and {} compactions on the way, the p99 \
             of `{{j: true}}` is {ratio:.1} times the quiet one, at most {P99_MAX} asked for: {}.",
            self.engine,
            (LOAD_DOCUMENTS * u64::from(LOAD_COMMANDS_A_SECOND) * LOAD_DOCUMENT_BYTES as u64) >> 20,
            work.flushes,
            work.compactions,
            reached(ratio <= P99_MAX)
        ));
        Ok(())
    }

    /// Returns the inserts a second. The clock starts when all are connected.
    fn turn(
        &mut self,
        level: Level,
        connections: u32,
        length: Duration,
        total: &mut Total,
    ) -> io::Result<f64> {
        self.turns += 1;
        let first = self.turns << 32;
        let clients = (0..connections).map(|_| RawClient::connect(&self.address));
        let clients = clients.collect::<io::Result<Vec<_>>>()?;
        let started = Instant::now();
        let mut threads = Vec::new();
        for (connection, mut client) in clients.into_iter().enumerate() {
            let first = first + ((connection as u64) << 24);
            threads.push(thread::spawn(move || {
                insert_until(&mut client, level, first, started + length)
            }));
        }
        let mut inserts = 0;
        for thread in threads {
            let latency = thread
                .join()
                .map_err(|_| io::Error::other("a client thread panicked"))??;
            inserts += latency.len();
            total.latency.add(&latency).map_err(io::Error::other)?;
        }
        let seconds = started.elapsed().as_secs_f64();
        total.seconds += seconds;
        Ok(inserts as f64 / seconds)
    }

    /// A turn of one durable connection, beside which other threads use this bench.
    fn turn_shared(&self, length: Duration, total: &mut Total, round: u32) -> io::Result<()> {
        let mut client = RawClient::connect(&self.address)?;
        let started = Instant::now();
        let first = (1 << 60) + (u64::from(round) << 32);
        let latency = insert_until(&mut client, Level::Durable, first, started + length)?;
        total.latency.add(&latency).map_err(io::Error::other)?;
        total.seconds += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Inserts at an even pace until told to end.
    fn load(&self, first: u64, is_over: &AtomicBool) -> io::Result<()> {
        let mut client = RawClient::connect(&self.address)?;
        let started = Instant::now();
        let mut sent = 0;
        while !is_over.load(Ordering::Relaxed) {
            let due = started + Duration::from_secs(1) * sent / LOAD_COMMANDS_A_SECOND;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            client.command(&load_command(first + u64::from(sent)))?;
            sent += 1;
        }
        Ok(())
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

fn insert_until(
    client: &mut RawClient,
    level: Level,
    first: u64,
    deadline: Instant,
) -> io::Result<Histogram<u64>> {
    let mut latency = new_histogram();
    let prefix = format!("d{first:x}");
    for count in 0.. {
        if Instant::now() >= deadline {
            break;
        }
        let batch: Vec<Value> = vec![documents::simple(&prefix, count).into()];
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

/// The lower quartile, the median and the upper quartile of at least one number.
fn quartiles(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| numbers[(numbers.len() - 1) * quarter / 4])
}

fn reached(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "missed" }
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_NS_MAX, 3).expect("three digits up to a minute")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_any_order() {
        assert_eq!(quartiles(vec![5.0, 1.0, 4.0, 2.0, 3.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(vec![7.0]), [7.0; 3]);
    }
}
