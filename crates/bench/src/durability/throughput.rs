//! `{j: true}` inserts a second beside `{w: 1}`, from as many connections of a compiled client.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::{Bench, Level, Options, Total, insert_until, reached};
use crate::concurrent::{Operation, latencies};
use crate::driver_client::DriverClient;
use crate::peers::Peer;
use crate::raw_client::RawClient;
use crate::report::{Report, quartiles};

/// The bar.
const SHARE_MIN: f64 = 0.8;
const BAR_CONNECTIONS: u32 = 64;

/// Who inserts, one after the other: the `mongodb` crate, as applications do, and the raw client, which costs least.
const CLIENTS: [&str; 2] = ["driver", "raw"];

enum Inserter {
    Driver {
        written: DriverClient,
        durable: DriverClient,
    },
    Raw,
}

impl Bench<'_> {
    pub fn throughput(&mut self, options: &Options, report: &mut Report) -> io::Result<()> {
        for client in CLIENTS {
            for &connections in &options.connections {
                eprintln!("{}: {connections} connections, {client}", self.engine);
                let inserter = self.inserter(client, connections)?;
                self.compare(client, &inserter, connections, options, report)?;
            }
        }
        Ok(())
    }

    fn inserter(&self, client: &str, connections: u32) -> io::Result<Inserter> {
        let connect = |query: &str| {
            let peer = Peer {
                name: self.engine.into(),
                uri: format!("mongodb://{}/{query}", self.address),
            };
            DriverClient::connect(&peer, connections)
        };
        Ok(match client {
            "driver" => Inserter::Driver {
                written: connect("?w=1")?,
                durable: connect("?w=1&journal=true")?,
            },
            _ => Inserter::Raw,
        })
    }

    fn compare(
        &mut self,
        client: &str,
        inserter: &Inserter,
        connections: u32,
        options: &Options,
        report: &mut Report,
    ) -> io::Result<()> {
        let (mut written, mut durable) = (Total::new(), Total::new());
        let mut shares = Vec::new();
        // A bar needs more pairs than a line of the table does.
        let rounds = match connections {
            BAR_CONNECTIONS => options.rounds,
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
                rates[side as usize] =
                    self.turn(inserter, level, connections, options.turn, total)?;
            }
            shares.push(rates[1] / rates[0]);
        }
        let case = format!("{}/{client}/insert/{connections}", self.engine);
        let sides = |figure: &dyn Fn(&Total) -> f64| {
            [
                ("durable".to_owned(), figure(&durable)),
                ("written".to_owned(), figure(&written)),
            ]
        };
        report.push(&case, "ops/s", "durable", &sides(&Total::per_second));
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let figures = sides(&|total| total.us_at(quantile));
            report.push(&format!("{case} {name}"), "us", "durable", &figures);
        }
        if connections == BAR_CONNECTIONS {
            let [lower, share, upper] = quartiles(shares);
            report.note(format!(
                "{} at {connections} connections, {client}: durable inserts reach {share:.2} of `{{w: 1}}`, at least \
                 {SHARE_MIN} asked for: {}. That is the median of {rounds} pairs of turns, half of which lie between \
                 {lower:.2} and {upper:.2}; all turns together come to {:.2}.",
                self.engine,
                reached(share >= SHARE_MIN),
                durable.per_second() / written.per_second(),
            ));
        }
        Ok(())
    }

    /// Returns the inserts a second.
    fn turn(
        &mut self,
        inserter: &Inserter,
        level: Level,
        connections: u32,
        length: Duration,
        total: &mut Total,
    ) -> io::Result<f64> {
        self.turns += 1;
        match inserter {
            Inserter::Driver { written, durable } => {
                let client = match level {
                    Level::Written => written,
                    Level::Durable => durable,
                };
                let seed = self.turns << 48;
                let sample = client.run(Operation::Insert, connections, length, 0, seed)?;
                total.add(&sample.latency, sample.seconds)
            }
            Inserter::Raw => self.raw_turn(level, connections, length, total),
        }
    }

    /// The clock starts when all are connected.
    fn raw_turn(
        &self,
        level: Level,
        connections: u32,
        length: Duration,
        total: &mut Total,
    ) -> io::Result<f64> {
        let turn = self.turns;
        let clients = (0..connections).map(|_| RawClient::connect(&self.address));
        let clients = clients.collect::<io::Result<Vec<_>>>()?;
        let started = Instant::now();
        let mut threads = Vec::new();
        for (connection, mut client) in clients.into_iter().enumerate() {
            let prefix = format!("d{turn}_{connection}");
            threads.push(thread::spawn(move || {
                insert_until(&mut client, level, &prefix, started + length)
            }));
        }
        let mut latency = latencies();
        for thread in threads {
            let one = thread
                .join()
                .map_err(|_| io::Error::other("a client thread panicked"))??;
            latency.add(&one).map_err(io::Error::other)?;
        }
        total.add(&latency, started.elapsed().as_secs_f64())
    }
}
