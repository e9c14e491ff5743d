//! Numbers of different types compared by their exact values.
//!
//! An Int64 and a Double meet in integers; a decimal and a Double, which share no base, are both scaled to
//! whole numbers of a bounded size and compared limb by limb.

use std::cmp::Ordering;

use crate::{Decimal128, DecimalParts, RawValue};

/// Compares two numbers. Values that are no numbers are equal here; the caller has looked.
#[inline]
pub(super) fn compare(a: RawValue<'_>, b: RawValue<'_>) -> Ordering {
    use RawValue as V;
    match (a, b) {
        (V::Int32(a), V::Int32(b)) => a.cmp(&b),
        (V::Int32(a), V::Int64(b)) => i64::from(a).cmp(&b),
        (V::Int64(a), V::Int32(b)) => a.cmp(&i64::from(b)),
        (V::Int64(a), V::Int64(b)) => a.cmp(&b),
        (V::Double(a), V::Double(b)) => compare_doubles(a, b),
        (V::Double(a), V::Int32(b)) => compare_doubles(a, f64::from(b)),
        (V::Int32(a), V::Double(b)) => compare_doubles(f64::from(a), b),
        (V::Int64(a), V::Double(b)) => compare_int_double(a, b),
        (V::Double(a), V::Int64(b)) => compare_int_double(b, a).reverse(),
        (V::Decimal128(a), V::Decimal128(b)) => compare_decimals(a, b),
        (V::Decimal128(a), V::Double(b)) => compare_decimal_double(a, b),
        (V::Double(a), V::Decimal128(b)) => compare_decimal_double(b, a).reverse(),
        (V::Decimal128(a), V::Int32(b)) => compare_decimals(a, Decimal128::from(b)),
        (V::Int32(a), V::Decimal128(b)) => compare_decimals(Decimal128::from(a), b),
        (V::Decimal128(a), V::Int64(b)) => compare_decimals(a, Decimal128::from(b)),
        (V::Int64(a), V::Decimal128(b)) => compare_decimals(Decimal128::from(a), b),
        _ => Ordering::Equal,
    }
}

/// NaN is below everything and equal to itself.
fn compare_doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

fn compare_int_double(a: i64, b: f64) -> Ordering {
    const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
    if b.is_nan() || b < -TWO_POW_63 {
        return Ordering::Greater;
    }
    if b >= TWO_POW_63 {
        return Ordering::Less;
    }
    // In range, cutting is exact; what was cut off decides between equal whole parts.
    a.cmp(&(b as i64))
        .then_with(|| compare_doubles(0.0, b.fract()))
}

pub(super) fn compare_decimals(a: Decimal128, b: Decimal128) -> Ordering {
    let rank = |d: Decimal128| match d.parts() {
        DecimalParts::NaN => (0, None),
        DecimalParts::Infinity { negative: true } => (1, None),
        DecimalParts::Finite { coefficient: 0, .. } => (3, None),
        DecimalParts::Finite {
            negative: true,
            coefficient,
            exponent,
        } => (2, Some((coefficient, exponent))),
        DecimalParts::Finite {
            negative: false,
            coefficient,
            exponent,
        } => (4, Some((coefficient, exponent))),
        DecimalParts::Infinity { negative: false } => (5, None),
    };
    let ((rank_a, a), (rank_b, b)) = (rank(a), rank(b));
    match (a, b) {
        (Some(a), Some(b)) if rank_a == rank_b => {
            let magnitudes = compare_scaled(a, b);
            if rank_a == 2 {
                magnitudes.reverse()
            } else {
                magnitudes
            }
        }
        _ => rank_a.cmp(&rank_b),
    }
}

/// Compares coefficient * 10^exponent of two coefficients that are not zero.
fn compare_scaled((a, a_exponent): (u128, i32), (b, b_exponent): (u128, i32)) -> Ordering {
    let digits = |c: u128| c.ilog10() as i32 + 1;
    let places = (digits(a) + a_exponent).cmp(&(digits(b) + b_exponent));
    // With as many places before the point, exponents differ by no more than the digits: 33 at most.
    places.then_with(|| match u32::try_from(a_exponent - b_exponent) {
        Ok(shift) => a
            .checked_mul(10u128.pow(shift.min(34)))
            .map_or(Ordering::Greater, |a| a.cmp(&b)),
        Err(_) => {
            let shift = b_exponent.abs_diff(a_exponent).min(34);
            b.checked_mul(10u128.pow(shift))
                .map_or(Ordering::Less, |b| a.cmp(&b))
        }
    })
}

