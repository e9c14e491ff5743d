//! `$covariancePop` and `$covarianceSamp`: how two expressions vary together over a window.

use std::sync::Arc;

use quarry_bson::{RawValue, Value};

use super::bounds::Bounds;
use super::function::{Given, RunningFunction, Start};
use super::partition::Partition;
use crate::error::{Error, Result};
use crate::expression::Expression;
use crate::expression::number::Number;
use crate::expression::sum::Sum;

struct Covariance {
    x: Expression,
    y: Expression,
    bounds: Bounds,
    /// The rows are a sample of the population, not all of it.
    is_sample: bool,
}

pub fn parse_population(given: Given<'_>) -> Result<Start> {
    parse(given, false)
}

pub fn parse_sample(given: Given<'_>) -> Result<Start> {
    parse(given, true)
}

fn parse(given: Given<'_>, is_sample: bool) -> Result<Start> {
    let pair = given.value.as_array().filter(|pair| pair.len() == 2);
    let both = pair.and_then(|pair| Some((pair.get(0)?, pair.get(1)?)));
    let Some((x, y)) = both else {
        let text = format!("{} takes an array of exactly two expressions", given.name);
        return Err(Error::failed_to_parse(text));
    };
    let function = Arc::new(Covariance {
        x: given.expression(x)?,
        y: given.expression(y)?,
        bounds: given.window.clone().unwrap_or(Bounds::WHOLE),
        is_sample,
    });
    Ok(Box::new(move || {
        Box::new(Varying {
            function: Arc::clone(&function),
            whole: None,
        })
    }))
}

struct Varying {
    function: Arc<Covariance>,
    /// The result of a window that is the same for all rows.
    whole: Option<Value>,
}

impl RunningFunction for Varying {
    fn value(&mut self, partition: &Partition<'_>, row: usize) -> Result<Option<Value>> {
        if let Some(whole) = &self.whole {
            return Ok(Some(whole.clone()));
        }
        let value = self.function.over(partition, row)?;
        if self.function.bounds.is_whole() {
            self.whole = Some(value.clone());
        }
        Ok(Some(value))
    }
}

impl Covariance {
    /// Rows where one of both is no number do not count.
    fn over(&self, partition: &Partition<'_>, row: usize) -> Result<Value> {
        let (mut xs, mut ys, mut pairs) = (Sum::default(), Sum::default(), Vec::new());
        for row in self.bounds.rows(partition, row)? {
            let x = partition.number(&self.x, row)?;
            let y = partition.number(&self.y, row)?;
            if let (Some(x), Some(y)) = (x, y) {
                xs.add(x);
                ys.add(y);
                pairs.push((x, y));
            }
        }
        let null = || RawValue::Null.to_value();
        let (Some(mean_x), Some(mean_y)) = (xs.mean(), ys.mean()) else {
            return Ok(null());
        };
        let mut products = Sum::default();
        for (x, y) in &pairs {
            products.add(x.subtract(mean_x).multiply(y.subtract(mean_y)));
        }
        let count = pairs.len() - usize::from(self.is_sample);
        let count = Number::Int64(i64::try_from(count).unwrap_or(i64::MAX));
        let covariance = products.total().divide(count);
        Ok(covariance.map_or_else(null, |covariance| covariance.raw().to_value()))
    }
}
