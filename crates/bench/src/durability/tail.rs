//! How long `{j: true}` takes on one connection, on the quiet server and beside a steady load that makes its engine
//! flush, compact and checkpoint.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{
    Bench, FILLER_COMMANDS, LOAD_DOCUMENT_BYTES, LOAD_DOCUMENTS, Level, Options, Total,
    insert_until, load_command, reached,
};
use crate::engine_work::EngineWork;
use crate::raw_client::RawClient;
use crate::report::Report;

/// The bar.
const P99_MAX: f64 = 5.0;

/// 16 MiB a second, which flush RocksDB every two seconds.
const LOAD_COMMANDS_A_SECOND: u32 = 256;

impl Bench<'_> {
    pub fn tail(&mut self, options: &Options, report: &mut Report) -> io::Result<()> {
        let (mut quiet, mut loaded) = (Total::new(), Total::new());
        let mut work = EngineWork::default();
        for round in 0..options.tail_rounds {
            eprintln!("{}: quiet and loaded, round {round}", self.engine);
            self.settle()?;
            let first = u64::from(round) << 33;
            self.insert_durably(options.tail_turn, &mut quiet, first)?;
            let before = EngineWork::of(&self.address)?;
            let is_over = AtomicBool::new(false);
            let load_first = FILLER_COMMANDS + (u64::from(round) << 32);
            thread::scope(|scope| {
                let load = scope.spawn(|| self.load(load_first, &is_over));
                let first = first + (1 << 32);
                let client = self.insert_durably(options.tail_turn, &mut loaded, first);
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

    /// One connection's inserts, whose `_id`s have `first` in them.
    fn insert_durably(&self, length: Duration, total: &mut Total, first: u64) -> io::Result<()> {
        let mut client = RawClient::connect(&self.address)?;
        let started = Instant::now();
        let prefix = format!("t{first:x}");
        let latency = insert_until(&mut client, Level::Durable, &prefix, started + length)?;
        total.add(&latency, started.elapsed().as_secs_f64())?;
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
}
