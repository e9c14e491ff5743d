//! `$stdDevPop` and `$stdDevSamp`.

use quarry_bson::{DocumentBuilder, RawValue};

use super::accumulator::Accumulator;
use crate::error::Result;
use crate::expression::fold::Spread;

#[derive(Debug, Default)]
pub struct StdDevPop(Spread);

#[derive(Debug, Default)]
pub struct StdDevSamp(Spread);

impl Accumulator for StdDevPop {
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        if let Some(value) = value {
            self.0.add(value);
        }
        Ok(0)
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        let deviation = self.0.population();
        out.append(name, deviation.map_or(RawValue::Null, RawValue::Double));
        Ok(())
    }
}

impl Accumulator for StdDevSamp {
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        if let Some(value) = value {
            self.0.add(value);
        }
        Ok(0)
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        let deviation = self.0.sample();
        out.append(name, deviation.map_or(RawValue::Null, RawValue::Double));
        Ok(())
    }
}
