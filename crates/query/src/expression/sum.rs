//! A running sum of numbers of any type, for `$add`, `$sum` and `$avg`.
//!
//! Integers are added exactly, doubles with the error of each addition carried along, so that the result does
//! not depend on the order in the last digits. The result has the widest type seen.

use quarry_bson::Decimal128;

use super::number::Number;

#[derive(Debug, Clone, Default)]
pub(crate) struct Sum {
    integers: i128,
    doubles: Compensated,
    decimals: Option<Decimal128>,
    widest: Widest,
    count: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Widest {
    #[default]
    Int32,
    Int64,
    Double,
}

impl Sum {
    pub(crate) fn add(&mut self, number: Number) {
        self.count += 1;
        match number {
            // 2^64 additions of 2^63 stay below 2^127.
            Number::Int32(n) => self.integers = self.integers.saturating_add(i128::from(n)),
            Number::Int64(n) => {
                self.integers = self.integers.saturating_add(i128::from(n));
                self.widest = self.widest.max(Widest::Int64);
            }
            Number::Double(d) => {
                self.doubles.add(d);
                self.widest = Widest::Double;
            }
            Number::Decimal(d) => self.decimals = Some(self.decimals.map_or(d, |sum| sum.add(&d))),
        }
    }

    pub(crate) fn total(&self) -> Number {
        if let Some(decimals) = self.decimals {
            return Number::Decimal(decimals.add(&self.binary_part()));
        }
        match self.widest {
            Widest::Int32 => i64::try_from(self.integers)
                .map_or(Number::Double(self.integers as f64), Number::int),
            Widest::Int64 => Number::long(self.integers),
            Widest::Double => Number::Double(self.to_f64()),
        }
    }

    /// The mean, Null for no numbers.
    pub(crate) fn mean(&self) -> Option<Number> {
        if self.count == 0 {
            return None;
        }
        let count = Number::Int64(i64::try_from(self.count).unwrap_or(i64::MAX));
        match self.total() {
            total @ Number::Decimal(_) => total.divide(count),
            _ => Some(Number::Double(self.to_f64() / count.to_f64())),
        }
    }

    /// The sum in whole milliseconds for a date; None if it leaves Int64.
    pub(crate) fn milliseconds(&self) -> Option<i64> {
        if self.decimals.is_some() || self.widest == Widest::Double {
            let fraction =
                self.decimals.map_or(0.0, |decimals| decimals.to_f64()) + self.doubles.value();
            let whole = fraction.round();
            let in_range = whole.is_finite() && whole.abs() < 1e19;
            return in_range
                .then(|| i64::try_from(self.integers + whole as i128).ok())
                .flatten();
        }
        i64::try_from(self.integers).ok()
    }

    fn to_f64(&self) -> f64 {
        let mut total = self.doubles.clone();
        // Both halves are exact: an integer of up to 2^127 is cut into parts that a Double holds.
        let high = (self.integers >> 53) << 53;
        total.add(high as f64);
        total.add((self.integers - high) as f64);
        total.value()
    }

    fn binary_part(&self) -> Decimal128 {
        let integers = i64::try_from(self.integers).map_or_else(
            |_| Decimal128::from_f64(self.integers as f64),
            Decimal128::from_i64,
        );
        if self.widest == Widest::Double {
            integers.add(&Decimal128::from_f64(self.doubles.value()))
        } else {
            integers
        }
    }
}

/// Doubles with the rounding error of each addition kept (Neumaier's variant of Kahan's summation).
#[derive(Debug, Clone, Default)]
pub(crate) struct Compensated {
    sum: f64,
    error: f64,
}

impl Compensated {
    pub(crate) fn add(&mut self, d: f64) {
        let next = self.sum + d;
        let lost = if self.sum.abs() >= d.abs() {
            (self.sum - next) + d
        } else {
            (d - next) + self.sum
        };
        // Infinities and NaN have no error to carry.
        if lost.is_finite() {
            self.error += lost;
        }
        self.sum = next;
    }

    pub(crate) fn value(&self) -> f64 {
        if self.sum.is_finite() {
            self.sum + self.error
        } else {
            self.sum
        }
    }
}
