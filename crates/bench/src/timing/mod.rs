//! Measures what always-on timing costs: a server with its timing switched on and off, and one with timing compiled out, in
//! short turns from one connection of the bench's own client; and the instructions of a point query in both builds.
//!
//! The cost is far below the noise of a machine that does other things, so it is taken from pairs: each round measures
//! all sides right after each other, in an order that turns, and a difference is the median over the rounds of the
//! differences of their medians. Beside it stands what the same arithmetic finds for other servers that are like the
//! first ones. Two processes of one binary differ too, by where their memory happens to lie, so that each build is
//! measured in several. Instructions do not drift.

mod driver;
mod instructions;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use quarry_bson::{Document, Value, doc};

use self::driver::Driver;
use crate::documents;
use crate::process::{Launch, Server, target_directory};
use crate::raw_client::RawClient;
use crate::report::Report;

const DATABASE: &str = "quarry_bench_timing";
/// Documents that point queries and scans read.
const PRELOADED: u64 = 10_000;
/// Documents that one scan returns.
const SCANNED: i64 = 100;
const BATCH: u64 = 10;
/// Processes of each build, and of the control; one of each takes part in a round.
const PROCESSES: usize = 6;

/// The options of `quarry-bench timing`.
pub struct Options {
    /// The engine of the servers that the bench starts.
    pub engine: String,
    /// How often the sides take turns.
    pub rounds: u32,
    /// Operations of one side in one round.
    pub turn: u32,
}

/// One workload.
struct Workload {
    name: &'static str,
    operation: Operation,
}

/// The n-th operation.
enum Operation {
    /// A command from the bench's own client, which takes next to nothing.
    Command(fn(u64) -> Document),
    /// From the compiled driver.
    Driver(fn(&Driver, u64) -> io::Result<()>),
}

const WORKLOADS: [Workload; 6] = [
    Workload {
        name: "point query",
        operation: Operation::Command(point_query),
    },
    Workload {
        name: "point query by the mongodb crate",
        operation: Operation::Driver(Driver::point_query),
    },
    Workload {
        name: "insert one",
        operation: Operation::Command(|n| {
            insert("simple", vec![documents::simple("timing", n).into()])
        }),
    },
    Workload {
        name: "complex insert",
        operation: Operation::Command(|n| insert("complex", vec![documents::complex(n).into()])),
    },
    Workload {
        name: "insert 10",
        operation: Operation::Command(|n| {
            let documents = n * BATCH..(n + 1) * BATCH;
            let batch = documents.map(|n| documents::simple("batch", n).into());
            insert("simple", batch.collect())
        }),
    },
    Workload {
        name: "scan 100",
        operation: Operation::Command(
            |_| doc! { "find": "read", "batchSize": SCANNED, "singleBatch": true, "$db": DATABASE },
        ),
    },
];

fn point_query_id(n: u64) -> String {
    documents::simple_id("bench", n.wrapping_mul(7919) % PRELOADED)
}

fn point_query(n: u64) -> Document {
    let id = point_query_id(n);
    doc! { "find": "read", "filter": doc! { "_id": id }, "limit": 1, "singleBatch": true, "$db": DATABASE }
}

fn insert(collection: &str, documents: Vec<Value>) -> Document {
    doc! { "insert": collection, "documents": documents, "$db": DATABASE }
}

/// The sides of a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    On,
    /// The server of `On`, with its timing switched off.
    Off,
    CompiledOut,
    /// Another server that is on: any difference to the first is noise.
    Control,
}

impl Side {
    const ALL: [Side; 4] = [Side::On, Side::Off, Side::CompiledOut, Side::Control];
}

/// After so many rounds every order has come.
const ORDERS: usize = 2 * Side::ALL.len();

/// Who measures when in a round: each side comes first, second, third and last equally often, and on and off follow
/// each other in both directions, because whoever follows another process finds colder caches.
fn order(round: usize) -> [Side; Side::ALL.len()] {
    let mut sides = Side::ALL;
    sides.rotate_left(round / 2 % Side::ALL.len());
    if !round.is_multiple_of(2) {
        sides.reverse();
    }
    sides
}

/// The result of one workload: microseconds, in the order of [`Side::ALL`].
struct Outcome {
    /// The medians over the rounds.
    medians: [f64; Side::ALL.len()],
    /// The medians of what `On` took longer.
    differences: [f64; Side::ALL.len()],
}

impl Outcome {
    fn median(&self, side: Side) -> f64 {
        self.medians[side as usize]
    }

    /// How much longer `On` takes, in percent.
    fn percent(&self, side: Side) -> f64 {
        100.0 * self.differences[side as usize] / self.median(side)
    }
}

/// Runs the bench, prints its tables and writes its reports.
pub fn run(options: &Options) -> io::Result<()> {
    let scratch = target_directory()
        .join("bench/data")
        .join(std::process::id().to_string());
    let launch = |name: &str, launch: Launch| -> io::Result<Vec<Bench>> {
        let start = |number| {
            let directory = scratch.join(format!("{name}-{number}"));
            Bench::start(&options.engine, &directory, launch.clone())
        };
        (0..PROCESSES).map(start).collect()
    };
    let mut bench = Sides {
        timed: launch("timed", Launch::default())?,
        untimed: launch("untimed", untimed())?,
        control: launch("control", Launch::default())?,
    };
    let mut report = Report::new("timing", "What always-on timing costs", "make bench-timing");
    report.note(format!(
        "One connection on {}, {} rounds of {} operations a side; medians of a round's operations, then over the rounds. \
         `off` is the same server with its timing switched off, `compiled out` a server built without it; there are \
         {PROCESSES} processes of each build, which take turns. The percentages are medians of paired differences: what `on` \
         takes longer than `compiled out`, than `off`, and than another server like itself, which is noise.",
        options.engine, options.rounds, options.turn
    ));
    for workload in &WORKLOADS {
        eprintln!("{}", workload.name);
        let measured = bench.measure(workload, options)?;
        let name = format!(
            "{}: {:+.2} % to compiled out, {:+.2} % to off, control {:+.2} %",
            workload.name,
            measured.percent(Side::CompiledOut),
            measured.percent(Side::Off),
            measured.percent(Side::Control)
        );
        let sides = [
            ("on".into(), measured.median(Side::On)),
            ("off".into(), measured.median(Side::Off)),
            ("compiled out".into(), measured.median(Side::CompiledOut)),
        ];
        report.push(&name, "us", "on", &sides);
    }
    bench.stop()?;
    instructions::push(&options.engine, &scratch, &mut report)?;
    report.publish("on")?;
    std::fs::remove_dir_all(&scratch)
}

