//! One server of the bench, and what is written to it.

use std::io;

use quarry_bson::{Document, Value, doc};

use crate::documents;
use crate::peers::Peer;
use crate::process::{Launch, resident_bytes};
use crate::raw_client::RawClient;

/// The database of the bench.
pub(super) const DATABASE: &str = "quarry_bench_sessions";

/// The options of `quarry-bench sessions`.
pub struct Options {
    /// The servers to measure, each a set of one; none: the bench starts its own.
    pub given: Vec<Peer>,
    /// How often what is compared takes turns.
    pub rounds: u32,
    /// The numbers of streams that are open beside a writer, each of which is a case.
    pub streams: Vec<u32>,
    /// The number of streams whose clients wait for an event, each on a connection of its own.
    pub waiting: u32,
    /// How much is written before a stream resumes, in MiB.
    pub window_mb: u64,
    /// Only parts whose name contains this.
    pub only: Option<String>,
}

/// How a server of the bench is started.
pub(super) fn set_of_one(further: &[&str]) -> Launch {
    let arguments = ["--replSet", "bench"].iter().chain(further);
    Launch {
        arguments: arguments.map(|&argument| argument.to_owned()).collect(),
        ..Launch::default()
    }
}

/// One server that is measured.
pub(super) struct Side {
    pub name: String,
    pub address: String,
    /// Differs from run to run, so that a server that kept its data meets no `_id` twice.
    pub run: u32,
}

impl Side {
    pub fn new(peer: &Peer) -> io::Result<Side> {
        let side = Side {
            name: peer.name.clone(),
            address: peer.address().to_owned(),
            run: std::process::id(),
        };
        side.connect()?
            .command(&doc! { "dropDatabase": 1, "$db": DATABASE })?;
        Ok(side)
    }

    pub fn connect(&self) -> io::Result<RawClient> {
        RawClient::connect(&self.address)
    }

    /// The memory of the server's process, if it runs on this machine.
    pub fn resident_bytes(&self) -> io::Result<Option<u64>> {
        let mut client = self.connect()?;
        client.command(&doc! { "serverStatus": 1, "$db": "admin" })?;
        let process_id = client.reply().get("pid");
        let process_id = process_id.and_then(|process_id| process_id.as_i64_exact());
        Ok(process_id
            .and_then(|process_id| u32::try_from(process_id).ok())
            .and_then(|process_id| resident_bytes(process_id).ok()))
    }
}

/// How safe a write is when it is answered.
#[derive(Clone, Copy)]
pub(super) enum Level {
    Written,
    Majority,
}

impl Level {
    pub const ALL: [Level; 2] = [Level::Written, Level::Majority];

    pub fn name(self) -> &'static str {
        match self {
            Level::Written => "{w: 1}",
            Level::Majority => "majority",
        }
    }

    pub fn concern(self) -> Document {
        match self {
            Level::Written => doc! { "w": 1 },
            Level::Majority => doc! { "w": "majority" },
        }
    }
}

/// An insert of one document, at a level.
pub(super) fn insert(collection: &str, id: &str, number: u64, level: Level) -> Document {
    let batch: Vec<Value> = vec![documents::simple(id, number).into()];
    doc! {
        "insert": collection, "documents": batch, "writeConcern": (level.concern()), "$db": DATABASE
    }
}

/// An insert of several documents that waits for no sync.
pub(super) fn insert_batch(collection: &str, id: &str, first: u64, count: u64) -> Document {
    let numbers = first..first + count;
    let batch: Vec<Value> = numbers
        .map(|number| documents::simple(id, number).into())
        .collect();
    doc! {
        "insert": collection, "documents": batch, "writeConcern": (Level::Written.concern()), "$db": DATABASE
    }
}
