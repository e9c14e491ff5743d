//! Measures the cost of encryption at rest: operations, bulk inserts and reads from the disk on a server that encrypts beside one that does not,
//! in turns of one run, and the instructions of an insert and a point query on both.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use quarry_bson::{Document, Value, doc};

use crate::message::op_msg;
use crate::process::{Launch, Server, target_directory};
use crate::raw_client::RawClient;
use crate::report::Report;
use crate::{callgrind, documents, instructions};

const DATABASE: &str = "quarry_bench_encryption";
const ENGINE: &str = "rocksdb";
/// Documents that point queries read, far more than the caches of the servers hold.
const PRELOADED: u64 = 200_000;
const BATCH: u64 = 1000;
/// The smallest cache of blocks, and none of records, so that reads come from the engine's files.
const COLD: [&str; 4] = [
    "--wiredTigerCacheSizeGB",
    "0.01",
    "--setParameter",
    "recordCacheMB=0",
];
/// A key like any other: the data of a bench is nobody's.
const KEY: &str = "cXVhcnJ5IGJlbmNoIGVuY3J5cHRpb24ga2V5IDAwMDE=";

/// The options of `quarry-bench encryption`.
pub struct Options {
    /// How often the sides take turns.
    pub rounds: u32,
    /// Operations of one side in one round.
    pub turn: u32,
    /// Operations whose instructions are counted; 0 = none are.
    pub counted: u64,
}

struct Side {
    server: Server,
    client: RawClient,
    sent: u64,
}

/// The n-th command of a workload.
type Command = fn(u64) -> Document;

const WORKLOADS: [(&str, Command); 3] = [
    ("insert one", |n| {
        let document = documents::simple("one", n);
        doc! { "insert": "written", "documents": [document], "$db": DATABASE }
    }),
    ("insert one, {j: true}", |n| {
        let document = documents::simple("durable", n);
        let concern = doc! { "j": true };
        doc! { "insert": "written", "documents": [document], "writeConcern": concern, "$db": DATABASE }
    }),
    ("point query from the disk or the system's cache", |n| {
        let id = documents::simple_id("bench", n.wrapping_mul(7919) % PRELOADED);
        doc! { "find": "read", "filter": doc! { "_id": id }, "limit": 1, "singleBatch": true, "$db": DATABASE }
    }),
];

/// A key file in this directory, as words of a command line have it.
pub fn key_file(directory: &Path) -> io::Result<String> {
    let path = directory.join("key");
    fs::write(&path, KEY)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(path.to_string_lossy().into_owned())
}

/// Runs the bench, prints its table and writes its report.
pub fn run(options: &Options) -> io::Result<()> {
    let scratch = target_directory()
        .join("bench/data")
        .join(std::process::id().to_string());
    fs::create_dir_all(&scratch)?;
    let key = key_file(&scratch)?;
    let with_key = ["--enableEncryption", "--encryptionKeyFile", &key];
    let mut report = Report::new(
        "encryption",
        "What encryption at rest costs",
        "make bench-encryption",
    );
    report.note(format!(
        "One connection on {ENGINE}, {} rounds of {} operations a side in turns; medians of a round's operations, then over the rounds. Both \
         servers have a cache of 10 MB and none of records, so that nearly every query reads a block of a file, which the system has in its \
         memory for the most part.",
        options.rounds, options.turn
    ));
    let mut plain = start(&scratch.join("plain"), &COLD)?;
    let mut encrypted = start(&scratch.join("encrypted"), &[&COLD[..], &with_key].concat())?;
    push_bulk(&mut report, &mut plain, &mut encrypted)?;
    push_latencies(options, &mut report, &mut plain, &mut encrypted)?;
    for side in [&mut plain, &mut encrypted] {
        side.server.stop()?;
    }
    if options.counted > 0 {
        push_instructions(options, &mut report, &scratch, &with_key)?;
    }
    report.publish("encrypted")?;
    fs::remove_dir_all(&scratch)
}

/// The times of single operations, in turns.
fn push_latencies(
    options: &Options,
    report: &mut Report,
    plain: &mut Side,
    encrypted: &mut Side,
) -> io::Result<()> {
    for (name, command) in WORKLOADS {
        eprintln!("{name}");
        let mut times = [const { Vec::new() }; 2];
        for round in 0..options.rounds as usize {
            for place in 0..2 {
                let which = (round + place) % 2;
                let side = [&mut *plain, &mut *encrypted];
                let side = side.into_iter().nth(which).expect("there are two sides");
                times[which].push(side.turn(command, options.turn)?);
            }
        }
        let [without, with] = times.map(median);
        push(report, name, "us", without, with);
    }
    Ok(())
}

