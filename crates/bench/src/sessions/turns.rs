//! The times of turns, the ratios of those that followed each other, and the bars that they are held against.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::side::Side;
use crate::concurrent::latencies;
use crate::report::{Report, quartiles, reached};

/// The turns of one case on one side.
pub(super) struct Turns {
    all: Histogram<u64>,
    turn: Histogram<u64>,
    /// The median of each turn, in microseconds.
    pub medians: Vec<f64>,
}

impl Turns {
    pub fn new() -> Turns {
        Turns {
            all: latencies(),
            turn: latencies(),
            medians: Vec::new(),
        }
    }

    pub fn record(&mut self, time: Duration) {
        let ns = time.as_nanos() as u64;
        self.all.saturating_record(ns);
        self.turn.saturating_record(ns);
    }

    /// Ends the turn that was recorded since the last one.
    pub fn end_turn(&mut self) {
        self.medians
            .push(self.turn.value_at_quantile(0.5) as f64 / 1e3);
        self.turn.reset();
    }

    pub fn us_at(&self, quantile: f64) -> f64 {
        self.all.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Adds a case's median and 99th percentile, with one column a side.
pub(super) fn push_turns<'t>(
    report: &mut Report,
    case: &str,
    sides: &[Side],
    turns: impl Fn(usize) -> &'t Turns,
) {
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let figures = figures(sides, |index| turns(index).us_at(quantile));
        report.push(&format!("{case} {name}"), "us", &sides[0].name, &figures);
    }
}

/// One figure a side.
pub(super) fn figures(sides: &[Side], figure: impl Fn(usize) -> f64) -> Vec<(String, f64)> {
    let named = sides.iter().enumerate();
    named
        .map(|(index, side)| (side.name.clone(), figure(index)))
        .collect()
}

/// The median of the ratios of turns that followed each other, and between what half of them lie.
pub(super) fn ratio_of(over: &Turns, under: &Turns) -> [f64; 3] {
    let pairs = over.medians.iter().zip(&under.medians);
    quartiles(pairs.map(|(over, under)| over / under).collect())
}

/// A bar that a ratio must not be above.
pub(super) fn note_ratio(
    report: &mut Report,
    what: &str,
    [lower, ratio, upper]: [f64; 3],
    at_most: f64,
) {
    report.note(format!(
        "{what}: {ratio:.3}, at most {at_most} asked for: {}. That is the median of pairs of turns, half of which lie \
         between {lower:.3} and {upper:.3}.",
        reached(ratio <= at_most)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_pairs_of_turns() {
        let (mut over, mut under) = (Turns::new(), Turns::new());
        for (a, b) in [(20, 10), (90, 30), (40, 40)] {
            over.record(Duration::from_micros(a));
            over.end_turn();
            under.record(Duration::from_micros(b));
            under.end_turn();
        }
        let [lower, ratio, upper] = ratio_of(&over, &under).map(f64::round);
        assert_eq!([lower, ratio, upper], [1.0, 2.0, 2.0]);
        assert!((under.us_at(0.5) - 30.0).abs() < 0.1);
    }
}
