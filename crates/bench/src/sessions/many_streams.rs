//! Streams that are open, each on a collection of its own: their cost to a writer, and the memory that they take.
//!
//! An open stream that nobody asks is a cursor. One whose client waits is a connection with its thread as well.

use std::io;
use std::time::Instant;

use quarry_bson::{Document, doc};

use super::side::{DATABASE, Level, Options, Side, insert};
use super::stream::{Stream, open_on};
use super::turns::{Turns, figures, note_ratio, ratio_of};
use crate::raw_client::RawClient;
use crate::report::{Report, reached};

/// The bars: of an insert beside open streams over one beside none, and of a stream's memory.
const INSERT_MAX: f64 = 1.05;
const STREAM_BYTES_MAX: f64 = 20_000.0;

/// The inserts of a turn.
const TURN_INSERTS: u64 = 500;
/// How often streams are opened and closed again, at most.
const ROUNDS_MAX: u32 = 4;
/// How long a client waits that is not to be answered.
const LONG_MS: i64 = 300_000;

/// The collection that no stream is over. `watched_0` has one.
const UNWATCHED: &str = "unwatched";

fn watched(number: u32) -> String {
    format!("watched_{number}")
}

/// The times that the turns of one side have brought: inserts beside no stream and beside many.
struct Found {
    alone: Turns,
    beside: Turns,
    of_watched: Turns,
    /// How long one stream took to open, in microseconds.
    open_us: f64,
    stream_bytes: Option<f64>,
}

impl Found {
    fn new() -> Found {
        Found {
            alone: Turns::new(),
            beside: Turns::new(),
            of_watched: Turns::new(),
            open_us: 0.0,
            stream_bytes: None,
        }
    }
}

/// Measures open streams and waiting ones on all sides.
pub(super) fn measure(sides: &[Side], options: &Options, report: &mut Report) -> io::Result<()> {
    for &streams in &options.streams {
        let opened = |side: &Side, found: &mut Found| open_idle(side, streams, found);
        let closed = |open: Idle| open.close();
        let all = compare(sides, options, &opened, closed)?;
        push(report, sides, &all, &format!("{streams} streams open"));
        note_memory(report, &all[0], streams);
    }
    let streams = options.waiting;
    let opened = |side: &Side, found: &mut Found| open_waiting(side, streams, found);
    let all = compare(sides, options, &opened, |_: Vec<Stream>| Ok(()))?;
    push(report, sides, &all, &format!("{streams} streams waiting"));
    if let Some(bytes) = all[0].stream_bytes {
        report.note(format!(
            "{streams} streams waiting: {bytes:.0} bytes of the server's memory each, with a connection and its thread."
        ));
    }
    Ok(())
}

/// Inserts before streams are opened and beside them, in turns.
fn compare<O>(
    sides: &[Side],
    options: &Options,
    open: &dyn Fn(&Side, &mut Found) -> io::Result<O>,
    close: impl Fn(O) -> io::Result<()>,
) -> io::Result<Vec<Found>> {
    let mut all: Vec<Found> = sides.iter().map(|_| Found::new()).collect();
    let mut turn = 0;
    for _ in 0..options.rounds.min(ROUNDS_MAX) {
        for (side, found) in sides.iter().zip(&mut all) {
            turn += 1;
            let mut inserter = Inserter::connect(side, turn)?;
            inserter.turn(UNWATCHED, &mut found.alone)?;
            let opened = open(side, found)?;
            inserter.turn(UNWATCHED, &mut found.beside)?;
            inserter.turn(&watched(0), &mut found.of_watched)?;
            close(opened)?;
        }
    }
    Ok(all)
}

