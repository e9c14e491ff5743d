//! An honest client beside crowds that take what they can: what it waits for at the 99th percentile, and what the server holds.
//!
//! The honest client makes one operation after another with a pause between them, alone at first and beside each crowd then. All
//! of them share the machine with the server, so that a crowd that has work done takes processor time from everybody.

mod crowds;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use quarry_bson::doc;

use self::crowds::{CROWDS, Crowd, Meeting};
use crate::concurrent::latencies;
use crate::documents;
use crate::process::{Launch, Server, target_directory};
use crate::raw_client::RawClient;
use crate::report::{Report, reached};

const DATABASE: &str = "quarry_bench_hostile";

/// The bar: so many times what the honest client waits for when it is alone.
const TIMES_MAX: f64 = 3.0;

/// The honest client's pause between two operations.
const PAUSE: Duration = Duration::from_millis(1);

/// How often the server's memory is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The options of `quarry-bench hostile`.
pub struct Options {
    /// The engine of the server.
    pub engine: String,
    /// The server's `memoryBudgetMB`.
    pub budget_mb: u64,
    /// The connections of the slow ones.
    pub slow: u32,
    /// How long the honest client is watched beside each crowd.
    pub length: Duration,
    /// Only crowds whose name contains this.
    pub only: Option<String>,
}

/// The honest client's times beside one crowd or beside none, and the server's memory.
struct Seen {
    times: Histogram<u64>,
    peak_bytes: u64,
}

impl Seen {
    fn us_at(&self, quantile: f64) -> f64 {
        self.times.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Runs the bench, prints its table and writes its report.
pub fn run(options: &Options) -> io::Result<()> {
    let scratch = target_directory()
        .join("bench/data")
        .join(std::process::id().to_string());
    let mut report = Report::new("hostile", "Beside hostile clients", "make bench-hostile");
    report.note(format!(
        "One client on {} makes point queries and inserts in turn, {PAUSE:?} apart, alone and then beside each crowd for {:?}. The server's \
         `memoryBudgetMB` is {}; its peak is of the memory that is the process's own. The clients share two processors with it.",
        options.engine, options.length, options.budget_mb
    ));
    let wanted = |crowd: &&Crowd| {
        let only = options.only.as_deref();
        only.is_none_or(|part| crowd.name.contains(part))
    };
    for crowd in CROWDS.iter().filter(wanted) {
        eprintln!("{}", crowd.name);
        beside(crowd, options, &scratch.join("server"), &mut report)?;
        std::fs::remove_dir_all(&scratch)?;
    }
    report.publish("quarry").map(drop)
}

/// Measures one crowd against a server of its own.
fn beside(
    crowd: &Crowd,
    options: &Options,
    directory: &Path,
    report: &mut Report,
) -> io::Result<()> {
    let launch = Launch {
        arguments: vec![
            "--setParameter".into(),
            format!("memoryBudgetMB={}", options.budget_mb),
        ],
        ..Launch::default()
    };
    let mut server = Server::launch(&options.engine, directory, launch)?;
    crowds::prepare(server.port)?;
    let quiet = watch(&server, options.length)?;
    let is_over = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let seen = thread::scope(|scope| {
        let gathered = (crowd.gather)(&Meeting {
            scope,
            port: server.port,
            slow: options.slow,
            is_over: &is_over,
            done: &done,
        });
        let seen = gathered.and_then(|held| {
            let seen = watch(&server, options.length);
            drop(held);
            seen
        });
        is_over.store(true, Ordering::Relaxed);
        seen
    })?;
    server.stop()?;
    let sides = |us: f64| [("quarry".to_owned(), us)];
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let case = format!("{}/alone {name}", crowd.name);
        report.push(&case, "us", "quarry", &sides(quiet.us_at(quantile)));
        let case = format!("{}/beside it {name}", crowd.name);
        report.push(&case, "us", "quarry", &sides(seen.us_at(quantile)));
    }
    let peak_mib = seen.peak_bytes as f64 / f64::from(1 << 20);
    let case = format!("{}/memory at its peak", crowd.name);
    report.push(&case, "MiB", "quarry", &sides(peak_mib));
    let times = seen.us_at(0.99) / quiet.us_at(0.99);
    report.note(format!(
        "Beside {}, the honest client's 99th percentile is {times:.1} times what it is alone, at most {TIMES_MAX} asked for: {}. The \
         server held {peak_mib:.0} MiB, of a budget of {}: {}. The crowd had done or lost {} {}.",
        crowd.what,
        reached(times <= TIMES_MAX),
        options.budget_mb,
        reached(peak_mib <= options.budget_mb as f64),
        done.load(Ordering::Relaxed),
        crowd.unit
    ));
    Ok(())
}

/// The honest client's operations for a while, and the server's memory meanwhile.
fn watch(server: &Server, length: Duration) -> io::Result<Seen> {
    let mut seen = Seen {
        times: latencies(),
        peak_bytes: 0,
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut peak = 0;
            while !is_over.load(Ordering::Relaxed) {
                peak = peak.max(own_bytes(server.process_id())?);
                thread::sleep(LOOK);
            }
            io::Result::Ok(peak)
        });
        let worked = work(server.port, length, &mut seen.times);
        is_over.store(true, Ordering::Relaxed);
        let peak = looking.join();
        seen.peak_bytes = peak.map_err(|_| io::Error::other("the watcher panicked"))??;
        worked
    })?;
    Ok(seen)
}

/// Makes point queries and inserts in turn.
fn work(port: u16, length: Duration, times: &mut Histogram<u64>) -> io::Result<()> {
    let mut client = RawClient::connect(("127.0.0.1", port))?;
    let started = Instant::now();
    let prefix = format!("h{:x}_{:?}", std::process::id(), client.local_port()?);
    let mut number = 0;
    while started.elapsed() < length {
        let document = documents::simple(&prefix, number);
        let insert = doc! { "insert": "honest", "documents": [document], "$db": DATABASE };
        let id = documents::simple_id(&prefix, number);
        let find =
            doc! { "find": "honest", "filter": doc! { "_id": id }, "limit": 1, "$db": DATABASE };
        for command in [insert, find] {
            thread::sleep(PAUSE);
            let begun = Instant::now();
            client.command(&command)?;
            times.saturating_record(begun.elapsed().as_nanos() as u64);
        }
        number += 1;
    }
    Ok(())
}

/// The memory that is the process's own: no pages of files, which the kernel takes back by itself.
fn own_bytes(process_id: u32) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process_id}/status"))?;
    let line = (status.lines()).find_map(|line| line.strip_prefix("RssAnon:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next());
    let kibibytes = kibibytes.and_then(|number| number.parse::<u64>().ok());
    kibibytes
        .map(|number| number << 10)
        .ok_or_else(|| io::Error::other("no RssAnon in /proc"))
}
