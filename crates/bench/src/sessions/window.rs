//! The cost to a writer of a journal that is kept for a day, and how long a stream takes to resume within it.
//!
//! Two servers that differ in that alone take turns: one with the window that is the default, one with none.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use quarry_bson::{Document, Timestamp, Value, doc};

use super::side::{DATABASE, Level, Options, Side, insert, set_of_one};
use super::stream::{Stream, open_on, operation_time};
use super::turns::{Turns, figures, note_ratio, push_turns, ratio_of};
use crate::peers::Peer;
use crate::process::{Server, target_directory};
use crate::raw_client::RawClient;
use crate::report::{Report, quartiles, reached};

/// The bars: of a write with a window over one without, and of opening a stream anywhere in the window.
const WRITE_MAX: f64 = 1.02;
const RESUME_MAX_MS: f64 = 5.0;

const TURN_INSERTS: u64 = 1500;
/// A turn of large inserts, which fill some segments of the journal.
const LARGE_TURN_BYTES: u64 = 160 << 20;
const LARGE_DOCUMENTS: u64 = 16;
const LARGE_DOCUMENT_BYTES: usize = 16 << 10;
/// The work that a turn leaves to be done behind it is over by then.
const SETTLING: Duration = Duration::from_millis(1500);
const ROUNDS_MAX: u32 = 6;

const SMALL: &str = "small";
const LARGE: &str = "large";

/// The cases of a writer.
const CASES: [(&str, Level); 2] = [
    ("window/insert one, {w: 1}", Level::Written),
    ("window/insert one, majority", Level::Majority),
];
const LARGE_CASE: &str = "window/inserts of 16 documents of 16 KiB";

/// Starts the two servers, and measures writes and then resuming.
pub(super) fn measure(options: &Options, report: &mut Report) -> io::Result<()> {
    let scratch = target_directory()
        .join("bench/data")
        .join(format!("{}_window", std::process::id()));
    let launch = |name: &str, further: &[&str]| {
        Server::launch("rocksdb", &scratch.join(name), set_of_one(further))
    };
    let kept = launch("kept", &[])?;
    let none = launch("none", &["--journalRetentionHours", "0"])?;
    let sides = [side("window", &kept)?, side("no window", &none)?];
    eprintln!("window: writes");
    compare_writes(&sides, options, report)?;
    drop(none);
    eprintln!("window: resuming");
    resume(kept, options, report)?;
    std::fs::remove_dir_all(&scratch)
}

fn side(name: &str, server: &Server) -> io::Result<Side> {
    Side::new(&Peer {
        name: name.to_owned(),
        uri: server.uri(),
    })
}

fn compare_writes(sides: &[Side; 2], options: &Options, report: &mut Report) -> io::Result<()> {
    let new = || [Turns::new(), Turns::new()];
    let (mut small, mut large) = ([new(), new()], new());
    for round in 0..options.rounds.min(ROUNDS_MAX) {
        for step in 0..2 {
            // The side that comes first changes with the round.
            let index = (step + round as usize) % 2;
            let mut client = sides[index].connect()?;
            for (case, (_, level)) in CASES.into_iter().enumerate() {
                let prefix = format!("{round}_{case}");
                insert_small(&mut client, &prefix, level, &mut small[case][index])?;
            }
            insert_large(&mut client, &format!("{round}"), &mut large[index])?;
            thread::sleep(SETTLING);
        }
    }
    for ((name, _), turns) in CASES.into_iter().zip(&small) {
        push_turns(report, name, sides, |side| &turns[side]);
        note_ratio(
            report,
            &over(name),
            ratio_of(&turns[0], &turns[1]),
            WRITE_MAX,
        );
    }
    let median = |turns: &Turns| quartiles(turns.medians.clone())[1];
    let rate = figures(sides, |side| {
        1e6 / median(&large[side]) * LARGE_DOCUMENTS as f64
    });
    report.push(LARGE_CASE, "docs/s", &sides[0].name, &rate);
    note_ratio(
        report,
        &over(LARGE_CASE),
        ratio_of(&large[0], &large[1]),
        WRITE_MAX,
    );
    Ok(())
}

fn over(name: &str) -> String {
    format!("{name}: its time with the journal kept for a day, over that with nothing kept")
}

