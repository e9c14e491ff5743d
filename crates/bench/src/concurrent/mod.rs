//! The concurrent mode: point reads and `{w: 1}` inserts of simple documents from 1 to 64 connections.
//!
//! Two clients, the `mongodb` crate and the raw one; every combination runs in short turns over all sides, so that
//! whatever else the machine does hurts them alike.

use std::io;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use quarry_bson::{Value, doc};

use crate::documents;
use crate::driver_client::DriverClient;
use crate::peers::{CANNED, Peer, Peers};
use crate::raw_client::RawClient;
use crate::report::Report;

pub mod starts;

/// The database of the workloads.
pub const DATABASE: &str = "quarry_bench";
/// The collection of the workloads.
pub const COLLECTION: &str = "simple";

/// Latencies beyond a minute are recorded as a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// A histogram of latencies that is empty.
pub(crate) fn latencies() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_NS_MAX, 3).expect("three digits up to a minute")
}

/// Documents of the collection that point reads draw from.
pub const PRELOADED: u64 = 100_000;
const PRELOAD_BATCH: u64 = 1000;

/// Filler written before measuring, so that several memtables have been flushed: 160 MiB in documents of 8 KiB.
const FILLER_BATCHES: u64 = 40;
const FILLER_BATCH: u64 = 512;
const FILLER_BYTES: usize = 8192;

/// The operation that every connection repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A find by `_id`.
    PointRead,
    /// An insert of one document.
    Insert,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::PointRead => "point read",
            Operation::Insert => "insert {w: 1}",
        }
    }
}

/// A workload that all sides are measured by.
#[derive(Clone, Copy)]
struct Case {
    client: &'static str,
    operation: Operation,
    connections: u32,
}

impl Case {
    fn all(connections: &[u32]) -> impl Iterator<Item = Case> + '_ {
        ["driver", "raw"].into_iter().flat_map(move |client| {
            let operations = [Operation::PointRead, Operation::Insert];
            operations.into_iter().flat_map(move |operation| {
                connections.iter().map(move |&connections| Case {
                    client,
                    operation,
                    connections,
                })
            })
        })
    }

    fn name(self) -> String {
        format!(
            "{}/{}/{}",
            self.client,
            self.operation.name(),
            self.connections
        )
    }
}

/// The measurements of one turn.
pub struct Sample {
    /// The latencies, in nanoseconds.
    pub latency: Histogram<u64>,
    /// How long the turn lasted.
    pub seconds: f64,
}

/// The options of `quarry-bench concurrent`.
pub struct Options {
    /// The servers to measure; none: the bench starts its own.
    pub given: Vec<Peer>,
    /// The numbers of connections, each of which is a case.
    pub connections: Vec<u32>,
    /// How long one turn of one side lasts.
    pub turn: Duration,
    /// How often the sides take turns.
    pub rounds: u32,
}

/// The key of one read: a full-period walk over all keys that looks random to a cache.
pub fn key_at(first: u64, count: u64, keys: u64) -> u64 {
    let mixed = (first ^ (first >> 29))
        .wrapping_add(count)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 20) % keys
}

/// Runs the bench, prints its tables and writes its reports.
pub fn run(options: &Options) -> io::Result<()> {
    let peers = Peers::given_or_started(&options.given, &["rocksdb", "mdbx", "memory"])?;
    let ours = peers
        .peers
        .get(1)
        .map_or("rocksdb", |peer| peer.name.as_str())
        .to_owned();
    for peer in peers.peers.iter().filter(|peer| peer.name != CANNED) {
        eprintln!("preloading {}", peer.name);
        preload(peer)?;
    }
    let mut report = Report::new(
        "crud-concurrent",
        "CRUD from many connections",
        "make bench-concurrent",
    );
    report.note(
        "On the lines in ops/s the ratio to `canned` is the share of what the client could do \
         that remains with a server behind it.",
    );
    let mut turn_number = 0;
    for case in Case::all(&options.connections) {
        let Case {
            client,
            operation,
            connections,
        } = case;
        eprintln!("{client}, {}, {connections} connections", operation.name());
        let mut totals = Vec::new();
        for peer in &peers.peers {
            totals.push((
                peer,
                Runner::connect(client, peer, connections)?,
                Total::new(),
            ));
        }
        for _ in 0..options.rounds {
            for (_, runner, total) in &mut totals {
                turn_number += 1;
                let seed = run_seed().wrapping_add(turn_number << 52);
                total.add(&runner.run(operation, connections, options.turn, seed)?)?;
            }
        }
        push(&mut report, &case.name(), &ours, &totals);
    }
    report.publish(&ours)?;
    Ok(())
}

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

    fn add(&mut self, sample: &Sample) -> io::Result<()> {
        self.seconds += sample.seconds;
        self.latency.add(&sample.latency).map_err(io::Error::other)
    }

    fn per_second(&self) -> f64 {
        self.latency.len() as f64 / self.seconds
    }
}

