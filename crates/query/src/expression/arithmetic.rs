//! `$add $subtract $multiply $divide $mod $pow $sqrt $exp $ln $log $log10`. A nullish operand makes the result
//! Null. Decimal128 operands give Decimal128, right to its 34 digits.

use quarry_bson::{Decimal128, RawValue};

use super::number::{Number, Pair};
use super::sum::Addition;
use super::{Call, Context, Evaluated, type_name};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::interrupts;

pub(super) fn add<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let overflow = || Error::new(ErrorCode::OVERFLOW, "date overflow in $add");
    let (mut sum, mut date) = (Addition::default(), None::<i64>);
    for argument in &call.arguments {
        let value = argument.evaluate(context)?;
        let number = match value.as_raw() {
            None | Some(RawValue::Null | RawValue::Undefined) => return Ok(Evaluated::NULL),
            Some(RawValue::DateTime(_)) if date.is_some() => {
                let text = "only one date allowed in an $add expression";
                return Err(Error::location(16612, text));
            }
            Some(RawValue::DateTime(ms)) => {
                date = Some(sum.total().rounded().ok_or_else(overflow)?);
                Number::Int64(ms)
            }
            Some(other) => Number::from_raw(other).ok_or_else(|| {
                let found = type_name(other);
                Error::type_mismatch(format!(
                    "$add only supports numeric or date types, not {found}"
                ))
            })?,
        };
        match &mut date {
            None => sum.add(number),
            // To a date whole milliseconds are added.
            Some(ms) => {
                let more = number.rounded().ok_or_else(overflow)?;
                *ms = ms.checked_add(more).ok_or_else(overflow)?;
            }
        }
    }
    Ok(match date {
        None => sum.total().into(),
        Some(ms) => Evaluated::Raw(RawValue::DateTime(ms)),
    })
}

pub(super) fn subtract<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (left, right) = (call.argument(0, context)?, call.argument(1, context)?);
    let (Some(a), Some(b)) = (left.as_raw(), right.as_raw()) else {
        return Ok(Evaluated::NULL);
    };
    if a.is_nullish() || b.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    if let (Some(a), Some(b)) = (Number::from_raw(a), Number::from_raw(b)) {
        return Ok(a.subtract(b).into());
    }
    let overflow = || Error::new(ErrorCode::OVERFLOW, "date overflow in $subtract");
    match (a, b) {
        (RawValue::DateTime(a), RawValue::DateTime(b)) => {
            Ok(Evaluated::from(a.checked_sub(b).ok_or_else(overflow)?))
        }
        (
            RawValue::DateTime(ms),
            RawValue::Int32(_) | RawValue::Int64(_) | RawValue::Double(_) | RawValue::Decimal128(_),
        ) => {
            let by = Number::from_raw(b)
                .and_then(Number::rounded)
                .ok_or_else(overflow)?;
            Ok(Evaluated::Raw(RawValue::DateTime(
                ms.checked_sub(by).ok_or_else(overflow)?,
            )))
        }
        _ => Err(Error::type_mismatch(format!(
            "can't $subtract {} from {}",
            type_name(b),
            type_name(a)
        ))),
    }
}

pub(super) fn multiply<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let mut product = Number::Int32(1);
    for argument in &call.arguments {
        let value = argument.evaluate(context)?;
        if value.is_nullish() {
            return Ok(Evaluated::NULL);
        }
        let Some(number) = value.as_raw().and_then(Number::from_raw) else {
            return Err(Error::type_mismatch(format!(
                "$multiply only supports numeric types, not {}",
                value.type_name()
            )));
        };
        product = product.multiply(number);
    }
    Ok(product.into())
}

pub(super) fn divide<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let Some((a, b)) = two_numbers(call, context, None)? else {
        return Ok(Evaluated::NULL);
    };
    let quotient = a
        .divide(b)
        .ok_or_else(|| Error::bad_value("can't $divide by zero"))?;
    Ok(quotient.into())
}

pub(super) fn modulo<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let Some((a, b)) = two_numbers(call, context, Some(16611))? else {
        return Ok(Evaluated::NULL);
    };
    let by_zero = || Error::location(16610, "can't $mod by zero");
    match a.with(b) {
        // The remainder of MIN by -1 is zero; the machine instruction overflows.
        Pair::Int32(a, b) => a
            .checked_rem(b)
            .or((b == -1).then_some(0))
            .map(Evaluated::from)
            .ok_or_else(by_zero),
        Pair::Int64(a, b) => a
            .checked_rem(b)
            .or((b == -1).then_some(0))
            .map(Evaluated::from)
            .ok_or_else(by_zero),
        Pair::Double(_, 0.0) => Err(by_zero()),
        Pair::Double(a, b) => Ok(Evaluated::from(a % b)),
        Pair::Decimal(_, b) if b.is_zero() => Err(by_zero()),
        Pair::Decimal(a, b) => Ok(Number::Decimal(a.rem(&b)).into()),
    }
}

/// Both arguments as numbers, None if either is nullish.
fn two_numbers<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    code: Option<i32>,
) -> Result<Option<(Number, Number)>> {
    let (left, right) = (call.argument(0, context)?, call.argument(1, context)?);
    let numbers = (
        left.as_raw().and_then(Number::from_raw),
        right.as_raw().and_then(Number::from_raw),
    );
    if let (Some(a), Some(b)) = numbers {
        return Ok(Some((a, b)));
    }
    if left.is_nullish() || right.is_nullish() {
        return Ok(None);
    }
    let (name, left, right) = (call.name(), left.type_name(), right.type_name());
    let text = format!("{name} only supports numeric types, not {left} and {right}");
    Err(code.map_or_else(
        || Error::type_mismatch(text.clone()),
        |code| Error::location(code, text.clone()),
    ))
}

