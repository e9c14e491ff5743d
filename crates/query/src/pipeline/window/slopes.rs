//! `$derivative` and `$integral`: the mean slope over a window, and the area under it, of what the rows are sorted by.

use std::sync::Arc;

use quarry_bson::{RawValue, Value};

use super::bounds::{Bounds, read_unit};
use super::function::{Given, RunningFunction, Start};
use super::partition::Partition;
use crate::error::{Error, Result};
use crate::expression::number::Number;
use crate::expression::sum::Sum;
use crate::expression::{Expression, type_name};

struct Curve {
    name: &'static str,
    input: Expression,
    bounds: Bounds,
    /// The length of the unit where the rows are sorted by dates.
    unit_ms: Option<i64>,
}

/// The errors for a row that is sorted by something else than was said.
const NO_DATE: i32 = 5_624_900;
const NO_NUMBER: i32 = 5_624_901;

pub fn parse_derivative(given: Given<'_>) -> Result<Start> {
    if given.window.is_none() {
        let text = "$derivative requires explicit window bounds";
        return Err(Error::failed_to_parse(text));
    }
    let curve = Arc::new(Curve::parse(given, "$derivative")?);
    Ok(Box::new(move || Box::new(Derivative(Arc::clone(&curve)))))
}

pub fn parse_integral(given: Given<'_>) -> Result<Start> {
    let curve = Arc::new(Curve::parse(given, "$integral")?);
    Ok(Box::new(move || Box::new(Integral(Arc::clone(&curve)))))
}

impl Curve {
    fn parse(given: Given<'_>, name: &'static str) -> Result<Curve> {
        given.sorted_by_one_ascending()?;
        let [input, unit] = given.options(["input", "unit"])?;
        let input = given.need(input, "input")?;
        let unit_ms = match unit {
            None => None,
            Some(unit) => {
                let length = read_unit(unit)?.fixed_ms();
                Some(length.ok_or_else(|| {
                    let text = "unit must be 'week' or smaller";
                    Error::location(5_490_704, text)
                })?)
            }
        };
        Ok(Curve {
            name,
            input: given.expression(input)?,
            bounds: given.window.clone().unwrap_or(Bounds::WHOLE),
            unit_ms,
        })
    }

    /// The place of a row on the axis: a number, or the milliseconds of a date.
    fn x(&self, partition: &Partition<'_>, row: usize) -> Result<Number> {
        let code = if self.unit_ms.is_some() {
            NO_DATE
        } else {
            NO_NUMBER
        };
        partition.position(row, self.unit_ms.is_some(), code)
    }

    /// The value of a row; None for nullish.
    fn y(&self, partition: &Partition<'_>, row: usize) -> Result<Option<Number>> {
        let value = partition.evaluate(&self.input, row)?;
        let Some(value) = value.filter(|value| !value.as_raw().is_nullish()) else {
            return Ok(None);
        };
        Number::from_raw(value.as_raw()).map(Some).ok_or_else(|| {
            let found = type_name(value.as_raw());
            let text = format!("{} input must be a number, but it was {found}", self.name);
            Error::location(5_624_903, text)
        })
    }

    /// A distance on the axis, in units.
    fn width(&self, from: Number, to: Number) -> Number {
        let distance = to.subtract(from);
        match self.unit_ms {
            None => distance,
            Some(ms) => distance.divide(Number::Int64(ms)).unwrap_or(distance),
        }
    }
}

struct Derivative(Arc<Curve>);

impl RunningFunction for Derivative {
    fn value(&mut self, partition: &Partition<'_>, row: usize) -> Result<Option<Value>> {
        let curve = &*self.0;
        let null = || Ok(Some(RawValue::Null.to_value()));
        let rows = curve.bounds.rows(partition, row)?;
        if rows.len() < 2 {
            return null();
        }
        let (first, last) = (rows.start, rows.end - 1);
        let (from, to) = (curve.x(partition, first)?, curve.x(partition, last)?);
        let (low, high) = (curve.y(partition, first)?, curve.y(partition, last)?);
        let (Some(low), Some(high)) = (low, high) else {
            return null();
        };
        match high.subtract(low).divide(curve.width(from, to)) {
            Some(slope) => Ok(Some(slope.raw().to_value())),
            None => null(),
        }
    }
}

struct Integral(Arc<Curve>);

impl RunningFunction for Integral {
    /// The sum of the trapezoids between neighbours. Rows without a value do not count.
    fn value(&mut self, partition: &Partition<'_>, row: usize) -> Result<Option<Value>> {
        let curve = &*self.0;
        let (mut area, mut before) = (Sum::default(), None);
        for row in curve.bounds.rows(partition, row)? {
            let Some(y) = curve.y(partition, row)? else {
                continue;
            };
            let x = curve.x(partition, row)?;
            if let Some((last_x, last_y)) = before.replace((x, y)) {
                let mut heights = Sum::default();
                heights.add(last_y);
                heights.add(y);
                let width = curve.width(last_x, x);
                let trapezoid = heights.total().multiply(width).divide(Number::Int32(2));
                trapezoid.into_iter().for_each(|part| area.add(part));
            }
        }
        let total = match before {
            None => RawValue::Null.to_value(),
            Some(_) => area.total().raw().to_value(),
        };
        Ok(Some(total))
    }
}
