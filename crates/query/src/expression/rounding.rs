//! `$abs $ceil $floor $round $trunc`. `$round` rounds halves to the even neighbour, as MongoDB's does.

use quarry_bson::{Decimal128, DecimalParts};

use super::arithmetic::plain_numeric;
use super::number::Number;
use super::{Call, Context, Evaluated};
use crate::error::{Error, Result};

/// Where digits go that a result has no place for.
#[derive(Clone, Copy)]
pub(super) enum Mode {
    Down,
    Up,
    TowardsZero,
    HalfToEven,
}

pub(super) fn abs<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    let Some(number) = plain_numeric(&value, call)? else {
        return Ok(Evaluated::NULL);
    };
    let positive = match number {
        Number::Int32(n) => Number::int(i64::from(n).abs()),
        Number::Int64(n) => {
            let n = n
                .checked_abs()
                .ok_or_else(|| Error::location(28680, "can't take $abs of long long min"))?;
            Number::Int64(n)
        }
        Number::Double(d) => Number::Double(d.abs()),
        Number::Decimal(d) => Number::Decimal(d.abs()),
    };
    Ok(positive.into())
}

pub(super) fn ceil<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    whole(call, context, Mode::Up)
}

pub(super) fn floor<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    whole(call, context, Mode::Down)
}

fn whole<'a>(call: &'a Call, context: &mut Context<'a>, mode: Mode) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    let number = plain_numeric(&value, call)?;
    match number {
        Some(number) => Ok(at_place(number, 0, mode, call)?.into()),
        None => Ok(Evaluated::NULL),
    }
}

pub(super) fn round<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    at_given_place(call, context, Mode::HalfToEven)
}

pub(super) fn trunc<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    at_given_place(call, context, Mode::TowardsZero)
}

fn at_given_place<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    mode: Mode,
) -> Result<Evaluated<'a>> {
    let (value, place) = (call.argument(0, context)?, call.argument(1, context)?);
    if value.is_nullish() || (call.has(1) && place.is_nullish()) {
        return Ok(Evaluated::NULL);
    }
    let Some(number) = value.as_raw().and_then(Number::from_raw) else {
        let text = format!(
            "{} only supports numeric types, not {}",
            call.name(),
            value.type_name()
        );
        return Err(Error::location(51081, text));
    };
    let place = if call.has(1) {
        precision(call, &place)?
    } else {
        0
    };
    Ok(at_place(number, place, mode, call)?.into())
}

fn precision(call: &Call, place: &Evaluated<'_>) -> Result<i32> {
    let name = call.name();
    let Some(whole) = place.as_raw().and_then(|value| value.as_i64_exact()) else {
        return Err(Error::location(
            51082,
            format!("precision argument to  {name} must be a integral value"),
        ));
    };
    if !(-20..=100).contains(&whole) {
        let text =
            format!("cannot apply {name} with precision value {whole} value must be in [-20, 100]");
        return Err(Error::location(51083, text));
    }
    Ok(whole as i32)
}

/// Rounds at a decimal place: 2 keeps hundredths, -2 hundreds.
fn at_place(number: Number, place: i32, mode: Mode, call: &Call) -> Result<Number> {
    Ok(match number {
        Number::Int32(n) => Number::int(integer_at_place(i64::from(n), place, mode, call)?),
        Number::Int64(n) => Number::Int64(integer_at_place(n, place, mode, call)?),
        Number::Double(d) if place == 0 || !d.is_finite() => Number::Double(whole_double(d, mode)),
        Number::Double(d) => Number::Double(double_at_place(d, place, mode)),
        Number::Decimal(d) => Number::Decimal(decimal_at_place(d, place, mode)),
    })
}

/// The nearest multiple of 10^-place, which may lie beyond Int64.
fn integer_at_place(n: i64, place: i32, mode: Mode, call: &Call) -> Result<i64> {
    if place >= 0 {
        return Ok(n);
    }
    let unit = 10_i128.pow(place.unsigned_abs());
    let whole = i128::from(n);
    let below = whole.div_euclid(unit) * unit;
    let rest = whole - below;
    let up = match mode {
        Mode::Down => false,
        Mode::Up => rest > 0,
        Mode::TowardsZero => n < 0 && rest > 0,
        Mode::HalfToEven => rest * 2 > unit || (rest * 2 == unit && (below / unit) % 2 != 0),
    };
    let rounded = if up { below + unit } else { below };
    i64::try_from(rounded).map_err(|_| {
        let text = format!(
            "invalid conversion from Decimal128 result in {} resulting from arguments: [{n}, {place}]",
            call.name()
        );
        Error::location(51080, text)
    })
}

fn whole_double(d: f64, mode: Mode) -> f64 {
    match mode {
        Mode::Down => d.floor(),
        Mode::Up => d.ceil(),
        Mode::TowardsZero => d.trunc(),
        Mode::HalfToEven => d.round_ties_even(),
    }
}

/// A Double is rounded by its exact value, to 34 digits, so that 1.15 (which lies below) gives 1.1.
fn double_at_place(d: f64, place: i32, mode: Mode) -> f64 {
    Decimal128::parse_rounded(&format!("{d:.33e}"))
        .map_or(d, |exact| decimal_at_place(exact, place, mode).to_f64())
}

/// Rounds to the exponent -place; what has no 34 digits at that exponent stays as it is.
pub(super) fn decimal_at_place(decimal: Decimal128, place: i32, mode: Mode) -> Decimal128 {
    let DecimalParts::Finite {
        negative,
        coefficient,
        exponent,
    } = decimal.parts()
    else {
        return decimal;
    };
    let target = -place;
    if exponent >= target {
        let scale = 10_u128.checked_pow(exponent.abs_diff(target));
        let scaled = scale.and_then(|scale| coefficient.checked_mul(scale));
        return scaled
            .and_then(|scaled| Decimal128::try_from_parts(negative, scaled, target))
            .unwrap_or(decimal);
    }
    let Some(unit) = 10_u128.checked_pow(exponent.abs_diff(target)) else {
        let away =
            coefficient > 0 && matches!((mode, negative), (Mode::Up, false) | (Mode::Down, true));
        return Decimal128::try_from_parts(negative, u128::from(away), target).unwrap_or(decimal);
    };
    let (kept, rest) = (coefficient / unit, coefficient % unit);
    let away = match mode {
        Mode::Down => negative && rest > 0,
        Mode::Up => !negative && rest > 0,
        Mode::TowardsZero => false,
        Mode::HalfToEven => rest > unit - rest || (rest == unit - rest && kept % 2 != 0),
    };
    Decimal128::try_from_parts(negative, kept + u128::from(away), target).unwrap_or(decimal)
}
