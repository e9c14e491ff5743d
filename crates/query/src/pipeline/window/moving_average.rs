//! `$expMovingAvg`: an average in which a value counts the less the longer ago it was.

use std::sync::Arc;

use quarry_bson::{Decimal128, RawValue, Value};

use super::function::{Given, RunningFunction, Start};
use super::partition::Partition;
use crate::error::{Error, Result};
use crate::expression::Expression;
use crate::expression::number::Number;
use crate::expression::sum::Addition;

struct MovingAverage {
    input: Expression,
    /// The weight of the newest value.
    alpha: Number,
}

pub fn parse(given: Given<'_>) -> Result<Start> {
    given.sorted()?;
    given.without_window()?;
    let [input, n, alpha] = given.options(["input", "N", "alpha"])?;
    let (Some(input), Some(weight), None) = (input, n.or(alpha), n.and(alpha)) else {
        let text = "$expMovingAvg sub object must have exactly two fields: An 'input' field, and either an 'N' field or an 'alpha' field";
        return Err(Error::failed_to_parse(text));
    };
    let alpha = match n {
        Some(_) => {
            let n = weight.as_i64_exact().filter(|n| *n > 0).ok_or_else(|| {
                let text = format!("'N' field must be a positive integer, but found {weight}");
                Error::failed_to_parse(text)
            })?;
            let n = Decimal128::from_i64(n.saturating_add(1));
            Number::Decimal(Decimal128::from_i64(2).div(&n))
        }
        None => {
            let number = Number::from_raw(weight);
            let is_within = |alpha: &Number| {
                alpha.is_positive() && alpha.subtract(Number::Int32(1)).is_negative()
            };
            number.filter(is_within).ok_or_else(|| {
                let text =
                    format!("'alpha' must be between 0 and 1 (exclusive), found alpha: {weight}");
                Error::failed_to_parse(text)
            })?
        }
    };
    let average = Arc::new(MovingAverage {
        input: given.expression(input)?,
        alpha,
    });
    Ok(Box::new(move || {
        Box::new(Averaging {
            function: Arc::clone(&average),
            last: None,
        })
    }))
}

struct Averaging {
    function: Arc<MovingAverage>,
    last: Option<Number>,
}

impl RunningFunction for Averaging {
    fn value(&mut self, partition: &Partition<'_>, row: usize) -> Result<Option<Value>> {
        let MovingAverage { input, alpha } = &*self.function;
        let Some(number) = partition.number(input, row)? else {
            return Ok(Some(RawValue::Null.to_value()));
        };
        let average = match self.last {
            None => number,
            Some(last) => averaged(number, last, *alpha),
        };
        self.last = Some(average);
        Ok(Some(average.raw().to_value()))
    }
}

/// Decimal128 where one of the values is one, else Double: the weight alone makes no Decimal128.
fn averaged(number: Number, last: Number, alpha: Number) -> Number {
    let is_decimal = matches!(number, Number::Decimal(_)) || matches!(last, Number::Decimal(_));
    let alpha = match is_decimal {
        true => alpha,
        false => Number::Double(alpha.to_f64()),
    };
    let mut sum = Addition::default();
    sum.add(number.multiply(alpha));
    sum.add(last.multiply(Number::Int32(1).subtract(alpha)));
    sum.total()
}
