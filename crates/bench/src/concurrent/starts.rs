//! The concurrent mode beside an earlier build, over many starts of both ([`earlier_build`]).

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::{Case, Options, Runner, Total, preload_simple};
use crate::earlier_build::{self, Ratios, SIDES};
use crate::peers::Peer;
use crate::process::processor_seconds;
use crate::raw_client::RawClient;
use crate::report;

/// The ratios of one case.
struct Row {
    case: Case,
    /// Those of operations a second.
    rate: Ratios,
    /// Those of the processor time that the server takes an operation.
    processor: Ratios,
}

/// Measures `starts` starts, prints the table and writes it.
pub fn run(options: &Options, before: &Path, starts: u32) -> io::Result<()> {
    let mut rows: Vec<Row> = Case::all(&options.connections)
        .map(|case| Row {
            case,
            rate: Ratios::default(),
            processor: Ratios::default(),
        })
        .collect();
    for start in 0..starts {
        eprintln!("start {} of {starts}", start + 1);
        one_start(options, before, start, &mut rows)?;
    }
    let table = markdown(&rows);
    println!("\n{table}");
    let page = PathBuf::from("docs/benchmarks/crud-concurrent-before.md");
    report::write(&page, &table)?;
    println!("wrote {}", page.display());
    Ok(())
}

fn one_start(options: &Options, before: &Path, start: u32, rows: &mut [Row]) -> io::Result<()> {
    let (peers, order) = earlier_build::launch(before, start)?;
    let peers: Vec<(&Peer, u32)> = (peers.started())
        .map(|(peer, server)| (peer, server.process_id()))
        .collect();
    for (peer, _) in &peers {
        preload_simple(&mut RawClient::connect(peer.address())?)?;
    }
    let mut seed = u64::from(start) << 32;
    for row in rows {
        let case = row.case;
        let mut totals = Vec::new();
        for &(peer, process_id) in &peers {
            let runner = Runner::connect(case.client, peer, case.connections)?;
            totals.push((runner, Total::new(), process_id, 0.0));
        }
        for _ in 0..options.rounds {
            for (runner, total, process_id, processor) in &mut totals {
                seed += 1;
                let taken = processor_seconds(*process_id)?;
                let sample =
                    runner.run(case.operation, case.connections, options.turn, seed << 20)?;
                total.add(&sample)?;
                *processor += processor_seconds(*process_id)? - taken;
            }
        }
        let mut rates = [0.0; SIDES.len()];
        let mut processor_times = [0.0; SIDES.len()];
        for (&side, (_, total, _, processor)) in order.iter().zip(&totals) {
            rates[side] = total.per_second();
            processor_times[side] = processor / total.latency.len() as f64;
        }
        row.rate.push(rates);
        row.processor.push(processor_times);
    }
    Ok(())
}

fn markdown(rows: &[Row]) -> String {
    let starts = rows.first().map_or(0, |row| row.rate.starts());
    let mut text = format!(
        "# CRUD from many connections, beside an earlier build\n\n\
         Reproduce with `quarry-bench concurrent --before BINARY`. {}\n\n\
         Operations a second, and the processor time that the server takes an operation, over those of the earlier build: \
         means of {starts} starts of all servers, with their standard errors. The control is the earlier build over itself.\n\n\
         | case | ops/s | control | processor time | control |\n|---|---:|---:|---:|---:|\n",
        report::machine()
    );
    for row in rows {
        let Row {
            case,
            rate,
            processor,
        } = row;
        let _ = writeln!(text, "| {} |{rate}{processor}", case.name());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_case() {
        let rows: Vec<Row> = Case::all(&[4])
            .map(|case| {
                let mut row = Row {
                    case,
                    rate: Ratios::default(),
                    processor: Ratios::default(),
                };
                row.rate.push([1.0, 1.0, 1.0]);
                row.processor.push([2.0, 1.0, 1.0]);
                row
            })
            .collect();
        let table = markdown(&rows);
        assert!(table.contains("means of 1 starts"), "{table}");
        assert!(
            table.contains("| raw/insert {w: 1}/4 | 1.000 ± 0.000 | 1.000 ± 0.000 | 2.000 ± 0.000 | 1.000 ± 0.000 |"),
            "{table}"
        );
    }
}
