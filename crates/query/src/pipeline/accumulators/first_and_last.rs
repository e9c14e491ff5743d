//! `$first` and `$last`: one value, in the order in which the documents come.

use quarry_bson::{DocumentBuilder, RawValue, Value};

use super::accumulator::Accumulator;
use crate::error::Result;

#[derive(Debug, Default)]
pub struct First(Option<Value>);

#[derive(Debug, Default)]
pub struct Last(Option<Value>);

/// Sets the value; the growth counts what an owned value takes beside its inline bytes.
pub(super) fn replace(slot: &mut Option<Value>, value: RawValue<'_>) -> usize {
    let old = held_bytes(slot);
    let new = slot.insert(Value::from(value)).as_bytes().len();
    new.saturating_sub(old)
}

pub(super) fn held_bytes(slot: &Option<Value>) -> usize {
    slot.as_ref().map_or(0, |value| value.as_bytes().len())
}

/// Appends the value, Null where there is none.
pub(super) fn write(slot: &Option<Value>, name: &str, out: &mut DocumentBuilder<'_>) {
    out.append(name, slot.as_ref().map_or(RawValue::Null, Value::as_raw));
}

impl Accumulator for First {
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        if self.0.is_some() {
            return Ok(0);
        }
        Ok(replace(&mut self.0, value.unwrap_or(RawValue::Null)))
    }

    fn held_bytes(&self) -> usize {
        held_bytes(&self.0)
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        write(&self.0, name, out);
        Ok(())
    }
}

impl Accumulator for Last {
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        Ok(replace(&mut self.0, value.unwrap_or(RawValue::Null)))
    }

    fn held_bytes(&self) -> usize {
        held_bytes(&self.0)
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        write(&self.0, name, out);
        Ok(())
    }
}
