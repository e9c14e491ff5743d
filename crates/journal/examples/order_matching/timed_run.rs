//! One run of the order log: throughput, latency from submission to acknowledgement, what the journal wrote, and a
//! restart that must make the same book.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use quarry_journal::{Files, Journal, Level, Options, RealFiles, SyncCounters, inspect};

use super::book::Critical;
use super::order_log::{self, Matching, Run};

type Outcome = Result<(), Box<dyn Error>>;

/// The task of the producers of a run.
#[derive(Clone, Copy)]
pub struct Work {
    pub orders: u64,
    pub producers: u64,
    pub critical: Critical,
}

/// In `directory`, which is empty.
pub fn show(directory: &Path, options: &Options, work: Work) -> Outcome {
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(directory)?);
    let (journal, matching) = order_log::open(Arc::clone(&files), options.clone())?;
    prepare(&journal)?;
    let run = order_log::run(&journal, work.orders, work.producers, work.critical);
    let syncs = journal.sync_counters();
    journal.close()?;
    drop(journal);
    show_run(&run, work.producers);
    show_syncs(syncs);
    show_log(&*files)?;
    restart(files, options, &run, &matching, work)
}

/// A journal that has run for a while has its next segment; zeros written beside the orders would be measured too.
fn prepare(journal: &Journal) -> Outcome {
    let begun = Instant::now();
    journal.prepare_segment()?;
    println!(
        "segments          two ready before the clock starts; the second took {:.0} ms",
        begun.elapsed().as_secs_f64() * 1e3
    );
    Ok(())
}

fn show_run(run: &Run, producers: u64) {
    let (orders, durable) = (run.orders, run.critical);
    println!("orders            {orders} from {producers} producers, {durable} critical");
    println!(
        "acknowledged      {} records at Written, {durable} at Durable",
        orders - durable
    );
    println!(
        "throughput        {:.0} orders/s",
        orders as f64 / run.seconds
    );
    let us = |quantile: f64| run.latency_ns.value_at_quantile(quantile) as f64 / 1e3;
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
}

fn show_syncs(syncs: SyncCounters) {
    let mean_sync_us = syncs.sync_ns as f64 / 1e3 / syncs.syncs.max(1) as f64;
    println!(
        "syncs             {}, mean {mean_sync_us:.1} us, longest {:.1} us",
        syncs.syncs,
        syncs.longest_ns as f64 / 1e3
    );
}

/// Counted in the closed log itself, group by group, the mark of its closing included.
fn show_log(files: &dyn Files) -> Outcome {
    let (mut groups, mut records, mut bytes) = (0u64, 0u64, 0u64);
    inspect::dump(files, 0, &mut |group| {
        groups += 1;
        records += u64::from(group.header.count);
        bytes += group.header.group_bytes();
        ControlFlow::Continue(())
    })?;
    println!(
        "journal           {bytes} bytes written: {groups} groups with their headers, {records} records"
    );
    let files_bytes: u64 = files.list()?.iter().map(|file| file.bytes).sum();
    println!(
        "                  beside zeros, which fill pages and make files of {files_bytes} bytes ahead"
    );
    Ok(())
}

fn restart(
    files: Arc<dyn Files>,
    options: &Options,
    run: &Run,
    matching: &Matching,
    work: Work,
) -> Outcome {
    let (journal, restarted) = order_log::open(files, options.clone())?;
    let book = matching.book.lock().map_err(|_| "the book is poisoned")?;
    let restarted = restarted.book.lock().map_err(|_| "the book is poisoned")?;
    let (hash, replayed) = (book.hash(), restarted.hash());
    println!("trades            {}", book.trades);
    println!("book and trades   {hash:016x}, after a restart {replayed:016x}");
    if hash != replayed {
        return Err("the restarted book differs".into());
    }
    if journal.replayed() < run.last_acknowledged_lsn || run.orders != work.orders {
        return Err("an acknowledged order is missing".into());
    }
    println!("verified          no acknowledged order is missing");
    Ok(())
}
