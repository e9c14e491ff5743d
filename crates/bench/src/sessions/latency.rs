//! How long after the reply to an insert its event is in another client's hand.
//!
//! One connection inserts, another one waits in a getMore. The clock of an event begins with the reply to its insert, so
//! that the insert's own round trip is not in it.
//!
//! A stream hands out what survives a power loss, so that behind an insert that waits for no sync an event waits for one. What
//! that takes on this disk alone is measured beside it: as many bytes are appended to a file that is laid out already, after as
//! long a pause. What the server adds to it is measured over a directory in memory, where a sync costs nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use quarry_bson::Document;

use super::side::{Level, Options, Side, insert, set_of_one};
use super::stream::Stream;
use super::turns::{Turns, push_turns};
use crate::peers::Peer;
use crate::process::{Server, target_directory};
use crate::raw_client::RawClient;
use crate::report::{Report, reached};

/// The bar, in microseconds.
const BEHIND_MAX_US: f64 = 150.0;

/// The inserts of a turn.
const TURN_INSERTS: u64 = 200;
/// So long after an event the next insert is made: the stream's next getMore waits by then.
const PAUSE: Duration = Duration::from_millis(1);
/// An event that has not come by then does not come.
const EVENT_MAX: Duration = Duration::from_secs(20);

const COLLECTION: &str = "latency";

/// A directory in memory, where the system has one.
const IN_MEMORY: &str = "/dev/shm";

/// About what the journal writes of an insert of this bench.
const APPENDED: [u8; 512] = [b'q'; 512];

/// The times of one side.
struct Times {
    insert: Turns,
    behind: Turns,
}

/// Measures both levels on all sides, and syncs alone.
pub(super) fn measure(sides: &[Side], options: &Options, report: &mut Report) -> io::Result<()> {
    for level in Level::ALL {
        let mut totals = Vec::new();
        for _ in sides {
            totals.push(Times {
                insert: Turns::new(),
                behind: Turns::new(),
            });
        }
        for round in 0..options.rounds {
            for (side, times) in sides.iter().zip(&mut totals) {
                turn(side, level, round, times)?;
            }
        }
        let case = format!("stream/insert beside it, {}", level.name());
        push_turns(report, &case, sides, |side| &totals[side].insert);
        let case = format!("stream/event behind its insert, {}", level.name());
        push_turns(report, &case, sides, |side| &totals[side].behind);
        let behind_us = totals[0].behind.us_at(0.5);
        report.note(format!(
            "An event is in the hand of a client that waits for it {behind_us:.0} us after the reply to its insert, {}, at the \
             median, at most {BEHIND_MAX_US} us asked for: {}.",
            level.name(),
            reached(behind_us <= BEHIND_MAX_US)
        ));
    }
    sync_beside(&sides[0].name, options, report)?;
    match options.given.is_empty() && Path::new(IN_MEMORY).is_dir() {
        true => over_memory(options, report),
        false => Ok(()),
    }
}

/// Adds what an append and its sync take on the disk of the bench, without a server.
fn sync_beside(side: &str, options: &Options, report: &mut Report) -> io::Result<()> {
    let mut syncs = Turns::new();
    for _ in 0..options.rounds {
        sync_alone(&mut syncs)?;
    }
    let sync_us = syncs.us_at(0.5);
    report.note(format!(
        "Behind an insert at {{w: 1}} an event waits for a sync, because streams hand out only what survives a power loss. An \
         append of {} bytes and its fdatasync alone, after the same pause on the same disk, take {sync_us:.0} us at the median.",
        APPENDED.len()
    ));
    let figures = [(side.to_owned(), sync_us)];
    report.push("stream/a sync alone p50", "us", side, &figures);
    Ok(())
}

