//! Decimal128 as text: exact reading, and the scientific string of IEEE 754 for writing.

use std::{fmt, str::FromStr};

use super::{
    COEFFICIENT_MAX, DECIMAL_DIGITS_MAX, DECIMAL_EXPONENT_MAX, DECIMAL_EXPONENT_MIN, Decimal128,
    DecimalParts,
};
use crate::{Error, Result};

impl Decimal128 {
    /// Reads decimal text exactly: text that would need rounding, or does not fit the exponent, is refused.
    pub fn parse(text: &str) -> Result<Self> {
        let (negative, body) = split_sign(text);
        if let Some(special) = special(negative, body) {
            return Ok(special);
        }
        let number = Number::read(body)?;
        number.exact(negative).ok_or_else(|| {
            Error::text(
                0,
                format!("a decimal of at most {DECIMAL_DIGITS_MAX} digits in range"),
            )
        })
    }

    /// Reads decimal text and rounds it to 34 digits, half to even; out of range it gives infinity or zero.
    pub fn parse_rounded(text: &str) -> Result<Self> {
        let (negative, body) = split_sign(text);
        match special(negative, body) {
            Some(special) => Ok(special),
            None => Ok(Number::read(body)?.rounded(negative)),
        }
    }
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

fn special(negative: bool, body: &str) -> Option<Decimal128> {
    let is = |word: &str| body.eq_ignore_ascii_case(word);
    if is("nan") {
        Some(Decimal128::NAN)
    } else if is("inf") || is("infinity") {
        Some(if negative {
            Decimal128::NEGATIVE_INFINITY
        } else {
            Decimal128::INFINITY
        })
    } else {
        None
    }
}

/// Digits kept of a text before the rest is only remembered as zero or not.
const KEPT_DIGITS_MAX: u32 = 38;

/// Digits of a text: 0.`kept` digits, then `rest`, scaled.
struct Number {
    /// The first significant digits, at most 38.
    kept: u128,
    kept_len: u32,
    /// The exponent of `kept`'s last digit.
    exponent: i64,
    /// Whether a digit beyond `kept` was not zero.
    rest: bool,
}

impl Number {
    fn read(body: &str) -> Result<Self> {
        let refused = |at: usize| Error::text(at, "a decimal number");
        let (digits, exponent) = match body.find(['e', 'E']) {
            Some(e) => (
                &body[..e],
                read_exponent(&body[e + 1..]).ok_or_else(|| refused(e))?,
            ),
            None => (body, 0),
        };
        let mut number = Self {
            kept: 0,
            kept_len: 0,
            exponent,
            rest: false,
        };
        let (mut seen, mut point) = (false, false);
        for (at, byte) in digits.bytes().enumerate() {
            match byte {
                b'0'..=b'9' => {
                    seen = true;
                    number.push(u128::from(byte - b'0'), point);
                }
                b'.' if !point => point = true,
                _ => return Err(refused(at)),
            }
        }
        if seen { Ok(number) } else { Err(refused(0)) }
    }

    fn push(&mut self, digit: u128, after_point: bool) {
        if self.kept_len < KEPT_DIGITS_MAX {
            self.kept = self.kept * 10 + digit;
            self.kept_len += u32::from(self.kept != 0);
            self.exponent -= i64::from(after_point);
        } else {
            self.rest |= digit != 0;
            self.exponent += i64::from(!after_point);
        }
    }

    /// This number as a Decimal128, if one can hold it exactly: trailing zeros go, or come, to fit the exponent.
    fn exact(&self, negative: bool) -> Option<Decimal128> {
        if self.rest {
            return None;
        }
        let (mut coefficient, mut exponent) = (self.kept, self.exponent);
        if coefficient == 0 {
            let clamped = exponent.clamp(
                i64::from(DECIMAL_EXPONENT_MIN),
                i64::from(DECIMAL_EXPONENT_MAX),
            );
            return Some(Decimal128::from_parts(negative, 0, clamped as i32));
        }
        while (coefficient > COEFFICIENT_MAX || exponent < i64::from(DECIMAL_EXPONENT_MIN))
            && coefficient.is_multiple_of(10)
        {
            coefficient /= 10;
            exponent += 1;
        }
        while exponent > i64::from(DECIMAL_EXPONENT_MAX) && coefficient * 10 <= COEFFICIENT_MAX {
            coefficient *= 10;
            exponent -= 1;
        }
        Decimal128::try_from_parts(negative, coefficient, i32::try_from(exponent).ok()?)
    }

