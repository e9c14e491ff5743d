//! `$min` and `$max`: BSON's order over all types; Null, Undefined and Missing are passed over.

use std::cmp::Ordering;

use quarry_bson::{DocumentBuilder, RawValue, Value};

use super::accumulator::Accumulator;
use super::first_and_last::{held_bytes, replace, write};
use crate::Collation;
use crate::error::Result;
use crate::interrupts::{self, units_collated};

#[derive(Debug, Default)]
pub struct Min(Best);

#[derive(Debug, Default)]
pub struct Max(Best);

/// The best value so far.
#[derive(Debug, Default)]
struct Best {
    value: Option<Value>,
    collation: Collation,
}

impl Best {
    /// Takes the value if it compares so with the best one, or is the first.
    fn add(&mut self, value: Option<RawValue<'_>>, wanted: Ordering) -> Result<usize> {
        let Some(value) = value.filter(|value| !value.is_nullish()) else {
            return Ok(0);
        };
        let Best {
            value: best,
            collation,
        } = self;
        let is_better = match best {
            None => true,
            Some(best) => {
                interrupts::work(units_collated(collation, 1))?;
                collation.compare(value, best.as_raw()) == wanted
            }
        };
        Ok(if is_better { replace(best, value) } else { 0 })
    }
}

impl Accumulator for Min {
    fn collate(&mut self, collation: &Collation) {
        self.0.collation.clone_from(collation);
    }

    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        self.0.add(value, Ordering::Less)
    }

    fn held_bytes(&self) -> usize {
        held_bytes(&self.0.value)
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        write(&self.0.value, name, out);
        Ok(())
    }
}

impl Accumulator for Max {
    fn collate(&mut self, collation: &Collation) {
        self.0.collation.clone_from(collation);
    }

    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        self.0.add(value, Ordering::Greater)
    }

    fn held_bytes(&self) -> usize {
        held_bytes(&self.0.value)
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        write(&self.0.value, name, out);
        Ok(())
    }
}
