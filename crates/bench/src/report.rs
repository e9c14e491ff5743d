//! Figures out of a run: the table on the terminal, `<target dir>/bench/NAME.json`, and docs/benchmarks/NAME.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::process::target_directory;

/// One line of the JSON file: a case measured on every side in one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Case {
    /// The case's name, with its parts between slashes.
    pub case: String,
    /// The unit; it says whether less or more is better.
    pub unit: String,
    /// Our figure.
    pub ours: Option<f64>,
    /// The figures of the others, by name.
    pub peers: BTreeMap<String, f64>,
    /// The figure that the machine itself allows, where that is measured.
    pub limit: Option<f64>,
    /// The figures are differences around zero, whose ratios mean nothing.
    #[serde(skip)]
    is_difference: bool,
}

/// A section of a report, in the order measured.
pub struct Report {
    name: &'static str,
    title: &'static str,
    command: String,
    notes: Vec<String>,
    cases: Vec<Case>,
}

impl Report {
    /// An empty report. `command` is what reproduces it.
    pub fn new(name: &'static str, title: &'static str, command: impl Into<String>) -> Report {
        Report {
            name,
            title,
            command: command.into(),
            notes: Vec::new(),
            cases: Vec::new(),
        }
    }

    /// Adds a paragraph above the table.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Adds one case. The side named `ours` is ours, the others are peers.
    pub fn push(&mut self, case: &str, unit: &str, ours: &str, sides: &[(String, f64)]) {
        self.push_case(case, unit, ours, sides, false);
    }

    /// Like `push`, but for differences, which have no ratios.
    pub fn push_differences(
        &mut self,
        case: &str,
        unit: &str,
        ours: &str,
        sides: &[(String, f64)],
    ) {
        self.push_case(case, unit, ours, sides, true);
    }

    fn push_case(
        &mut self,
        case: &str,
        unit: &str,
        ours: &str,
        sides: &[(String, f64)],
        is_difference: bool,
    ) {
        let mut peers: BTreeMap<String, f64> = sides.iter().cloned().collect();
        let ours = peers.remove(ours);
        self.cases.push(Case {
            case: case.into(),
            unit: unit.into(),
            ours,
            peers,
            limit: None,
            is_difference,
        });
    }

    /// Prints the table and writes both files; returns where they are.
    pub fn publish(&self, ours: &str) -> io::Result<[PathBuf; 2]> {
        let table = self.markdown(ours);
        println!("\n{table}");
        let json = target_directory()
            .join("bench")
            .join(format!("{}.json", self.name));
        write(&json, &serde_json::to_string_pretty(&self.cases)?)?;
        let markdown = Path::new("docs/benchmarks").join(format!("{}.md", self.name));
        write(&markdown, &table)?;
        println!("wrote {} and {}", json.display(), markdown.display());
        Ok([json, markdown])
    }

    fn markdown(&self, ours: &str) -> String {
        let mut columns: Vec<&str> = Vec::new();
        for case in &self.cases {
            for peer in case.peers.keys() {
                if !columns.contains(&peer.as_str()) {
                    columns.push(peer);
                }
            }
        }
        let mut text = format!(
            "# {}\n\nReproduce with `{}`. {}\n\n",
            self.title,
            self.command,
            machine()
        );
        for note in &self.notes {
            let _ = writeln!(text, "{note}\n");
        }
        let _ = write!(text, "| case | unit | {ours} |");
        for column in &columns {
            let _ = write!(text, " {column} | {ours} / {column} |");
        }
        let _ = write!(
            text,
            "\n|---|---|---:|{}\n",
            "---:|---:|".repeat(columns.len())
        );
        for case in &self.cases {
            let _ = write!(
                text,
                "| {} | {} | {} |",
                case.case,
                case.unit,
                case.ours.map_or("".into(), number)
            );
            for &column in &columns {
                let Some(&peer) = case.peers.get(column) else {
                    text.push_str(" | |");
                    continue;
                };
                let ratio = case
                    .ours
                    .filter(|_| peer > 0.0 && !case.is_difference)
                    .map_or(String::new(), |ours| format!("{:.2}", ours / peer));
                let _ = write!(text, " {} | {ratio} |", number(peer));
            }
            text.push('\n');
        }
        text
    }
}

/// Whether a bar was reached, in the words of a report.
pub(crate) fn reached(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "missed" }
}

pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or(": unknown processor");
    format!(
        "Measured on {cores} cores of {}.",
        model.trim_start_matches([' ', '\t', ':'])
    )
}

pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text)
}

/// The lower quartile, the median and the upper quartile of at least one number.
pub fn quartiles(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| numbers[(numbers.len() - 1) * quarter / 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_any_order() {
        assert_eq!(quartiles(vec![5.0, 1.0, 4.0, 2.0, 3.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(vec![7.0]), [7.0; 3]);
    }

    #[test]
    fn the_table_shows_every_side_and_its_ratio() {
        let mut report = Report::new("x", "X", "make x");
        report.push(
            "simple/insert one p50",
            "us",
            "rocksdb",
            &[("canned".into(), 50.0), ("rocksdb".into(), 60.0)],
        );
        report.push(
            "only ours",
            "ops/s",
            "rocksdb",
            &[("rocksdb".into(), 2000.0)],
        );
        let sides = [("canned".into(), 4.0), ("rocksdb".into(), -8.0)];
        report.push_differences("added", "us", "rocksdb", &sides);
        let table = report.markdown("rocksdb");
        assert!(
            table.contains("| simple/insert one p50 | us | 60.0 | 50.0 | 1.20 |"),
            "{table}"
        );
        assert!(
            table.contains("| only ours | ops/s | 2000 | | |"),
            "{table}"
        );
        assert!(
            table.contains("| added | us | -8.00 | 4.00 |  |"),
            "{table}"
        );
    }
}