fn insert_small(
    client: &mut RawClient,
    prefix: &str,
    level: Level,
    turns: &mut Turns,
) -> io::Result<()> {
    for number in 0..TURN_INSERTS {
        let command = insert(SMALL, prefix, number, level);
        let begun = Instant::now();
        client.command(&command)?;
        turns.record(begun.elapsed());
    }
    turns.end_turn();
    Ok(())
}

/// Records the mean of the turn, which has the waits for segments in it.
fn insert_large(client: &mut RawClient, prefix: &str, turns: &mut Turns) -> io::Result<()> {
    let commands = LARGE_TURN_BYTES / (LARGE_DOCUMENTS * LARGE_DOCUMENT_BYTES as u64);
    let begun = Instant::now();
    for number in 0..commands {
        client.command(&large_command(prefix, number))?;
    }
    turns.record(begun.elapsed() / commands as u32);
    turns.end_turn();
    Ok(())
}

fn large_command(prefix: &str, number: u64) -> Document {
    let filler = "x".repeat(LARGE_DOCUMENT_BYTES);
    let batch: Vec<Value> = (0..LARGE_DOCUMENTS)
        .map(|at| doc! { "_id": (format!("{prefix}_{number}_{at}")), "filler": (filler.as_str()) })
        .map(Value::from)
        .collect();
    doc! { "insert": LARGE, "documents": batch, "writeConcern": (Level::Written.concern()), "$db": DATABASE }
}

/// A place that a stream has come to.
struct Place {
    token: Value,
    time: Timestamp,
}

/// The places noted while the window is filled.
const PLACES: u64 = 32;

/// Fills the window, starts the server again, and opens streams at places from one end of the window to the other.
fn resume(server: Server, options: &Options, report: &mut Report) -> io::Result<()> {
    let places = fill(&side("window", &server)?, options.window_mb << 20)?;
    let begun = Instant::now();
    let server = server.restart()?;
    let restart = begun.elapsed();
    let side = Side {
        name: "window".to_owned(),
        address: format!("127.0.0.1:{}", server.port),
        run: 0,
    };
    let mut client = side.connect()?;
    let (mut by_token, mut by_time) = (Vec::new(), Vec::new());
    for place in &places {
        let token = doc! { "resumeAfter": (&place.token) };
        by_token.push(open_ms(&mut client, token)?);
        let time = doc! { "startAtOperationTime": (place.time) };
        by_time.push(open_ms(&mut client, time)?);
    }
    let mib = options.window_mb;
    for (name, times) in [("token", by_token), ("time", by_time)] {
        let worst = times.iter().copied().fold(0.0, f64::max);
        let [_, median, _] = quartiles(times);
        for (quantile, figure) in [("p50", median), ("max", worst)] {
            let case = format!("window/resume by a {name} after a restart, {mib} MiB {quantile}");
            report.push(&case, "ms", "window", &[("window".to_owned(), figure)]);
        }
        report.note(format!(
            "After a restart a stream is open at a {name} within {median:.2} ms at the median of {PLACES} places in \
             {mib} MiB, {worst:.2} ms at the worst, at most {RESUME_MAX_MS} ms asked for: {}. From there it reads at the speed of the journal.",
            reached(worst <= RESUME_MAX_MS)
        ));
    }
    let case = format!("window/stop and start, {mib} MiB");
    let seconds = restart.as_secs_f64();
    report.push(&case, "s", "window", &[("window".to_owned(), seconds)]);
    drop(server);
    Ok(())
}

fn fill(side: &Side, bytes: u64) -> io::Result<Vec<Place>> {
    let mut client = side.connect()?;
    let mut stream = Stream::open(side, SMALL, Document::new())?;
    let commands = bytes / (LARGE_DOCUMENTS * LARGE_DOCUMENT_BYTES as u64);
    let mut places = Vec::new();
    for number in 0..commands {
        if number % (commands / PLACES).max(1) == 0 {
            client.command(&insert(SMALL, "place", number, Level::Written))?;
            let time = operation_time(&client)?;
            while stream.get_more(1000, None)? == 0 {}
            let token = stream.token();
            let token = token.ok_or_else(|| io::Error::other("a batch without a token"))?;
            places.push(Place { token, time });
        }
        client.command(&large_command("fill", number))?;
    }
    Ok(places)
}

/// Opens a stream at a place.
fn open_ms(client: &mut RawClient, options: Document) -> io::Result<f64> {
    let begun = Instant::now();
    open_on(client, SMALL, options)?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}