/// The instructions of the thread that serves a connection.
fn push_instructions(
    options: &Options,
    report: &mut Report,
    scratch: &Path,
    with_key: &[&str],
) -> io::Result<()> {
    for workload in ["point query", "insert one"] {
        eprintln!("instructions: {workload}");
        let count = |name: &str, arguments: &[&str]| {
            let launch = launch(arguments);
            let directory = scratch.join(name);
            instructions::count_of(workload, ENGINE, options.counted, launch, &directory)
        };
        let without = count("counted-plain", &[])?;
        let with = count("counted-encrypted", with_key)?;
        push(report, workload, "instructions", without, with);
    }
    report.note(format!(
        "Instructions are callgrind's ({}) of the thread that serves the connection, over {} operations with the usual caches; \
         memtables are skip lists of random heights, so that a percent means nothing. What threads in the background flush and compact is not in them.",
        callgrind::version().unwrap_or_default(),
        options.counted
    ));
    Ok(())
}

fn push(report: &mut Report, case: &str, unit: &str, without: f64, with: f64) {
    let sides = [("encrypted".into(), with), ("plain".into(), without)];
    report.push(case, unit, "encrypted", &sides);
}

fn launch(arguments: &[&str]) -> Launch {
    Launch {
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        ..Launch::default()
    }
}

fn start(directory: &Path, arguments: &[&str]) -> io::Result<Side> {
    let server = Server::launch(ENGINE, directory, launch(arguments))?;
    let client = RawClient::connect(("127.0.0.1", server.port))?;
    Ok(Side {
        server,
        client,
        sent: 0,
    })
}

/// The rate at which the documents are inserted that are read later, the engine's flush included; then a whole scan of them.
fn push_bulk(report: &mut Report, plain: &mut Side, encrypted: &mut Side) -> io::Result<()> {
    eprintln!("bulk inserts and scans");
    let (mut inserted, mut scanned) = ([0.0; 2], [0.0; 2]);
    for first in (0..PRELOADED).step_by(BATCH as usize) {
        for (which, side) in [&mut *plain, &mut *encrypted].into_iter().enumerate() {
            let batch: Vec<Value> = (first..first + BATCH)
                .map(|n| documents::simple("bench", n).into())
                .collect();
            let insert = doc! { "insert": "read", "documents": batch, "$db": DATABASE };
            inserted[which] += side.seconds(&insert)?;
        }
    }
    for (which, side) in [&mut *plain, &mut *encrypted].into_iter().enumerate() {
        inserted[which] += side.seconds(&doc! { "fsync": 1, "$db": "admin" })?;
    }
    let scan = doc! { "count": "read", "query": doc! { "absent": 1 }, "$db": DATABASE };
    for round in 0..3 {
        for place in 0..2 {
            let which = (round + place) % 2;
            let side = if which == 0 {
                &mut *plain
            } else {
                &mut *encrypted
            };
            scanned[which] += side.seconds(&scan)?;
        }
    }
    let rate = |seconds: f64, documents: u64| documents as f64 / seconds;
    let [without, with] = inserted.map(|seconds| rate(seconds, PRELOADED));
    push(
        report,
        "insert in batches of 1000, and flush",
        "docs/s",
        without,
        with,
    );
    let [without, with] = scanned.map(|seconds| rate(seconds, 3 * PRELOADED));
    push(report, "scan of the collection", "docs/s", without, with);
    Ok(())
}

impl Side {
    fn seconds(&mut self, command: &Document) -> io::Result<f64> {
        let started = Instant::now();
        self.client.command(command)?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// The median time of one operation, in microseconds.
    fn turn(&mut self, command: Command, operations: u32) -> io::Result<f64> {
        let mut times = Vec::with_capacity(operations as usize);
        for _ in 0..operations {
            self.sent += 1;
            let request = op_msg(1, 0, &command(self.sent));
            let started = Instant::now();
            self.client.round_trip(&request)?;
            times.push(started.elapsed().as_nanos() as f64 / 1e3);
        }
        Ok(median(times))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
