//! The language beyond CRUD: single operations through each kind of update and index, and the rates of those over very many
//! documents, each held against a bar.
//!
//! Single operations run in short turns over all sides. The rates need a collection of their own each, which is filled before and
//! dropped after; a collection of fewer documents has a lower bar in seconds, and the same one in documents a second.

mod operations;
mod rates;
pub mod starts;

use std::io;

use hdrhistogram::Histogram;
use quarry_bson::{Document, doc};

use self::operations::{OPERATIONS, Operation};
use crate::concurrent::latencies;
use crate::peers::{CANNED, Peer, Peers};
use crate::process::Launch;
use crate::raw_client::RawClient;
use crate::report::Report;

const DATABASE: &str = "quarry_bench_language";

/// The options of `quarry-bench language`.
pub struct Options {
    /// The servers to measure; none: the bench starts its own.
    pub given: Vec<Peer>,
    /// The engine of the one that it starts.
    pub engine: String,
    /// How often the sides take turns at each single operation.
    pub rounds: u32,
    /// Operations of one side in one turn.
    pub turn: u32,
    /// The documents of a collection whose rate is measured.
    pub documents: u64,
    /// Only operations and rates whose name contains this.
    pub only: Option<String>,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|part| name.contains(part))
    }

    /// The single operations that are wanted.
    fn operations(&self) -> Vec<&'static Operation> {
        let wanted = |operation: &&Operation| self.wants(operation.name);
        OPERATIONS.iter().filter(wanted).collect()
    }
}

/// A server and a connection to it.
struct Side {
    name: String,
    address: String,
    client: RawClient,
    /// Commands of operations so far: each is made of its number.
    sent: u64,
}

impl Side {
    fn connect(peer: &Peer) -> io::Result<Side> {
        Ok(Side {
            name: peer.name.clone(),
            address: peer.address().to_owned(),
            client: RawClient::connect(peer.address())?,
            sent: 0,
        })
    }

    /// Inserts as many documents, made of their numbers.
    fn fill(
        &mut self,
        collection: &str,
        documents: u64,
        make: fn(u64) -> Document,
    ) -> io::Result<()> {
        let documents = (0..documents).map(make);
        self.client.insert_all(DATABASE, collection, documents)
    }

    /// The whole number that the last reply has under this name.
    fn number(&self, name: &str) -> io::Result<u64> {
        let value = self.client.reply().get(name);
        let number = value.and_then(|value| value.as_i64_exact());
        let number = number.and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| io::Error::other(format!("no `{name}` in a reply of {}", self.name)))
    }

    /// The documents of the first batch of the last reply.
    fn documents(&self) -> usize {
        let cursor = self.client.reply().get_document("cursor");
        let batch = cursor.and_then(|cursor| cursor.get_array("firstBatch"));
        batch.map_or(0, |batch| batch.iter().count())
    }
}

/// Runs the bench, prints its table and writes its report.
pub fn run(options: &Options) -> io::Result<()> {
    let launch = Launch {
        // Expired documents are to be gone as soon as they can be.
        arguments: vec!["--setParameter".into(), "ttlMonitorSleepSecs=1".into()],
        ..Launch::default()
    };
    let peers = match options.given.is_empty() {
        true => Peers::launched(&options.engine, [("quarry", launch)])?,
        false => Peers::given_or_started(&options.given, &[])?,
    };
    let servers = peers.peers.iter().filter(|peer| peer.name != CANNED);
    let mut sides = servers.map(Side::connect).collect::<io::Result<Vec<_>>>()?;
    let ours = sides[0].name.clone();
    let mut report = Report::new(
        "language",
        "Updates, indexes and rates beyond CRUD",
        "make bench-language",
    );
    report.note(format!(
        "One connection of the bench's own client, which costs next to nothing. Single operations: {} turns of {} on each server, over {} \
         documents with eight indexes. Rates: over {} documents in a collection of their own.",
        options.rounds,
        options.turn,
        operations::PRELOADED,
        options.documents
    ));
    measure_operations(options, &mut sides, &mut report)?;
    rates::measure(options, &mut sides, &mut report)?;
    for side in &mut sides {
        (side.client).command(&doc! { "dropDatabase": 1, "$db": DATABASE })?;
    }
    report.publish(&ours).map(drop)
}

/// The latencies of an operation on each side, which take turns.
fn take_turns(
    options: &Options,
    operation: &Operation,
    sides: &mut [Side],
) -> io::Result<Vec<Histogram<u64>>> {
    let mut times: Vec<_> = sides.iter().map(|_| latencies()).collect();
    for round in 0..options.rounds as usize {
        for place in 0..sides.len() {
            let which = (round + place) % sides.len();
            operation.take_turn(&mut sides[which], options.turn, &mut times[which])?;
        }
    }
    Ok(times)
}

/// Adds the median and the 99th percentile of each operation.
fn measure_operations(
    options: &Options,
    sides: &mut [Side],
    report: &mut Report,
) -> io::Result<()> {
    let wanted = options.operations();
    if wanted.is_empty() {
        return Ok(());
    }
    for side in &mut *sides {
        eprintln!("filling {}", side.name);
        operations::prepare(side)?;
    }
    let ours = sides[0].name.clone();
    for operation in wanted {
        eprintln!("{}", operation.name);
        let times = take_turns(options, operation, sides)?;
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let figures: Vec<(String, f64)> = (sides.iter().zip(&times))
                .map(|(side, times)| {
                    let us = times.value_at_quantile(quantile) as f64 / 1e3;
                    (side.name.clone(), us)
                })
                .collect();
            report.push(&format!("{} {name}", operation.name), "us", &ours, &figures);
        }
    }
    Ok(())
}