/// Adds how long after its insert an event comes where a sync costs nothing.
fn over_memory(options: &Options, report: &mut Report) -> io::Result<()> {
    let directory = Path::new(IN_MEMORY).join(format!("quarry-bench-{}", std::process::id()));
    let server = Server::launch("rocksdb", &directory, set_of_one(&[]))?;
    let measured = events_behind(&server, options);
    drop(server);
    std::fs::remove_dir_all(&directory)?;
    let times = measured?;
    let behind_us = times.behind.us_at(0.5);
    report.note(format!(
        "Over a directory in memory an event is there {behind_us:.0} us after the reply to its insert, {{w: 1}}, at the median: \
         that is what the server adds to the sync, at most {BEHIND_MAX_US} us asked for: {}.",
        reached(behind_us <= BEHIND_MAX_US)
    ));
    Ok(())
}

fn events_behind(server: &Server, options: &Options) -> io::Result<Times> {
    let peer = Peer {
        name: "in memory".into(),
        uri: server.uri(),
    };
    let side = Side::new(&peer)?;
    let mut times = Times {
        insert: Turns::new(),
        behind: Turns::new(),
    };
    for round in 0..options.rounds {
        turn(&side, Level::Written, round, &mut times)?;
    }
    Ok(times)
}

/// One turn of appends to a file that has its length and its blocks, each of them synced.
fn sync_alone(times: &mut Turns) -> io::Result<()> {
    let directory = target_directory().join("bench/data");
    std::fs::create_dir_all(&directory)?;
    let path = directory.join(format!("synced-{}", std::process::id()));
    let file = File::create(&path)?;
    let laid_out = vec![0; APPENDED.len() * TURN_INSERTS as usize];
    file.write_all_at(&laid_out, 0)?;
    file.sync_all()?;
    for number in 0..TURN_INSERTS {
        thread::sleep(PAUSE);
        let begun = Instant::now();
        file.write_all_at(&APPENDED, number * APPENDED.len() as u64)?;
        file.sync_data()?;
        times.record(begun.elapsed());
    }
    times.end_turn();
    std::fs::remove_file(&path)
}

fn turn(side: &Side, level: Level, round: u32, times: &mut Times) -> io::Result<()> {
    let stream = Stream::open(side, COLLECTION, Document::new())?;
    let mut client = side.connect()?;
    let prefix = format!("l{:x}_{}_{round}", side.run, level.name());
    let is_over = AtomicBool::new(false);
    let (sender, arrivals) = mpsc::channel();
    let outcome = thread::scope(|scope| {
        let reader = scope.spawn(|| read(stream, &is_over, &sender));
        let inserted = insert_all(&mut client, &prefix, level, &arrivals, times);
        is_over.store(true, Ordering::Relaxed);
        // Wakes the reader.
        let last = client.command(&insert(COLLECTION, &prefix, TURN_INSERTS, Level::Written));
        let read = reader.join();
        let read = read.map_err(|_| io::Error::other("the stream's reader panicked"))?;
        inserted.and(last).and(read)
    });
    times.insert.end_turn();
    times.behind.end_turn();
    outcome
}

fn insert_all(
    client: &mut RawClient,
    prefix: &str,
    level: Level,
    arrivals: &Receiver<Instant>,
    times: &mut Times,
) -> io::Result<()> {
    for number in 0..TURN_INSERTS {
        thread::sleep(PAUSE);
        let command = insert(COLLECTION, prefix, number, level);
        let begun = Instant::now();
        client.command(&command)?;
        let replied = Instant::now();
        let arrived = arrivals
            .recv_timeout(EVENT_MAX)
            .map_err(|_| io::Error::other("an event does not come"))?;
        times.insert.record(replied - begun);
        let behind = arrived.saturating_duration_since(replied);
        times.behind.record(behind);
    }
    Ok(())
}

/// Tells when each event came.
fn read(
    mut stream: Stream,
    is_over: &AtomicBool,
    sender: &mpsc::Sender<Instant>,
) -> io::Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        let events = stream.get_more(1000, None)?;
        let arrived = Instant::now();
        for _ in 0..events {
            // Nobody listens any more once the inserts are over.
            let _ = sender.send(arrived);
        }
    }
    Ok(())
}
