//! Numbers of all four types in one exact order.
//!
//! A magnitude from 1 up to 2^63 is its whole part, shifted left by one, in as few big-endian bytes
//! as hold it; the type byte carries sign and number of bytes, and the freed lowest bit says whether a
//! fraction follows. Smaller and larger magnitudes are the bits of a Double, which order as the
//! values do. Fractions and Double bits stand seven bits a byte, the lowest bit saying whether more
//! follows, so short ones stay short. A Decimal128 between two Doubles is the one below it, every
//! group marked as followed, and then its own digits: above that Double, below the next.
//! Negative numbers have all bytes behind the type byte inverted.

use std::cmp::Ordering;

use quarry_bson::compare::compare_numbers;
use quarry_bson::{Decimal128, DecimalParts, RawValue, Value};

use crate::TypeBits;
use crate::error::Result;
use crate::reader::Reader;
use crate::type_bits::Tag;
use crate::type_byte as byte;

const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
/// Bits of a fraction of a Double that is 1 or more.
const FRACTION_BITS: u32 = 52;
const FRACTION_GROUPS: usize = 8;
/// Bits of a Double without its sign: nine groups exactly.
const DOUBLE_BITS: u32 = 63;
const DOUBLE_GROUPS: usize = 9;
const COMMON_NAN_BITS: u64 = 0x7FF8_0000_0000_0000;
/// Makes the exponent of the first digit of every Decimal128 positive.
const EXPONENT_BIAS: i32 = 6200;
const DIGIT_PAIRS_MAX: usize = 17;

#[inline]
pub(crate) fn append_i32(out: &mut Vec<u8>, type_bits: &mut TypeBits, n: i32) {
    type_bits.push_default();
    append_whole(out, n < 0, u64::from(n.unsigned_abs()));
}

#[inline]
pub(crate) fn append_i64(out: &mut Vec<u8>, type_bits: &mut TypeBits, n: i64) {
    if i32::try_from(n).is_ok() || n == i64::MIN {
        type_bits.push(Tag::Int64);
    } else {
        type_bits.push_default();
    }
    if n == i64::MIN {
        // The one Int64 whose magnitude, 2^63, does not leave a bit to shift into.
        return append_double_bits(out, true, TWO_POW_63, None);
    }
    append_whole(out, n < 0, n.unsigned_abs());
}

pub(crate) fn append_f64(out: &mut Vec<u8>, type_bits: &mut TypeBits, d: f64) {
    let magnitude = d.abs();
    if d.is_nan() {
        match d.to_bits() {
            COMMON_NAN_BITS => type_bits.push_default(),
            bits => type_bits.push(Tag::DoubleBits(bits.to_le_bytes())),
        }
        return out.push(byte::NAN);
    }
    if (1.0..TWO_POW_63).contains(&magnitude) {
        let whole = magnitude as u64;
        let fraction = magnitude.fract();
        if fraction == 0.0 {
            type_bits.push(Tag::Double);
            return append_whole(out, d < 0.0, whole);
        }
        type_bits.push_default();
        // Exact: a Double of 1 or more has no bit below 2^-52.
        let bits = (fraction * (1u64 << FRACTION_BITS) as f64) as u64;
        return append_fraction(out, d < 0.0, whole, bits, None);
    }
    match d.to_bits() {
        0 => type_bits.push(Tag::Double),
        bits if bits == (-0.0f64).to_bits() => type_bits.push(Tag::NegativeZero),
        _ => type_bits.push_default(),
    }
    append_special(out, d);
}

pub(crate) fn append_decimal(out: &mut Vec<u8>, type_bits: &mut TypeBits, d: Decimal128) {
    type_bits.push(Tag::Decimal128(d.bytes()));
    match d.parts() {
        DecimalParts::NaN => out.push(byte::NAN),
        DecimalParts::Infinity { negative } => append_special(out, signed_infinity(negative)),
        DecimalParts::Finite { coefficient: 0, .. } => out.push(byte::ZERO),
        DecimalParts::Finite {
            negative,
            coefficient,
            exponent,
        } => {
            append_finite_decimal(out, d, negative, coefficient, exponent);
        }
    }
}

