//! The window functions by name, beside the accumulators. A new one is a row here, a type in a file with its like, and a section of
//! `tests/pipeline_scripts/windows.txt`.

use std::collections::BTreeSet;

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

/// The accumulators of a `$group` that are no window functions.
const NOT_OVER_WINDOWS: [&str; 1] = ["$mergeObjects"];

/// Parses the function of a field.
pub fn parse(given: Given<'_>) -> Result<Start> {
    let place = FUNCTIONS.binary_search_by_key(&given.name, |(name, _)| name);
    if let Some((_, parse)) = place.ok().and_then(|place| FUNCTIONS.get(place)) {
        return parse(given);
    }
    let name = given.name;
    let parsed = match NOT_OVER_WINDOWS.contains(&name) {
        true => None,
        false => accumulated::parse(given)?,
    };
    match parsed {
        Some(start) => Ok(start),
        None => {
            let text = format!("Unrecognized window function, {name}");
            Err(Error::failed_to_parse(text))
        }
    }
}

/// The top-level fields that the function's argument reads beside those that the rows are sorted by; None where that may be any.
pub fn fields_read(given: &Given<'_>) -> Result<Option<BTreeSet<String>>> {
    let option = |name| given.value.as_document().and_then(|value| value.get(name));
    let operand = match given.name {
        "$avg" | "$sum" | "$min" | "$max" | "$first" | "$last" | "$push" | "$addToSet"
        | "$count" | "$stdDevPop" | "$stdDevSamp" | "$covariancePop" | "$covarianceSamp"
        | "$locf" | "$linearFill" | "$rank" | "$denseRank" | "$documentNumber" => Some(given.value),
        "$derivative" | "$integral" | "$expMovingAvg" => option("input"),
        "$shift" => option("output"),
        _ => None,
    };
    let Some(operand) = operand else {
        return Ok(None);
    };
    let mut fields = BTreeSet::new();
    let is_known = given.expression(operand)?.add_fields_read(&mut fields);
    Ok(is_known.then_some(fields))
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
