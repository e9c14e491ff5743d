//! An earlier build beside this one, over many starts of both.
//!
//! Two processes of one binary differ by up to a tenth for as long as they run: where their memory lies and how their
//! threads share the processors is drawn once, when they start. More turns of one pair average nothing of that, more starts
//! do. Every start makes all servers anew and measures them in turns; what counts is the ratio within a start, and the table
//! has the mean of the starts with its standard error. The earlier build runs twice: its ratio to itself is the control.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::{Case, Options, Runner, Total, preload_simple};
use crate::peers::{Peer, Peers};
use crate::process::{Launch, processor_seconds};
use crate::raw_client::RawClient;
use crate::report;

const NOW: usize = 0;
const BEFORE: usize = 1;
const AGAIN: usize = 2;
const SIDES: [&str; 3] = ["now", "before", "before again"];

/// The ratios of one case.
struct Ratios {
    case: Case,
    /// Those of operations a second.
    rate: Sides,
    /// Those of the processor time that the server takes an operation.
    processor: Sides,
}

/// Natural logarithms of a figure over that of the earlier build, one of each start.
#[derive(Default)]
struct Sides {
    now: Vec<f64>,
    again: Vec<f64>,
}

impl Sides {
    fn push(&mut self, figures: [f64; SIDES.len()]) {
        self.now.push((figures[NOW] / figures[BEFORE]).ln());
        self.again.push((figures[AGAIN] / figures[BEFORE]).ln());
    }
}

/// Measures `starts` starts, prints the table and writes it.
pub fn run(options: &Options, before: &Path, starts: u32) -> io::Result<()> {
    let mut ratios: Vec<Ratios> = Case::all(&options.connections)
        .map(|case| Ratios {
            case,
            rate: Sides::default(),
            processor: Sides::default(),
        })
        .collect();
    for start in 0..starts {
        eprintln!("start {} of {starts}", start + 1);
        one_start(options, before, start, &mut ratios)?;
    }
    let table = markdown(&ratios);
    println!("\n{table}");
    let page = PathBuf::from("docs/benchmarks/crud-concurrent-before.md");
    report::write(&page, &table)?;
    println!("wrote {}", page.display());
    Ok(())
}

fn one_start(
    options: &Options,
    before: &Path,
    start: u32,
    ratios: &mut [Ratios],
) -> io::Result<()> {
    // Who starts first and whose turn comes first goes round, so that no side has the better place.
    let order: Vec<usize> = (0..SIDES.len())
        .map(|side| (side + start as usize) % SIDES.len())
        .collect();
    let launches = order.iter().map(|&side| {
        let binary = (side != NOW).then(|| before.to_owned());
        let launch = Launch {
            binary,
            ..Launch::default()
        };
        (SIDES[side], launch)
    });
    let peers = Peers::launched("rocksdb", launches)?;
    let peers: Vec<(&Peer, u32)> = (peers.started())
        .map(|(peer, server)| (peer, server.process_id()))
        .collect();
    for (peer, _) in &peers {
        preload_simple(&mut RawClient::connect(peer.address())?)?;
    }
    let mut seed = u64::from(start) << 32;
    for ratios in ratios {
        let case = ratios.case;
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
        ratios.rate.push(rates);
        ratios.processor.push(processor_times);
    }
    Ok(())
}

fn markdown(ratios: &[Ratios]) -> String {
    let starts = ratios.first().map_or(0, |ratios| ratios.rate.now.len());
    let mut text = format!(
        "# CRUD from many connections, beside an earlier build\n\n\
         Reproduce with `quarry-bench concurrent --before BINARY`. {}\n\n\
         Operations a second, and the processor time that the server takes an operation, over those of the earlier build: \
         means of {starts} starts of all servers, with their standard errors. The control is the earlier build over itself.\n\n\
         | case | ops/s | control | processor time | control |\n|---|---:|---:|---:|---:|\n",
        report::machine()
    );
    for ratios in ratios {
        let _ = write!(text, "| {} |", ratios.case.name());
        for sides in [&ratios.rate, &ratios.processor] {
            for logarithms in [&sides.now, &sides.again] {
                let (mean, error) = mean_and_error(logarithms);
                let _ = write!(text, " {:.3} ± {:.3} |", mean.exp(), mean.exp() * error);
            }
        }
        text.push('\n');
    }
    text
}

/// The mean of some figures, and its standard error.
fn mean_and_error(figures: &[f64]) -> (f64, f64) {
    let count = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / count;
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0) / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_mean_falls_with_the_number_of_figures() {
        let (mean, error) = mean_and_error(&[1.0, 3.0]);
        assert!((mean - 2.0).abs() < 1e-12 && (error - 1.0).abs() < 1e-12);
        let (mean, error) = mean_and_error(&[1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0]);
        assert!((mean - 2.0).abs() < 1e-12 && error < 0.4);
    }

    #[test]
    fn the_table_has_a_line_for_each_case() {
        let ratios: Vec<Ratios> = Case::all(&[4])
            .map(|case| Ratios {
                case,
                rate: Sides {
                    now: vec![0.0, 0.0],
                    again: vec![0.1, -0.1],
                },
                processor: Sides {
                    now: vec![2_f64.ln(), 2_f64.ln()],
                    again: vec![0.0, 0.0],
                },
            })
            .collect();
        let table = markdown(&ratios);
        assert!(table.contains("means of 2 starts"), "{table}");
        assert!(
            table.contains("| raw/insert {w: 1}/4 | 1.000 ± 0.000 | 1.000 ± 0.100 | 2.000 ± 0.000 | 1.000 ± 0.000 |"),
            "{table}"
        );
    }
}
