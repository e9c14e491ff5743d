//! Running sums of numbers of any type: `Sum` for `$sum` and `$avg`, `Addition` for `$add`. The result has the widest
//! type seen.
//!
//! A `Sum` adds integers exactly and Doubles with the error of each addition carried along, so that the result does not
//! depend on the order in the last digits; beside Decimal128 the exact values of Doubles count. An `Addition` goes from left
//! to right, as MongoDB's does: each number is added to the result so far, in the wider type of the two, Doubles beside
//! Decimal128 by their first 15 digits.

use quarry_bson::Decimal128;

use super::number::{Number, Pair};

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

    fn to_f64(&self) -> f64 {
        let mut total = self.doubles.clone();
        // Both halves are exact: an integer of up to 2^127 is cut into parts that a Double holds.
        let high = (self.integers >> 53) << 53;
        total.add(high as f64);
        total.add((self.integers - high) as f64);
        total.value()
    }

    /// The part of the sum that is no Decimal128, as one of 34 digits: of Doubles their exact values count, as in MongoDB.
    fn binary_part(&self) -> Decimal128 {
        let integers = i64::try_from(self.integers).map_or_else(
            |_| Decimal128::parse_rounded(&self.integers.to_string()).unwrap_or(Decimal128::NAN),
            Decimal128::from_i64,
        );
        if self.widest == Widest::Double {
            integers.add(&self.doubles.to_decimal())
        } else {
            integers
        }
    }
}

/// The sum of the operands of `$add` so far.
#[derive(Debug, Clone)]
pub(crate) struct Addition {
    /// An Int64 as long as all were integers.
    sum: Number,
    /// Nothing but Int32 came, so that the sum is one where it fits.
    is_of_int32: bool,
}

impl Default for Addition {
    fn default() -> Addition {
        Addition {
            sum: Number::Int64(0),
            is_of_int32: true,
        }
    }
}

impl Addition {
    pub(crate) fn add(&mut self, number: Number) {
        self.is_of_int32 &= matches!(number, Number::Int32(_));
        self.sum = match self.sum.with(number) {
            Pair::Int32(a, b) => Number::int(i64::from(a) + i64::from(b)),
            Pair::Int64(a, b) => Number::long(i128::from(a) + i128::from(b)),
            Pair::Double(a, b) => Number::Double(a + b),
            Pair::Decimal(a, b) => Number::Decimal(a.add(&b)),
        };
    }

    pub(crate) fn total(&self) -> Number {
        match self.sum {
            Number::Int64(sum) if self.is_of_int32 => Number::int(sum),
            sum => sum,
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

    /// Both parts, exactly.
    fn to_decimal(&self) -> Decimal128 {
        let sum = Decimal128::from_f64_exact(self.sum);
        if self.sum.is_finite() {
            sum.add(&Decimal128::from_f64_exact(self.error))
        } else {
            sum
        }
    }

    pub(crate) fn value(&self) -> f64 {
        if self.sum.is_finite() {
            self.sum + self.error
        } else {
            self.sum
        }
    }
}
