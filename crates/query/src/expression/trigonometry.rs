//! `$sin $cos $tan $asin $acos $atan $atan2 $sinh $cosh $tanh $asinh $acosh $atanh $degreesToRadians $radiansToDegrees`, over
//! Doubles. Angles are in radians. Of Decimal128 only angles are converted: what the functions give to 34 digits is not
//! computed yet, and is refused by name.

use quarry_bson::Decimal128;

use super::arithmetic::plain_numeric;
use super::number::Number;
use super::{Call, Context, Evaluated};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// A function of one number, which must lie between two bounds (in them, if they are finite).
fn function<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    (low, high): (f64, f64),
    of: fn(f64) -> f64,
) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    let Some(number) = plain_numeric(&value, call)? else {
        return Ok(Evaluated::NULL);
    };
    let angle = double(number, call)?;
    let is_open = |bound: f64| bound.is_infinite();
    let lies_below = angle < low || (angle == low && is_open(low));
    let lies_above = angle > high || (angle == high && is_open(high));
    if lies_below || lies_above {
        let text = format!(
            "cannot apply {} to {angle}, value must be in {}{low},{}{}",
            call.name(),
            if is_open(low) { '(' } else { '[' },
            if high.is_nan() { f64::INFINITY } else { high },
            if is_open(high) { ')' } else { ']' },
        );
        return Err(Error::location(50989, text));
    }
    Ok(Evaluated::from(of(angle)))
}

const ALL: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
/// Infinities count as well.
const UNBOUNDED: (f64, f64) = (f64::NAN, f64::NAN);

fn double(number: Number, call: &Call) -> Result<f64> {
    if let Number::Decimal(_) = number {
        let text = format!("{} of a Decimal128 is not supported yet", call.name());
        return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text));
    }
    Ok(number.to_f64())
}

pub(super) fn sin<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, ALL, f64::sin)
}

pub(super) fn cos<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, ALL, f64::cos)
}

pub(super) fn tan<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, ALL, f64::tan)
}

pub(super) fn asin<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, (-1.0, 1.0), f64::asin)
}

pub(super) fn acos<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, (-1.0, 1.0), f64::acos)
}

pub(super) fn atan<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, UNBOUNDED, f64::atan)
}

pub(super) fn sinh<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, UNBOUNDED, f64::sinh)
}

pub(super) fn cosh<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, UNBOUNDED, f64::cosh)
}

pub(super) fn tanh<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, UNBOUNDED, f64::tanh)
}

pub(super) fn asinh<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, UNBOUNDED, f64::asinh)
}

pub(super) fn acosh<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, (1.0, f64::NAN), f64::acosh)
}

pub(super) fn atanh<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, (-1.0, 1.0), f64::atanh)
}

pub(super) fn atan2<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (y, x) = (call.argument(0, context)?, call.argument(1, context)?);
    if y.is_nullish() || x.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let numbers = (
        y.as_raw().and_then(Number::from_raw),
        x.as_raw().and_then(Number::from_raw),
    );
    let (Some(y), Some(x)) = numbers else {
        let (y, x) = (y.type_name(), x.type_name());
        let text = format!("$atan2 only supports numeric types, not {y} and {x}");
        return Err(Error::location(51044, text));
    };
    Ok(Evaluated::from(double(y, call)?.atan2(double(x, call)?)))
}

/// Pi to 34 digits.
const PI: &str = "3.141592653589793238462643383279503";

pub(super) fn degrees_to_radians<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
    converted(call, context, f64::to_radians, |degrees, pi| {
        degrees.mul(pi).div(&Decimal128::from_i64(180))
    })
}

pub(super) fn radians_to_degrees<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
    converted(call, context, f64::to_degrees, |radians, pi| {
        radians.mul(&Decimal128::from_i64(180)).div(pi)
    })
}

fn converted<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    of_double: fn(f64) -> f64,
    of_decimal: fn(&Decimal128, &Decimal128) -> Decimal128,
) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    Ok(match plain_numeric(&value, call)? {
        None => Evaluated::NULL,
        Some(Number::Decimal(angle)) => {
            let pi = Decimal128::parse_rounded(PI).unwrap_or(Decimal128::NAN);
            Number::Decimal(of_decimal(&angle, &pi)).into()
        }
        Some(angle) => Evaluated::from(of_double(angle.to_f64())),
    })
}
