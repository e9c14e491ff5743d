//! The values of a column one after the other, each made of the one before and a difference.

use std::collections::VecDeque;

use quarry_bson::{ElementType, RawValue, Value};

use super::super::simple8b::{self, WORD_BYTES};

/// The longest text whose differences are taken.
const TEXT_BYTES_MAX: usize = 16;
/// Whole numbers that a Double says exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The values of a column, or of one field of its documents, each made of the one before.
#[derive(Default)]
pub struct Stream {
    last: Option<Value>,
    /// Whether the last value is a literal that has not been handed out.
    is_literal: bool,
    /// The last value as a number, as far as it is one; of a type of 64 bits, the lower half.
    number: Option<u128>,
    /// The last difference, of a type that has differences of them.
    difference: u64,
    scale: u8,
    differences: VecDeque<Option<u128>>,
    /// The last number of the words before, which the next words may repeat.
    last_difference: LastDifference,
}

/// The number that a word of repetitions repeats: 0 behind a literal.
struct LastDifference(Option<u128>);

impl Default for LastDifference {
    fn default() -> LastDifference {
        LastDifference(Some(0))
    }
}

impl Stream {
    /// A stream behind a value, which it does not have itself.
    pub fn behind(value: Value) -> Stream {
        Stream {
            number: number_of(&value),
            last: Some(value),
            ..Stream::default()
        }
    }

    /// A stream that begins with a value.
    pub fn of_literal(value: Value) -> Stream {
        Stream {
            is_literal: true,
            ..Stream::behind(value)
        }
    }

    /// Takes words in; how many values they are.
    pub fn load(&mut self, scale: u8, words: &[u8]) -> Result<usize, String> {
        if let Some(RawValue::Double(value)) = self.last.as_ref().map(Value::as_raw) {
            self.scale = scale;
            let scaled = scaled(value, scale).ok_or("a Double that does not suit its scale")?;
            self.number = Some(u128::from(scaled.cast_unsigned()));
        }
        let mut numbers = Vec::with_capacity(simple8b::NUMBERS_MAX);
        for word in words.chunks_exact(WORD_BYTES) {
            let word = word.first_chunk().copied().unwrap_or_default();
            let word = u64::from_le_bytes(word);
            if !simple8b::unpack(word, &mut self.last_difference.0, &mut numbers) {
                return Err("a word of numbers that cannot be".to_owned());
            }
        }
        self.differences = numbers.into();
        Ok(self.differences.len())
    }

    /// The next value, or that it is missing; none where another piece must be read first.
    pub fn next(&mut self) -> Result<Option<Option<Value>>, String> {
        if std::mem::take(&mut self.is_literal) {
            return Ok(Some(self.last.clone()));
        }
        match self.differences.pop_front() {
            None => Ok(None),
            Some(None) => Ok(Some(None)),
            Some(Some(difference)) => {
                self.add(difference)?;
                Ok(Some(self.last.clone()))
            }
        }
    }

    /// Makes the next value of a difference.
    fn add(&mut self, difference: u128) -> Result<(), String> {
        let kind = self.last.as_ref().map(Value::element_type);
        let is_of_second_order = matches!(
            kind,
            Some(ElementType::DateTime | ElementType::Timestamp | ElementType::ObjectId)
        );
        if difference == 0 && !is_of_second_order {
            return Ok(());
        }
        let (Some(last), Some(number)) = (&self.last, self.number) else {
            return Err("a difference to what is no number".to_owned());
        };
        let signed = (difference >> 1) ^ (difference & 1).wrapping_neg();
        let number = match is_of_second_order {
            true => {
                self.difference = self.difference.wrapping_add(signed as u64);
                u128::from((number as u64).wrapping_add(self.difference))
            }
            false => number.wrapping_add(signed),
        };
        self.last = Some(of_number(last, number, self.scale)?);
        self.number = Some(number);
        Ok(())
    }
}

