//! Quarry's BSON against the `bson` crate and, where Java is present, MongoDB's Java codec: the same documents,
//! the same questions, in one run.
//!
//! Every side of a case is sampled in turns, many times, and the best sample counts: what is left is the code,
//! not the neighbours on the machine. Prints a table; a whole run writes `bench/bson.json` under the target
//! directory and docs/benchmarks/bson-cases.md.
//! `cargo bench -p quarry-bson -- mixed50/iterate` runs the cases whose names contain the word.

mod cases;
mod documents;
mod java;
mod measure;
mod report;

use java::Java;

fn main() {
    let filter = std::env::args()
        .skip(1)
        .find(|a| !a.starts_with('-'))
        .unwrap_or_default();
    let mut java = Java::start(&report::directory());
    let mut results = Vec::new();
    for scenario in documents::scenarios() {
        let (bytes, cases) = cases::of(&scenario);
        if let Some(peer) = &java
            && let Err(error) = peer.give(scenario.name, bytes)
        {
            eprintln!("not measured: {}, for {error}", java::NAME);
            java = None;
        }
        for mut case in cases {
            if case.name.contains(&filter) {
                results.push(measure::run(&mut case, java.as_mut()));
                report::print(results.last().expect("a result was pushed"));
            }
        }
    }
    if filter.is_empty() {
        report::write(&results);
    }
}
