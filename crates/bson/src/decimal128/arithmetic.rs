//! Decimal arithmetic, by IEEE 754-2008: 34 digits, half to even unless a rounding is given.
//!
//! Roots, powers, exponentials and logarithms are computed to 50 digits and rounded once, so that the last of the 34
//! is right but where the exact value lies within 10^-15 of the middle between two numbers.
//!
//! decNumber does the work. Its numbers are the same as BSON's in another encoding, so a value goes over by
//! coefficient and exponent. The remainder alone is computed here: decNumber gives up where the quotient
//! exceeds 34 digits, MongoDB does not.

use dec::Context;

use super::{COEFFICIENT_MAX, DECIMAL_DIGITS_MAX, Decimal128, DecimalParts};

type Library = dec::Decimal128;

/// Where a result lies between two representable numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalRounding {
    /// The nearest; of two as near the one whose last digit is even.
    HalfEven,
    /// The nearest; of two as near the one farther from zero.
    HalfAwayFromZero,
    /// The one nearer to zero: digits are cut off.
    TowardZero,
    /// The lower one.
    Floor,
    /// The higher one.
    Ceiling,
}

impl Decimal128 {
    /// The sum, rounded half to even to 34 digits.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        both(self, other, Context::<Library>::add)
    }

    /// The difference, rounded half to even to 34 digits.
    #[must_use]
    pub fn sub(&self, other: &Self) -> Self {
        both(self, other, Context::<Library>::sub)
    }

    /// The product, rounded half to even to 34 digits.
    #[must_use]
    pub fn mul(&self, other: &Self) -> Self {
        both(self, other, Context::<Library>::mul)
    }

    /// Division by zero gives infinity, and NaN for zero by zero.
    #[must_use]
    pub fn div(&self, other: &Self) -> Self {
        both(self, other, Context::<Library>::div)
    }

    /// The exact remainder of truncated division. It has the sign of `self`.
    #[must_use]
    pub fn rem(&self, other: &Self) -> Self {
        use DecimalParts as P;
        match (self.parts(), other.parts()) {
            (P::Finite { .. }, P::Infinity { .. }) => *self,
            (_, P::Finite { coefficient: 0, .. }) => Self::NAN,
            (
                P::Finite {
                    negative,
                    coefficient: a,
                    exponent: a_exponent,
                },
                P::Finite {
                    coefficient: b,
                    exponent: b_exponent,
                    ..
                },
            ) => match remainder(a, a_exponent, b, b_exponent) {
                Some(left) => Self::from_parts(negative, left, a_exponent.min(b_exponent)),
                None => *self,
            },
            _ => Self::NAN,
        }
    }

    /// The greatest whole number that is not greater.
    #[must_use]
    pub fn floor(&self) -> Self {
        self.round_to_integral(DecimalRounding::Floor)
    }

    /// The least whole number that is not less.
    #[must_use]
    pub fn ceil(&self) -> Self {
        self.round_to_integral(DecimalRounding::Ceiling)
    }

    /// The whole number left when the fraction is cut off.
    #[must_use]
    pub fn trunc(&self) -> Self {
        self.round_to_integral(DecimalRounding::TowardZero)
    }

    /// To the nearest whole number, half to even.
    #[must_use]
    pub fn round(&self) -> Self {
        self.round_to_integral(DecimalRounding::HalfEven)
    }

    /// A whole number next to this one, by the rounding given.
    #[must_use]
    pub fn round_to_integral(&self, rounding: DecimalRounding) -> Self {
        let mut context = context(rounding);
        from_library(context.round(to_library(self)))
    }

    /// Rounded to a multiple of 10^`exponent`, with exactly that exponent; NaN where that needs more than 34
    /// digits.
    #[must_use]
    pub fn quantize(&self, exponent: i32, rounding: DecimalRounding) -> Self {
        let Some(unit) = Self::try_from_parts(false, 1, exponent) else {
            return Self::NAN;
        };
        let mut context = context(rounding);
        from_library(context.quantize(to_library(self), to_library(&unit)))
    }

    /// The square root; NaN below zero.
    #[must_use]
    pub fn sqrt(&self) -> Self {
        // Rounded correctly by the library at any precision: rounding twice would not be.
        let mut context = wide_context(DECIMAL_DIGITS_MAX);
        let mut value = Wide::from(to_library(self));
        context.sqrt(&mut value);
        from_wide(&value)
    }

    /// e to the power of `self`.
    #[must_use]
    pub fn exp(&self) -> Self {
        wide(self, Context::exp)
    }

    /// The natural logarithm.
    #[must_use]
    pub fn ln(&self) -> Self {
        wide(self, Context::ln)
    }

    /// The logarithm to base 10.
    #[must_use]
    pub fn log10(&self) -> Self {
        wide(self, Context::log10)
    }

    /// The logarithm to a base; whole where it is within 34 digits of being so, as that of 8 to the base 2.
    #[must_use]
    pub fn log(&self, base: &Self) -> Self {
        if *base == Self::from_i64(10) {
            return self.log10();
        }
        let mut radix = Wide::from(to_library(base));
        wide_context(WIDE_DIGITS).ln(&mut radix);
        let quotient = wide(self, |context, n| {
            context.ln(n);
            context.div(n, &radix);
        });
        quotient.without_trailing_zeros()
    }

    /// `self` to the power of `exponent`, by the rules of C99, which differ from the library's: whatever is to the power
    /// of zero is 1, and a negative number to the power of any whole number has a result.
    #[must_use]
    pub fn pow(&self, exponent: &Self) -> Self {
        let one = Self::from_i64(1);
        let is_one = self.abs() == one && (exponent.is_infinite() || !self.is_negative());
        if exponent.is_zero() || (is_one && !exponent.is_finite()) {
            return one;
        }
        let is_whole = exponent.is_finite() && exponent.trunc() == *exponent;
        // Infinity counts as an even number.
        if self.is_negative() && !self.is_nan() && (is_whole || exponent.is_infinite()) {
            let is_odd = is_whole && !exponent.rem(&Self::from_i64(2)).is_zero();
            let power = self.abs().power_of_positive(exponent);
            return if is_odd { power.negate() } else { power };
        }
        self.power_of_positive(exponent)
    }

    fn power_of_positive(&self, exponent: &Self) -> Self {
        let exponent = Wide::from(to_library(exponent));
        wide(self, |context, n| context.pow(n, &exponent))
    }
}

