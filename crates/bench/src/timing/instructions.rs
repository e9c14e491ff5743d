//! The instructions of a point query, counted by callgrind in the server with timing and in the one without. They are the
//! process's own, those of the thread that fills the histograms included; the kernel's are not counted.
//!
//! Both servers are started over the same directory, whose documents have been flushed: memtables are skip lists with
//! random heights, which differ from process to process by as many instructions as timing takes.

use std::io;
use std::path::Path;

use super::{Bench, WORKLOADS, untimed};
use crate::callgrind;
use crate::process::{Launch, Server};
use crate::report::Report;

/// Before those that are counted: caches fill and buffers grow.
const WARM_UP: u32 = 1500;
const COUNTED: u32 = 5000;

/// Adds the line to the report, if valgrind is there.
pub fn push(engine: &str, scratch: &Path, report: &mut Report) -> io::Result<()> {
    let Some(version) = callgrind::version() else {
        report.note("Instructions are not counted: valgrind is not installed.");
        return Ok(());
    };
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
    callgrind::clear(&file)?;
    let launch = callgrind::launch(&file, false, launch);
    let mut bench = Bench::connect(Server::launch(engine, directory, launch)?)?;
    let [point_query, ..] = &WORKLOADS;
    bench.turn(point_query, WARM_UP)?;
    callgrind::zero(&bench.server)?;
    bench.turn(point_query, COUNTED)?;
    let total = callgrind::dump(&bench.server, &file)?;
    bench.server.stop()?;
    Ok(total / f64::from(COUNTED))
}