fn push(report: &mut Report, sides: &[Side], all: &[Found], what: &str) {
    let ours = &sides[0].name;
    let mut push_p50 = |name: &str, turns: fn(&Found) -> &Turns| {
        let figures = figures(sides, |index| turns(&all[index]).us_at(0.5));
        report.push(&format!("{what}/{name} p50"), "us", ours, &figures);
    };
    push_p50("insert beside none", |found| &found.alone);
    push_p50("insert elsewhere", |found| &found.beside);
    push_p50("insert into one of theirs", |found| &found.of_watched);
    let figures = figures(sides, |index| all[index].open_us);
    report.push(&format!("{what}/opening one"), "us", ours, &figures);
    let found = &all[0];
    for (name, turns) in [
        ("An insert elsewhere", &found.beside),
        (
            "An insert into a collection of one of them",
            &found.of_watched,
        ),
    ] {
        let ratio = ratio_of(turns, &found.alone);
        note_ratio(
            report,
            &format!("{name} with {what}, over one with none"),
            ratio,
            INSERT_MAX,
        );
    }
}

fn note_memory(report: &mut Report, found: &Found, streams: u32) {
    if let Some(bytes) = found.stream_bytes {
        report.note(format!(
            "{streams} streams open: {bytes:.0} bytes of the server's memory each, at most {STREAM_BYTES_MAX} asked for: {}.",
            reached(bytes <= STREAM_BYTES_MAX)
        ));
    }
}

/// One connection that inserts.
struct Inserter {
    client: RawClient,
    prefix: String,
    count: u64,
}

impl Inserter {
    fn connect(side: &Side, turn: u32) -> io::Result<Inserter> {
        let client = side.connect()?;
        let prefix = format!("m{:x}_{turn}_{:x}", side.run, client.local_port()?);
        Ok(Inserter {
            client,
            prefix,
            count: 0,
        })
    }

    fn turn(&mut self, collection: &str, turns: &mut Turns) -> io::Result<()> {
        const WARM_UP: u64 = 20;
        for number in 0..WARM_UP + TURN_INSERTS {
            self.count += 1;
            let command = insert(collection, &self.prefix, self.count, Level::Written);
            let begun = Instant::now();
            self.client.command(&command)?;
            if number >= WARM_UP {
                turns.record(begun.elapsed());
            }
        }
        turns.end_turn();
        Ok(())
    }
}

/// Streams on one connection, which nobody asks for anything.
struct Idle {
    client: RawClient,
    cursors: Vec<i64>,
}

impl Idle {
    fn close(mut self) -> io::Result<()> {
        for (number, &cursor) in (0..).zip(&self.cursors) {
            self.client.command(&doc! {
                "killCursors": (watched(number)), "cursors": [cursor], "$db": DATABASE
            })?;
        }
        Ok(())
    }
}

fn open_idle(side: &Side, streams: u32, found: &mut Found) -> io::Result<Idle> {
    let mut idle = Idle {
        client: side.connect()?,
        cursors: Vec::new(),
    };
    found.measure_opening(side, streams, |number| {
        let cursor = open_on(&mut idle.client, &watched(number), Document::new())?;
        idle.cursors.push(cursor);
        Ok(())
    })?;
    Ok(idle)
}

fn open_waiting(side: &Side, streams: u32, found: &mut Found) -> io::Result<Vec<Stream>> {
    let mut waiting = Vec::new();
    found.measure_opening(side, streams, |number| {
        let mut stream = Stream::open(side, &watched(number), Document::new())?;
        stream.ask(LONG_MS, None)?;
        waiting.push(stream);
        Ok(())
    })?;
    Ok(waiting)
}

impl Found {
    /// Opens streams, and notes what one costs: of the memory the first time, before that of closed ones is used again.
    fn measure_opening(
        &mut self,
        side: &Side,
        streams: u32,
        open: impl FnMut(u32) -> io::Result<()>,
    ) -> io::Result<()> {
        let before = side.resident_bytes()?;
        let begun = Instant::now();
        (0..streams).try_for_each(open)?;
        self.open_us = begun.elapsed().as_secs_f64() * 1e6 / f64::from(streams.max(1));
        if self.stream_bytes.is_none()
            && let (Some(before), Some(now)) = (before, side.resident_bytes()?)
        {
            self.stream_bytes = Some((now as f64 - before as f64) / f64::from(streams.max(1)));
        }
        Ok(())
    }
}
