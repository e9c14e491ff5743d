//! Measures what sessions cost: retryable writes, transactions, change streams, and the journal that is kept for them.
//!
//! The servers are sets of one. Whatever is compared takes turns on one server, and the servers take turns in each round;
//! only what the kept journal costs a writer is compared between two servers, which differ in nothing else. Against each bar
//! the report says what was reached.

mod latency;
mod many_streams;
mod side;
mod stream;
mod throughput;
mod turns;
mod window;
mod writes;

use std::io;

pub use self::side::Options;
use self::side::{Side, set_of_one};
use crate::peers::{CANNED, Peers};
use crate::report::Report;

/// A part of the bench: its name, and what measures it on all sides.
type Part = (
    &'static str,
    fn(&[Side], &Options, &mut Report) -> io::Result<()>,
);

const PARTS: [Part; 4] = [
    ("writes", writes::measure),
    ("latency", latency::measure),
    ("throughput", throughput::measure),
    ("streams", many_streams::measure),
];
const WINDOW: &str = "window";

/// Runs the bench, prints its table and writes its reports.
pub fn run(options: &Options) -> io::Result<()> {
    let peers = match &options.given[..] {
        [] => Peers::launched("rocksdb", [("quarry", set_of_one(&[]))])?,
        given => Peers::given_or_started(given, &[])?,
    };
    let peers_measured = peers.peers.iter().filter(|peer| peer.name != CANNED);
    let sides = peers_measured
        .map(Side::new)
        .collect::<io::Result<Vec<_>>>()?;
    let mut report = Report::new(
        "sessions",
        "What sessions, transactions and change streams cost",
        "make bench-sessions",
    );
    report.note(
        "The servers are sets of one (`--replSet`) on RocksDB; the client is the bench's own, which costs next to nothing and \
         shares the processors with the server. A document has about 150 bytes. `{w: 1}` waits for no sync, `majority`, \
         which a set's clients get unless they ask for something else, for one.",
    );
    let is_wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only));
    for (name, measure) in PARTS {
        if is_wanted(name) {
            eprintln!("{name}");
            measure(&sides, options, &mut report)?;
        }
    }
    if is_wanted(WINDOW) && options.given.is_empty() {
        window::measure(options, &mut report)?;
    }
    report.publish(&sides[0].name)?;
    Ok(())
}
