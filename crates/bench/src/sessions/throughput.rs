//! How many events a second come through one stream: of changes that were made before, and of those made meanwhile.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use quarry_bson::{Document, Timestamp, doc};

use super::side::{Level, Options, Side, insert, insert_batch};
use super::stream::{Stream, operation_time};
use super::turns::figures;
use crate::report::{Report, quartiles, reached};

/// The bar.
const EVENTS_A_SECOND_MIN: f64 = 50_000.0;

/// The changes of a backlog: made by inserts of many documents, and by inserts of one.
const BACKLOG: u64 = 100_000;
const BACKLOG_OF_ONES: u64 = 20_000;
const BATCH: u64 = 1000;
/// The documents of an insert while a stream reads along, and how long that lasts.
const LIVE_BATCH: u64 = 100;
const LIVE_TURN: Duration = Duration::from_millis(700);
/// How often all cases are gone through.
const ROUNDS_MAX: u32 = 4;

/// The name of a case, and what measures it: a turn gives events a second.
type Case = (&'static str, fn(&Side, u32) -> io::Result<f64>);

const CASES: [Case; 4] = [
    ("stream/backlog, batches of 16 MB", |side, round| {
        backlog(side, round, BACKLOG, BATCH, None)
    }),
    ("stream/backlog, batches of 1,000", |side, round| {
        backlog(side, round, BACKLOG, BATCH, Some(1000))
    }),
    ("stream/backlog of single inserts", |side, round| {
        backlog(side, round, BACKLOG_OF_ONES, 1, None)
    }),
    ("stream/live, inserts of 100", live),
];

/// Measures all cases on all sides.
pub(super) fn measure(sides: &[Side], options: &Options, report: &mut Report) -> io::Result<()> {
    for (name, turn) in CASES {
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); sides.len()];
        for round in 0..options.rounds.min(ROUNDS_MAX) {
            for (side, rates) in sides.iter().zip(&mut rates) {
                rates.push(turn(side, round)?);
            }
        }
        let median = |index: usize| quartiles(rates[index].clone())[1];
        report.push(name, "ops/s", &sides[0].name, &figures(sides, median));
        report.note(format!(
            "{name}: {:.0} events a second, at least {EVENTS_A_SECOND_MIN} asked for: {}.",
            median(0),
            reached(median(0) >= EVENTS_A_SECOND_MIN)
        ));
    }
    Ok(())
}

fn backlog(
    side: &Side,
    round: u32,
    changes: u64,
    batch: u64,
    batch_size: Option<i64>,
) -> io::Result<f64> {
    let collection = format!("backlog_{batch}");
    let prefix = format!("b{:x}_{round}_{}", side.run, batch_size.unwrap_or(0));
    let mut client = side.connect()?;
    client.command(&insert(&collection, &prefix, changes, Level::Written))?;
    let from = operation_time(&client)?;
    for first in (0..changes).step_by(batch as usize) {
        client.command(&insert_batch(&collection, &prefix, first, batch))?;
    }
    let begun = Instant::now();
    let mut stream = Stream::open(side, &collection, starting_at(from))?;
    let mut events = 0;
    while events < changes {
        events += stream.get_more(1000, batch_size)?;
    }
    Ok(events as f64 / begun.elapsed().as_secs_f64())
}

fn starting_at(time: Timestamp) -> Document {
    doc! { "startAtOperationTime": time }
}

fn live(side: &Side, round: u32) -> io::Result<f64> {
    let collection = "live";
    let prefix = format!("v{:x}_{round}", side.run);
    let mut stream = Stream::open(side, collection, Document::new())?;
    let mut client = side.connect()?;
    let begun = Instant::now();
    thread::scope(|scope| {
        let writer = scope.spawn(move || -> io::Result<u64> {
            let mut count = 0;
            while begun.elapsed() < LIVE_TURN {
                client.command(&insert_batch(collection, &prefix, count, LIVE_BATCH))?;
                count += LIVE_BATCH;
            }
            Ok(count)
        });
        let mut events = 0;
        while !writer.is_finished() {
            events += stream.get_more(100, None)?;
        }
        let wrote = writer.join();
        let written = wrote.map_err(|_| io::Error::other("the writer panicked"))??;
        while events < written {
            events += stream.get_more(100, None)?;
        }
        Ok(events as f64 / begun.elapsed().as_secs_f64())
    })
}
