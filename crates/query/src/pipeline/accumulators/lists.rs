//! `$push` and `$addToSet`: the values of a group as an array. Missing is passed over.

use quarry_bson::{DocumentBuilder, ElementType, RawValue, Value};

use super::accumulator::Accumulator;
use crate::Collation;
use crate::error::Result;
use crate::expression::bounds;
use crate::interrupts;
use crate::value_set::ValueSet;

#[derive(Debug, Default)]
pub struct Push {
    values: Vec<Value>,
    bytes: usize,
}

#[derive(Debug, Default)]
pub struct AddToSet(ValueSet);

impl Accumulator for Push {
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        let Some(value) = value else { return Ok(0) };
        if matches!(
            value.element_type(),
            ElementType::Document | ElementType::Array
        ) {
            bounds::check_depth(value, 2)?;
        }
        let value = Value::from(value);
        let grown = size_of::<Value>() + value.as_bytes().len();
        self.bytes += value.as_bytes().len();
        bounds::check_bytes(self.bytes)?;
        self.values.push(value);
        Ok(grown)
    }

    fn held_bytes(&self) -> usize {
        self.bytes + self.values.len() * size_of::<Value>()
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        let mut array = out.array(name);
        for value in &self.values {
            interrupts::work_on_bytes(value.as_bytes().len())?;
            array.push(value);
        }
        array.finish();
        Ok(())
    }
}

impl Accumulator for AddToSet {
    fn collate(&mut self, collation: &Collation) {
        self.0.collate(collation);
    }

    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        let Some(value) = value else { return Ok(0) };
        bounds::check_depth(value, 2)?;
        Ok(self.0.insert(value)?.1)
    }

    fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        let mut array = out.array(name);
        for value in self.0.values() {
            interrupts::work_on_bytes(value.as_bytes().len())?;
            array.push(value);
            bounds::check_bytes(array.len_bytes())?;
        }
        array.finish();
        Ok(())
    }
}
