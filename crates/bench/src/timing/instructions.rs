//! The instructions of a point query, counted by callgrind in the server with timing and in the one without. They are the
//! process's own, those of the thread that fills the histograms included; the kernel's are not counted.
//!
//! Both servers are started over the same directory, whose documents have been flushed: memtables are skip lists with
//! random heights, which differ from process to process by as many instructions as timing takes.

use std::io;
use std::path::Path;
use std::process::Command;

use super::{Bench, WORKLOADS, untimed};
use crate::process::{Launch, Server};
use crate::report::Report;

/// Before those that are counted: caches fill and buffers grow.
const WARM_UP: u32 = 1500;
const COUNTED: u32 = 5000;

/// Adds the line to the report, if valgrind is there.
pub fn push(engine: &str, scratch: &Path, report: &mut Report) -> io::Result<()> {
    let Ok(version) = Command::new("valgrind").arg("--version").output() else {
        report.note("Instructions are not counted: valgrind is not installed.");
        return Ok(());
    };
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    eprintln!("instructions, by {version}");
    let directory = scratch.join("counted");
    Bench::start(engine, &directory, Launch::default())?
        .server
        .stop()?;
    let with = count(engine, &directory, Launch::default())?;
    let without = count(engine, &directory, untimed())?;
    report.note(format!(
        "The line of instructions is callgrind's count ({version}) over {COUNTED} point queries of documents that have \
         been flushed, the thread that fills the histograms included, the kernel and waiting for requests left out."
    ));
    let name = format!(
        "point query: {:+.2} % to compiled out",
        100.0 * (with - without) / without
    );
    let sides = [("on".into(), with), ("compiled out".into(), without)];
    report.push(&name, "instructions", "on", &sides);
    Ok(())
}

/// Instructions of one point query.
fn count(engine: &str, directory: &Path, launch: Launch) -> io::Result<f64> {
    let file = directory.join("callgrind.out");
    let first_dump = file.with_extension("out.1");
    if first_dump.exists() {
        std::fs::remove_file(&first_dump)?;
    }
    let launch = Launch {
        under: vec![
            "valgrind".into(),
            "--tool=callgrind".into(),
            format!("--callgrind-out-file={}", file.display()),
        ],
        // Looking for the next request is waiting, and as long as the client takes.
        arguments: vec!["--setParameter".into(), "busyPollMicros=0".into()],
        ..launch
    };
    let mut bench = Bench::connect(Server::launch(engine, directory, launch)?)?;
    let [point_query, ..] = &WORKLOADS;
    bench.turn(point_query, WARM_UP)?;
    control(&bench, "--zero")?;
    bench.turn(point_query, COUNTED)?;
    control(&bench, "--dump")?;
    bench.server.stop()?;
    // The first dump; the process writes a second one at its end.
    let dump = std::fs::read_to_string(first_dump)?;
    let total = dump
        .lines()
        .find_map(|line| line.strip_prefix("totals: "))
        .and_then(|count| count.trim().parse::<f64>().ok())
        .ok_or_else(|| io::Error::other("callgrind's dump has no totals"))?;
    Ok(total / f64::from(COUNTED))
}

fn control(bench: &Bench, what: &str) -> io::Result<()> {
    let done = Command::new("callgrind_control")
        .arg(what)
        .arg(bench.server.process_id().to_string())
        .output()?;
    if done.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(io::Error::other(format!("callgrind_control {what}: {why}")))
}
