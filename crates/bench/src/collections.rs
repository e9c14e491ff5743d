//! Very many collections: how fast they come, what a start costs with them, what they cost a read and in memory, and how
//! fast their space comes back.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use quarry_bson::doc;

use crate::concurrent::{key_at, latencies};
use crate::engine_work::accepted_lsn;
use crate::process::{Server, target_directory};
use crate::raw_client::RawClient;
use crate::report::Report;

const DATABASE: &str = "many";

/// How many collections are touched after the restart before memory is read.
const TOUCHED: u64 = 1000;

/// Memory that the allocator holds for nobody goes back to the system within this time.
const PURGE_TIME: Duration = Duration::from_secs(12);

/// Dropped collections are taken back when nothing was written for so long.
const QUIET_TIME: Duration = Duration::from_secs(4);

/// The options of `quarry-bench collections`.
pub struct Options {
    /// The engine of the servers that the bench starts.
    pub engine: String,
    /// How many collections are made.
    pub count: u64,
    /// How many connections make them.
    pub connections: u64,
    /// How many point reads are measured.
    pub reads: u64,
}

/// Runs the bench, prints its tables and writes its reports.
pub fn run(options: &Options) -> io::Result<()> {
    let directory = target_directory()
        .join("bench/data")
        .join(format!("collections-{}", std::process::id()));
    let outcome = measure(options, &directory);
    let _ = std::fs::remove_dir_all(&directory);
    outcome
}

fn measure(options: &Options, directory: &std::path::Path) -> io::Result<()> {
    let ours = options.engine.as_str();
    let server = Server::start(ours, directory)?;
    eprintln!(
        "creating {} collections with two secondary indexes each",
        options.count
    );
    let started = Instant::now();
    in_parallel(&server, options, |client, number| {
        let name = name(number);
        client.command(&doc! { "create": (name.as_str()), "$db": DATABASE })?;
        client.command(&doc! {
            "createIndexes": (name.as_str()),
            "indexes": [{ "key": { "a": 1 }, "name": "a_1" }, { "key": { "b": 1, "c": -1 }, "name": "b_1_c_-1" }],
            "$db": DATABASE
        })
    })?;
    let created_per_second = options.count as f64 / started.elapsed().as_secs_f64();
    in_parallel(&server, options, |client, number| {
        client.command(&doc! {
            "insert": (name(number)), "documents": [{ "_id": 1, "a": (number as i64), "b": 2, "c": 3 }], "$db": DATABASE
        })
    })?;
    let resident_made = server.resident_bytes()? as f64 / 1_000_000.0;
    thread::sleep(PURGE_TIME);
    let resident_later = server.resident_bytes()? as f64 / 1_000_000.0;

    let before = Instant::now();
    let mut stopped = server;
    stopped.stop()?;
    let stop_seconds = before.elapsed().as_secs_f64();
    drop(stopped);
    let before = Instant::now();
    let mut server = Server::start(ours, directory)?;
    let mut client = RawClient::connect(("127.0.0.1", server.port))?;
    point_read(&mut client, options.count / 2)?;
    let start_seconds = before.elapsed().as_secs_f64();

    for touch in 0..TOUCHED.min(options.count) {
        point_read(&mut client, key_at(7, touch, options.count))?;
    }
    let resident = server.resident_bytes()? as f64 / 1_000_000.0;
    let one = read_latency(&mut client, options, |_| 1)?;
    let random = read_latency(&mut client, options, |count| {
        key_at(11, count, options.count)
    })?;
    let reclaim_seconds = drop_all(&mut client)?;
    let idents = 3.0 * options.count as f64;
    server.stop()?;

    let mut report = Report::new("collections", "Many collections", "make bench-collections");
    report.note(format!(
        "{} collections, two secondary indexes each, one document each.",
        options.count
    ));
    report.note(
        "Memory right after they were made is what caches hold within their bounds (blocks of files, documents, definitions), \
         the engine's buffers, and what the allocator has not given back yet; the last of these is gone ten seconds later.",
    );
    let mut push = |case: &str, unit: &str, figure: f64| {
        report.push(case, unit, ours, &[(ours.to_owned(), figure)]);
    };
    push("create with two indexes", "ops/s", created_per_second);
    push("resident when they are made", "MB", resident_made);
    push("resident 12 s later", "MB", resident_later);
    push("stop", "s", stop_seconds);
    push("start to first answer", "s", start_seconds);
    push("resident after start and 1,000 touched", "MB", resident);
    push("point read p50 in one collection", "us", one);
    push("point read p50 over random collections", "us", random);
    push("dropDatabase until its space is back", "s", reclaim_seconds);
    push(
        "collections and indexes taken back",
        "ops/s",
        idents / reclaim_seconds,
    );
    report.publish(ours)?;
    Ok(())
}

/// Drops the database; the seconds until the last mark of a dropped collection is gone, which is the last write.
fn drop_all(client: &mut RawClient) -> io::Result<f64> {
    let begun = Instant::now();
    client.command(&doc! { "dropDatabase": 1, "$db": DATABASE })?;
    let mut last = (accepted_lsn(client)?, Instant::now());
    while last.1.elapsed() < QUIET_TIME {
        thread::sleep(Duration::from_millis(50));
        let accepted = accepted_lsn(client)?;
        if accepted != last.0 {
            last = (accepted, Instant::now());
        }
    }
    Ok((last.1 - begun).as_secs_f64())
}

fn name(number: u64) -> String {
    format!("c{number:07}")
}

fn in_parallel(
    server: &Server,
    options: &Options,
    work: impl Fn(&mut RawClient, u64) -> io::Result<()> + Sync,
) -> io::Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..options.connections)
            .map(|connection| {
                let work = &work;
                scope.spawn(move || -> io::Result<()> {
                    let mut client = RawClient::connect(("127.0.0.1", server.port))?;
                    let mine = (connection..options.count).step_by(options.connections as usize);
                    mine.into_iter()
                        .try_for_each(|number| work(&mut client, number))
                })
            })
            .collect();
        for thread in threads {
            thread
                .join()
                .map_err(|_| io::Error::other("a client thread panicked"))??;
        }
        Ok(())
    })
}

fn point_read(client: &mut RawClient, number: u64) -> io::Result<()> {
    client.command(&doc! {
        "find": (name(number)), "filter": { "_id": 1 }, "limit": 1, "singleBatch": true, "$db": DATABASE
    })?;
    let found = client
        .reply()
        .get_path("cursor.firstBatch.0.a")
        .and_then(|value| value.as_i64_exact());
    if found == Some(number as i64) {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "collection {} answered {found:?}",
            name(number)
        )))
    }
}

/// The median in microseconds, after a warm-up over the same choice.
fn read_latency(
    client: &mut RawClient,
    options: &Options,
    choose: impl Fn(u64) -> u64,
) -> io::Result<f64> {
    let mut latency = latencies();
    for round in 0..2 * options.reads {
        let started = Instant::now();
        point_read(client, choose(round % options.reads))?;
        if round >= options.reads {
            latency.saturating_record(started.elapsed().as_nanos() as u64);
        }
    }
    Ok(latency.value_at_quantile(0.5) as f64 / 1000.0)
}
