//! The layered table: where the time of point queries and inserts goes, by layer and phase, at the median and at the
//! 99th percentile, from 1 and from 16 connections, through one server.
//!
//! Quantiles of parts do not add up to the quantile of the whole. So the server sends a share of its operations as
//! traces, and a line of the table is the mean over those whose wall lies next to the quantile: its parts sum to it.

mod picture;
mod receiver;
mod table;

use std::io;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use quarry_bson::{Document, Value, doc};

use crate::documents;
use crate::process::{Launch, Server, target_directory};
use crate::raw_client::RawClient;
use crate::report;
use receiver::{Operation, Receiver};
use table::{Band, Line};

const DATABASE: &str = "quarry_bench_layers";
/// Documents that point queries read.
const PRELOADED: u64 = 10_000;
/// Operations before those that are counted.
const WARM_UP: Duration = Duration::from_millis(500);
/// The share of the operations whose times are looked at.
const SHARE: f64 = 0.1;
/// Spans still under way after a turn come within this time.
const RECEIVE_TIME: Duration = Duration::from_secs(3);
const QUANTILES: [f64; 2] = [0.5, 0.99];

/// The options of `quarry-bench layers`.
pub struct Options {
    /// The engine of the servers that the bench starts.
    pub engine: String,
    /// The numbers of connections, each of which is a case.
    pub connections: Vec<u32>,
    /// How long one turn of one side lasts.
    pub turn: Duration,
}

/// One workload: the n-th command of a connection, and the name of its spans.
struct Workload {
    name: &'static str,
    span: &'static str,
    command: fn(u64) -> Document,
}

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "point query",
        span: "find quarry_bench_layers.read",
        command: |n| {
            let id = documents::simple_id("bench", n.wrapping_mul(7919) % PRELOADED);
            doc! { "find": "read", "filter": doc! { "_id": id }, "limit": 1, "singleBatch": true, "$db": DATABASE }
        },
    },
    Workload {
        name: "insert, 1 index",
        span: "insert quarry_bench_layers.simple",
        command: |n| insert("simple", vec![documents::simple("layers", n).into()]),
    },
    Workload {
        name: "insert, 11 indexes",
        span: "insert quarry_bench_layers.complex",
        command: |n| insert("complex", vec![documents::complex(n).into()]),
    },
];

fn insert(collection: &str, documents: Vec<Value>) -> Document {
    doc! { "insert": collection, "documents": documents, "$db": DATABASE }
}

/// Runs the bench, prints its tables and writes its reports.
pub fn run(options: &Options) -> io::Result<()> {
    let receiver = Receiver::start()?;
    let scratch = target_directory()
        .join("bench/data")
        .join(std::process::id().to_string());
    let arguments = ["--otlpEndpoint", &receiver.url(), "--slowms", "100000"];
    let launch = Launch {
        arguments: arguments.map(str::to_owned).to_vec(),
        ..Launch::default()
    };
    let mut server = Server::launch(&options.engine, &scratch, launch)?;
    let mut control = RawClient::connect(("127.0.0.1", server.port))?;
    preload(&mut control)?;
    let mut lines = Vec::new();
    let mut sent = 0;
    for workload in &WORKLOADS {
        for &connections in &options.connections {
            eprintln!("{}, {connections} connections", workload.name);
            let turn = Turn {
                workload,
                connections,
                first: sent,
                port: server.port,
            };
            set_share(&mut control, 0.0)?;
            sent += turn.run(WARM_UP)?.len() as u64;
            set_share(&mut control, SHARE)?;
            receiver.forget();
            let turn = Turn {
                first: sent,
                ..turn
            };
            let mut trips = turn.run(options.turn)?;
            sent += trips.len() as u64;
            set_share(&mut control, 0.0)?;
            let mut operations = receiver.named(workload.span, RECEIVE_TIME);
            lines.push(line(workload, connections, &mut operations, &mut trips)?);
        }
    }
    server.stop()?;
    std::fs::remove_dir_all(&scratch)?;
    publish(options, &lines)
}

fn preload(client: &mut RawClient) -> io::Result<()> {
    for first in (0..PRELOADED).step_by(1000) {
        let batch = (first..first + 1000).map(|n| documents::simple("bench", n).into());
        client.command(&insert("read", batch.collect()))?;
    }
    client.command(&doc! { "create": "simple", "$db": DATABASE })?;
    client.command(&doc! { "createIndexes": "complex", "indexes": (documents::ten_indexes()), "$db": DATABASE })
}

fn set_share(control: &mut RawClient, share: f64) -> io::Result<()> {
    control.command(&doc! { "setParameter": 1, "traceSampleRate": share, "$db": "admin" })
}

/// A workload from a number of connections for a while.
struct Turn<'a> {
    workload: &'a Workload,
    connections: u32,
    /// Commands of this number and above have not been sent yet.
    first: u64,
    port: u16,
}

impl Turn<'_> {
    /// The round trips in nanoseconds, as the clients measured them.
    fn run(&self, time: Duration) -> io::Result<Vec<u64>> {
        let barrier = Barrier::new(self.connections as usize);
        thread::scope(|scope| {
            let connections: Vec<_> = (0..self.connections)
                .map(|place| {
                    let barrier = &barrier;
                    scope.spawn(move || self.connection(place, barrier, time))
                })
                .collect();
            let mut trips = Vec::new();
            for connection in connections {
                let ended = connection
                    .join()
                    .map_err(|_| io::Error::other("a connection panicked"))?;
                trips.extend(ended?);
            }
            Ok(trips)
        })
    }

    fn connection(&self, place: u32, barrier: &Barrier, time: Duration) -> io::Result<Vec<u64>> {
        let connected = RawClient::connect(("127.0.0.1", self.port));
        barrier.wait();
        let mut client = connected?;
        let ended = Instant::now() + time;
        let mut trips = Vec::new();
        // Connections send numbers that no other one sends, before or after.
        let mut number = (self.first + 1) * u64::from(u16::MAX) + u64::from(place);
        loop {
            let command = (self.workload.command)(number);
            number += u64::from(self.connections);
            let started = Instant::now();
            client.command(&command)?;
            trips.push(started.elapsed().as_nanos() as u64);
            if Instant::now() >= ended {
                return Ok(trips);
            }
        }
    }
}

fn line(
    workload: &Workload,
    connections: u32,
    operations: &mut [Operation],
    trips: &mut [u64],
) -> io::Result<Line> {
    if operations.is_empty() {
        let name = workload.name;
        return Err(io::Error::other(format!("no traces of `{name}` came")));
    }
    operations.sort_by_key(|operation| operation.wall_ns);
    trips.sort_unstable();
    Ok(Line {
        workload: workload.name,
        connections,
        operations: operations.len(),
        bands: QUANTILES.map(|quantile| Band::around(quantile, operations, trips)),
    })
}

fn publish(options: &Options, lines: &[Line]) -> io::Result<()> {
    let directory = Path::new("docs/benchmarks");
    let text = table::markdown(&options.engine, lines);
    println!("\n{text}");
    report::write(&directory.join("layers.md"), &text)?;
    report::write(&directory.join("layers.svg"), &picture::svg(lines))?;
    println!("wrote docs/benchmarks/layers.md and layers.svg");
    Ok(())
}
