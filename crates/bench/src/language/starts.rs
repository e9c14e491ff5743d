//! The language beside an earlier build, over many starts of both ([`earlier_build`]).

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::rates::{RATES, Rate};
use super::{Operation, Options, Side, operations, take_turns};
use crate::earlier_build::{self, Ratios, SIDES};
use crate::report;

/// The ratios of one case.
struct Row {
    case: Case,
    ratios: Ratios,
}

#[derive(Clone, Copy)]
enum Case {
    /// Its median.
    Operation(&'static Operation),
    /// The time of one of its documents.
    Rate(&'static Rate),
}

impl Case {
    fn all(options: &Options) -> Vec<Case> {
        let operations = options.operations().into_iter().map(Case::Operation);
        let rates = RATES.iter().map(Case::Rate);
        let rates = rates.filter(|rate| options.wants(rate.name()));
        operations.chain(rates).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Case::Operation(operation) => operation.name,
            Case::Rate(rate) => rate.name,
        }
    }

    /// A time for each side, in their order.
    fn measure(self, options: &Options, sides: &mut [Side]) -> io::Result<Vec<f64>> {
        match self {
            Case::Operation(operation) => {
                let times = take_turns(options, operation, sides)?;
                let median = |times: &_| hdrhistogram::Histogram::value_at_quantile(times, 0.5);
                Ok(times.iter().map(|times| median(times) as f64).collect())
            }
            Case::Rate(rate) => (sides.iter_mut())
                .map(|side| Ok(rate.measure(side, options.documents)?.recip()))
                .collect(),
        }
    }
}

/// Measures `starts` starts, prints the table and writes it.
pub fn run(options: &Options, before: &Path, starts: u32) -> io::Result<()> {
    let mut rows: Vec<Row> = (Case::all(options).into_iter())
        .map(|case| Row {
            case,
            ratios: Ratios::default(),
        })
        .collect();
    for start in 0..starts {
        eprintln!("start {} of {starts}", start + 1);
        one_start(options, before, start, &mut rows)?;
    }
    let table = markdown(options, &rows);
    println!("\n{table}");
    let page = PathBuf::from("docs/benchmarks/language-before.md");
    report::write(&page, &table)?;
    println!("wrote {}", page.display());
    Ok(())
}

fn one_start(options: &Options, before: &Path, start: u32, rows: &mut [Row]) -> io::Result<()> {
    let (peers, order) = earlier_build::launch(before, start)?;
    let mut sides = (peers.started())
        .map(|(peer, _)| Side::connect(peer))
        .collect::<io::Result<Vec<_>>>()?;
    let has_operations = rows
        .iter()
        .any(|row| matches!(row.case, Case::Operation(_)));
    if has_operations {
        sides.iter_mut().try_for_each(operations::prepare)?;
    }
    for row in rows {
        eprintln!("  {}", row.case.name());
        let times = row.case.measure(options, &mut sides)?;
        let mut figures = [0.0; SIDES.len()];
        for (&side, time) in order.iter().zip(times) {
            figures[side] = time;
        }
        row.ratios.push(figures);
    }
    Ok(())
}

fn markdown(options: &Options, rows: &[Row]) -> String {
    let starts = rows.first().map_or(0, |row| row.ratios.starts());
    let mut text = format!(
        "# Updates, indexes and rates, beside an earlier build\n\n\
         Reproduce with `quarry-bench language --before BINARY`. {}\n\n\
         The median of an operation, and the time of a document where {} of them are worked on, over those of the earlier build: \
         means of {starts} starts of all servers, with their standard errors. The control is the earlier build over itself.\n\n\
         | case | time | control |\n|---|---:|---:|\n",
        report::machine(),
        options.documents
    );
    for row in rows {
        let _ = writeln!(text, "| {} |{}", row.case.name(), row.ratios);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_case_that_is_wanted() {
        let options = Options {
            given: Vec::new(),
            engine: "rocksdb".into(),
            rounds: 1,
            turn: 1,
            documents: 100,
            only: Some("many".into()),
        };
        let mut rows: Vec<Row> = (Case::all(&options).into_iter())
            .map(|case| Row {
                case,
                ratios: Ratios::default(),
            })
            .collect();
        assert_eq!(rows.len(), 2);
        rows[0].ratios.push([2.0, 1.0, 1.0]);
        let table = markdown(&options, &rows);
        assert!(table.contains("means of 1 starts"), "{table}");
        let line = "| delete many, two indexes | 2.000 ± 0.000 | 1.000 ± 0.000 |";
        assert!(table.contains(line), "{table}");
    }
}
