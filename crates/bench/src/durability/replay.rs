//! How fast a start replays what a killed server had in its journal and not in its engine.
//!
//! The rate is that of the replay itself: records read from the journal and put into the engine, on two threads. What a start does
//! before and behind that is told beside it, since it takes its time with few bytes as with many, or is the disk's alone.

use std::io;
use std::path::Path;

use super::{LOAD_DOCUMENT_BYTES, LOAD_DOCUMENTS, Options, load_command, reached};
use crate::engine_work::accepted_lsn;
use crate::process::Server;
use crate::raw_client::RawClient;
use crate::report::Report;

/// The bar, in millions of bytes of documents a second.
const RATE_MIN: f64 = 300.0;

/// The line of the log that ends the opening of the data.
const OPENED: &str = "data opened";

/// The parts of an opening, as the line names them.
const PARTS: [&str; 4] = ["openMillis", "readMillis", "applyMillis", "syncMillis"];

/// The replays of several starts.
#[derive(Default)]
struct Replayed {
    bytes: f64,
    seconds: f64,
    /// One for each of `PARTS`.
    part_seconds: [f64; PARTS.len()],
}

/// Kills servers in the midst of a load and measures the starts behind that: the engine's own opening, the reading of the journal, its
/// records put into the engine, and the engine's sync.
pub fn measure(
    engine: &str,
    directory: &Path,
    options: &Options,
    report: &mut Report,
) -> io::Result<()> {
    let mut replayed = Replayed::default();
    for round in 0..options.replay_rounds {
        eprintln!("{engine}: replay, round {round}");
        // An engine that has just made its data durable has little to replay: each round ends elsewhere.
        let mib = options.replay_mib + u64::from(round) * options.replay_mib / 16;
        replayed.add_start(engine, &directory.join(round.to_string()), mib)?;
    }
    let [open, read, apply, sync] = replayed.part_seconds;
    let megabytes = replayed.bytes / 1e6;
    let (rate, whole) = (megabytes / apply, megabytes / replayed.seconds);
    for (case, rate) in [("replay", rate), ("the start around it", whole)] {
        report.push(
            &format!("{engine}/{case}"),
            "MB/s",
            "durable",
            &[("durable".to_owned(), rate)],
        );
    }
    report.note(format!(
        "{engine}: {} starts behind a kill replayed {megabytes:.0} MB of documents in {apply:.2} s: {rate:.0} MB/s, at least {RATE_MIN} asked for: {}. \
         Before that the engine's opening took {open:.2} s, and reading and mending the journal {read:.2} s; behind it the engine's sync took {sync:.2} s. \
         All of it is {whole:.0} MB/s.",
        options.replay_rounds,
        reached(rate >= RATE_MIN)
    ));
    Ok(())
}

impl Replayed {
    fn add_start(&mut self, engine: &str, directory: &Path, mib: u64) -> io::Result<()> {
        let server = Server::start(engine, directory)?;
        let commands = (mib << 20) / (LOAD_DOCUMENTS * LOAD_DOCUMENT_BYTES as u64);
        let mut client = RawClient::connect(("127.0.0.1", server.port))?;
        // What makes the collection is no part of what is counted.
        client.command(&load_command(commands))?;
        let before = accepted_lsn(&mut client)?;
        for number in 0..commands {
            client.command(&load_command(number))?;
        }
        let records = accepted_lsn(&mut client)? - before;
        let record_bytes = ((mib << 20) as f64) / records as f64;
        drop(server);
        let restarted = Server::start(engine, directory)?;
        let line = std::fs::read_to_string(directory.join("quarry.log"))?;
        let line = line.lines().rfind(|line| line.contains(OPENED));
        let line: serde_json::Value = serde_json::from_str(line.unwrap_or_default())?;
        let figure = |name: &str| line["attr"][name].as_f64().unwrap_or_default();
        self.bytes += figure("replayedRecords") * record_bytes;
        self.seconds += figure("durationMillis") / 1e3;
        for (seconds, part) in self.part_seconds.iter_mut().zip(PARTS) {
            *seconds += figure(part) / 1e3;
        }
        drop(restarted);
        std::fs::remove_dir_all(directory)
    }
}
