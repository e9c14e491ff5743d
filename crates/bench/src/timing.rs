//! What always-on timing costs: one server, its timing switched on and off between short turns, from one connection of
//! the bench's own client.
//!
//! The cost is far below the noise of a machine that does other things, so it is taken from pairs: each round measures
//! both sides right after each other, in alternating order, and the difference is the median over the rounds of the
//! difference of their medians. Beside it stands what the same arithmetic finds between two sides that are both on.

use std::io;
use std::time::Instant;

use quarry_bson::{Document, Value, doc};

use crate::documents;
use crate::process::{Server, target_directory};
use crate::raw_client::RawClient;
use crate::report::Report;

const DATABASE: &str = "quarry_bench_timing";
/// Documents that point queries and scans read.
const PRELOADED: u64 = 10_000;
/// Documents that one scan returns.
const SCANNED: i64 = 100;
const BATCH: u64 = 10;

pub struct Options {
    pub engine: String,
    pub rounds: u32,
    /// Operations of one side in one round.
    pub turn: u32,
}

/// One workload: the command for the n-th operation.
struct Workload {
    name: &'static str,
    command: fn(u64) -> Document,
}

const WORKLOADS: [Workload; 5] = [
    Workload {
        name: "point query",
        command: point_query,
    },
    Workload {
        name: "insert one",
        command: |n| insert("simple", vec![documents::simple("timing", n).into()]),
    },
    Workload {
        name: "complex insert",
        command: |n| insert("complex", vec![documents::complex(n).into()]),
    },
    Workload {
        name: "insert 10",
        command: |n| {
            let documents = n * BATCH..(n + 1) * BATCH;
            let batch = documents.map(|n| documents::simple("batch", n).into());
            insert("simple", batch.collect())
        },
    },
    Workload {
        name: "scan 100",
        command: |_| doc! { "find": "read", "batchSize": SCANNED, "singleBatch": true, "$db": DATABASE },
    },
];

fn point_query(n: u64) -> Document {
    let id = documents::simple_id("bench", n.wrapping_mul(7919) % PRELOADED);
    doc! { "find": "read", "filter": doc! { "_id": id }, "limit": 1, "singleBatch": true, "$db": DATABASE }
}

fn insert(collection: &str, documents: Vec<Value>) -> Document {
    doc! { "insert": collection, "documents": documents, "$db": DATABASE }
}

/// What the sides of a round are.
#[derive(Clone, Copy)]
enum Pair {
    OnAndOff,
    /// The control: any difference is noise.
    OnAndOn,
}

/// The medians over the rounds, in microseconds.
struct Outcome {
    on_us: f64,
    other_us: f64,
    difference_us: f64,
}

pub fn run(options: &Options) -> io::Result<()> {
    let scratch = target_directory()
        .join("bench/data")
        .join(std::process::id().to_string());
    let mut server = Server::start(&options.engine, &scratch)?;
    let mut bench = Bench {
        client: RawClient::connect(("127.0.0.1", server.port))?,
        sent: 0,
    };
    bench.preload()?;
    let mut report = Report::new("timing", "What always-on timing costs", "make bench-timing");
    report.note(format!(
        "One connection on {}, {} rounds of {} operations a side; medians of a round's operations, then over the rounds. \
         The percentages are medians of paired differences; `control` pairs two sides that are both on.",
        options.engine, options.rounds, options.turn
    ));
    for workload in &WORKLOADS {
        eprintln!("{}", workload.name);
        let measured = bench.measure(workload, options, Pair::OnAndOff)?;
        let control = bench.measure(workload, options, Pair::OnAndOn)?;
        let share = |outcome: &Outcome| 100.0 * outcome.difference_us / outcome.other_us;
        let name = format!(
            "{}: {:+.2} %, control {:+.2} %",
            workload.name,
            share(&measured),
            share(&control)
        );
        let sides = [
            ("on".into(), measured.on_us),
            ("off".into(), measured.other_us),
        ];
        report.push(&name, "us", "on", &sides);
    }
    report.publish("on")?;
    server.stop()?;
    std::fs::remove_dir_all(&scratch)
}

struct Bench {
    client: RawClient,
    sent: u64,
}

impl Bench {
    fn preload(&mut self) -> io::Result<()> {
        for first in (0..PRELOADED).step_by(1000) {
            let batch = (first..first + 1000).map(|n| documents::simple("bench", n).into());
            self.client.command(&insert("read", batch.collect()))?;
        }
        let indexes: Vec<Value> = (0..10)
            .map(|index| {
                let mut key = Document::new();
                for field in [index * 3, index * 3 + 1, index * 3 + 2] {
                    key.append(format!("f{field:02}"), 1);
                }
                doc! { "key": key, "name": format!("index{index}") }.into()
            })
            .collect();
        self.client
            .command(&doc! { "createIndexes": "complex", "indexes": indexes, "$db": DATABASE })
    }

    fn measure(
        &mut self,
        workload: &Workload,
        options: &Options,
        pair: Pair,
    ) -> io::Result<Outcome> {
        let (mut on, mut other, mut differences) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..options.rounds {
            let mut sides = [0.0; 2];
            // The side that comes first changes with the round.
            let first = (round % 2) as usize;
            for side in [first, 1 - first] {
                let is_on = side == 0 || matches!(pair, Pair::OnAndOn);
                self.client
                    .command(&doc! { "setOpTimingEnabled": is_on, "$db": "admin" })?;
                sides[side] = self.turn(workload, options.turn)?;
            }
            on.push(sides[0]);
            other.push(sides[1]);
            differences.push(sides[0] - sides[1]);
        }
        Ok(Outcome {
            on_us: median(&mut on),
            other_us: median(&mut other),
            difference_us: median(&mut differences),
        })
    }

    /// The median time of one operation, in microseconds.
    fn turn(&mut self, workload: &Workload, operations: u32) -> io::Result<f64> {
        let mut times = Vec::with_capacity(operations as usize);
        for _ in 0..operations {
            self.sent += 1;
            let command = (workload.command)(self.sent);
            let started = Instant::now();
            self.client.command(&command)?;
            times.push(started.elapsed().as_nanos() as f64 / 1e3);
        }
        Ok(median(&mut times))
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_whatever_the_order() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut []), 0.0);
    }

    #[test]
    fn no_workload_sends_an_id_twice() {
        for workload in WORKLOADS.iter().filter(|one| one.name.contains("insert")) {
            assert_ne!(
                (workload.command)(1),
                (workload.command)(2),
                "{}",
                workload.name
            );
        }
    }
}
