//! Numbers of MongoDB's four types and the rules by which their types mix: Int32, Int64, Double, Decimal128,
//! the wider wins; Int32 grows to Int64 and Int64 to Double where a result does not fit.

use quarry_bson::{Decimal128, RawValue};

use super::Evaluated;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal(Decimal128),
}

/// Two numbers brought to one type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pair {
    Int32(i32, i32),
    Int64(i64, i64),
    Double(f64, f64),
    Decimal(Decimal128, Decimal128),
}

impl Number {
    pub(crate) fn from_raw(value: RawValue<'_>) -> Option<Number> {
        match value {
            RawValue::Int32(n) => Some(Number::Int32(n)),
            RawValue::Int64(n) => Some(Number::Int64(n)),
            RawValue::Double(d) => Some(Number::Double(d)),
            RawValue::Decimal128(d) => Some(Number::Decimal(d)),
            _ => None,
        }
    }

    pub(crate) fn raw(self) -> RawValue<'static> {
        match self {
            Number::Int32(n) => RawValue::Int32(n),
            Number::Int64(n) => RawValue::Int64(n),
            Number::Double(d) => RawValue::Double(d),
            Number::Decimal(d) => RawValue::Decimal128(d),
        }
    }

    /// Int32 where it fits, Int64 else.
    pub(crate) fn int(n: i64) -> Number {
        i32::try_from(n).map_or(Number::Int64(n), Number::Int32)
    }

    /// Int64 where it fits, Double else.
    pub(crate) fn long(n: i128) -> Number {
        i64::try_from(n).map_or(Number::Double(n as f64), Number::Int64)
    }

    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Number::Int32(n) => f64::from(n),
            Number::Int64(n) => n as f64,
            Number::Double(d) => d,
            Number::Decimal(d) => d.to_f64(),
        }
    }

    pub(crate) fn to_decimal(self) -> Decimal128 {
        match self {
            Number::Int32(n) => Decimal128::from_i64(i64::from(n)),
            Number::Int64(n) => Decimal128::from_i64(n),
            Number::Double(d) => Decimal128::from_f64(d),
            Number::Decimal(d) => d,
        }
    }

    /// The nearest whole number, halves away from zero; None if it leaves Int64.
    pub(crate) fn rounded(self) -> Option<i64> {
        match self {
            Number::Int32(n) => Some(i64::from(n)),
            Number::Int64(n) => Some(n),
            Number::Double(d) => RawValue::Double(d.round()).as_i64_exact(),
            Number::Decimal(d) => d
                .to_i64_exact()
                .or_else(|| RawValue::Double(d.to_f64().round()).as_i64_exact()),
        }
    }

    /// Whether it is above zero, as its own kind says: a Decimal128 may be too small for a Double.
    pub(crate) fn is_positive(self) -> bool {
        match self {
            Number::Decimal(d) => !d.is_nan() && !d.is_negative() && !d.is_zero(),
            other => other.to_f64() > 0.0,
        }
    }

    /// Whether it is below zero.
    pub(crate) fn is_negative(self) -> bool {
        match self {
            Number::Decimal(d) => !d.is_nan() && d.is_negative() && !d.is_zero(),
            other => other.to_f64() < 0.0,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        match self {
            Number::Decimal(d) => d.is_zero(),
            other => other.to_f64() == 0.0,
        }
    }

    pub(crate) fn is_one(self) -> bool {
        match self {
            Number::Decimal(d) => d == Decimal128::from_i64(1),
            other => other.to_f64() == 1.0,
        }
    }

    pub(crate) fn is_nan(self) -> bool {
        match self {
            Number::Double(d) => d.is_nan(),
            Number::Decimal(d) => d.is_nan(),
            _ => false,
        }
    }

    pub(crate) fn with(self, other: Number) -> Pair {
        match (self, other) {
            (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
                Pair::Decimal(self.to_decimal(), other.to_decimal())
            }
            (Number::Double(_), _) | (_, Number::Double(_)) => {
                Pair::Double(self.to_f64(), other.to_f64())
            }
            (Number::Int32(a), Number::Int32(b)) => Pair::Int32(a, b),
            (a, b) => Pair::Int64(a.integer(), b.integer()),
        }
    }

    fn integer(self) -> i64 {
        match self {
            Number::Int32(n) => i64::from(n),
            Number::Int64(n) => n,
            Number::Double(_) | Number::Decimal(_) => 0,
        }
    }

    pub(crate) fn add(self, other: Number) -> Number {
        match self.with(other) {
            Pair::Int32(a, b) => Number::int(i64::from(a) + i64::from(b)),
            Pair::Int64(a, b) => Number::long(i128::from(a) + i128::from(b)),
            Pair::Double(a, b) => Number::Double(a + b),
            Pair::Decimal(a, b) => Number::Decimal(a.add(&b)),
        }
    }

    pub(crate) fn subtract(self, other: Number) -> Number {
        match self.with(other) {
            Pair::Int32(a, b) => Number::int(i64::from(a) - i64::from(b)),
            Pair::Int64(a, b) => Number::long(i128::from(a) - i128::from(b)),
            Pair::Double(a, b) => Number::Double(a - b),
            Pair::Decimal(a, b) => Number::Decimal(a.sub(&b)),
        }
    }

    pub(crate) fn multiply(self, other: Number) -> Number {
        match self.with(other) {
            Pair::Int32(a, b) => Number::int(i64::from(a) * i64::from(b)),
            Pair::Int64(a, b) => Number::long(i128::from(a) * i128::from(b)),
            Pair::Double(a, b) => Number::Double(a * b),
            Pair::Decimal(a, b) => Number::Decimal(a.mul(&b)),
        }
    }

    /// The quotient, always Double or Decimal128; None for a divisor of zero.
    pub(crate) fn divide(self, other: Number) -> Option<Number> {
        match self.with(other) {
            Pair::Decimal(_, b) if b.is_zero() => None,
            Pair::Decimal(a, b) => Some(Number::Decimal(a.div(&b))),
            _ => {
                let divisor = other.to_f64();
                (divisor != 0.0).then(|| Number::Double(self.to_f64() / divisor))
            }
        }
    }
}

impl From<Number> for Evaluated<'_> {
    fn from(number: Number) -> Self {
        Evaluated::Raw(number.raw())
    }
}
