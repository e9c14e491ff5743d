//! `$shift`: the value of an expression over the row that stands so many places behind this one.

use std::sync::Arc;

use quarry_bson::{RawValue, Value};

use super::function::{Given, RunningFunction, Start};
use super::partition::Partition;
use crate::error::{Error, Result};
use crate::expression::Expression;

struct Shift {
    output: Expression,
    by: i64,
    default: Value,
}

pub fn parse(given: Given<'_>) -> Result<Start> {
    given.sorted()?;
    given.without_window()?;
    let [output, by, default] = given.options(["output", "by", "default"])?;
    let output = given.need(output, "output")?;
    let by = given.need(by, "by")?;
    let by = by
        .as_i64_exact()
        .filter(|_| by.is_number())
        .ok_or_else(|| {
            let text = format!("'$shift:by' field must be an integer, but found {by}");
            Error::failed_to_parse(text)
        })?;
    let default = match default {
        None => RawValue::Null.to_value(),
        Some(default) => {
            let folded = given.expression(default)?.folded()?;
            folded.constant().cloned().ok_or_else(|| {
                let text = format!(
                    "'$shift:default' expression must yield a constant value, but got {default}"
                );
                Error::failed_to_parse(text)
            })?
        }
    };
    let shift = Arc::new(Shift {
        output: given.expression(output)?,
        by,
        default,
    });
    Ok(Box::new(move || Box::new(Shifting(Arc::clone(&shift)))))
}

struct Shifting(Arc<Shift>);

impl RunningFunction for Shifting {
    fn value(&mut self, partition: &Partition<'_>, row: usize) -> Result<Option<Value>> {
        let Shift {
            output,
            by,
            default,
        } = &*self.0;
        let row = i64::try_from(row).ok().and_then(|row| row.checked_add(*by));
        let row = row.and_then(|row| usize::try_from(row).ok());
        match row.filter(|row| *row < partition.len()) {
            None => Ok(Some(default.clone())),
            // Missing is Null, as a value that stands in its own right.
            Some(row) => {
                let value = partition.evaluate(output, row)?;
                Ok(Some(value.unwrap_or_else(|| RawValue::Null.to_value())))
            }
        }
    }
}
