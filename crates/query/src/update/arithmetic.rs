//! The numbers of `$inc`, `$mul` and `$bit`. A result is as wide as its widest operand (Int32, Int64, Double,
//! Decimal128); an Int32 that overflows becomes an Int64, an Int64 that overflows is an error.

use quarry_bson::{Decimal128, RawValue};

/// None if the result does not fit an Int64, or an operand is no number.
pub(super) fn add<'a>(a: RawValue<'_>, b: RawValue<'_>) -> Option<RawValue<'a>> {
    combine(a, b, i64::checked_add, |a, b| a + b, |a, b| a.add(&b))
}

/// As [`add`].
pub(super) fn multiply<'a>(a: RawValue<'_>, b: RawValue<'_>) -> Option<RawValue<'a>> {
    combine(a, b, i64::checked_mul, |a, b| a * b, |a, b| a.mul(&b))
}

fn combine<'a>(
    a: RawValue<'_>,
    b: RawValue<'_>,
    whole: fn(i64, i64) -> Option<i64>,
    double: fn(f64, f64) -> f64,
    decimal: fn(Decimal128, Decimal128) -> Decimal128,
) -> Option<RawValue<'a>> {
    match (a, b) {
        (RawValue::Int32(a), RawValue::Int32(b)) => {
            // Two Int32s never overflow an Int64.
            let result = whole(i64::from(a), i64::from(b))?;
            Some(i32::try_from(result).map_or(RawValue::Int64(result), RawValue::Int32))
        }
        (RawValue::Decimal128(_), _) | (_, RawValue::Decimal128(_)) => Some(RawValue::Decimal128(
            decimal(as_decimal(a)?, as_decimal(b)?),
        )),
        (RawValue::Double(_), _) | (_, RawValue::Double(_)) => Some(RawValue::Double(double(
            a.as_f64_lossy()?,
            b.as_f64_lossy()?,
        ))),
        _ => whole(a.as_i64_exact()?, b.as_i64_exact()?).map(RawValue::Int64),
    }
}

/// Zero of a number's own type: what `$mul` starts a missing field with.
pub(super) fn zero_like<'a>(number: RawValue<'_>) -> RawValue<'a> {
    match number {
        RawValue::Int64(_) => RawValue::Int64(0),
        RawValue::Double(_) => RawValue::Double(0.0),
        RawValue::Decimal128(_) => RawValue::Decimal128(Decimal128::from_i64(0)),
        _ => RawValue::Int32(0),
    }
}

fn as_decimal(number: RawValue<'_>) -> Option<Decimal128> {
    match number {
        RawValue::Int32(number) => Some(Decimal128::from_i64(i64::from(number))),
        RawValue::Int64(number) => Some(Decimal128::from_i64(number)),
        RawValue::Double(number) => Some(Decimal128::from_f64(number)),
        RawValue::Decimal128(number) => Some(number),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BitOp {
    And,
    Or,
    Xor,
}

/// One bitwise step. None if an operand is not a whole-number type.
pub(super) fn bitwise<'a>(op: BitOp, a: RawValue<'_>, b: RawValue<'_>) -> Option<RawValue<'a>> {
    let apply = |a: i64, b: i64| match op {
        BitOp::And => a & b,
        BitOp::Or => a | b,
        BitOp::Xor => a ^ b,
    };
    match (a, b) {
        (RawValue::Int32(a), RawValue::Int32(b)) => {
            Some(RawValue::Int32(apply(a.into(), b.into()) as i32))
        }
        (RawValue::Int32(_) | RawValue::Int64(_), RawValue::Int32(_) | RawValue::Int64(_)) => {
            Some(RawValue::Int64(apply(a.as_i64_exact()?, b.as_i64_exact()?)))
        }
        _ => None,
    }
}