pub(super) fn compare_decimal_double(a: Decimal128, b: f64) -> Ordering {
    if b.is_nan() || b.is_infinite() || b == 0.0 {
        let as_decimal = match b {
            _ if b.is_nan() => Decimal128::NAN,
            _ if b == 0.0 => Decimal128::ZERO,
            _ if b > 0.0 => Decimal128::INFINITY,
            _ => Decimal128::NEGATIVE_INFINITY,
        };
        return compare_decimals(a, as_decimal);
    }
    let DecimalParts::Finite {
        negative,
        coefficient,
        exponent,
    } = a.parts()
    else {
        return if a.is_nan() || a.is_negative() {
            Ordering::Less
        } else {
            Ordering::Greater
        };
    };
    if coefficient == 0 {
        return if b < 0.0 {
            Ordering::Greater
        } else {
            Ordering::Less
        };
    }
    match (negative, b < 0.0) {
        (false, true) => Ordering::Greater,
        (true, false) => Ordering::Less,
        (false, false) => compare_magnitudes(coefficient, exponent, b),
        (true, true) => compare_magnitudes(coefficient, exponent, -b).reverse(),
    }
}

/// Compares coefficient * 10^exponent with a positive finite Double.
fn compare_magnitudes(coefficient: u128, exponent: i32, double: f64) -> Ordering {
    // Doubles lie between 10^-324 and 10^309; a decimal outside is decided by its places, and what is left
    // fits the limbs below.
    let places = coefficient.ilog10() as i32 + 1 + exponent;
    if places > 310 {
        return Ordering::Greater;
    }
    if places < -325 {
        return Ordering::Less;
    }
    let bits = double.to_bits();
    let (fraction, biased) = (bits & ((1 << 52) - 1), (bits >> 52) as i32);
    let (mantissa, power) = if biased == 0 {
        (fraction, -1074)
    } else {
        (fraction | 1 << 52, biased - 1075)
    };

    let mut decimal = Whole::from(coefficient);
    let mut binary = Whole::from(u128::from(mantissa));
    // 10^e = 5^e * 2^e; negative powers go to the other side.
    let (fives, twos) = (exponent.unsigned_abs(), exponent - power);
    let scaled = if exponent >= 0 {
        &mut decimal
    } else {
        &mut binary
    };
    scaled.times_five(fives);
    let shifted = if twos >= 0 { &mut decimal } else { &mut binary };
    shifted.shift_left(twos.unsigned_abs());
    decimal.limbs.iter().rev().cmp(binary.limbs.iter().rev())
}

/// A whole number of up to 2,560 bits. The largest needed: 2^53 * 5^358 shifted by at most 1074 + 358 bits, or
/// 10^34 * 5^310 shifted by at most 310 + 1074.
struct Whole {
    limbs: [u64; Self::LIMBS],
}

impl Whole {
    const LIMBS: usize = 40;

    fn times_five(&mut self, power: u32) {
        const STEP: u32 = 27;
        let mut left = power;
        while left > 0 {
            let step = left.min(STEP);
            self.times(5u64.pow(step));
            left -= step;
        }
    }

    fn times(&mut self, factor: u64) {
        let mut carry = 0u128;
        for limb in &mut self.limbs {
            let product = u128::from(*limb) * u128::from(factor) + carry;
            *limb = product as u64;
            carry = product >> 64;
        }
    }

    fn shift_left(&mut self, bits: u32) {
        let (whole, part) = ((bits / 64) as usize, bits % 64);
        for at in (0..Self::LIMBS).rev() {
            let limb = |i: Option<usize>| {
                i.and_then(|i| self.limbs.get(i))
                    .copied()
                    .unwrap_or_default()
            };
            let low = limb(at.checked_sub(whole));
            let below = limb(at.checked_sub(whole + 1));
            self.limbs[at] = if part == 0 {
                low
            } else {
                low << part | below >> (64 - part)
            };
        }
    }
}

impl From<u128> for Whole {
    fn from(n: u128) -> Self {
        let mut limbs = [0; Self::LIMBS];
        limbs[0] = n as u64;
        limbs[1] = (n >> 64) as u64;
        Self { limbs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_meet_doubles_exactly_at_the_edges() {
        let against = |text: &str, double: f64| {
            compare_decimal_double(Decimal128::parse(text).unwrap(), double)
        };
        assert!(against("1E-325", 5e-324).is_lt());
        assert!(against("4.940656458412465441765687928682214E-324", 5e-324).is_gt());
        assert!(against("4.940656458412465441765687928682213E-324", 5e-324).is_lt());
        assert!(against("1.797693134862315708145274237317043E+308", f64::MAX).is_lt());
        assert!(against("1.797693134862315708145274237317044E+308", f64::MAX).is_gt());
        assert!(against("1E+309", f64::MAX).is_gt());
        assert!(against("-2.5", -2.5).is_eq());
        assert!(against("1E+22", 1e22).is_eq());
        assert!(against("1E+23", 1e23).is_gt());
    }

    #[test]
    fn decimals_of_different_exponents_meet() {
        let d = |text: &str| Decimal128::parse(text).unwrap();
        assert!(compare_decimals(d("9999999999999999999999999999999999"), d("1E34")).is_lt());
        assert!(compare_decimals(d("1.000000000000000000000000000000000"), d("1")).is_eq());
        assert!(compare_decimals(d("1.000000000000000000000000000000001"), d("1")).is_gt());
        assert!(compare_decimals(d("-2"), d("-1E-6000")).is_lt());
        assert!(compare_decimals(d("1E-6176"), d("0")).is_gt());
    }
}