/// Space for 51 digits, three to a unit.
type Wide = dec::Decimal<17>;

/// Digits of what is rounded afterwards.
const WIDE_DIGITS: u32 = 50;

fn wide(n: &Decimal128, compute: impl Fn(&mut Context<Wide>, &mut Wide)) -> Decimal128 {
    let mut value = Wide::from(to_library(n));
    compute(&mut wide_context(WIDE_DIGITS), &mut value);
    from_wide(&value)
}

fn wide_context(digits: u32) -> Context<Wide> {
    let mut context = Context::<Wide>::default();
    let limited = context.set_precision(digits as usize).is_ok()
        && context.set_max_exponent(EXPONENT_LIMIT).is_ok()
        && context.set_min_exponent(-EXPONENT_LIMIT).is_ok();
    assert!(
        limited,
        "decNumber takes 50 digits and exponents below a million"
    );
    context
}

fn from_wide(value: &Wide) -> Decimal128 {
    from_library(value.to_decimal128())
}

/// Beyond Decimal128's exponents, so that overflow is decided once, by the conversion back; below the million
/// at which the library's functions give up.
const EXPONENT_LIMIT: isize = 99_999;

fn both(
    a: &Decimal128,
    b: &Decimal128,
    compute: impl Fn(&mut Context<Library>, Library, Library) -> Library,
) -> Decimal128 {
    let mut context = context(DecimalRounding::HalfEven);
    from_library(compute(&mut context, to_library(a), to_library(b)))
}

fn context(rounding: DecimalRounding) -> Context<Library> {
    let mut context = Context::<Library>::default();
    context.set_rounding(match rounding {
        DecimalRounding::HalfEven => dec::Rounding::HalfEven,
        DecimalRounding::HalfAwayFromZero => dec::Rounding::HalfUp,
        DecimalRounding::TowardZero => dec::Rounding::Down,
        DecimalRounding::Floor => dec::Rounding::Floor,
        DecimalRounding::Ceiling => dec::Rounding::Ceiling,
    });
    context
}

pub(super) fn to_library(n: &Decimal128) -> Library {
    match n.parts() {
        DecimalParts::NaN => Library::NAN,
        DecimalParts::Infinity { negative: false } => infinity(),
        DecimalParts::Infinity { negative: true } => negated(infinity()),
        DecimalParts::Finite {
            negative,
            coefficient,
            exponent,
        } => {
            let mut context = Context::<Library>::default();
            let mut number = context.from_u128(coefficient);
            context.set_exponent(&mut number, exponent);
            if negative { negated(number) } else { number }
        }
    }
}