/// A value as a number; none where it is none, or has another one with each scale.
fn number_of(value: &Value) -> Option<u128> {
    let low = |number: i64| Some(u128::from(number.cast_unsigned()));
    let of_bytes = |bytes: &[u8]| {
        let mut padded = [0; TEXT_BYTES_MAX];
        padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u128::from_le_bytes(padded))
    };
    match value.as_raw() {
        RawValue::Boolean(truth) => low(i64::from(truth)),
        RawValue::Int32(number) => low(i64::from(number)),
        RawValue::Int64(number) | RawValue::DateTime(number) => low(number),
        RawValue::Timestamp(time) => Some(u128::from(time.to_u64())),
        RawValue::ObjectId(id) => {
            let id = id.bytes();
            let bytes = ID_BYTES.map(|at| id[at]);
            of_bytes(&bytes)
        }
        RawValue::Decimal128(number) => Some(number.to_bits()),
        RawValue::Binary(binary) => of_bytes(binary.bytes),
        // The last byte, which differs most often, comes first. One of zeros at the other end would be lost.
        RawValue::String(text) | RawValue::JavaScript(text) => {
            let mut bytes = text.as_bytes().to_vec();
            bytes.reverse();
            of_bytes(&bytes).filter(|_| bytes.last() != Some(&0))
        }
        _ => None,
    }
}

/// The bytes of an ObjectId that its number is of, the lowest first: those of counter and time, by turns.
const ID_BYTES: [usize; 7] = [11, 3, 10, 2, 9, 1, 0];

/// The value of a number, of the type of another one.
fn of_number(like: &Value, number: u128, scale: u8) -> Result<Value, String> {
    let kind = like.element_type();
    let low = number as u64;
    let bytes = number.to_le_bytes();
    let bytes = match like.as_raw() {
        RawValue::Double(_) => unscaled(low.cast_signed(), scale).to_le_bytes().to_vec(),
        RawValue::Boolean(_) if low > 1 => return Err("a Boolean of neither value".to_owned()),
        RawValue::Boolean(_) => vec![bytes[0]],
        RawValue::Int32(_) => bytes[..4].to_vec(),
        RawValue::Int64(_) | RawValue::DateTime(_) | RawValue::Timestamp(_) => bytes[..8].to_vec(),
        RawValue::ObjectId(id) => {
            let mut id = id.bytes();
            for (byte, at) in bytes.iter().zip(ID_BYTES) {
                id[at] = *byte;
            }
            id.to_vec()
        }
        RawValue::Decimal128(_) => bytes.to_vec(),
        RawValue::Binary(binary) => {
            let mut all = like.as_bytes().to_vec();
            let start = all.len() - binary.bytes.len();
            all[start..].copy_from_slice(&bytes[..binary.bytes.len()]);
            all
        }
        _ => {
            let len = TEXT_BYTES_MAX - number.leading_zeros() as usize / 8;
            let mut all = (len as u32 + 1).to_le_bytes().to_vec();
            all.extend(bytes[..len].iter().rev());
            all.push(0);
            all
        }
    };
    Value::from_bytes(kind, &bytes).map_err(|error| error.to_string())
}

/// The factor that Doubles are multiplied by, by the high digit of the piece; none for their bits.
fn multiplier(scale: u8) -> Option<f64> {
    match scale {
        0x9 => Some(1.0),
        0xA => Some(10.0),
        0xB => Some(100.0),
        0xC => Some(10_000.0),
        0xD => Some(100_000_000.0),
        _ => None,
    }
}

/// A Double as a whole number of a scale; none where it is not exactly one.
fn scaled(value: f64, scale: u8) -> Option<i64> {
    let Some(multiplier) = multiplier(scale) else {
        return Some(value.to_bits().cast_signed());
    };
    let whole = (value * multiplier).round();
    let is_exact = whole.abs() <= EXACT_MAX && (whole / multiplier).to_bits() == value.to_bits();
    is_exact.then_some(whole as i64)
}

fn unscaled(number: i64, scale: u8) -> f64 {
    match multiplier(scale) {
        Some(multiplier) => number as f64 / multiplier,
        None => f64::from_bits(number.cast_unsigned()),
    }
}
