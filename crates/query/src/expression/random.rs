//! `$rand`: a Double from 0 up to, but not including, 1, another one for each document.

use std::hash::{BuildHasher, RandomState};

use quarry_bson::RawValue;

use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables};
use crate::error::{Error, Result};

/// The operand is an empty document or array.
pub(super) fn parse(
    operator: &'static Operator,
    operand: RawValue<'_>,
    _: &mut Variables<'_>,
) -> Result<Expression> {
    match operand {
        RawValue::Document(empty) if empty.is_empty() => {}
        RawValue::Array(empty) if empty.is_empty() => {}
        RawValue::Document(_) | RawValue::Array(_) => {
            let text = "$rand does not currently accept arguments";
            return Err(Error::location(3_040_501, text));
        }
        _ => {
            let text = "invalid parameter: expected an object ($rand)";
            return Err(Error::location(10065, text));
        }
    }
    Ok(Expression::call(operator, Vec::new(), Vec::new()))
}

/// The standard library's hash keys differ with each call, so that 53 bits of a hash are as good as drawn.
pub(super) fn rand<'a>(_: &'a Call, _: &mut Context<'a>) -> Result<Evaluated<'a>> {
    const BITS: u32 = 53;
    let bits = RandomState::new().hash_one(0_u8) >> (u64::BITS - BITS);
    Ok(Evaluated::from(bits as f64 / (1_u64 << BITS) as f64))
}
