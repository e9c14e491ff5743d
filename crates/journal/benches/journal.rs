//! `cargo bench -p quarry-journal`: raw appends and the order log, with the machine's own limits measured
//! beside them in the same run.
//!
//! Prints a table and writes `bench/journal.json` under the target directory. The `limit` of a case is the
//! bare loop: the same bytes with one write call each, and for Durable a sync shared by everyone waiting.
//! Repetitions of ours and the bare loop alternate; the median of each is shown.

// The book's hash is for the example's own check.
#[allow(dead_code)]
#[path = "../examples/order_matching/book.rs"]
mod book;
mod limits;
#[path = "../examples/order_matching/order_log.rs"]
mod order_log;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use book::Critical;
use quarry_journal::{
    Files, GroupBuilder, HookError, Hooks, Identity, Journal, Level, Options, Payloads, RealFiles,
};

const REPETITIONS: usize = 3;

struct Case {
    name: String,
    unit: &'static str,
    ours: f64,
    limit: Option<f64>,
}

/// An engine that takes everything at no cost: the journal alone is measured.
struct Nothing;

impl Hooks for Nothing {
    fn ready(&self, _bytes: usize) -> Result<(), HookError> {
        Ok(())
    }

    fn finish_group(&self, _group: &mut GroupBuilder<'_>) {}

    fn apply(&self, _first_lsn: u64, _payloads: &Payloads<'_>) -> Result<(), HookError> {
        Ok(())
    }
}

fn main() {
    // `cargo test --all-targets` starts benches without `--bench`: building them was the test.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(default_target, PathBuf::from);
    let directory = target
        .join("bench")
        .join(format!("journal-{}", std::process::id()));
    let mut cases = Vec::new();
    machine(&directory, &mut cases);
    appends(&directory, &mut cases);
    orders(&directory, &mut cases);
    std::fs::remove_dir_all(&directory).expect("the bench directory is ours");
    let path = target.join("bench").join("journal.json");
    std::fs::write(&path, json(&cases)).expect("the target directory is writable");
    println!("written to {}", path.display());
}

/// `cargo bench -p quarry-journal -- TEXT` measures the cases whose name contains the text.
fn is_wanted(name: &str) -> bool {
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with("--"));
    filter.is_none_or(|filter| name.contains(&filter))
}

fn default_target() -> PathBuf {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    home.join(".cache/quarry/target")
}

fn machine(directory: &Path, cases: &mut Vec<Case>) {
    println!(
        "{:<34} {:>14} {:>14} {:>7}",
        "case", "ours", "limit", "ratio"
    );
    let sync_us = median(&mut || limits::sync_us(&fresh(directory)));
    let write_us = median(&mut || limits::write_us(&fresh(directory)));
    push(
        cases,
        "machine/fdatasync 4 KiB".to_owned(),
        "us",
        sync_us,
        None,
    );
    push(
        cases,
        "machine/write 4 KiB".to_owned(),
        "us",
        write_us,
        None,
    );
}

fn appends(directory: &Path, cases: &mut Vec<Case>) {
    for level in [Level::Written, Level::Durable] {
        for producers in [1, 8, 64] {
            for bytes in [64, 256, 4096, 65_536] {
                let count = append_count(level, producers, bytes);
                let name = format!("append/{level:?}/{producers} x {bytes} B");
                if !is_wanted(&name) {
                    continue;
                }
                let mut ours = Vec::new();
                let mut bare = Vec::new();
                for _ in 0..REPETITIONS {
                    ours.push(append(&fresh(directory), level, producers, bytes, count));
                    bare.push(limits::append(
                        &fresh(directory),
                        level,
                        producers,
                        bytes,
                        count,
                    ));
                }
                push(
                    cases,
                    name,
                    "ops/s",
                    middle(&mut ours),
                    Some(middle(&mut bare)),
                );
            }
        }
    }
}

