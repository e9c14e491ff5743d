//! `cargo bench -p quarry-journal`: raw appends and the order log, with the machine's own limits measured
//! beside them in the same run.
//!
//! Prints a table and writes `bench/journal.json` under the target directory and docs/benchmarks/journal.md. The `limit` of a case is the
//! bare loop: the same bytes with one write call each, and for Durable a sync shared by everyone waiting.
//! Repetitions of ours and the bare loop alternate and last for a fixed time; the best of each is shown,
//! because a disk and a processor that others use can only make a repetition slower.
//!
//! `cargo bench -p quarry-journal -- TEXT` measures the cases whose name contains the text.

mod appends;
// The book's hash is for the example's own check.
#[allow(dead_code)]
#[path = "../../examples/order_matching/book.rs"]
mod book;
mod limits;
#[path = "../../examples/order_matching/order_log.rs"]
mod order_log;
mod orders;
mod place;
mod table;

use std::path::{Path, PathBuf};

use place::Place;
use quarry_journal::{Level, RealFiles, inspect};
use table::Table;

fn main() {
    // `cargo test --all-targets` starts benches without `--bench`: building them was the test.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(default_target, PathBuf::from);
    let mut place = Place::new(&target.join("bench"));
    let mut table = Table::new();
    machine(&mut place, &mut table, "");
    orders::measure(&mut place, &mut table);
    appends::measure(&mut place, &mut table);
    opens(&mut place, &mut table);
    machine(&mut place, &mut table, ", at the end");
    drop(place);
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks");
    table.publish(&target, &docs);
}

fn default_target() -> PathBuf {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    home.join(".cache/quarry/target")
}

/// A journal that was killed after one record, in a segment that was full of documents made to look like groups: what a
/// client can do to the next start.
fn crafted(place: &mut Place) -> PathBuf {
    let directory = place.crafted();
    let journal = appends::open(&directory);
    journal
        .commit(b"the only record", Level::Durable)
        .expect("the disk works");
    journal.close().expect("the disk works");
    drop(journal);
    let files = RealFiles::open(&directory).expect("nobody has it open");
    let verified = inspect::verify(&files).expect("it is whole");
    drop(files);
    place::unmark(&directory.join(&verified.end_segment), verified.end_offset);
    directory
}

fn machine(place: &mut Place, table: &mut Table, when: &str) {
    for (name, measure) in [
        ("machine/fdatasync 4 KiB", limits::sync_us as fn(&_) -> f64),
        ("machine/write 4 KiB", limits::write_us),
    ] {
        let best_us = (0..table::REPETITIONS)
            .map(|_| measure(&place.bare()))
            .fold(f64::INFINITY, f64::min);
        table.add(&format!("{name}{when}"), "us", best_us, None);
    }
}

/// Makes what a start is to find.
type MakeDirectory = fn(&mut Place) -> PathBuf;

/// How long a start takes before the first write may come.
fn opens(place: &mut Place, table: &mut Table) {
    let directories: [(&str, MakeDirectory); 3] = [
        ("open/new directory", Place::empty),
        ("open/freed segments", Place::recycled),
        ("open/killed, over a segment full of group headers", crafted),
    ];
    for (name, directory) in directories {
        if !table.wants(name) {
            continue;
        }
        let mut best_ms = f64::INFINITY;
        for _ in 0..table::REPETITIONS {
            let directory = directory(place);
            let begun = std::time::Instant::now();
            let journal = appends::open(&directory);
            best_ms = best_ms.min(begun.elapsed().as_secs_f64() * 1e3);
            drop(journal);
        }
        table.add(name, "ms", best_ms, None);
    }
}