fn signed_infinity(negative: bool) -> f64 {
    if negative {
        f64::NEG_INFINITY
    } else {
        f64::INFINITY
    }
}

/// A Double that is zero, infinite, below 1 or from 2^63 on.
fn append_special(out: &mut Vec<u8>, d: f64) {
    if d == 0.0 {
        out.push(byte::ZERO);
    } else if d.is_infinite() {
        out.push(if d < 0.0 {
            byte::NEGATIVE_INFINITY
        } else {
            byte::POSITIVE_INFINITY
        });
    } else {
        append_double_bits(out, d < 0.0, d.abs(), None);
    }
}

/// A whole number below 2^63.
#[inline]
fn append_whole(out: &mut Vec<u8>, negative: bool, magnitude: u64) {
    if magnitude == 0 {
        return out.push(byte::ZERO);
    }
    append_shifted(out, negative, magnitude << 1);
}

/// The type byte and `shifted`, which is not zero. Nine bytes are written at once and the superfluous
/// cut off: cheaper than a copy of a length that varies.
#[inline]
fn append_shifted(out: &mut Vec<u8>, negative: bool, shifted: u64) {
    let bytes = 8 - shifted.leading_zeros() / 8;
    let aligned = shifted << (64 - 8 * bytes);
    let (first, aligned) = if negative {
        (byte::NEGATIVE_WHOLE - bytes as u8, !aligned)
    } else {
        (byte::POSITIVE_WHOLE + bytes as u8, aligned)
    };
    let mut buffer = [first; 9];
    buffer[1..].copy_from_slice(&aligned.to_be_bytes());
    let end = out.len() + 1 + bytes as usize;
    out.extend_from_slice(&buffer);
    out.truncate(end);
}

/// A magnitude from 1 up to 2^63 that is not whole, or whose `tail` says that it is a little more.
fn append_fraction(
    out: &mut Vec<u8>,
    negative: bool,
    whole: u64,
    bits: u64,
    tail: Option<&Digits>,
) {
    append_shifted(out, negative, whole << 1 | 1);
    let start = out.len();
    append_groups(out, bits << (64 - FRACTION_BITS), FRACTION_GROUPS, tail);
    invert_if(out, start, negative);
}

/// A magnitude below 1 or from 2^63 on; `tail` as in `append_fraction`.
fn append_double_bits(out: &mut Vec<u8>, negative: bool, magnitude: f64, tail: Option<&Digits>) {
    out.push(match (negative, magnitude < 1.0) {
        (true, false) => byte::NEGATIVE_LARGE,
        (true, true) => byte::NEGATIVE_SMALL,
        (false, true) => byte::POSITIVE_SMALL,
        (false, false) => byte::POSITIVE_LARGE,
    });
    let start = out.len();
    append_groups(
        out,
        magnitude.to_bits() << (64 - DOUBLE_BITS),
        DOUBLE_GROUPS,
        tail,
    );
    invert_if(out, start, negative);
}

