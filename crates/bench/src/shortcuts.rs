//! Measures what each shortcut of the server wins: servers that go without one of them, beside one that has them all.
//!
//! All sides take turns within one run. A figure is the time of the side without the shortcut over that of the side with
//! all, turn by turn, as the median over the rounds: above 1 the shortcut wins. pymongo on one connection has a client's
//! pauses between two requests, which some shortcuts use; the raw client has none.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use quarry_bson::{Document, Value, doc};

use crate::concurrent::{COLLECTION, DATABASE, PRELOADED, key_at, preload};
use crate::crud;
use crate::documents;
use crate::peers::{Peer, Peers};
use crate::process::{Launch, target_directory};
use crate::raw_client::RawClient;
use crate::report::{machine, write};

/// The side with all shortcuts.
const ALL: &str = "all";

/// A side goes without one shortcut: its name, and the server parameter that takes it away.
const WITHOUT: [(&str, &str); 7] = [
    ("late writes", "commitShortcutsOff=lateWrites"),
    ("lone writers", "commitShortcutsOff=loneWriters"),
    ("gathering", "commitShortcutsOff=gathering"),
    ("early sync", "commitShortcutsOff=earlySync"),
    ("locks over sync", "commitShortcutsOff=locksOverSync"),
    ("record cache", "recordCacheMB=0"),
    ("busy polling", "busyPollMicros=0"),
];

/// The cases of the CRUD workloads that run from pymongo: those whose names contain this.
const CRUD_CASES: &str = "simple";

/// The options of `quarry-bench shortcuts`.
pub struct Options {
    /// The engine of the servers that the bench starts.
    pub engine: String,
    /// The Python interpreter that has pymongo.
    pub python: String,
    /// How often all cases are run.
    pub passes: u32,
    /// Operations of each case in each pass.
    pub iterations: u32,
    /// The numbers of connections, each of which is a case.
    pub connections: Vec<u32>,
    /// Length of one turn of one side.
    pub turn: Duration,
    /// How often the sides take turns.
    pub rounds: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    PointRead,
    Insert,
    InsertDurable,
    Update,
    UpdateDurable,
}

const OPERATIONS: [Operation; 5] = [
    Operation::PointRead,
    Operation::Insert,
    Operation::InsertDurable,
    Operation::Update,
    Operation::UpdateDurable,
];

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::PointRead => "point read",
            Operation::Insert => "insert {w: 1}",
            Operation::InsertDurable => "insert {j: true}",
            Operation::Update => "update {w: 1}",
            Operation::UpdateDurable => "update {j: true}",
        }
    }

    fn command(self, prefix: &str, first: u64, count: u64) -> Document {
        let key = || documents::simple_id("bench", key_at(first, count, PRELOADED));
        let insert = |concern: Document| {
            let batch: Vec<Value> = vec![documents::simple(prefix, count).into()];
            doc! { "insert": COLLECTION, "documents": batch, "writeConcern": concern, "$db": DATABASE }
        };
        let update = |concern: Document| {
            let updates: Vec<Value> =
                vec![doc! { "q": { "_id": (key()) }, "u": { "$inc": { "seq": 1 } } }.into()];
            doc! { "update": COLLECTION, "updates": updates, "writeConcern": concern, "$db": DATABASE }
        };
        match self {
            Operation::PointRead => doc! {
                "find": COLLECTION, "filter": { "_id": (key()) }, "limit": 1, "singleBatch": true, "$db": DATABASE
            },
            Operation::Insert => insert(doc! { "w": 1 }),
            Operation::InsertDurable => insert(doc! { "w": 1, "j": true }),
            Operation::Update => update(doc! { "w": 1 }),
            Operation::UpdateDurable => update(doc! { "w": 1, "j": true }),
        }
    }
}

/// One line of the table: the sides in the order of `WITHOUT`.
struct Line {
    case: String,
    ratios: Vec<f64>,
}

/// Runs the bench, prints its tables and writes its reports.
pub fn run(options: &Options) -> io::Result<()> {
    let parameter = |text: &str| Launch {
        arguments: vec!["--setParameter".into(), text.into()],
        ..Launch::default()
    };
    let mut sides = vec![(ALL, Launch::default())];
    sides.extend(WITHOUT.map(|(name, text)| (name, parameter(text))));
    let peers = Peers::launched(&options.engine, sides)?;
    let mut lines = crud_lines(options, &peers)?;
    // The canned replies come first.
    let servers = &peers.peers[1..];
    for peer in servers {
        eprintln!("preloading {}", peer.name);
        preload(peer)?;
    }
    let mut turns = 0;
    for &connections in &options.connections {
        for operation in OPERATIONS {
            eprintln!("{}, {connections} connections", operation.name());
            lines.push(concurrent_line(
                options,
                servers,
                operation,
                connections,
                &mut turns,
            )?);
        }
    }
    publish(options, &lines)
}

