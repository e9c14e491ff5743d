//! `$mod`: a number whose whole part leaves a remainder when divided. Fractions are cut off on both sides, as
//! MongoDB does; NaN, infinities and numbers beyond Int64 never match.

use quarry_bson::RawValue;

use super::type_set::NUMBERS;
use super::value_test::ValueTest;
use crate::error::{Error, Result};

/// The operand of `$mod`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModPredicate {
    /// The number to divide by, never 0.
    divisor: i64,
    /// The remainder that is asked for.
    remainder: i64,
}

impl ModPredicate {
    /// Parses `[divisor, remainder]`.
    pub fn parse(operand: RawValue<'_>) -> Result<ModPredicate> {
        let RawValue::Array(parts) = operand else {
            return Err(Error::bad_value("malformed mod, needs to be an array"));
        };
        let mut parts = parts.iter();
        let (Some(divisor), Some(remainder)) = (parts.next(), parts.next()) else {
            return Err(Error::bad_value("malformed mod, not enough elements"));
        };
        if parts.next().is_some() {
            return Err(Error::bad_value("malformed mod, too many elements"));
        }
        let predicate = ModPredicate {
            divisor: part(divisor, "divisor")?,
            remainder: part(remainder, "remainder")?,
        };
        if predicate.divisor == 0 {
            return Err(Error::bad_value("divisor cannot be 0"));
        }
        Ok(predicate)
    }
}

impl ValueTest for ModPredicate {
    fn passes(&self, value: RawValue<'_>) -> Result<bool> {
        let whole = value.as_i64_truncated();
        Ok(whole.is_some_and(|whole| whole.wrapping_rem(self.divisor) == self.remainder))
    }

    fn kept_types(&self) -> Option<u32> {
        Some(NUMBERS)
    }
}

fn part(value: RawValue<'_>, name: &str) -> Result<i64> {
    if !value.is_number() {
        return Err(Error::bad_value(format!(
            "malformed mod, {name} not a number"
        )));
    }
    value
        .as_i64_truncated()
        .ok_or_else(|| Error::bad_value(format!("malformed mod, {name} value is invalid: {value}")))
}
