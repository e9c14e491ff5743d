//! `$min` and `$max`: BSON's order over all types; Null, Undefined and Missing are passed over.

use std::cmp::Ordering;

use quarry_bson::{DocumentBuilder, RawValue, Value, compare::compare_values};

use super::accumulator::Accumulator;
use super::first_and_last::{held_bytes, replace, write};
use crate::error::Result;

#[derive(Debug, Default)]
pub struct Min(Option<Value>);

#[derive(Debug, Default)]
pub struct Max(Option<Value>);

/// Takes the value if it compares so with the best one, or is the first.
fn add(best: &mut Option<Value>, value: Option<RawValue<'_>>, wanted: Ordering) -> usize {
    let Some(value) = value.filter(|value| !value.is_nullish()) else {
        return 0;
    };
    let is_better =
        (best.as_ref()).is_none_or(|best| compare_values(value, best.as_raw()) == wanted);
    if is_better { replace(best, value) } else { 0 }
}

impl Accumulator for Min {
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        Ok(add(&mut self.0, value, Ordering::Less))
    }

    fn held_bytes(&self) -> usize {
        held_bytes(&self.0)
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        write(&self.0, name, out);
        Ok(())
    }
}

impl Accumulator for Max {
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        Ok(add(&mut self.0, value, Ordering::Greater))
    }

    fn held_bytes(&self) -> usize {
        held_bytes(&self.0)
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        write(&self.0, name, out);
        Ok(())
    }
}
