//! `$sum`, `$avg` and `$count`.

use quarry_bson::{DocumentBuilder, RawValue};

use super::accumulator::Accumulator;
use crate::error::Result;
use crate::expression::number::Number;
use crate::expression::sum;

#[derive(Debug, Default)]
pub struct Sum(sum::Sum);

#[derive(Debug, Default)]
pub struct Avg(sum::Sum);

#[derive(Debug, Default)]
pub struct Count(i64);

/// Numbers count, all else is passed over.
fn add(sum: &mut sum::Sum, value: Option<RawValue<'_>>) {
    if let Some(number) = value.and_then(Number::from_raw) {
        sum.add(number);
    }
}

impl Accumulator for Sum {
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        add(&mut self.0, value);
        Ok(0)
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        out.append(name, self.0.total().raw());
        Ok(())
    }
}

impl Accumulator for Avg {
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        add(&mut self.0, value);
        Ok(0)
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        out.append(name, self.0.mean().map_or(RawValue::Null, Number::raw));
        Ok(())
    }
}

impl Accumulator for Count {
    fn add(&mut self, _: Option<RawValue<'_>>) -> Result<usize> {
        self.0 += 1;
        Ok(0)
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        out.append(name, Number::int(self.0).raw());
        Ok(())
    }
}
