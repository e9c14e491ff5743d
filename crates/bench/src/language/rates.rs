//! The rates of operations over very many documents, and the latency of inserts while an index is built.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use quarry_bson::{DateTime, Document, Value, doc};

use super::{DATABASE, Options, Side};
use crate::concurrent::latencies;
use crate::raw_client::RawClient;
use crate::report::{Report, reached};

const COLLECTION: &str = "many";

/// Documents that expire.
const EXPIRED: u64 = 100_000;
/// How often it is looked whether they are gone.
const LOOK: Duration = Duration::from_millis(10);
/// A server that has not deleted them by then has no TTL.
const PATIENCE: Duration = Duration::from_secs(300);

/// Connections that insert while an index is built, and how long they are watched without one.
const WRITERS: u64 = 4;
const QUIET: Duration = Duration::from_secs(3);
/// Their 99th percentile, at most so many times what it is without.
const WRITERS_TIMES_MAX: f64 = 2.0;

/// An operation over all documents of a collection.
pub(super) struct Rate {
    pub name: &'static str,
    document: fn(u64) -> Document,
    indexes: fn() -> Vec<Value>,
    command: fn() -> Document,
    /// Fails unless the reply says that all documents were worked on.
    check: fn(&Side, u64) -> bool,
    /// Documents a second, at least.
    bar: f64,
}

pub(super) static RATES: [Rate; 4] = [
    Rate {
        name: "delete many, two indexes",
        document: small,
        indexes: || vec![index("n"), index("k")],
        command: || {
            let deletes = vec![doc! { "q": { "n": { "$gte": 0 } }, "limit": 0 }];
            doc! { "delete": COLLECTION, "deletes": deletes, "$db": DATABASE }
        },
        check: |side, documents| side.number("n").ok() == Some(documents),
        bar: 60_000.0,
    },
    Rate {
        name: "update many, a field without an index",
        document: small,
        indexes: Vec::new,
        command: || {
            let updates = vec![doc! { "q": {}, "u": { "$inc": { "times": 1 } }, "multi": true }];
            doc! { "update": COLLECTION, "updates": updates, "$db": DATABASE }
        },
        check: |side, documents| side.number("nModified").ok() == Some(documents),
        bar: 80_000.0,
    },
    Rate {
        name: "collection scan",
        document: small,
        indexes: Vec::new,
        command: || doc! { "find": COLLECTION, "filter": { "k": -1 }, "$db": DATABASE },
        check: |side, _| side.documents() == 0,
        bar: 1_500_000.0,
    },
    Rate {
        name: "index build, 800 B a document",
        document: large,
        indexes: Vec::new,
        command: || doc! { "createIndexes": COLLECTION, "indexes": [(index("k"))], "$db": DATABASE },
        check: |side, _| side.number("numIndexesAfter").ok() == Some(2),
        bar: 250_000.0,
    },
];

/// About 300 bytes.
fn small(n: u64) -> Document {
    sized(n, 250)
}

/// About 800 bytes.
fn large(n: u64) -> Document {
    sized(n, 750)
}

fn sized(n: u64, bytes: usize) -> Document {
    let spread = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    doc! { "_id": (n as i64), "n": (n as i64), "k": (spread as i64), "pad": ("x".repeat(bytes)) }
}

fn index(field: &str) -> Value {
    let mut key = Document::new();
    key.append(field, 1);
    doc! { "name": field, "key": key }.into()
}

/// Adds the rates of all sides, and what an index build and the end of documents by age take.
pub(super) fn measure(
    options: &Options,
    sides: &mut [Side],
    report: &mut Report,
) -> io::Result<()> {
    let ours = sides[0].name.clone();
    for rate in RATES.iter().filter(|rate| options.wants(rate.name)) {
        eprintln!("{}", rate.name);
        let mut rates = Vec::new();
        for side in &mut *sides {
            rates.push((side.name.clone(), rate.measure(side, options.documents)?));
        }
        report.push(rate.name, "documents/s", &ours, &rates);
        report.note(format!(
            "{}: {:.0} documents a second, at least {:.0} asked for: {}.",
            rate.name,
            rates[0].1,
            rate.bar,
            reached(rates[0].1 >= rate.bar)
        ));
    }
    let name = "documents that expire";
    if options.wants(name) {
        eprintln!("{name}");
        let mut rates = Vec::new();
        for side in &mut *sides {
            rates.push((side.name.clone(), expire(side)?));
        }
        report.push(name, "documents/s", &ours, &rates);
    }
    let name = "inserts beside an index build";
    if options.wants(name) {
        for side in &mut *sides {
            eprintln!("{name}");
            beside_a_build(side, options.documents, report)?;
        }
    }
    Ok(())
}