/// The server that is built for this bench alone: beside `quarry`, or where `$QUARRY_UNTIMED` says.
fn untimed() -> Launch {
    let binary = std::env::var_os("QUARRY_UNTIMED").map_or_else(
        || Server::binary().with_file_name("quarry-untimed"),
        PathBuf::from,
    );
    Launch {
        binary: Some(binary),
        ..Launch::default()
    }
}

/// The servers that take turns.
struct Sides {
    timed: Vec<Bench>,
    untimed: Vec<Bench>,
    control: Vec<Bench>,
}

impl Sides {
    fn measure(&mut self, workload: &Workload, options: &Options) -> io::Result<Outcome> {
        let mut times = [const { Vec::new() }; Side::ALL.len()];
        for round in 0..options.rounds as usize {
            for side in order(round) {
                let processes = match side {
                    Side::On | Side::Off => &mut self.timed,
                    Side::CompiledOut => &mut self.untimed,
                    Side::Control => &mut self.control,
                };
                let bench = &mut processes[round / ORDERS % PROCESSES];
                if side == Side::On || side == Side::Off {
                    bench.set_enabled(side == Side::On)?;
                }
                times[side as usize].push(bench.turn(workload, options.turn)?);
            }
        }
        let [on, ..] = &times;
        let difference = |side: &Vec<f64>| {
            let mut differences: Vec<f64> =
                on.iter().zip(side).map(|(on, other)| on - other).collect();
            median(&mut differences)
        };
        Ok(Outcome {
            differences: times.each_ref().map(difference),
            medians: times.map(|mut side| median(&mut side)),
        })
    }

    fn stop(&mut self) -> io::Result<()> {
        for processes in [&mut self.timed, &mut self.untimed, &mut self.control] {
            for bench in processes {
                bench.server.stop()?;
            }
        }
        Ok(())
    }
}

/// One server and the connection to it.
struct Bench {
    server: Server,
    client: RawClient,
    /// Connected when it is first needed: it says hello now and then, which would be counted.
    driver: Option<Driver>,
    sent: u64,
}

impl Bench {
    fn start(engine: &str, directory: &Path, launch: Launch) -> io::Result<Bench> {
        let mut bench = Bench::connect(Server::launch(engine, directory, launch)?)?;
        bench.preload()?;
        Ok(bench)
    }

    fn connect(server: Server) -> io::Result<Bench> {
        let client = RawClient::connect(("127.0.0.1", server.port))?;
        Ok(Bench {
            server,
            client,
            driver: None,
            sent: 0,
        })
    }

    fn set_enabled(&mut self, is_on: bool) -> io::Result<()> {
        self.client
            .command(&doc! { "setOpTimingEnabled": is_on, "$db": "admin" })
    }

    fn preload(&mut self) -> io::Result<()> {
        for first in (0..PRELOADED).step_by(1000) {
            let batch = (first..first + 1000).map(|n| documents::simple("bench", n).into());
            self.client.command(&insert("read", batch.collect()))?;
        }
        self.client
            .command(&doc! { "createIndexes": "complex", "indexes": (documents::ten_indexes()), "$db": DATABASE })
    }

    /// The median time of one operation, in microseconds.
    fn turn(&mut self, workload: &Workload, operations: u32) -> io::Result<f64> {
        let mut times = Vec::with_capacity(operations as usize);
        for _ in 0..operations {
            self.sent += 1;
            let elapsed = match workload.operation {
                Operation::Command(command) => {
                    let command = command(self.sent);
                    let started = Instant::now();
                    self.client.command(&command)?;
                    started.elapsed()
                }
                Operation::Driver(run) => {
                    let driver = match &self.driver {
                        Some(driver) => driver,
                        None => self.driver.insert(Driver::connect(&self.server.uri())?),
                    };
                    let started = Instant::now();
                    run(driver, self.sent)?;
                    started.elapsed()
                }
            };
            times.push(elapsed.as_nanos() as f64 / 1e3);
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
    fn every_side_stands_at_every_place_equally_often() {
        for place in 0..Side::ALL.len() {
            for side in Side::ALL {
                let rounds = (0..ORDERS).filter(|round| order(*round)[place] == side);
                assert_eq!(rounds.count(), 2);
            }
        }
    }

    #[test]
    fn a_median_is_the_middle_whatever_the_order() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut []), 0.0);
    }

    #[test]
    fn no_workload_sends_an_id_twice() {
        for workload in WORKLOADS.iter().filter(|one| one.name.contains("insert")) {
            let Operation::Command(command) = workload.operation else {
                panic!("{} inserts by a command", workload.name)
            };
            assert_ne!(command(1), command(2), "{}", workload.name);
        }
    }
}