/// Enough for a steady figure, little enough for the page cache.
fn append_count(level: Level, producers: u64, bytes: u64) -> u64 {
    let count = match (level, producers) {
        (Level::Written, _) => 200_000,
        (Level::Durable, 1) => 500,
        (Level::Durable, _) => 300 * producers,
    };
    count.min(64 * 1024 * 1024 / bytes)
}

fn append(directory: &Path, level: Level, producers: u64, bytes: u64, count: u64) -> f64 {
    let files: Arc<dyn Files> =
        Arc::new(RealFiles::open(directory).expect("the directory is ours"));
    let identity = Identity {
        database: [1; 16],
        engine: "none".to_owned(),
    };
    let options = Options {
        segment_bytes: 128 * 1024 * 1024,
        ..Options::default()
    };
    let journal =
        Journal::open(files, options, identity, 0, Arc::new(Nothing)).expect("a new journal opens");
    let payload = vec![0x5a; bytes as usize];
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..producers {
            scope.spawn(|| {
                for _ in 0..count / producers {
                    journal.commit(&payload, level).expect("the disk works");
                }
            });
        }
    });
    (count / producers * producers) as f64 / begun.elapsed().as_secs_f64()
}

fn orders(directory: &Path, cases: &mut Vec<Case>) {
    for producers in [1, 8, 64] {
        for (orders, critical, label) in [
            (50_000, Critical::OneIn(50_000 / 31), "50k, 31 critical"),
            (
                1_000_000,
                Critical::OneIn(1_000_000 / 31),
                "1M, 31 critical",
            ),
            (50_000, Critical::OneIn(100), "50k, 1 % critical"),
            (50_000, Critical::All, "50k, all critical"),
        ] {
            let name = format!("orders/{producers} x {label}");
            if !is_wanted(&name) {
                continue;
            }
            let mut runs: Vec<_> = (0..REPETITIONS)
                .map(|_| {
                    let files =
                        Arc::new(RealFiles::open(fresh(directory)).expect("the directory is ours"));
                    let (journal, _book) =
                        order_log::open(files, Options::default()).expect("a new journal opens");
                    order_log::run(&journal, orders, producers, critical)
                })
                .collect();
            runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
            let run = &runs[REPETITIONS / 2];
            push(
                cases,
                name.clone(),
                "ops/s",
                run.orders as f64 / run.seconds,
                None,
            );
            for (quantile, figure) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
                let us = run.latency_ns.value_at_quantile(figure) as f64 / 1e3;
                push(cases, format!("{name} {quantile}"), "us", us, None);
            }
        }
    }
}

fn fresh(directory: &Path) -> PathBuf {
    let _ = std::fs::remove_dir_all(directory);
    std::fs::create_dir_all(directory).expect("the target directory is writable");
    directory.to_path_buf()
}

fn median(measure: &mut dyn FnMut() -> f64) -> f64 {
    middle(&mut (0..REPETITIONS).map(|_| measure()).collect::<Vec<_>>())
}

fn middle(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn push(cases: &mut Vec<Case>, name: String, unit: &'static str, ours: f64, limit: Option<f64>) {
    let (limit_text, ratio) = limit.map_or((String::new(), String::new()), |limit| {
        (format!("{limit:.1}"), format!("{:.2}", ours / limit))
    });
    println!("{name:<34} {ours:>14.1} {limit_text:>14} {ratio:>7}  {unit}");
    cases.push(Case {
        name,
        unit,
        ours,
        limit,
    });
}

fn json(cases: &[Case]) -> String {
    let lines: Vec<String> = cases
        .iter()
        .map(|case| {
            let limit = case.limit.map_or("null".to_owned(), |limit| format!("{limit:.1}"));
            format!(
                "  {{\"case\": \"{}\", \"unit\": \"{}\", \"ours\": {:.1}, \"peers\": {{}}, \"limit\": {limit}}}",
                case.name, case.unit, case.ours
            )
        })
        .collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}
