//! A limit order book whose every order goes through the journal before it is acknowledged.
//!
//! `cargo run --release -p quarry-journal --example order_matching -- [ORDERS [PRODUCERS [CRITICAL]]]`
//! with CRITICAL a number, `1%` or `all`. `-- kill ROUNDS`: a child is killed at random moments, and every
//! order that it had acknowledged must come back. `-- power ROUNDS`: the same over a simulated disk that
//! loses power and scatters what was not synced; every critical order must come back.

mod book;
mod order_log;

use std::error::Error;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use book::{Book, Critical, OrderStream};
use order_log::Matching;
use quarry_journal::files::simulated::{Crash, Fault};
use quarry_journal::{Files, Journal, Level, Options, RealFiles, SimulatedFiles};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument =
        |index: usize, default: &'static str| arguments.get(index).map_or(default, String::as_str);
    match argument(0, "50000") {
        "child" => child(Path::new(argument(1, ""))),
        "kill" => kill(argument(1, "20").parse()?),
        "power" => power(argument(1, "100").parse()?),
        orders => {
            let orders = orders.parse()?;
            show(
                orders,
                argument(1, "1").parse()?,
                parse_critical(argument(2, "31"), orders)?,
            )
        }
    }
}

fn parse_critical(text: &str, orders: u64) -> Result<Critical, Box<dyn Error>> {
    Ok(match text {
        "all" => Critical::All,
        "1%" => Critical::OneIn(100),
        number => Critical::OneIn(orders / number.parse::<u64>()?.max(1)),
    })
}

fn show(orders: u64, producers: u64, critical: Critical) -> Outcome {
    let directory = fresh_directory()?;
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(&directory)?);
    let (journal, matching) = order_log::open(Arc::clone(&files), Options::default())?;
    let begun = Instant::now();
    // A journal that has run for a while has its next segment; zeros written beside the orders would be measured too.
    journal.prepare_segment()?;
    println!(
        "segments          two ready before the clock starts; the second took {:.0} ms",
        begun.elapsed().as_secs_f64() * 1e3
    );
    let run = order_log::run(&journal, orders, producers, critical);
    let syncs = journal.sync_counters();
    let (hash, trades) = {
        let book = matching.book.lock().map_err(|_| "the book is poisoned")?;
        (book.hash(), book.trades)
    };
    let (journal_bytes, last_lsn) = (journal.live_bytes(), journal.last_lsn());
    journal.close()?;
    drop(journal);

    let us = |quantile: f64| run.latency_ns.value_at_quantile(quantile) as f64 / 1e3;
    println!(
        "orders            {} from {producers} producers, {} critical",
        run.orders, run.critical
    );
    println!(
        "throughput        {:.0} orders/s",
        run.orders as f64 / run.seconds
    );
    println!(
        "latency us        mean {:.1}  p50 {:.1}  p90 {:.1}  p99 {:.1}  max {:.1}",
        run.latency_ns.mean() / 1e3,
        us(0.5),
        us(0.9),
        us(0.99),
        run.latency_ns.max() as f64 / 1e3
    );
    for level in [Level::Written, Level::Durable] {
        if let Some(slowest) = run.slowest(level) {
            println!("                  {slowest}");
        }
    }
    println!("trades            {trades}");
    let mean_sync_us = syncs.sync_ns as f64 / 1e3 / syncs.syncs.max(1) as f64;
    println!(
        "syncs             {}, mean {mean_sync_us:.1} us, longest {:.1} us",
        syncs.syncs,
        syncs.longest_ns as f64 / 1e3
    );
    println!("journal           {journal_bytes} bytes of segments, {last_lsn} records");

    let (journal, replayed) = order_log::open(files, Options::default())?;
    let replayed = replayed
        .book
        .lock()
        .map_err(|_| "the book is poisoned")?
        .hash();
    println!("book and trades   {hash:016x}, after a restart {replayed:016x}");
    let is_complete = journal.replayed() >= run.last_acknowledged_lsn && run.orders == orders;
    drop(journal);
    std::fs::remove_dir_all(directory)?;
    if hash != replayed || !is_complete {
        return Err("the restarted book differs".into());
    }
    println!("verified          no acknowledged order is missing");
    Ok(())
}