    fn rounded(&self, negative: bool) -> Decimal128 {
        if let Some(exact) = self.exact(negative) {
            return exact;
        }
        let (mut coefficient, mut exponent, mut rest) = (self.kept, self.exponent, self.rest);
        let mut dropped = 0;
        // Bounded: a coefficient has at most 38 digits, after which it is zero.
        while coefficient > COEFFICIENT_MAX
            || (exponent < i64::from(DECIMAL_EXPONENT_MIN) && (coefficient, dropped) != (0, 0))
        {
            rest |= dropped != 0;
            dropped = coefficient % 10;
            coefficient /= 10;
            exponent += 1;
        }
        let up = dropped > 5 || (dropped == 5 && (rest || !coefficient.is_multiple_of(2)));
        coefficient += u128::from(up);
        if coefficient > COEFFICIENT_MAX {
            coefficient /= 10;
            exponent += 1;
        }
        if coefficient == 0 {
            return Decimal128::from_parts(negative, 0, DECIMAL_EXPONENT_MIN);
        }
        let number = Self {
            kept: coefficient,
            kept_len: 0,
            exponent,
            rest: false,
        };
        let infinity = if negative {
            Decimal128::NEGATIVE_INFINITY
        } else {
            Decimal128::INFINITY
        };
        number.exact(negative).unwrap_or(infinity)
    }
}

/// An exponent; beyond any use it stays at a limit instead of overflowing.
fn read_exponent(text: &str) -> Option<i64> {
    const EXPONENT_LIMIT: i64 = 1_000_000_000_000;
    let (negative, digits) = split_sign(text);
    if digits.is_empty() {
        return None;
    }
    let mut exponent = 0i64;
    for byte in digits.bytes() {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        exponent = (exponent * 10 + digit).min(EXPONENT_LIMIT);
    }
    Some(if negative { -exponent } else { exponent })
}

impl FromStr for Decimal128 {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Decimal128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, coefficient, exponent) = match self.parts() {
            DecimalParts::NaN => return f.write_str("NaN"),
            DecimalParts::Infinity { negative: true } => return f.write_str("-Infinity"),
            DecimalParts::Infinity { negative: false } => return f.write_str("Infinity"),
            DecimalParts::Finite {
                negative,
                coefficient,
                exponent,
            } => (negative, coefficient, exponent),
        };
        if negative {
            f.write_str("-")?;
        }
        let digits = coefficient.to_string();
        let adjusted = exponent + digits.len() as i32 - 1;
        if exponent > 0 || adjusted < -6 {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            write!(f, "{first}{point}{rest}E{adjusted:+}")
        } else if exponent == 0 {
            f.write_str(&digits)
        } else {
            let after = exponent.unsigned_abs() as usize;
            if digits.len() > after {
                let (whole, part) = digits.split_at(digits.len() - after);
                write!(f, "{whole}.{part}")
            } else {
                write!(f, "0.{digits:0>after$}")
            }
        }
    }
}

impl fmt::Debug for Decimal128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decimal128({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_both_ways() {
        for text in [
            "0",
            "-0",
            "1",
            "0.1",
            "0.001234",
            "1E-7",
            "1.2345E+7",
            "12345678901234567",
            "NaN",
            "Infinity",
            "-Infinity",
            "9.999999999999999999999999999999999E+6144",
            "1E-6176",
            "0E+6111",
        ] {
            assert_eq!(Decimal128::parse(text).unwrap().to_string(), text);
        }
        for (text, shown) in [
            (".5", "0.5"),
            ("5.", "5"),
            ("+10e1", "1.0E+2"),
            ("inf", "Infinity"),
            ("1e6144", "1.000000000000000000000000000000000E+6144"),
        ] {
            assert_eq!(Decimal128::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_or_rounded() {
        for text in [
            "",
            "-",
            ".",
            "e1",
            "1e",
            "1e+",
            "1..2",
            "1.2.3",
            "0x1",
            " 1",
            "1 ",
            "1e6145",
            "1e-6177",
            "12345678901234567890123456789012345",
        ] {
            assert!(Decimal128::parse(text).is_err(), "{text}");
        }
        let rounded = |text: &str| Decimal128::parse_rounded(text).unwrap().to_string();
        assert_eq!(
            rounded("12345678901234567890123456789012345"),
            "1.234567890123456789012345678901234E+34"
        );
        assert_eq!(
            rounded("12345678901234567890123456789012355"),
            "1.234567890123456789012345678901236E+34"
        );
        assert_eq!(
            rounded("99999999999999999999999999999999995"),
            "1.000000000000000000000000000000000E+35"
        );
        assert_eq!(rounded("-1e7000"), "-Infinity");
        assert_eq!(rounded("1e-7000"), "0E-6176");
        assert_eq!(rounded("1e999999999999999999999"), "Infinity");
        assert_eq!(rounded("7e-6177"), "1E-6176");
        assert_eq!(
            rounded("0.00000000000000000000000000000000000000000000000000001"),
            "1E-53"
        );
    }
}
