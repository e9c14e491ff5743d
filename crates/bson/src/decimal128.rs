//! Decimal128: IEEE 754-2008's 128-bit decimal in the binary integer encoding that BSON uses.
//!
//! The bits are taken apart here, text is read and written here, exactly; sums and products are left to a
//! decimal library. Equality and order (`compare/traits.rs`) are numeric: 1.0 equals 1.00, -0 equals 0, NaN equals itself and
//! is the lowest, as MongoDB orders numbers.

mod arithmetic;
mod text;
mod trigonometry;

use std::io::Write;

pub use arithmetic::DecimalRounding;

/// Sixteen bytes, little-endian in a document.
#[derive(Clone, Copy)]
pub struct Decimal128(u128);

/// The number that the bits of a Decimal128 stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalParts {
    /// (-1)^negative * coefficient * 10^exponent.
    Finite {
        /// The sign, which zero has too.
        negative: bool,
        /// At most 34 digits.
        coefficient: u128,
        /// From [`DECIMAL_EXPONENT_MIN`] to [`DECIMAL_EXPONENT_MAX`].
        exponent: i32,
    },
    /// Beyond all numbers of its sign.
    Infinity {
        /// The sign.
        negative: bool,
    },
    /// Not a number, of whatever sign and payload.
    NaN,
}

/// Significant digits of a Decimal128.
pub const DECIMAL_DIGITS_MAX: u32 = 34;
/// The lowest power of ten that scales a coefficient.
pub const DECIMAL_EXPONENT_MIN: i32 = -6176;
/// The highest power of ten that scales a coefficient.
pub const DECIMAL_EXPONENT_MAX: i32 = 6111;

pub(crate) const COEFFICIENT_MAX: u128 = 10u128.pow(DECIMAL_DIGITS_MAX) - 1;
const SIGN: u128 = 1 << 127;
const NAN_BITS: u128 = 0b11111 << 122;
const INFINITY_BITS: u128 = 0b11110 << 122;

impl Decimal128 {
    /// Not a number: below all numbers and equal to itself in MongoDB's order.
    pub const NAN: Self = Self(NAN_BITS);
    /// Above all numbers.
    pub const INFINITY: Self = Self(INFINITY_BITS);
    /// Below all numbers but NaN.
    pub const NEGATIVE_INFINITY: Self = Self(SIGN | INFINITY_BITS);
    /// Zero with the exponent 0, printed `0`.
    pub const ZERO: Self = Self::from_parts(false, 0, 0);

