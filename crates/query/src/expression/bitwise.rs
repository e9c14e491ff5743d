//! `$bitAnd $bitOr $bitXor $bitNot` over Int32 and Int64; one Int64 makes the result one.

use std::ops::{BitAnd, BitOr, BitXor};

use quarry_bson::RawValue;

use super::{Call, Context, Evaluated};
use crate::error::{Error, Result};

pub(super) fn and<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    combined(call, context, -1, i64::bitand)
}

pub(super) fn or<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    combined(call, context, 0, i64::bitor)
}

pub(super) fn xor<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    combined(call, context, 0, i64::bitxor)
}

/// Every operand is looked at, so that a wrong one is told behind a Null, too.
fn combined<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    neutral: i64,
    with: fn(i64, i64) -> i64,
) -> Result<Evaluated<'a>> {
    let (mut bits, mut is_long, mut is_null) = (neutral, false, false);
    for argument in &call.arguments {
        let value = argument.evaluate(context)?;
        match value.as_raw() {
            None | Some(RawValue::Null | RawValue::Undefined) => is_null = true,
            Some(RawValue::Int32(n)) => bits = with(bits, i64::from(n)),
            Some(RawValue::Int64(n)) => {
                bits = with(bits, n);
                is_long = true;
            }
            Some(_) => {
                let text = format!("{} only supports int and long operands.", call.name());
                return Err(Error::type_mismatch(text));
            }
        }
    }
    Ok(match (is_null, is_long) {
        (true, _) => Evaluated::NULL,
        (false, true) => Evaluated::from(bits),
        // The sign goes through all upper bits, so that cutting them off loses nothing.
        (false, false) => Evaluated::from(bits as i32),
    })
}

pub(super) fn not<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    match value.as_raw() {
        None | Some(RawValue::Null | RawValue::Undefined) => Ok(Evaluated::NULL),
        Some(RawValue::Int32(n)) => Ok(Evaluated::from(!n)),
        Some(RawValue::Int64(n)) => Ok(Evaluated::from(!n)),
        Some(_) => {
            let kind = value.type_name();
            let text = format!("$bitNot only supports int and long, not: {kind}.");
            Err(Error::type_mismatch(text))
        }
    }
}