enum Runner {
    Driver(DriverClient),
    Raw(String),
}

impl Runner {
    fn connect(client: &str, peer: &Peer, connections: u32) -> io::Result<Runner> {
        match client {
            "driver" => Ok(Runner::Driver(DriverClient::connect(peer, connections)?)),
            _ => Ok(Runner::Raw(peer.address().to_owned())),
        }
    }

    fn run(
        &self,
        operation: Operation,
        connections: u32,
        turn: Duration,
        seed: u64,
    ) -> io::Result<Sample> {
        match self {
            Runner::Driver(client) => client.run(operation, connections, turn, PRELOADED, seed),
            Runner::Raw(address) => run_raw(address, operation, connections, turn, seed),
        }
    }
}

fn push(report: &mut Report, case: &str, ours: &str, totals: &[(&Peer, Runner, Total)]) {
    let sides = |figure: &dyn Fn(&Total) -> f64| -> Vec<(String, f64)> {
        totals
            .iter()
            .map(|(peer, _, total)| (peer.name.clone(), figure(total)))
            .collect()
    };
    let rates = sides(&|total| total.per_second());
    report.push(case, "ops/s", ours, &rates);
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let figures = sides(&|total| total.latency.value_at_quantile(quantile) as f64 / 1000.0);
        report.push(&format!("{case} {name}"), "us", ours, &figures);
    }
}

fn run_raw(
    address: &str,
    operation: Operation,
    connections: u32,
    turn: Duration,
    seed: u64,
) -> io::Result<Sample> {
    let barrier = Arc::new(Barrier::new(connections as usize + 1));
    let mut threads = Vec::new();
    for connection in 0..connections {
        let mut client = RawClient::connect(address)?;
        let barrier = Arc::clone(&barrier);
        let first = seed.wrapping_add(u64::from(connection) << 40);
        threads.push(thread::spawn(move || -> io::Result<Histogram<u64>> {
            barrier.wait();
            repeat_raw(&mut client, operation, first, Instant::now() + turn)
        }));
    }
    barrier.wait();
    let started = Instant::now();
    let mut latency = latencies();
    for thread in threads {
        let one = thread
            .join()
            .map_err(|_| io::Error::other("a client thread panicked"))??;
        latency.add(one).map_err(io::Error::other)?;
    }
    Ok(Sample {
        latency,
        seconds: started.elapsed().as_secs_f64(),
    })
}

fn repeat_raw(
    client: &mut RawClient,
    operation: Operation,
    first: u64,
    deadline: Instant,
) -> io::Result<Histogram<u64>> {
    let mut latency = latencies();
    let prefix = format!("r{first:x}");
    let mut count = 0;
    while Instant::now() < deadline {
        let command = match operation {
            Operation::PointRead => doc! {
                "find": COLLECTION, "filter": { "_id": (documents::simple_id("bench", key_at(first, count, PRELOADED))) },
                "limit": 1, "singleBatch": true, "$db": DATABASE
            },
            Operation::Insert => {
                let batch: Vec<Value> = vec![documents::simple(&prefix, count).into()];
                doc! { "insert": COLLECTION, "documents": (batch), "$db": DATABASE }
            }
        };
        let started = Instant::now();
        client.command(&command)?;
        latency.saturating_record(started.elapsed().as_nanos() as u64);
        count += 1;
    }
    Ok(latency)
}

/// Fills a server with what point reads draw from, and with enough beside it to be flushed.
pub fn preload(peer: &Peer) -> io::Result<()> {
    let mut client = RawClient::connect(peer.address())?;
    preload_simple(&mut client)?;
    let filler = "x".repeat(FILLER_BYTES);
    for batch in 0..FILLER_BATCHES {
        let documents: Vec<Value> = (0..FILLER_BATCH)
            .map(|seq| {
                doc! { "_id": ((batch * FILLER_BATCH + seq) as i64), "filler": (filler.as_str()) }
                    .into()
            })
            .collect();
        client.command(&doc! { "insert": "filler", "documents": (documents), "$db": DATABASE })?;
    }
    Ok(())
}

/// Inserts the documents that point reads draw from.
fn preload_simple(client: &mut RawClient) -> io::Result<()> {
    client.command(&doc! { "dropDatabase": 1, "$db": DATABASE })?;
    for batch in 0..PRELOADED / PRELOAD_BATCH {
        let seqs = batch * PRELOAD_BATCH..(batch + 1) * PRELOAD_BATCH;
        let documents: Vec<Value> = seqs
            .map(|seq| documents::simple("bench", seq).into())
            .collect();
        client
            .command(&doc! { "insert": COLLECTION, "documents": (documents), "$db": DATABASE })?;
    }
    Ok(())
}

/// Differs from run to run, so that a server that kept its data meets no `_id` twice.
fn run_seed() -> u64 {
    u64::from(std::process::id()) << 20
}