pub(super) fn pow<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (base, exponent) = (call.argument(0, context)?, call.argument(1, context)?);
    let Some(base) = numeric(&base, 28762, "$pow's base")? else {
        return Ok(Evaluated::NULL);
    };
    let Some(exponent) = numeric(&exponent, 28763, "$pow's exponent")? else {
        return Ok(Evaluated::NULL);
    };
    if base.is_zero() && exponent.is_negative() {
        return Err(Error::location(
            28764,
            "$pow cannot take a base of 0 and a negative exponent",
        ));
    }
    let power = match base.with(exponent) {
        Pair::Int32(a, b) => integer_power(i64::from(a), i64::from(b)).map(Number::int),
        Pair::Int64(a, b) => integer_power(a, b).map(Number::Int64),
        Pair::Double(..) => None,
        Pair::Decimal(a, b) => {
            interrupts::work(UNITS_OF_A_FUNCTION)?;
            Some(Number::Decimal(a.pow(&b)))
        }
    };
    Ok(power
        .unwrap_or_else(|| Number::Double(base.to_f64().powf(exponent.to_f64())))
        .into())
}

/// None where the exact result is no Int64.
fn integer_power(base: i64, exponent: i64) -> Option<i64> {
    match (base, u32::try_from(exponent)) {
        (1, _) => Some(1),
        (-1, _) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        (_, Ok(exponent)) => base.checked_pow(exponent),
        (0, Err(_)) if exponent > 0 => Some(0),
        _ => None,
    }
}

pub(super) fn sqrt<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    let Some(number) = plain_numeric(&value, call)? else {
        return Ok(Evaluated::NULL);
    };
    if number.is_negative() {
        return Err(Error::location(
            28714,
            "$sqrt's argument must be greater than or equal to 0",
        ));
    }
    real(number, f64::sqrt, Decimal128::sqrt)
}

pub(super) fn exp<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    let Some(number) = plain_numeric(&value, call)? else {
        return Ok(Evaluated::NULL);
    };
    real(number, f64::exp, Decimal128::exp)
}

pub(super) fn ln<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    let Some(number) = plain_numeric(&value, call)? else {
        return Ok(Evaluated::NULL);
    };
    positive(
        number,
        28766,
        "$ln's argument must be a positive number, but is",
        &value,
    )?;
    real(number, f64::ln, Decimal128::ln)
}

pub(super) fn log10<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    let Some(number) = plain_numeric(&value, call)? else {
        return Ok(Evaluated::NULL);
    };
    positive(
        number,
        28761,
        "$log10's argument must be a positive number, but is",
        &value,
    )?;
    real(number, f64::log10, Decimal128::log10)
}

pub(super) fn log<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (value, base) = (call.argument(0, context)?, call.argument(1, context)?);
    if value.is_nullish() || base.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let Some(number) = numeric(&value, 28756, "$log's argument")? else {
        return Ok(Evaluated::NULL);
    };
    let Some(radix) = numeric(&base, 28757, "$log's base")? else {
        return Ok(Evaluated::NULL);
    };
    positive(
        number,
        28758,
        "$log's argument must be a positive number, but is",
        &value,
    )?;
    if !(radix.is_positive() || radix.is_nan()) || radix.is_one() {
        let text = format!(
            "$log's base must be a positive number not equal to 1, but is {}",
            base.display()
        );
        return Err(Error::location(28759, text));
    }
    Ok(match number.with(radix) {
        Pair::Decimal(number, radix) => {
            interrupts::work(UNITS_OF_A_FUNCTION)?;
            Number::Decimal(number.log(&radix)).into()
        }
        _ => Evaluated::from(number.to_f64().ln() / radix.to_f64().ln()),
    })
}

/// A function of one number, in the number's own kind.
fn real<'a>(
    operand: Number,
    of_double: fn(f64) -> f64,
    of_decimal: fn(&Decimal128) -> Decimal128,
) -> Result<Evaluated<'a>> {
    Ok(match operand {
        Number::Decimal(decimal) => {
            interrupts::work(UNITS_OF_A_FUNCTION)?;
            Number::Decimal(of_decimal(&decimal)).into()
        }
        other => Evaluated::from(of_double(other.to_f64())),
    })
}

/// The work of a root, a power or a logarithm of a Decimal128.
const UNITS_OF_A_FUNCTION: usize = 10_000;

fn positive(number: Number, code: i32, text: &str, value: &Evaluated<'_>) -> Result<()> {
    if number.is_positive() || number.is_nan() {
        return Ok(());
    }
    Err(Error::location(code, format!("{text} {}", value.display())))
}

/// The number, None if nullish, else "... must be numeric, not string".
fn numeric(value: &Evaluated<'_>, code: i32, what: &str) -> Result<Option<Number>> {
    if value.is_nullish() {
        return Ok(None);
    }
    match value.as_raw().and_then(Number::from_raw) {
        None => Err(Error::location(
            code,
            format!("{what} must be numeric, not {}", value.type_name()),
        )),
        number => Ok(number),
    }
}

/// The number, None if nullish, else "$op only supports numeric types, not string".
pub(super) fn plain_numeric(value: &Evaluated<'_>, call: &Call) -> Result<Option<Number>> {
    if value.is_nullish() {
        return Ok(None);
    }
    match value.as_raw().and_then(Number::from_raw) {
        None => {
            let text = format!(
                "{} only supports numeric types, not {}",
                call.name(),
                value.type_name()
            );
            Err(Error::location(28765, text))
        }
        number => Ok(number),
    }
}