fn invert_if(out: &mut [u8], start: usize, negative: bool) {
    if negative {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

/// The bits of `aligned` from the highest down, seven a byte. With a tail all `groups` are written,
/// the last of them marked as followed too.
fn append_groups(out: &mut Vec<u8>, mut aligned: u64, groups: usize, tail: Option<&Digits>) {
    for _ in 0..groups {
        let group = (aligned >> 57) as u8;
        aligned <<= 7;
        let more = aligned != 0 || tail.is_some();
        out.push(group << 1 | u8::from(more));
        if !more {
            return;
        }
    }
    if let Some(digits) = tail {
        digits.append(out);
    }
}

fn append_finite_decimal(
    out: &mut Vec<u8>,
    d: Decimal128,
    negative: bool,
    coefficient: u128,
    exponent: i32,
) {
    let digits = Digits::new(coefficient, exponent);
    if let Some((whole, fraction)) = split(coefficient, exponent) {
        return match fraction {
            Fraction::None => append_whole(out, negative, whole),
            Fraction::Exact(bits) => append_fraction(out, negative, whole, bits, None),
            Fraction::Above(bits) => append_fraction(out, negative, whole, bits, Some(&digits)),
        };
    }
    let (below, exact) = double_below(d.abs());
    let tail = if exact { None } else { Some(&digits) };
    append_double_bits(out, negative, below, tail);
}

/// The part of a number behind its point, cut to the bits that a Double can have there.
enum Fraction {
    None,
    Exact(u64),
    /// These bits, and something below them.
    Above(u64),
}

/// A magnitude from 1 up to 2^63 as whole part and fraction; `None` for any other.
fn split(coefficient: u128, exponent: i32) -> Option<(u64, Fraction)> {
    let in_range = |whole: u128| (1..1 << 63).contains(&whole).then_some(whole as u64);
    if exponent >= 0 {
        let scale = 10u128.checked_pow(exponent.unsigned_abs())?;
        let whole = in_range(coefficient.checked_mul(scale)?)?;
        return Some((whole, Fraction::None));
    }
    // A coefficient has at most 34 digits: from 34 places on, nothing is left before the point.
    let places = exponent.unsigned_abs();
    if places >= 34 {
        return None;
    }
    let scale = 10u128.pow(places);
    let whole = in_range(coefficient / scale)?;
    let mut rest = coefficient % scale;
    if rest == 0 {
        return Some((whole, Fraction::None));
    }
    // `rest` is below 10^33, which leaves 18 bits: four long divisions by 13 bits each.
    let mut bits = 0;
    for _ in 0..4 {
        rest <<= 13;
        bits = bits << 13 | (rest / scale) as u64;
        rest %= scale;
    }
    Some((
        whole,
        if rest == 0 {
            Fraction::Exact(bits)
        } else {
            Fraction::Above(bits)
        },
    ))
}

/// The largest Double that is not above `magnitude`, and whether it is equal.
fn double_below(magnitude: Decimal128) -> (f64, bool) {
    let nearest = magnitude.to_f64();
    match compare_numbers(RawValue::Double(nearest), RawValue::Decimal128(magnitude)) {
        Ordering::Equal => (nearest, true),
        Ordering::Less => (nearest, false),
        Ordering::Greater => (f64::from_bits(nearest.to_bits() - 1), false),
    }
}

/// The digits of a Decimal128 that no Double equals, in an order of their own.
struct Digits {
    /// The place of the first digit.
    exponent: i32,
    /// Two digits each, from the first on.
    pairs: [u8; DIGIT_PAIRS_MAX],
}

impl Digits {
    fn new(coefficient: u128, exponent: i32) -> Self {
        let digits = coefficient.ilog10() + 1;
        let mut left = coefficient * 10u128.pow(34 - digits);
        let mut pairs = [0; DIGIT_PAIRS_MAX];
        for pair in pairs.iter_mut().rev() {
            *pair = (left % 100) as u8;
            left /= 100;
        }
        Self {
            exponent: exponent + digits as i32,
            pairs,
        }
    }

    /// The exponent in two bytes, each pair as one byte above zero, and a zero.
    fn append(&self, out: &mut Vec<u8>) {
        let exponent = u16::try_from(self.exponent + EXPONENT_BIAS)
            .expect("exponents of a Decimal128 stay above the bias");
        out.extend_from_slice(&exponent.to_be_bytes());
        let used = self
            .pairs
            .iter()
            .rposition(|&pair| pair != 0)
            .map_or(0, |last| last + 1);
        out.extend(self.pairs[..used].iter().map(|pair| pair + 1));
        out.push(0);
    }
}

/// A number as its key's bytes give it, before the type bits say of which type it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    NaN,
    /// Whole, its magnitude below 2^63.
    Whole(i64),
    /// Not whole, or outside of that range, infinities included.
    Double(f64),
    /// A Decimal128 that no Double equals.
    DecimalOnly,
}

/// Whether `first` begins a number.
pub(crate) fn is_number(first: u8) -> bool {
    (byte::NAN..=byte::POSITIVE_INFINITY).contains(&first)
}

/// Reads the number that begins with `first`, which the reader has passed.
pub(crate) fn read(reader: &mut Reader<'_>, first: u8) -> Result<Number> {
    let negative = first < byte::ZERO;
    Ok(match first {
        byte::NAN => Number::NaN,
        byte::NEGATIVE_INFINITY | byte::POSITIVE_INFINITY => {
            Number::Double(signed_infinity(negative))
        }
        byte::ZERO => Number::Whole(0),
        _ if negative => {
            reader.invert();
            let number = read_magnitude(reader, first);
            reader.invert();
            match number? {
                Number::Whole(n) => Number::Whole(-n),
                Number::Double(d) => Number::Double(-d),
                other => other,
            }
        }
        _ => read_magnitude(reader, first)?,
    })
}

fn read_magnitude(reader: &mut Reader<'_>, first: u8) -> Result<Number> {
    let double_bits = [
        byte::NEGATIVE_LARGE,
        byte::NEGATIVE_SMALL,
        byte::POSITIVE_SMALL,
        byte::POSITIVE_LARGE,
    ];
    if double_bits.contains(&first) {
        let (aligned, tail) = read_groups(reader, DOUBLE_GROUPS)?;
        let magnitude = f64::from_bits(aligned >> (64 - DOUBLE_BITS));
        return Ok(if tail {
            Number::DecimalOnly
        } else {
            Number::Double(magnitude)
        });
    }
    let bytes = if first < byte::ZERO {
        byte::NEGATIVE_WHOLE - first
    } else {
        first - byte::POSITIVE_WHOLE
    };
    let mut shifted = 0;
    for _ in 0..bytes {
        shifted = shifted << 8 | u64::from(reader.byte()?);
    }
    let whole = (shifted >> 1) as i64;
    if shifted & 1 == 0 {
        return Ok(Number::Whole(whole));
    }
    let (aligned, tail) = read_groups(reader, FRACTION_GROUPS)?;
    let fraction = (aligned >> (64 - FRACTION_BITS)) as f64 / (1u64 << FRACTION_BITS) as f64;
    Ok(if tail {
        Number::DecimalOnly
    } else {
        Number::Double(whole as f64 + fraction)
    })
}

/// Reads groups, and over the tail where there is one.
fn read_groups(reader: &mut Reader<'_>, groups: usize) -> Result<(u64, bool)> {
    let mut aligned = 0;
    for i in 0..groups {
        let byte = reader.byte()?;
        // Nine groups are 63 bits; the eight of a fraction are 56.
        aligned |= u64::from(byte >> 1) << (57 - 7 * i);
        if byte & 1 == 0 {
            return Ok((aligned, false));
        }
    }
    reader.skip(2)?;
    for _ in 0..=DIGIT_PAIRS_MAX {
        if reader.byte()? == 0 {
            return Ok((aligned, true));
        }
    }
    Err(reader.error("the end of a decimal's digits"))
}

/// The value of its own type; `None` where the tag does not belong to the number.
pub(crate) fn typed(number: Number, tag: Option<Tag>) -> Option<Value> {
    Some(match (number, tag) {
        (_, Some(Tag::Decimal128(bytes))) => Value::from(Decimal128::from_bytes(bytes)),
        (Number::NaN, None) => Value::from(f64::from_bits(COMMON_NAN_BITS)),
        (Number::NaN, Some(Tag::DoubleBits(bytes))) => {
            Value::from(f64::from_bits(u64::from_le_bytes(bytes)))
        }
        (Number::Whole(0), Some(Tag::NegativeZero)) => Value::from(-0.0),
        (Number::Whole(n), None) => i32::try_from(n).map_or_else(|_| Value::from(n), Value::from),
        (Number::Whole(n), Some(Tag::Int64)) => Value::from(n),
        (Number::Whole(n), Some(Tag::Double)) => Value::from(n as f64),
        (Number::Double(d), Some(Tag::Int64)) if d == -TWO_POW_63 => Value::from(i64::MIN),
        (Number::Double(d), None) => Value::from(d),
        _ => return None,
    })
}
