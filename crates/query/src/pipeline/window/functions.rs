//! The window functions by name, beside the accumulators. A new one is a row here, a type in a file with its like, and a section of
//! `tests/pipeline_scripts/windows.txt`.

use super::function::{Given, Start};
use super::{accumulated, covariance, gaps, moving_average, ranks, shift, slopes};
use crate::error::{Error, Result};

type Parse = fn(Given<'_>) -> Result<Start>;

/// Sorted by name.
static FUNCTIONS: &[(&str, Parse)] = &[
    ("$avg", accumulated::parse_avg),
    ("$covariancePop", covariance::parse_population),
    ("$covarianceSamp", covariance::parse_sample),
    ("$denseRank", ranks::parse_dense_rank),
    ("$derivative", slopes::parse_derivative),
    ("$documentNumber", ranks::parse_document_number),
    ("$expMovingAvg", moving_average::parse),
    ("$first", accumulated::parse_first),
    ("$integral", slopes::parse_integral),
    ("$last", accumulated::parse_last),
    ("$linearFill", gaps::parse_linear_fill),
    ("$locf", gaps::parse_locf),
    ("$rank", ranks::parse_rank),
    ("$shift", shift::parse),
    ("$sum", accumulated::parse_sum),
];

/// Parses the function of a field.
pub fn parse(given: Given<'_>) -> Result<Start> {
    let place = FUNCTIONS.binary_search_by_key(&given.name, |(name, _)| name);
    if let Some((_, parse)) = place.ok().and_then(|place| FUNCTIONS.get(place)) {
        return parse(given);
    }
    let name = given.name;
    match accumulated::parse(given)? {
        Some(start) => Ok(start),
        None => {
            let text = format!("Unrecognized window function, {name}");
            Err(Error::failed_to_parse(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_sorted_and_none_stands_twice() {
        for pair in FUNCTIONS.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{}", pair[1].0);
        }
    }
}
