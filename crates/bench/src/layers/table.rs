//! The figures of the layered table, and their Markdown.

use std::fmt::Write as _;

use quarry_timing::{Layer, PHASE_COUNT, Phase};

use super::receiver::Operation;
use crate::report::machine;

/// The operations whose wall lies within so much of a quantile stand for it.
const BAND: f64 = 0.005;

/// One workload from a number of connections.
pub struct Line {
    pub workload: &'static str,
    pub connections: u32,
    /// Operations that were looked at.
    pub operations: usize,
    /// At the median, and at the 99th percentile.
    pub bands: [Band; 2],
}

/// The mean over the operations around a quantile, in microseconds.
pub struct Band {
    pub wall_us: f64,
    pub phases_us: [f64; PHASE_COUNT],
    /// The quantile of the round trips that the clients measured.
    pub trip_us: f64,
}

/// The parts of a bar or a table: the layers, and the time that no phase covers.
pub const PARTS: [&str; 5] = ["wire", "query", "engine", "journal", "unattributed"];

impl Band {
    /// Both lists are sorted, and not empty.
    pub fn around(quantile: f64, operations: &[Operation], trips: &[u64]) -> Band {
        let place = |share: f64, len: usize| ((share * len as f64) as usize).min(len - 1);
        let first = place(quantile - BAND, operations.len());
        let last = place(quantile + BAND, operations.len());
        let around = &operations[first..=last];
        let mean = |of: &dyn Fn(&Operation) -> u64| {
            let sum: u64 = around.iter().map(of).sum();
            sum as f64 / around.len() as f64 / 1e3
        };
        Band {
            wall_us: mean(&|operation| operation.wall_ns),
            phases_us: std::array::from_fn(|phase| mean(&|operation| operation.phases[phase])),
            trip_us: trips[place(quantile, trips.len())] as f64 / 1e3,
        }
    }

    /// In the order of [`PARTS`].
    pub fn parts_us(&self) -> [f64; PARTS.len()] {
        let of = |layer: Layer| -> f64 {
            let phases = Phase::ALL.into_iter();
            let mine = phases.filter(|phase| Layer::of(*phase) == layer);
            mine.map(|phase| self.phases_us[phase as usize]).sum()
        };
        let covered: f64 = self.phases_us.iter().sum();
        [
            of(Layer::Wire),
            of(Layer::Query),
            of(Layer::Engine),
            of(Layer::Journal),
            (self.wall_us - covered).max(0.0),
        ]
    }
}

pub fn markdown(engine: &str, lines: &[Line]) -> String {
    let mut text = format!(
        "# Where the time goes, by layer\n\nReproduce with `make report-layers`. {}\n\n\
         ![Shares of the layers](layers.svg)\n\n\
         One server on {engine}; the client is the bench's own, on the same machine. A share of the operations is traced, \
         and a line is the mean over those whose time in the server lies within half a percent of the quantile, so that \
         the parts add up. `round trip` is the quantile that the clients measured; what it has beyond `server` is \
         the client, the kernel and waiting for a processor. On one connection an insert goes to the engine behind its \
         reply, so that its round trip may be the shorter one. Microseconds, and in brackets the share of `server`.\n\n",
        machine()
    );
    text.push_str("| operation | connections | | wire | query | engine | journal | unattributed | server | round trip |\n");
    text.push_str("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|\n");
    for line in lines {
        for (name, band) in quantiles(line) {
            let _ = write!(
                text,
                "| {} | {} | {name} |",
                line.workload, line.connections
            );
            for us in band.parts_us() {
                let _ = write!(text, " {us:.1} ({:.0} %) |", 100.0 * us / band.wall_us);
            }
            let _ = writeln!(text, " {:.1} | {:.1} |", band.wall_us, band.trip_us);
        }
    }
    for (place, name) in ["median", "99th percentile"].into_iter().enumerate() {
        let _ = writeln!(text, "\n## Phases at the {name}\n");
        phases(lines, place, &mut text);
    }
    let operations: Vec<String> = lines
        .iter()
        .map(|line| line.operations.to_string())
        .collect();
    let _ = writeln!(
        text,
        "\nOperations looked at, line by line: {}.",
        operations.join(", ")
    );
    text
}

/// A column a line of the layered table, a row a phase.
fn phases(lines: &[Line], place: usize, text: &mut String) {
    text.push_str("| phase | layer |");
    for line in lines {
        let _ = write!(text, " {}, {} |", line.workload, line.connections);
    }
    text.push_str("\n|---|---|");
    text.push_str(&"---:|".repeat(lines.len()));
    text.push('\n');
    for phase in Phase::ALL {
        let of = |line: &Line| line.bands[place].phases_us[phase as usize];
        if lines.iter().all(|line| of(line) < 0.005) {
            continue;
        }
        let _ = write!(text, "| `{}` | {} |", phase.name(), Layer::of(phase).name());
        for line in lines {
            let _ = write!(text, " {:.2} |", of(line));
        }
        text.push('\n');
    }
}

pub fn quantiles(line: &Line) -> impl Iterator<Item = (&'static str, &Band)> {
    ["p50", "p99"].into_iter().zip(&line.bands)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 operations of 1 to 1000 us: half in the wire, a quarter in the engine.
    pub fn line() -> Line {
        let operation = |us: u64| {
            let mut phases = [0; PHASE_COUNT];
            phases[Phase::Send as usize] = us * 500;
            phases[Phase::EngineRead as usize] = us * 250;
            Operation {
                wall_ns: us * 1000,
                phases,
            }
        };
        let operations: Vec<_> = (1..=1000).map(operation).collect();
        let trips: Vec<u64> = (1..=1000).map(|us| us * 2000).collect();
        Line {
            workload: "point query",
            connections: 16,
            operations: operations.len(),
            bands: [0.5, 0.99].map(|quantile| Band::around(quantile, &operations, &trips)),
        }
    }

    #[test]
    fn the_parts_of_a_quantile_sum_to_it() {
        let line = line();
        let [median, tail] = &line.bands;
        assert!((median.wall_us - 500.5).abs() < 2.0, "{}", median.wall_us);
        assert!((tail.wall_us - 990.5).abs() < 2.0, "{}", tail.wall_us);
        assert!((median.trip_us - 1000.0).abs() < 5.0);
        for band in &line.bands {
            let sum: f64 = band.parts_us().iter().sum();
            assert!((sum - band.wall_us).abs() < 1e-6);
        }
        let text = markdown("rocksdb", &[line]);
        assert!(
            text.contains("| point query | 16 | p50 | 250.5 (50 %) | 0.0 (0 %) | 125.2 (25 %) |"),
            "{text}"
        );
        assert!(
            text.contains("| `engine_read` | engine | 125.25 |"),
            "{text}"
        );
        assert!(!text.contains("`read`"));
    }
}