fn crud_lines(options: &Options, peers: &Peers) -> io::Result<Vec<Line>> {
    let crud = crud::Options {
        given: Vec::new(),
        python: options.python.clone(),
        passes: options.passes,
        iterations: options.iterations,
        only: Some(CRUD_CASES.into()),
        is_brief: false,
    };
    let figures = crud::measure(&crud, peers)?;
    let mut by_case: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
    for figure in &figures {
        let sides = by_case.entry(&figure.case).or_default();
        sides.insert(&figure.name, figure.p50);
    }
    let line = |(case, sides): (&str, BTreeMap<&str, f64>)| Line {
        case: format!("pymongo/{case} p50"),
        ratios: WITHOUT
            .iter()
            .map(|(name, _)| sides[name] / sides[ALL])
            .collect(),
    };
    Ok(by_case.into_iter().map(line).collect())
}

fn concurrent_line(
    options: &Options,
    servers: &[Peer],
    operation: Operation,
    connections: u32,
    turns: &mut u64,
) -> io::Result<Line> {
    let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); WITHOUT.len()];
    for round in 0..options.rounds as usize {
        let mut rates = vec![0.0; servers.len()];
        // The side that comes first changes with the round.
        for turn in 0..servers.len() {
            let side = (turn + round) % servers.len();
            *turns += 1;
            let address = servers[side].address();
            rates[side] = rate(address, operation, connections, options.turn, *turns)?;
        }
        for (of_side, rate) in ratios.iter_mut().zip(&rates[1..]) {
            of_side.push(rates[0] / rate);
        }
    }
    Ok(Line {
        case: format!("raw/{}/{connections}", operation.name()),
        ratios: ratios.into_iter().map(median).collect(),
    })
}

/// Operations a second from `connections` clients that begin together.
fn rate(
    address: &str,
    operation: Operation,
    connections: u32,
    turn: Duration,
    number: u64,
) -> io::Result<f64> {
    let barrier = Arc::new(Barrier::new(connections as usize + 1));
    let mut threads = Vec::new();
    for connection in 0..connections {
        let mut client = RawClient::connect(address)?;
        let barrier = Arc::clone(&barrier);
        threads.push(thread::spawn(move || -> io::Result<u64> {
            let first = number << 40 | u64::from(connection) << 32;
            let prefix = format!("s{}_{number}_{connection}", std::process::id());
            barrier.wait();
            let deadline = Instant::now() + turn;
            let mut count = 0;
            while Instant::now() < deadline {
                client.command(&operation.command(&prefix, first, count))?;
                count += 1;
            }
            Ok(count)
        }));
    }
    barrier.wait();
    let started = Instant::now();
    let mut operations = 0;
    for thread in threads {
        operations += thread
            .join()
            .map_err(|_| io::Error::other("a client thread panicked"))??;
    }
    Ok(operations as f64 / started.elapsed().as_secs_f64())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn publish(options: &Options, lines: &[Line]) -> io::Result<()> {
    let mut text = format!(
        "# What each shortcut wins\n\nReproduce with `make bench-shortcuts`. {}\n\nThe time without the shortcut over the \
         time with all of them, on {}: above 1 it wins. The median over {} rounds in which all sides take turns, for pymongo \
         of {} passes of {} operations. A shortcut that wins less than 3 % on every line goes.\n\n| case |",
        machine(),
        options.engine,
        options.rounds,
        options.passes,
        options.iterations
    );
    for (name, _) in WITHOUT {
        let _ = write!(text, " {name} |");
    }
    let _ = writeln!(text, "\n|---|{}", "---:|".repeat(WITHOUT.len()));
    let mut json = Vec::new();
    for line in lines {
        let _ = write!(text, "| {} |", line.case);
        for (ratio, (name, _)) in line.ratios.iter().zip(WITHOUT) {
            let _ = write!(text, " {ratio:.2} |");
            json.push(serde_json::json!({
                "case": format!("{}/without {name}", line.case), "unit": "of all", "ours": 1.0, "peers": { name: ratio },
                "limit": null
            }));
        }
        text.push('\n');
    }
    println!("\n{text}");
    write(
        &target_directory().join("bench/shortcuts.json"),
        &serde_json::to_string_pretty(&json)?,
    )?;
    write(Path::new("docs/benchmarks/shortcuts.md"), &text)
}
