//! Intervals over one field's encoded values: what a predicate leaves possible.
//!
//! Ends are cuts between encodings: a value is inside if its bytes, with anything behind them, are at or above
//! `low` and below `high`. Cuts ascend whatever the index; [`Interval::descending`] turns them over.

use std::fmt::{self, Write};

use quarry_bson::{ElementType, RawValue};
use quarry_keystring::{Direction, TypeBits, encode_value, prefix_end, type_bytes};

use crate::message_text::PrintedValue;

/// Below and above every encoded value, in either direction.
const LOWEST: u8 = 0x01;
const HIGHEST: u8 = 0xFF;
/// The work of making an interval, with its ends' bytes, and of laying two together.
pub const UNITS_OF_AN_INTERVAL: usize = 30;

/// Room for a usual key.
const KEY_BYTES: usize = 32;

/// An interval of values in BSON's order.
#[derive(Debug, Clone)]
pub struct Interval<'m> {
    /// The lower end.
    pub low: Cut<'m>,
    /// The upper end.
    pub high: Cut<'m>,
    /// Holds one value only.
    pub is_point: bool,
}

/// One end: bytes to compare by, and what explain prints.
#[derive(Debug, Clone)]
pub struct Cut<'m> {
    pub bytes: Vec<u8>,
    shown: Shown<'m>,
    is_inclusive: bool,
}

