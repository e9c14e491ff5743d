//! The CRUD workloads from pymongo on one connection: `crud.py` measures, this turns its figures into a report.

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::peers::{CANNED, Peer, Peers};
use crate::report::Report;

pub mod starts;

/// The script that pymongo runs. It is part of the binary, so that a run needs no checkout.
const SCRIPT: &str = include_str!("../../crud.py");

/// The options of `quarry-bench crud`.
pub struct Options {
    /// The servers to measure; none: the bench starts its own.
    pub given: Vec<Peer>,
    /// The Python interpreter that has pymongo.
    pub python: String,
    /// How often all cases are run.
    pub passes: u32,
    /// Operations of each case in each pass.
    pub iterations: u32,
    /// Only the cases whose names contain this.
    pub only: Option<String>,
    /// Without filler that is flushed before, and without waiting for idle processors between cases.
    pub is_brief: bool,
}

/// One case on one side, in microseconds.
#[derive(Deserialize)]
pub struct Figure {
    /// The case's name.
    pub case: String,
    /// The server's name.
    pub name: String,
    /// The median, in microseconds.
    pub p50: f64,
    p90: f64,
    p99: f64,
    /// Over the canned replies, both sides compared round by round.
    added: f64,
}

/// Runs the bench, prints its tables and writes its reports.
pub fn run(options: &Options) -> io::Result<()> {
    let peers = Peers::given_or_started(&options.given, &["rocksdb", "mdbx", "memory"])?;
    let ours = peers
        .peers
        .get(1)
        .map_or("rocksdb", |peer| peer.name.as_str())
        .to_owned();
    let figures = measure(options, &peers)?;
    report(options, &figures, &ours).publish(&ours)?;
    Ok(())
}

/// Runs the script over all sides, the canned replies first.
pub fn measure(options: &Options, peers: &Peers) -> io::Result<Vec<Figure>> {
    let mut command = Command::new(&options.python);
    command
        .args(["-c", SCRIPT])
        .args(["--passes", &options.passes.to_string()])
        .args(["--iterations", &options.iterations.to_string()]);
    if let Some(only) = &options.only {
        command.args(["--only", only]);
    }
    if options.is_brief {
        command.arg("--brief");
    }
    command.args(
        peers
            .peers
            .iter()
            .map(|peer| format!("{}={}", peer.name, peer.uri)),
    );
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!(
            "crud.py ended with {}",
            output.status
        )));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn report(options: &Options, figures: &[Figure], ours: &str) -> Report {
    let mut report = Report::new("crud", "CRUD from one connection", "make bench-crud");
    report.note(format!(
        "pymongo on one connection; all sides take turns within one run. All cases are gone through {passes} times, with \
         {iterations} operations each time, and begin when the processors have become idle: flushes and compactions of \
         what was loaded, and of the case before, are over. `canned` answers every message with a fixed reply: it is what \
         the driver, the kernel and the loopback cost by themselves. `added p50` is the median over all rounds of all \
         passes of the difference between the medians of a side and of `canned` in the same round; it is below 0 where a \
         server meets the next request awake, which `canned` does not.",
        passes = options.passes,
        iterations = options.iterations,
    ));
    let mut by_case: BTreeMap<&str, Vec<&Figure>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for figure in figures {
        if !by_case.contains_key(figure.case.as_str()) {
            order.push(&figure.case);
        }
        by_case.entry(&figure.case).or_default().push(figure);
    }
    for case in order {
        for (quantile, pick) in QUANTILES {
            let sides: Vec<(String, f64)> = by_case[case]
                .iter()
                .map(|figure| (figure.name.clone(), pick(figure)))
                .collect();
            report.push(&format!("{case} {quantile}"), "us", ours, &sides);
        }
        let over: Vec<(String, f64)> = by_case[case]
            .iter()
            .filter(|figure| figure.name != CANNED)
            .map(|figure| (figure.name.clone(), figure.added))
            .collect();
        report.push_differences(&format!("{case} added p50"), "us", ours, &over);
    }
    report
}

type Pick = fn(&Figure) -> f64;
const QUANTILES: [(&str, Pick); 3] = [
    ("p50", |figure| figure.p50),
    ("p90", |figure| figure.p90),
    ("p99", |figure| figure.p99),
];
