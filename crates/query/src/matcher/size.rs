//! `$size`: how many elements an array has.

use quarry_bson::RawValue;

use super::value_test::ValueTest;
use crate::error::{Error, Result};
use crate::interrupts::units_of;

/// The number of elements that is asked for.
#[derive(Debug)]
pub(super) struct Size(i64);

impl Size {
    /// Parses the operand, a whole number that is not negative.
    pub fn parse(operand: RawValue<'_>) -> Result<Size> {
        let reason = match operand.as_i64_exact() {
            Some(size) if size >= 0 => return Ok(Size(size)),
            Some(_) => "Expected a non-negative number in",
            None if operand.is_number() => "Expected an integer",
            None => "Expected a number in",
        };
        Err(Error::bad_value(format!(
            "Failed to parse $size. {reason}: $size: {operand}"
        )))
    }
}

impl ValueTest for Size {
    fn passes(&self, value: RawValue<'_>) -> Result<bool> {
        let array = value.as_array();
        Ok(array.is_some_and(|array| array.iter().count() as i64 == self.0))
    }

    fn units(&self, value: RawValue<'_>) -> usize {
        units_of(value)
    }

    fn opens_arrays(&self) -> bool {
        false
    }
}