impl Rate {
    /// Documents a second.
    pub fn measure(&self, side: &mut Side, documents: u64) -> io::Result<f64> {
        side.fill(COLLECTION, documents, self.document)?;
        let indexes = (self.indexes)();
        if !indexes.is_empty() {
            side.client.command(
                &doc! { "createIndexes": COLLECTION, "indexes": indexes, "$db": DATABASE },
            )?;
        }
        let begun = Instant::now();
        side.client.command(&(self.command)())?;
        let seconds = begun.elapsed().as_secs_f64();
        if !(self.check)(side, documents) {
            let text = format!(
                "{}: {} answers {:?}",
                self.name,
                side.name,
                side.client.reply()
            );
            return Err(io::Error::other(text));
        }
        side.drop_collection()?;
        Ok(documents as f64 / seconds)
    }
}

impl Side {
    fn drop_collection(&mut self) -> io::Result<()> {
        self.client
            .command(&doc! { "drop": COLLECTION, "$db": DATABASE })
    }

    fn count(&mut self) -> io::Result<u64> {
        self.client
            .command(&doc! { "count": COLLECTION, "$db": DATABASE })?;
        self.number("n")
    }
}

/// Documents a second that go by their age, from the moment that an index says so.
fn expire(side: &mut Side) -> io::Result<f64> {
    side.fill(COLLECTION, EXPIRED, |n| {
        doc! { "_id": (n as i64), "at": (DateTime(0)), "pad": ("x".repeat(100)) }
    })?;
    let index = doc! { "name": "at", "key": { "at": 1 }, "expireAfterSeconds": 1 };
    let begun = Instant::now();
    side.client
        .command(&doc! { "createIndexes": COLLECTION, "indexes": [index], "$db": DATABASE })?;
    // The time until the monitor's next round is none of the deleting.
    while side.count()? == EXPIRED {
        wait(begun)?;
    }
    let first = Instant::now();
    while side.count()? > 0 {
        wait(begun)?;
    }
    let seconds = first.elapsed().as_secs_f64();
    side.drop_collection()?;
    Ok(EXPIRED as f64 / seconds.max(LOOK.as_secs_f64()))
}

fn wait(begun: Instant) -> io::Result<()> {
    if begun.elapsed() > PATIENCE {
        return Err(io::Error::other(
            "documents that have expired are there still",
        ));
    }
    thread::sleep(LOOK);
    Ok(())
}

/// Adds the latency of inserts from some connections, quiet and while an index is built.
fn beside_a_build(side: &mut Side, documents: u64, report: &mut Report) -> io::Result<()> {
    side.fill(COLLECTION, documents, large)?;
    let is_building = AtomicBool::new(false);
    let is_over = AtomicBool::new(false);
    let next = AtomicU64::new(documents);
    let address = side.address.clone();
    let [quiet, building] = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| scope.spawn(|| insert_until(&address, &is_building, &is_over, &next)))
            .collect();
        thread::sleep(QUIET);
        is_building.store(true, Ordering::Relaxed);
        let built = side.client.command(
            &doc! { "createIndexes": COLLECTION, "indexes": [(index("k"))], "$db": DATABASE },
        );
        is_over.store(true, Ordering::Relaxed);
        let mut both = [latencies(), latencies()];
        for writer in writers {
            let times = writer.join();
            let times = times.map_err(|_| io::Error::other("a writer panicked"))??;
            for (all, one) in both.iter_mut().zip(&times) {
                all.add(one).map_err(io::Error::other)?;
            }
        }
        built.map(|()| both)
    })?;
    side.drop_collection()?;
    let us = |times: &Histogram<u64>, quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        for (when, times) in [("quiet", &quiet), ("beside an index build", &building)] {
            let case = format!("insert from {WRITERS} connections, {when} {name}");
            let figure = [(side.name.clone(), us(times, quantile))];
            report.push(&case, "us", &side.name, &figure);
        }
    }
    let times = us(&building, 0.99) / us(&quiet, 0.99);
    report.note(format!(
        "{}: beside an index build over {documents} documents the 99th percentile of inserts from {WRITERS} connections is {times:.1} times what \
         it is without, at most {WRITERS_TIMES_MAX} asked for: {}.",
        side.name,
        reached(times <= WRITERS_TIMES_MAX)
    ));
    Ok(())
}

/// The latencies of inserts before and during the build.
fn insert_until(
    address: &str,
    is_building: &AtomicBool,
    is_over: &AtomicBool,
    next: &AtomicU64,
) -> io::Result<[Histogram<u64>; 2]> {
    let mut client = RawClient::connect(address)?;
    let mut times = [latencies(), latencies()];
    while !is_over.load(Ordering::Relaxed) {
        let document = large(next.fetch_add(1, Ordering::Relaxed));
        let documents = vec![document];
        let command = doc! { "insert": COLLECTION, "documents": documents, "$db": DATABASE };
        let which = usize::from(is_building.load(Ordering::Relaxed));
        let begun = Instant::now();
        client.command(&command)?;
        times[which].saturating_record(begun.elapsed().as_nanos() as u64);
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_sizes_that_the_bars_are_for() {
        assert!((290..=310).contains(&small(1_000_000).as_bytes().len()));
        assert!((790..=810).contains(&large(1_000_000).as_bytes().len()));
    }
}
