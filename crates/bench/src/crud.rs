//! The CRUD workloads from pymongo on one connection: `crud.py` measures, this turns its figures into a report.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::peers::{Peer, Peers};
use crate::report::Report;

/// What to run.
pub struct Options {
    pub given: Vec<Peer>,
    pub python: String,
    pub iterations: u32,
    pub only: Option<String>,
}

/// One case on one side, in microseconds.
#[derive(Deserialize)]
struct Figure {
    case: String,
    name: String,
    p50: f64,
    p90: f64,
    p99: f64,
}

pub fn run(options: &Options) -> io::Result<()> {
    let peers = Peers::given_or_started(&options.given, &["rocksdb", "mdbx", "memory"])?;
    let ours = peers
        .peers
        .get(1)
        .map_or("rocksdb", |peer| peer.name.as_str())
        .to_owned();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("crud.py");
    let mut command = Command::new(&options.python);
    command
        .arg(script)
        .args(["--iterations", &options.iterations.to_string()]);
    if let Some(only) = &options.only {
        command.args(["--only", only]);
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
    let figures: Vec<Figure> = serde_json::from_slice(&output.stdout)?;
    report(&figures, &ours).publish(&ours)?;
    Ok(())
}

fn report(figures: &[Figure], ours: &str) -> Report {
    let mut report = Report::new("crud", "CRUD from one connection", "make bench-crud");
    report.note(
        "pymongo on one connection; all sides take turns within one run. `canned` answers every message with a fixed \
         reply: it is what the driver, the kernel and the loopback cost by themselves.",
    );
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
    }
    report
}

type Pick = fn(&Figure) -> f64;
const QUANTILES: [(&str, Pick); 3] = [
    ("p50", |figure| figure.p50),
    ("p90", |figure| figure.p90),
    ("p99", |figure| figure.p99),
];