/// The text of a cut is made only when it is asked for.
#[derive(Debug, Clone)]
enum Shown<'m> {
    Value(RawValue<'m>),
    Word(&'static str),
    Text(Box<str>),
}

impl<'m> Interval<'m> {
    /// Every value, missing ones included.
    pub fn all() -> Interval<'m> {
        Interval {
            low: Cut::new(vec![LOWEST], Shown::Word("MinKey"), true),
            high: Cut::new(vec![HIGHEST], Shown::Word("MaxKey"), true),
            is_point: false,
        }
    }

    /// The interval of one value.
    pub fn point(value: RawValue<'m>) -> Interval<'m> {
        let low = Cut::before(value);
        Interval {
            high: Cut::new(prefix_end(&low.bytes), Shown::Value(value), true),
            low,
            is_point: true,
        }
    }

    /// The interval with texts of its own for who prints it, so that it outlives the value that it was made of.
    pub fn into_owned<'o>(self) -> Interval<'o> {
        Interval {
            low: self.low.into_owned(),
            high: self.high.into_owned(),
            is_point: self.is_point,
        }
    }

    /// Every text.
    pub fn texts() -> Interval<'m> {
        Interval::type_of(RawValue::from(""))
    }

    /// Null, and what stands for a missing field or an empty array.
    pub fn null() -> Interval<'m> {
        Interval {
            low: Cut::before(RawValue::Undefined),
            high: Cut::behind(RawValue::Null),
            is_point: false,
        }
    }

    /// The values that `value` compares with as above or below it: those of its type, without NaN, which is neither.
    pub fn type_of(value: RawValue<'_>) -> Interval<'m> {
        let mut interval = Interval::of_type(value.element_type());
        if value.is_number() {
            let infinity = encoded(RawValue::Double(f64::NEG_INFINITY));
            interval.low = Cut::new(infinity, Shown::Word("-inf.0"), true);
        }
        interval
    }

    /// The values of a type, all numbers being one.
    pub fn of_type(element_type: ElementType) -> Interval<'m> {
        let (low, high, is_closed) = match element_type {
            ElementType::Null => return Interval::point(RawValue::Null),
            ElementType::Undefined => return Interval::point(RawValue::Undefined),
            ElementType::MinKey => return Interval::point(RawValue::MinKey),
            ElementType::MaxKey => return Interval::point(RawValue::MaxKey),
            other if other.is_number() => ("nan.0", "inf.0", true),
            ElementType::String | ElementType::Symbol => ("\"\"", "{}", false),
            ElementType::Boolean => ("false", "true", true),
            ElementType::Document => ("{}", "[]", false),
            ElementType::Array => ("[]", "BinData(0, )", false),
            ElementType::Binary => (
                "BinData(0, )",
                "ObjectId('000000000000000000000000')",
                false,
            ),
            ElementType::ObjectId => (
                "ObjectId('000000000000000000000000')",
                "ObjectId('ffffffffffffffffffffffff')",
                true,
            ),
            ElementType::DateTime => (
                "new Date(-9223372036854775808)",
                "new Date(9223372036854775807)",
                true,
            ),
            ElementType::Timestamp => {
                ("Timestamp(0, 0)", "Timestamp(4294967295, 4294967295)", true)
            }
            _ => ("the least of its type", "the greatest of its type", false),
        };
        let bytes = type_bytes(element_type);
        Interval {
            low: Cut::new(vec![*bytes.start()], Shown::Word(low), true),
            high: Cut::new(vec![bytes.end() + 1], Shown::Word(high), is_closed),
            is_point: false,
        }
    }

    /// The texts that begin with `prefix`.
    pub fn text_prefix(prefix: &str) -> Interval<'m> {
        let end_bytes = encoded(RawValue::from("")).len() - 1;
        let mut low = encoded(RawValue::from(prefix));
        low.truncate(low.len() - end_bytes);
        let high = prefix_end(&low);
        Interval {
            low: Cut::new(low, Shown::of_text(prefix), true),
            high: Cut::new(high, Shown::of_text(&text_behind(prefix)), false),
            is_point: false,
        }
    }

    /// The value that it holds, if it holds one only.
    pub fn value(&self) -> Option<RawValue<'m>> {
        match &self.low.shown {
            Shown::Value(value) if self.is_point => Some(*value),
            _ => None,
        }
    }

    /// Whether it is that of `null`.
    pub fn is_null(&self) -> bool {
        let null = Interval::null();
        (&self.low.bytes, &self.high.bytes) == (&null.low.bytes, &null.high.bytes)
    }

    /// Whether no value lies in it.
    pub fn is_empty(&self) -> bool {
        self.low.bytes >= self.high.bytes
    }

    /// Whether null lies in it.
    pub fn holds_null(&self) -> bool {
        let null = encoded(RawValue::Null);
        self.low.bytes <= null && null < self.high.bytes
    }

    /// The values that lie in both; none if there is none.
    pub fn intersect(&self, other: &Interval<'m>) -> Option<Interval<'m>> {
        // A point that is met is met whole, whatever end of the other it begins at.
        for (one, other) in [(self, other), (other, self)] {
            if one.is_point {
                let is_met = one.low.bytes < other.high.bytes && other.low.bytes < one.high.bytes;
                return is_met.then(|| one.clone());
            }
        }
        let low = if self.low.bytes >= other.low.bytes {
            &self.low
        } else {
            &other.low
        };
        let high = if self.high.bytes <= other.high.bytes {
            &self.high
        } else {
            &other.high
        };
        let both = Interval {
            low: low.clone(),
            high: high.clone(),
            is_point: false,
        };
        (!both.is_empty()).then_some(both)
    }

    /// The bytes of both ends, for a field of that direction.
    pub fn cuts(&self, direction: Direction) -> (Vec<u8>, Vec<u8>) {
        match direction {
            Direction::Ascending => (self.low.bytes.clone(), self.high.bytes.clone()),
            Direction::Descending => (self.turned_low(), turned(&self.low.bytes)),
        }
    }

    /// Appends the bytes of the lower end, for a field of that direction.
    pub fn append_low(&self, direction: Direction, key: &mut Vec<u8>) {
        match direction {
            Direction::Ascending => key.extend_from_slice(&self.low.bytes),
            Direction::Descending => key.extend_from_slice(&self.turned_low()),
        }
    }

    /// A point begins with its own bytes. The end behind a value that ends in 0xFF is shorter than the value, and
    /// turned over it would take in others.
    fn turned_low(&self) -> Vec<u8> {
        if self.is_point {
            self.low.bytes.iter().map(|byte| !byte).collect()
        } else {
            turned(&self.high.bytes)
        }
    }

    /// `[1, 5)`, or the other way round.
    pub fn text(&self, is_reversed: bool) -> String {
        self.text_with(is_reversed, ToString::to_string)
    }

    /// Like `text`, for an index that keeps sort keys in place of texts.
    pub fn text_of_sort_keys(&self, is_reversed: bool) -> String {
        self.text_with(is_reversed, Shown::of_sort_key)
    }

    fn text_with(&self, is_reversed: bool, shown: impl Fn(&Shown<'m>) -> String) -> String {
        let open = |cut: &Cut<'_>| if cut.is_inclusive { '[' } else { '(' };
        let close = |cut: &Cut<'_>| if cut.is_inclusive { ']' } else { ')' };
        let (first, last) = if is_reversed {
            (&self.high, &self.low)
        } else {
            (&self.low, &self.high)
        };
        format!(
            "{}{}, {}{}",
            open(first),
            shown(&first.shown),
            shown(&last.shown),
            close(last)
        )
    }
}

impl<'m> Cut<'m> {
    fn new(bytes: Vec<u8>, shown: Shown<'m>, is_inclusive: bool) -> Cut<'m> {
        Cut {
            bytes,
            shown,
            is_inclusive,
        }
    }

    /// Below `value`; as a low end it takes the value in, as a high end it leaves it out.
    pub fn before(value: RawValue<'m>) -> Cut<'m> {
        Cut::new(encoded(value), Shown::Value(value), true)
    }

    pub fn behind(value: RawValue<'m>) -> Cut<'m> {
        Cut::new(prefix_end(&encoded(value)), Shown::Value(value), true)
    }

    fn into_owned<'o>(self) -> Cut<'o> {
        let shown = match self.shown {
            Shown::Value(value) => Shown::Text(PrintedValue(value).to_string().into()),
            Shown::Word(word) => Shown::Word(word),
            Shown::Text(text) => Shown::Text(text),
        };
        Cut::new(self.bytes, shown, self.is_inclusive)
    }

    /// This cut as the end of what lies on its other side.
    pub fn turned_over(mut self) -> Cut<'m> {
        self.is_inclusive = !self.is_inclusive;
        self
    }

    /// This cut as the end that leaves the value out.
    pub fn exclusive(mut self) -> Cut<'m> {
        self.is_inclusive = false;
        self
    }
}

impl Shown<'_> {
    fn of_text(text: &str) -> Self {
        Shown::Text(PrintedValue(RawValue::from(text)).to_string().into())
    }

    /// The value where a text is a sort key, which MongoDB shows as `CollationKey(0x2d2f)`.
    fn of_sort_key(&self) -> String {
        let Shown::Value(RawValue::String(key)) = self else {
            return self.to_string();
        };
        let mut text = "CollationKey(0x".to_owned();
        for byte in key.as_bytes() {
            let _ = write!(text, "{byte:02x}");
        }
        text.push(')');
        text
    }
}

/// The end of the texts that begin with `prefix`, as MongoDB shows it: its last byte is one higher.
fn text_behind(prefix: &str) -> String {
    let mut bytes = prefix.as_bytes().to_vec();
    if let Some(last) = bytes.last_mut() {
        *last = last.wrapping_add(1);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Value(value) => PrintedValue(*value).fmt(out),
            Shown::Word(word) => out.write_str(word),
            Shown::Text(text) => out.write_str(text),
        }
    }
}

fn encoded(value: RawValue<'_>) -> Vec<u8> {
    let mut key = Vec::with_capacity(KEY_BYTES);
    encode_value(&mut key, &mut TypeBits::new(), value, Direction::Ascending);
    key
}

/// A cut over inverted bytes: what was above it is below.
fn turned(cut: &[u8]) -> Vec<u8> {
    let inverted: Vec<u8> = cut.iter().map(|byte| !byte).collect();
    prefix_end(&inverted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sort_key_is_shown_as_one() {
        let interval = Interval::point(RawValue::from("ab"));
        assert_eq!(interval.text(false), r#"["ab", "ab"]"#);
        assert_eq!(
            interval.text_of_sort_keys(false),
            "[CollationKey(0x6162), CollationKey(0x6162)]"
        );
        let number = Interval::point(RawValue::Int64(7));
        assert_eq!(number.text_of_sort_keys(false), "[7, 7]");
        assert_eq!(Interval::text_prefix("ab").text(false), r#"["ab", "ac")"#);
    }
}
