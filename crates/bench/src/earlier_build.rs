//! An earlier build beside this one, over many starts of both.
//!
//! Two processes of one binary differ by up to a tenth for as long as they run: where their memory lies and how their
//! threads share the processors is drawn once, when they start. More turns of one pair average nothing of that, more starts
//! do. Every start makes all servers anew and measures them in turns; what counts is the ratio within a start, and a table
//! has the mean of the starts with its standard error. The earlier build runs twice: its ratio to itself is the control.

use std::fmt;
use std::io;
use std::path::Path;

use crate::peers::Peers;
use crate::process::Launch;

/// The servers of a start, by their place in an array of figures.
pub const SIDES: [&str; 3] = ["now", "before", "before again"];
const NOW: usize = 0;
const BEFORE: usize = 1;
const AGAIN: usize = 2;

/// Natural logarithms of a figure over that of the earlier build, one of each start.
#[derive(Default)]
pub struct Ratios {
    now: Vec<f64>,
    again: Vec<f64>,
}

impl Ratios {
    /// Takes the figures of one start, in the order of [`SIDES`].
    pub fn push(&mut self, figures: [f64; SIDES.len()]) {
        self.now.push((figures[NOW] / figures[BEFORE]).ln());
        self.again.push((figures[AGAIN] / figures[BEFORE]).ln());
    }

    /// The number of starts.
    pub fn starts(&self) -> usize {
        self.now.len()
    }

    /// The mean ratio of this build, as a factor.
    pub fn now(&self) -> f64 {
        mean_and_error(&self.now).0.exp()
    }

    /// The mean ratio of the earlier build to itself, as a factor.
    pub fn control(&self) -> f64 {
        mean_and_error(&self.again).0.exp()
    }
}

/// Two cells of a table in Markdown: the ratio of this build, and the control.
impl fmt::Display for Ratios {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for logarithms in [&self.now, &self.again] {
            let (mean, error) = mean_and_error(logarithms);
            write!(
                formatter,
                " {:.3} ± {:.3} |",
                mean.exp(),
                mean.exp() * error
            )?;
        }
        Ok(())
    }
}

/// Starts both builds for the start of number `start`, this one once and the earlier one twice.
///
/// Returns the servers, and for each of them its place in [`SIDES`]. Who starts first goes round, so that no side has the
/// better place.
pub fn launch(before: &Path, start: u32) -> io::Result<(Peers, [usize; SIDES.len()])> {
    let order = std::array::from_fn(|side| (side + start as usize) % SIDES.len());
    let launches = order.iter().map(|&side| {
        let binary = (side != NOW).then(|| before.to_owned());
        let launch = Launch {
            binary,
            ..Launch::default()
        };
        (SIDES[side], launch)
    });
    Ok((Peers::launched("rocksdb", launches)?, order))
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
    fn a_ratio_is_the_geometric_mean_of_the_starts_beside_its_control() {
        let mut ratios = Ratios::default();
        ratios.push([2.0, 1.0, 1.0]);
        ratios.push([0.5, 1.0, 1.0]);
        assert_eq!(ratios.starts(), 2);
        assert!((ratios.now() - 1.0).abs() < 1e-12 && (ratios.control() - 1.0).abs() < 1e-12);
        assert_eq!(ratios.to_string(), " 1.000 ± 0.693 | 1.000 ± 0.000 |");
    }
}
