//! The CRUD workloads beside an earlier build, over many starts of both ([`earlier_build`]).
//!
//! A start is a brief run of the script: without filler and without waiting for idle processors between cases, because
//! what a flush costs one side of one start is averaged by the number of starts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::{Options, measure};
use crate::earlier_build::{self, Ratios, SIDES};
use crate::report;

/// Measures `starts` starts, prints the table and writes it.
pub fn run(options: &Options, before: &Path, starts: u32) -> io::Result<()> {
    let mut order: Vec<String> = Vec::new();
    let mut rows: BTreeMap<String, Ratios> = BTreeMap::new();
    for start in 0..starts {
        eprintln!("start {} of {starts}", start + 1);
        let (peers, _) = earlier_build::launch(before, start)?;
        let mut medians: BTreeMap<String, [f64; SIDES.len()]> = BTreeMap::new();
        for figure in measure(options, &peers)? {
            // The canned replies are no side here.
            let Some(side) = SIDES.iter().position(|&name| name == figure.name) else {
                continue;
            };
            if !rows.contains_key(&figure.case) && !medians.contains_key(&figure.case) {
                order.push(figure.case.clone());
            }
            medians.entry(figure.case).or_default()[side] = figure.p50;
        }
        for (case, figures) in medians {
            rows.entry(case).or_default().push(figures);
        }
    }
    let table = markdown(&order, &rows);
    println!("\n{table}");
    let page = PathBuf::from("docs/benchmarks/crud-before.md");
    report::write(&page, &table)?;
    println!("wrote {}", page.display());
    Ok(())
}

fn markdown(order: &[String], rows: &BTreeMap<String, Ratios>) -> String {
    let starts = rows.values().next().map_or(0, Ratios::starts);
    let mut text = format!(
        "# CRUD from one connection, beside an earlier build\n\n\
         Reproduce with `quarry-bench crud --before BINARY`. {}\n\n\
         Round trips at the median over those of the earlier build: means of {starts} starts of all servers, with their \
         standard errors. The control is the earlier build over itself. Over all cases the median is {:.3}, of the control {:.3}.\n\n\
         | case | p50 | control |\n|---|---:|---:|\n",
        report::machine(),
        median(rows.values().map(Ratios::now)),
        median(rows.values().map(Ratios::control)),
    );
    for case in order {
        let _ = writeln!(text, "| {case} |{}", rows[case]);
    }
    text
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_case_in_the_order_of_the_script() {
        let mut rows: BTreeMap<String, Ratios> = BTreeMap::new();
        for (case, now) in [("a", 1.0), ("b", 2.0), ("c", 4.0)] {
            rows.entry(case.into()).or_default().push([now, 1.0, 1.0]);
        }
        let order = ["c", "a", "b"].map(String::from);
        let table = markdown(&order, &rows);
        assert!(
            table.contains("the median is 2.000, of the control 1.000"),
            "{table}"
        );
        assert!(
            table.ends_with(
                "| c | 4.000 ± 0.000 | 1.000 ± 0.000 |\n| a | 1.000 ± 0.000 | 1.000 ± 0.000 |\n\
                 | b | 2.000 ± 0.000 | 1.000 ± 0.000 |\n"
            ),
            "{table}"
        );
    }
}
