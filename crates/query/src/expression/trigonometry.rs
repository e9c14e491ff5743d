//! `$sin $cos $tan $asin $acos $atan $atan2 $sinh $cosh $tanh $asinh $acosh $atanh $degreesToRadians $radiansToDegrees`, over
//! Doubles and Decimal128. Angles are in radians. The sine of a Decimal128 from 1E+45 on is refused by name: to take the whole
//! turns off, pi would have to be known further.

use quarry_bson::Decimal128;

use super::arithmetic::plain_numeric;
use super::number::Number;
use super::{Call, Context, Evaluated};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// A function of a Double, and the same one of a Decimal128.
type Function = (fn(f64) -> f64, fn(&Decimal128) -> Decimal128);

/// A function of one number, which must lie between two bounds (in them, if they are finite).
fn function<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    (low, high): (f64, f64),
    (of_double, of_decimal): Function,
) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    let Some(number) = plain_numeric(&value, call)? else {
        return Ok(Evaluated::NULL);
    };
    let is_open = |bound: f64| bound.is_infinite();
    let (lies_below, lies_above) = match &number {
        Number::Decimal(decimal) => outside(decimal, low, high),
        other => {
            let angle = other.to_f64();
            let lies_below = angle < low || (angle == low && is_open(low));
            (lies_below, angle > high || (angle == high && is_open(high)))
        }
    };
    if lies_below || lies_above {
        let text = format!(
            "cannot apply {} to {}, value must be in {}{low},{}{}",
            call.name(),
            text_of(&number),
            if is_open(low) { '(' } else { '[' },
            if high.is_nan() { f64::INFINITY } else { high },
            if is_open(high) { ')' } else { ']' },
        );
        return Err(Error::location(50989, text));
    }
    Ok(match number {
        Number::Decimal(angle) if is_open(low) && !angle.is_near_angle() => {
            let text = format!(
                "{} of a Decimal128 beyond 1E+45 is not supported",
                call.name()
            );
            return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text));
        }
        Number::Decimal(decimal) => Number::Decimal(of_decimal(&decimal)).into(),
        other => Evaluated::from(of_double(other.to_f64())),
    })
}

/// Whether a number lies below or above two bounds, each of which is -1, 1, infinite, or none.
fn outside(number: &Decimal128, low: f64, high: f64) -> (bool, bool) {
    let (one, infinite) = (Decimal128::from_i64(1), number.is_infinite());
    let lies_below = if low.is_infinite() {
        infinite && number.is_negative()
    } else if low == 1.0 {
        *number < one
    } else {
        low == -1.0 && *number < one.negate()
    };
    let lies_above = if high.is_infinite() {
        infinite && !number.is_negative()
    } else {
        high == 1.0 && *number > one
    };
    (
        !number.is_nan() && lies_below,
        !number.is_nan() && lies_above,
    )
}

fn text_of(number: &Number) -> String {
    match number {
        Number::Decimal(decimal) => decimal.to_string(),
        other => other.to_f64().to_string(),
    }
}

const ALL: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
/// Infinities count as well.
const UNBOUNDED: (f64, f64) = (f64::NAN, f64::NAN);

pub(super) fn sin<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, ALL, (f64::sin, Decimal128::sin))
}

pub(super) fn cos<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, ALL, (f64::cos, Decimal128::cos))
}

pub(super) fn tan<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, ALL, (f64::tan, Decimal128::tan))
}

pub(super) fn asin<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, (-1.0, 1.0), (f64::asin, Decimal128::asin))
}

pub(super) fn acos<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, (-1.0, 1.0), (f64::acos, Decimal128::acos))
}

pub(super) fn atan<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, UNBOUNDED, (f64::atan, Decimal128::atan))
}

pub(super) fn sinh<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, UNBOUNDED, (f64::sinh, Decimal128::sinh))
}

pub(super) fn cosh<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, UNBOUNDED, (f64::cosh, Decimal128::cosh))
}

pub(super) fn tanh<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, UNBOUNDED, (f64::tanh, Decimal128::tanh))
}

pub(super) fn asinh<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, UNBOUNDED, (f64::asinh, Decimal128::asinh))
}

pub(super) fn acosh<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(
        call,
        context,
        (1.0, f64::NAN),
        (f64::acosh, Decimal128::acosh),
    )
}

pub(super) fn atanh<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    function(call, context, (-1.0, 1.0), (f64::atanh, Decimal128::atanh))
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
    Ok(match (&y, &x) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(y.to_decimal().atan2(&x.to_decimal())).into()
        }
        _ => Evaluated::from(y.to_f64().atan2(x.to_f64())),
    })
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