/// Submits orders until it is killed; says the LSN of each acknowledged order on standard output.
fn child(directory: &Path) -> Outcome {
    let (journal, matching) = open_real(directory)?;
    let mut stream = OrderStream::new(0, Critical::OneIn(100));
    for _ in 0..matching
        .book
        .lock()
        .map_err(|_| "the book is poisoned")?
        .orders
    {
        stream.next_order();
    }
    let mut out = std::io::stdout().lock();
    loop {
        let order = stream.next_order();
        let level = if order.is_critical() {
            Level::Durable
        } else {
            Level::Written
        };
        let lsn = journal.commit(&order.encode(), level)?.lsn;
        out.write_all(&lsn.to_le_bytes())?;
        out.flush()?;
    }
}

fn kill(rounds: u64) -> Outcome {
    let directory = fresh_directory()?;
    for round in 1..=rounds {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("child")
            .arg(&directory)
            .stdout(Stdio::piped())
            .spawn()?;
        std::thread::sleep(Duration::from_millis(50 + round * 37 % 400));
        child.kill()?;
        let mut acknowledged = Vec::new();
        if let Some(out) = &mut child.stdout {
            out.read_to_end(&mut acknowledged)?;
        }
        child.wait()?;
        let last = acknowledged
            .chunks_exact(8)
            .last()
            .and_then(|bytes| bytes.first_chunk());
        let last_lsn = last.map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (journal, matching) = open_real(&directory)?;
        let orders = check(&journal, &matching, last_lsn)?;
        drop((journal, matching));
        println!("round {round}: {last_lsn} acknowledged, {orders} came back");
    }
    std::fs::remove_dir_all(directory)?;
    println!("verified: no acknowledged order is missing after {rounds} kills");
    Ok(())
}

/// Power goes at a different step each round; what was not synced survives in part, in any order.
fn power(rounds: u64) -> Outcome {
    let options = Options {
        segment_bytes: 64 * 1024,
        background: false,
        ..Options::default()
    };
    let (mut acknowledged, mut survived) = (0, 0);
    for round in 1..=rounds {
        let files = SimulatedFiles::new();
        let (journal, _matching) = order_log::open(Arc::new(files.clone()), options.clone())?;
        files.inject(files.steps() + round * 7919 % 3000, Fault::PowerOff);
        let durable_lsn = order_until_power_fails(&journal);
        drop(journal);
        let files = Arc::new(files.crash(Crash::ALL[1 + round as usize % 4], round));
        let (journal, matching) = order_log::open(files, options.clone())?;
        acknowledged += durable_lsn;
        survived += check(&journal, &matching, durable_lsn)?;
    }
    println!(
        "verified: {acknowledged} orders were durable over {rounds} power cuts, {survived} came back"
    );
    Ok(())
}

/// Returns the LSN of the last critical order that was acknowledged.
fn order_until_power_fails(journal: &Journal) -> u64 {
    let mut stream = OrderStream::new(0, Critical::OneIn(100));
    let mut durable_lsn = 0;
    loop {
        let order = stream.next_order();
        let level = if order.is_critical() {
            Level::Durable
        } else {
            Level::Written
        };
        match journal.commit(&order.encode(), level) {
            Ok(committed) if level == Level::Durable => durable_lsn = committed.lsn,
            Ok(_) => {}
            Err(_) => return durable_lsn,
        }
    }
}

/// The restarted book must be the book of the first orders of the stream, as many as were replayed, and
/// at least up to `last_lsn`.
fn check(journal: &Journal, matching: &Matching, last_lsn: u64) -> Result<u64, Box<dyn Error>> {
    let restarted = matching.book.lock().map_err(|_| "the book is poisoned")?;
    if journal.replayed() < last_lsn {
        return Err(format!(
            "{last_lsn} orders were acknowledged but {} came back",
            journal.replayed()
        )
        .into());
    }
    let mut stream = OrderStream::new(0, Critical::OneIn(100));
    let mut expected = Book::default();
    for _ in 0..restarted.orders {
        expected.apply(stream.next_order());
    }
    if expected.hash() != restarted.hash() {
        return Err("the restarted book differs".into());
    }
    Ok(restarted.orders)
}

fn open_real(directory: &Path) -> Result<(Journal, Arc<Matching>), Box<dyn Error>> {
    Ok(order_log::open(
        Arc::new(RealFiles::open(directory)?),
        Options::default(),
    )?)
}

fn fresh_directory() -> Result<PathBuf, Box<dyn Error>> {
    let directory =
        std::env::temp_dir().join(format!("quarry-order-matching-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    Ok(directory)
}