/// Infinity in decNumber's encoding, which has no name for it.
fn infinity() -> Library {
    Library::from_be_bytes([0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// The number with its sign bit set; the library's own negation loses the sign of zero.
fn negated(n: Library) -> Library {
    let mut bytes = n.to_be_bytes();
    bytes[0] |= 0x80;
    Library::from_be_bytes(bytes)
}

pub(super) fn from_library(n: Library) -> Decimal128 {
    if n.is_nan() {
        return Decimal128::NAN;
    }
    if n.is_infinite() {
        return if n.is_signed() {
            Decimal128::NEGATIVE_INFINITY
        } else {
            Decimal128::INFINITY
        };
    }
    Decimal128::from_parts(n.is_signed(), n.coefficient().unsigned_abs(), n.exponent())
}

/// a * 10^a_exponent modulo b * 10^b_exponent in units of the smaller exponent; `None`: a is the smaller number.
fn remainder(a: u128, a_exponent: i32, b: u128, b_exponent: i32) -> Option<u128> {
    let Ok(mut shift) = u32::try_from(a_exponent - b_exponent) else {
        let scale = 10u128.checked_pow(a_exponent.abs_diff(b_exponent))?;
        let b = b.checked_mul(scale)?;
        return if b > COEFFICIENT_MAX && a < b {
            None
        } else {
            Some(a % b)
        };
    };
    // Three digits a step: a remainder has at most 34, a u128 holds 38. Exponents differ by 12,287 at most.
    const STEP: u32 = 3;
    let mut left = a % b;
    while shift > 0 && left > 0 {
        let step = shift.min(STEP);
        left = left * 10u128.pow(step) % b;
        shift -= step;
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal128 {
        Decimal128::parse(text).unwrap()
    }

    #[test]
    fn values_cross_into_the_library_and_back_unchanged() {
        for text in [
            "0",
            "-0",
            "0E-6176",
            "-0E+6111",
            "1",
            "-1.50",
            "9.999999999999999999999999999999999E+6144",
            "1E-6176",
            "-1234567890123456789012345678901234",
        ] {
            assert_eq!(
                from_library(to_library(&d(text))).to_bits(),
                d(text).to_bits(),
                "{text}"
            );
        }
    }

    #[test]
    fn sums_and_products_round_to_34_digits() {
        assert_eq!(d("0.1").add(&d("0.2")).to_string(), "0.3");
        assert_eq!(d("1.20").sub(&d("1.2")).to_string(), "0.00");
        assert_eq!(d("1.5").mul(&d("-2.00")).to_string(), "-3.000");
        assert_eq!(
            d("1").div(&d("3")).to_string(),
            "0.3333333333333333333333333333333333"
        );
        assert_eq!(d("1").div(&d("8")).to_string(), "0.125");
        assert_eq!(d("1").div(&d("-0")).to_string(), "-Infinity");
        assert_eq!(d("0").div(&d("0")).to_string(), "NaN");
        assert_eq!(d("9E+6144").mul(&d("10")).to_string(), "Infinity");
        assert_eq!(
            d("9999999999999999999999999999999999")
                .add(&d("1"))
                .to_string(),
            "1.000000000000000000000000000000000E+34"
        );
        assert_eq!(d("Infinity").sub(&d("Infinity")).to_string(), "NaN");
    }

    #[test]
    fn remainders_are_exact_however_far_apart() {
        for (a, b, left) in [
            ("7", "3", "1"),
            ("-7", "3", "-1"),
            ("7.5", "-2", "1.5"),
            ("1E+6000", "7", "1"),
            ("5", "1E+100", "5"),
            ("1E-3", "1", "0.001"),
            ("6.00", "3", "0.00"),
            ("5", "Infinity", "5"),
            ("5", "0", "NaN"),
            ("Infinity", "2", "NaN"),
            ("NaN", "2", "NaN"),
        ] {
            assert_eq!(d(a).rem(&d(b)).to_string(), left, "{a} % {b}");
        }
    }

    #[test]
    fn rounding_goes_where_it_is_told() {
        assert_eq!(d("-2.5").floor().to_string(), "-3");
        assert_eq!(d("-2.5").ceil().to_string(), "-2");
        assert_eq!(d("-2.5").trunc().to_string(), "-2");
        assert_eq!(d("2.5").round().to_string(), "2");
        assert_eq!(
            d("2.345")
                .quantize(-2, DecimalRounding::HalfEven)
                .to_string(),
            "2.34"
        );
        assert_eq!(
            d("2.345")
                .quantize(-2, DecimalRounding::HalfAwayFromZero)
                .to_string(),
            "2.35"
        );
        assert_eq!(
            d("2345")
                .quantize(2, DecimalRounding::TowardZero)
                .to_string(),
            "2.3E+3"
        );
        assert_eq!(
            d("1E+40")
                .quantize(0, DecimalRounding::HalfEven)
                .to_string(),
            "NaN"
        );
    }

    /// Against Python's decimal module, at 120 digits and rounded once, and mpmath for the functions of `trigonometry.rs`.
    /// To make the file anew:
    ///
    /// ```text
    /// wide = decimal.Context(prec=120, Emax=999999, Emin=-999999)
    /// narrow = decimal.Context(prec=34, Emax=6144, Emin=-6143)
    /// print("ln", a, "=>", narrow.plus(wide.ln(a)))     # sqrt, log10, exp, power(a, b), divide(ln(a), ln(b))
    /// ```
    #[test]
    fn functions_are_right_to_the_last_digit() {
        let reference = include_str!("reference.txt");
        let mut lines = 0;
        for line in reference.lines().filter(|line| !line.starts_with('#')) {
            let (call, wanted) = line.split_once(" => ").unwrap();
            let words: Vec<&str> = call.split(' ').collect();
            let a = d(words[1]);
            let found = match words[0] {
                "sqrt" => a.sqrt(),
                "exp" => a.exp(),
                "ln" => a.ln(),
                "log10" => a.log10(),
                "pow" => a.pow(&d(words[2])),
                "log" => a.log(&d(words[2])),
                "atan2" => a.atan2(&d(words[2])),
                "sin" => a.sin(),
                "cos" => a.cos(),
                "tan" => a.tan(),
                "asin" => a.asin(),
                "acos" => a.acos(),
                "atan" => a.atan(),
                "sinh" => a.sinh(),
                "cosh" => a.cosh(),
                "tanh" => a.tanh(),
                "asinh" => a.asinh(),
                "acosh" => a.acosh(),
                "atanh" => a.atanh(),
                other => panic!("unknown function {other}"),
            };
            // Equal as numbers: how many zeros end an exact result is each library's own.
            assert_eq!(found, d(wanted), "{line}: {found}");
            lines += 1;
        }
        assert!(lines > 400);
    }

    #[test]
    fn powers_keep_to_the_rules_of_c99() {
        for (base, exponent, wanted) in [
            ("0", "0", "1"),
            ("-0", "0E+3", "1"),
            ("NaN", "0", "1"),
            ("-Infinity", "-0", "1"),
            ("1", "NaN", "1"),
            ("-1", "NaN", "NaN"),
            ("NaN", "2", "NaN"),
            ("-1", "Infinity", "1"),
            ("-1", "-Infinity", "1"),
            ("1", "-Infinity", "1"),
            ("-2", "Infinity", "Infinity"),
            ("-2", "-Infinity", "0"),
            ("-0.5", "Infinity", "0"),
            ("-Infinity", "3", "-Infinity"),
            ("-Infinity", "4", "Infinity"),
            ("-0", "3", "-0"),
            ("-0", "4", "0"),
            ("-1", "3000000000", "1"),
            ("-1", "3000000001", "-1"),
            ("-1", "1E+40", "1"),
            ("-1", "-3000000001", "-1"),
            ("-1.5", "3000000001", "-Infinity"),
            ("-2", "0.5", "NaN"),
            ("-2", "3", "-8"),
            ("-2", "-3", "-0.125"),
            ("-2", "4.0", "16"),
        ] {
            let found = d(base).pow(&d(exponent));
            assert_eq!(found, d(wanted), "{base} ** {exponent} is {found}");
            assert_eq!(
                found.is_negative(),
                d(wanted).is_negative(),
                "{base} ** {exponent}"
            );
        }
        // The same digits as without the signs.
        let (base, exponent) = (d("1.00000000012345"), d("3000000001"));
        let found = base.negate().pow(&exponent);
        assert_eq!(found, base.pow(&exponent).negate());
    }

    #[test]
    fn logarithms_of_powers_are_whole() {
        for (n, base, wanted) in [
            ("8", "2", "3"),
            ("1000", "10", "3"),
            ("0.125", "2", "-3"),
            ("1", "7", "0"),
            ("3", "9", "0.5"),
        ] {
            assert_eq!(d(n).log(&d(base)).to_string(), wanted, "{n} to {base}");
        }
    }

    #[test]
    fn roots_powers_and_logarithms() {
        assert_eq!(
            d("2").sqrt().to_string(),
            "1.414213562373095048801688724209698"
        );
        assert_eq!(d("-1").sqrt().to_string(), "NaN");
        assert_eq!(d("100").log10().to_string(), "2");
        assert_eq!(
            d("1").exp().to_string(),
            "2.718281828459045235360287471352662"
        );
        assert_eq!(
            d("10").ln().to_string(),
            "2.302585092994045684017991454684364"
        );
        assert_eq!(d("2").pow(&d("10")).to_string(), "1024");
        assert_eq!(
            d("2").pow(&d("0.5")).to_string(),
            "1.414213562373095048801688724209698"
        );
    }
}
