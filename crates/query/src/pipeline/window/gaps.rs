//! `$locf` and `$linearFill`: values for rows that have none, the last one before or one between both neighbours.

use std::sync::Arc;

use quarry_bson::{RawValue, Value};

use super::function::{Given, RunningFunction, Start};
use super::partition::Partition;
use crate::error::{Error, Result};
use crate::expression::number::Number;
use crate::expression::sum::Addition;
use crate::expression::{Expression, type_name};

pub fn parse_locf(given: Given<'_>) -> Result<Start> {
    given.without_window()?;
    let input = Arc::new(given.expression(given.value)?);
    Ok(Box::new(move || {
        Box::new(CarryingForward {
            input: Arc::clone(&input),
            last: RawValue::Null.to_value(),
        })
    }))
}

struct CarryingForward {
    input: Arc<Expression>,
    last: Value,
}

impl RunningFunction for CarryingForward {
    fn value(&mut self, partition: &Partition<'_>, row: usize) -> Result<Option<Value>> {
        let value = partition.evaluate(&self.input, row)?;
        if let Some(value) = value.filter(|value| !value.as_raw().is_nullish()) {
            self.last = value;
        }
        Ok(Some(self.last.clone()))
    }
}

pub fn parse_linear_fill(given: Given<'_>) -> Result<Start> {
    given.without_window()?;
    if given.sort.is_none_or(|sort| sort.fields().len() != 1) {
        let text = "$linearFill must be specified with a top level sortBy expression with exactly one element";
        return Err(Error::location(605_001, text));
    }
    let input = Arc::new(given.expression(given.value)?);
    Ok(Box::new(move || {
        Box::new(Filling {
            input: Arc::clone(&input),
            before: None,
            behind: None,
        })
    }))
}

/// A row with a value: its place on the axis, and the value.
#[derive(Clone, Copy)]
struct Point {
    row: usize,
    x: Number,
    y: Number,
}

struct Filling {
    input: Arc<Expression>,
    /// The last row before with a value.
    before: Option<Point>,
    /// The first row with a value behind those that have none; None where none was looked for.
    behind: Option<Option<Point>>,
}

impl Filling {
    fn point(&self, partition: &Partition<'_>, row: usize) -> Result<Option<Point>> {
        let value = partition.evaluate(&self.input, row)?;
        let Some(value) = value.filter(|value| !value.as_raw().is_nullish()) else {
            return Ok(None);
        };
        let y = Number::from_raw(value.as_raw()).ok_or_else(|| {
            let found = type_name(value.as_raw());
            let text =
                format!("Value to be filled must be numeric or nullish, but found type: {found}");
            Error::type_mismatch(text)
        })?;
        let x = self.x(partition, row)?;
        Ok(Some(Point { row, x, y }))
    }

    fn x(&self, partition: &Partition<'_>, row: usize) -> Result<Number> {
        let is_date = matches!(partition.sort_value(row)?, Some(RawValue::DateTime(_)));
        partition.position(row, is_date, 605_002)
    }
}

impl RunningFunction for Filling {
    fn value(&mut self, partition: &Partition<'_>, row: usize) -> Result<Option<Value>> {
        if row > 0 && partition.place(row) == partition.place(row - 1) {
            let text = "There can be no repeated values in the sort field";
            return Err(Error::location(6_050_106, text));
        }
        if let Some(point) = self.point(partition, row)? {
            (self.before, self.behind) = (Some(point), None);
            return Ok(Some(point.y.raw().to_value()));
        }
        let null = || Ok(Some(RawValue::Null.to_value()));
        let Some(before) = self.before else {
            return null();
        };
        if self.behind.is_none() {
            let mut found = None;
            for next in row + 1..partition.len() {
                found = self.point(partition, next)?;
                if found.is_some() {
                    break;
                }
            }
            self.behind = Some(found);
        }
        let Some(behind) = self.behind.flatten() else {
            return null();
        };
        debug_assert!(
            before.row < row && row < behind.row,
            "not between its neighbours"
        );
        let x = self.x(partition, row)?;
        let rise = behind
            .y
            .subtract(before.y)
            .divide(behind.x.subtract(before.x));
        let filled = rise.map(|rise| {
            let mut sum = Addition::default();
            sum.add(before.y);
            sum.add(x.subtract(before.x).multiply(rise));
            sum.total()
        });
        match filled {
            Some(filled) => Ok(Some(filled.raw().to_value())),
            None => null(),
        }
    }
}