    /// The decimal of sixteen bytes as they stand in a document. Every pattern is one.
    #[inline]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// The sixteen bytes as they stand in a document.
    #[inline]
    pub const fn bytes(&self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// The decimal of 128 bits, sign first. Every pattern is one.
    #[inline]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The 128 bits, sign first.
    #[inline]
    pub const fn to_bits(&self) -> u128 {
        self.0
    }

    /// The number from its parts, which must be in range: at most 34 digits, the exponent within its limits.
    pub(crate) const fn from_parts(negative: bool, coefficient: u128, exponent: i32) -> Self {
        let biased = (exponent - DECIMAL_EXPONENT_MIN) as u128;
        let sign = if negative { SIGN } else { 0 };
        Self(sign | biased << 113 | coefficient)
    }

    /// The number from its parts, or `None` where they do not fit exactly.
    pub fn try_from_parts(negative: bool, coefficient: u128, exponent: i32) -> Option<Self> {
        let fits = coefficient <= COEFFICIENT_MAX
            && (DECIMAL_EXPONENT_MIN..=DECIMAL_EXPONENT_MAX).contains(&exponent);
        fits.then(|| Self::from_parts(negative, coefficient, exponent))
    }

    /// Takes the bits apart. A coefficient beyond 34 digits counts as zero, as IEEE 754 says.
    pub const fn parts(&self) -> DecimalParts {
        let negative = self.is_negative();
        let (exponent, coefficient) = match (self.0 >> 122) & 0b11111 {
            0b11111 => return DecimalParts::NaN,
            0b11110 => return DecimalParts::Infinity { negative },
            0b11000..=0b11101 => ((self.0 >> 111) & 0x3fff, 0),
            _ => ((self.0 >> 113) & 0x3fff, self.0 & ((1 << 113) - 1)),
        };
        let coefficient = if coefficient > COEFFICIENT_MAX {
            0
        } else {
            coefficient
        };
        DecimalParts::Finite {
            negative,
            coefficient,
            exponent: exponent as i32 + DECIMAL_EXPONENT_MIN,
        }
    }

    /// Whether it is NaN.
    pub const fn is_nan(&self) -> bool {
        matches!(self.parts(), DecimalParts::NaN)
    }

    /// Whether it is an infinity of either sign.
    pub const fn is_infinite(&self) -> bool {
        matches!(self.parts(), DecimalParts::Infinity { .. })
    }

    /// Whether it is neither NaN nor an infinity.
    pub const fn is_finite(&self) -> bool {
        matches!(self.parts(), DecimalParts::Finite { .. })
    }

    /// Whether it is zero, of either sign and whatever exponent.
    pub const fn is_zero(&self) -> bool {
        matches!(self.parts(), DecimalParts::Finite { coefficient: 0, .. })
    }

    /// The sign bit, which zero and NaN carry too.
    pub const fn is_negative(&self) -> bool {
        self.0 & SIGN != 0
    }

    /// A whole number, exactly, with the exponent 0.
    pub const fn from_i64(n: i64) -> Self {
        Self::from_parts(n < 0, n.unsigned_abs() as u128, 0)
    }

    /// A Double rounded to 15 significant digits, as MongoDB converts one: 0.1 gives 0.100000000000000.
    pub fn from_f64(d: f64) -> Self {
        if d.is_nan() {
            return Self::NAN;
        }
        if d.is_infinite() {
            return if d > 0.0 {
                Self::INFINITY
            } else {
                Self::NEGATIVE_INFINITY
            };
        }
        if d == 0.0 {
            return Self::from_parts(d.is_sign_negative(), 0, 0);
        }
        let text = format!("{d:.14e}");
        Self::parse(&text).expect("a Double printed with 15 digits is a decimal in range")
    }

    /// A Double's exact value, rounded half to even to 34 digits, as MongoDB adds one to a sum: 0.5 gives 0.5, 0.1
    /// gives 0.1000000000000000055511151231257827.
    pub fn from_f64_exact(d: f64) -> Self {
        if !d.is_finite() || d == 0.0 {
            return Self::from_f64(d);
        }
        // Every Double has at most so many digits behind the first.
        const FRACTION_DIGITS_MAX: usize = 766;
        let text = format!("{d:.FRACTION_DIGITS_MAX$e}");
        let rounded = Self::parse_rounded(&text).expect("a Double printed is a decimal in range");
        let (digits, _) = text.split_once('e').expect("an exponent is printed");
        let significant = digits.trim_end_matches('0').trim_start_matches('-').len() - 1;
        // What needed no rounding has the exponent nearest to 0.
        if significant <= DECIMAL_DIGITS_MAX as usize {
            rounded.without_trailing_zeros()
        } else {
            rounded
        }
    }

    /// This number with the exponent nearest to 0 that its trailing zeros allow.
    pub(crate) fn without_trailing_zeros(&self) -> Self {
        let DecimalParts::Finite {
            negative,
            mut coefficient,
            mut exponent,
        } = self.parts()
        else {
            return *self;
        };
        if coefficient == 0 {
            return Self::from_parts(negative, 0, 0);
        }
        while exponent < 0 && coefficient.is_multiple_of(10) {
            coefficient /= 10;
            exponent += 1;
        }
        Self::from_parts(negative, coefficient, exponent)
    }

    /// The nearest Double.
    pub fn to_f64(&self) -> f64 {
        match self.parts() {
            DecimalParts::NaN => f64::NAN,
            DecimalParts::Infinity { negative: true } => f64::NEG_INFINITY,
            DecimalParts::Infinity { negative: false } => f64::INFINITY,
            DecimalParts::Finite {
                negative,
                coefficient,
                exponent,
            } => {
                let magnitude = nearest_double(coefficient, exponent);
                if negative { -magnitude } else { magnitude }
            }
        }
    }

    /// The value as an Int64, where it is a whole number in range.
    pub fn to_i64_exact(&self) -> Option<i64> {
        let DecimalParts::Finite {
            negative,
            coefficient,
            exponent,
        } = self.parts()
        else {
            return None;
        };
        let magnitude = whole_magnitude(coefficient, exponent)?;
        let signed = i128::try_from(magnitude).ok()?;
        i64::try_from(if negative { -signed } else { signed }).ok()
    }

    /// The value cut to a whole number, where that fits an Int64.
    pub fn to_i64_truncated(&self) -> Option<i64> {
        let DecimalParts::Finite {
            negative,
            coefficient,
            exponent,
        } = self.parts()
        else {
            return None;
        };
        let magnitude = if exponent >= 0 {
            whole_magnitude(coefficient, exponent)?
        } else {
            10u128
                .checked_pow(exponent.unsigned_abs())
                .map_or(0, |scale| coefficient / scale)
        };
        let signed = i128::try_from(magnitude).ok()?;
        i64::try_from(if negative { -signed } else { signed }).ok()
    }

    /// With the other sign.
    #[must_use]
    pub const fn negate(&self) -> Self {
        Self(self.0 ^ SIGN)
    }

    /// Without its sign.
    #[must_use]
    pub const fn abs(&self) -> Self {
        Self(self.0 & !SIGN)
    }

    /// Coefficient and exponent with trailing zeros moved into the exponent: one form for each value.
    pub(crate) fn reduced(coefficient: u128, exponent: i32) -> (u128, i32) {
        let (mut coefficient, mut exponent) = (coefficient, exponent);
        if coefficient == 0 {
            return (0, 0);
        }
        while coefficient.is_multiple_of(10) {
            coefficient /= 10;
            exponent += 1;
        }
        (coefficient, exponent)
    }
}

/// The Double nearest to coefficient * 10^exponent, by way of text on the stack: the standard library's reading
/// of decimal text rounds correctly.
fn nearest_double(coefficient: u128, exponent: i32) -> f64 {
    const TEXT_BYTES_MAX: usize = 64;
    let mut text = [0; TEXT_BYTES_MAX];
    let mut left = &mut text[..];
    write!(left, "{coefficient}e{exponent}").expect("39 digits and an exponent fit 64 bytes");
    let written = TEXT_BYTES_MAX - left.len();
    let text = str::from_utf8(&text[..written]).expect("digits are ASCII");
    text.parse().expect("digits and an exponent are a number")
}

/// coefficient * 10^exponent where that is a whole number of at most 38 digits.
fn whole_magnitude(coefficient: u128, exponent: i32) -> Option<u128> {
    let (coefficient, exponent) = Decimal128::reduced(coefficient, exponent);
    let scale = 10u128.checked_pow(u32::try_from(exponent).ok()?)?;
    coefficient.checked_mul(scale)
}

impl From<i64> for Decimal128 {
    fn from(n: i64) -> Self {
        Self::from_i64(n)
    }
}

impl From<i32> for Decimal128 {
    fn from(n: i32) -> Self {
        Self::from_i64(i64::from(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal128 {
        Decimal128::parse(text).unwrap()
    }

    #[test]
    fn bits_have_the_layout_of_the_specification() {
        assert_eq!(
            decimal("1").bytes()[..],
            [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x30]
        );
        assert_eq!(Decimal128::NAN.to_bits() >> 120, 0x7c);
        assert_eq!(Decimal128::NEGATIVE_INFINITY.to_bits() >> 120, 0xf8);
    }

    #[test]
    fn whole_numbers_leave_exactly() {
        assert_eq!(decimal("1E3").to_i64_exact(), Some(1000));
        assert_eq!(decimal("-12.00").to_i64_exact(), Some(-12));
        assert_eq!(decimal("12.5").to_i64_exact(), None);
        assert_eq!(decimal("-12.9").to_i64_truncated(), Some(-12));
        assert_eq!(decimal("1E-6000").to_i64_truncated(), Some(0));
        assert_eq!(
            decimal("9223372036854775807").to_i64_exact(),
            Some(i64::MAX)
        );
        assert_eq!(
            decimal("-9223372036854775808").to_i64_exact(),
            Some(i64::MIN)
        );
        assert_eq!(decimal("9223372036854775808").to_i64_exact(), None);
        assert_eq!(decimal("1E6000").to_i64_truncated(), None);
    }

    #[test]
    fn doubles_give_their_exact_value_where_it_is_asked_for() {
        for (d, text) in [
            (0.5, "0.5"),
            (0.1, "0.1000000000000000055511151231257827"),
            (-2.5, "-2.5"),
            (3.0, "3"),
            (1e22, "10000000000000000000000"),
            (1e300, "1.000000000000000052504760255204420E+300"),
            (5e-324, "4.940656458412465441765687928682214E-324"),
            (0.0, "0"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(Decimal128::from_f64_exact(d).to_string(), text, "{d}");
        }
    }

    #[test]
    fn doubles_round_to_fifteen_digits() {
        assert_eq!(Decimal128::from_f64(0.1).to_string(), "0.100000000000000");
        assert_eq!(Decimal128::from_f64(2.5).to_string(), "2.50000000000000");
        assert_eq!(Decimal128::from_f64(-0.0).to_string(), "-0");
        assert_eq!(
            Decimal128::from_f64(f64::MIN_POSITIVE).to_f64(),
            2.225_073_858_507_20e-308
        );
        assert_eq!(decimal("1E400").to_f64(), f64::INFINITY);
        assert!(decimal("NaN").to_f64().is_nan());
    }
}
