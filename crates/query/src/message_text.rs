//! Documents and values as MongoDB's server prints them, for the message that programs take apart, that of a key which is
//! taken, `E11000 ... dup key: { name: "x" }`, and for the bounds that explain shows. It differs from how mongosh shows a
//! document: strings have double quotes, a whole Double ends in `.0`, an Int64 is bare, a date is `new Date(0)`.
//!
//! Nothing is escaped, as MongoDB escapes nothing: whoever needs the values reads `keyValue` of the error.

use std::fmt::{self, Write};

use quarry_bson::{RawBinary, RawDocument, RawValue};

const UUID_SUBTYPE: u8 = 4;
const UUID_BYTES: usize = 16;

/// The message of an error of the database.
pub fn of(error: &quarry_database::Error) -> String {
    let quarry_database::Error::DuplicateKey(taken) = error else {
        return error.to_string();
    };
    let mut text = format!(
        "E11000 duplicate key error collection: {} index: {}",
        taken.namespace, taken.index
    );
    if let Some(collation) = taken.collation.specification() {
        let _ = write!(text, " collation: {}", Printed(collation.as_raw()));
    }
    let _ = write!(text, " dup key: {}", Printed(taken.key_value.as_raw()));
    text
}

/// A document that prints itself in that form.
struct Printed<'a>(RawDocument<'a>);

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("{}");
        }
        for (position, element) in self.0.iter().enumerate() {
            f.write_str(if position == 0 { "{ " } else { ", " })?;
            write!(f, "{}: ", element.name())?;
            write_value(f, element.value())?;
        }
        f.write_str(" }")
    }
}

/// The bytes of a text that explain shows in full, and those that it shows of a longer one.
const SHOWN_BYTES_MAX: usize = 159;
const SHOWN_BYTES: usize = 150;

/// A value that prints itself in that form; of a long text its beginning.
pub(crate) struct PrintedValue<'a>(pub(crate) RawValue<'a>);

impl fmt::Display for PrintedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            RawValue::String(text) | RawValue::Symbol(text)
                if text.as_bytes().len() > SHOWN_BYTES_MAX =>
            {
                let text = text.to_string_lossy();
                write!(
                    f,
                    "\"{}...\"",
                    &text[..text.floor_char_boundary(SHOWN_BYTES)]
                )
            }
            value => write_value(f, value),
        }
    }
}

/// Writes a value; as deep as a document may nest.
fn write_value(f: &mut fmt::Formatter<'_>, value: RawValue<'_>) -> fmt::Result {
    match value {
        RawValue::Double(number) => write_double(f, number),
        RawValue::String(text) | RawValue::Symbol(text) => write!(f, "\"{text}\""),
        RawValue::Document(document) => write!(f, "{}", Printed(document)),
        RawValue::Array(array) if array.is_empty() => f.write_str("[]"),
        RawValue::Array(array) => {
            for (position, item) in array.iter().enumerate() {
                f.write_str(if position == 0 { "[ " } else { ", " })?;
                write_value(f, item)?;
            }
            f.write_str(" ]")
        }
        RawValue::Binary(binary) => write_binary(f, binary),
        RawValue::DateTime(ms) => write!(f, "new Date({ms})"),
        RawValue::Int64(number) => write!(f, "{number}"),
        RawValue::Decimal128(number) => write!(f, "{number}"),
        RawValue::Timestamp(at) => write!(f, "Timestamp({}, {})", at.time, at.increment),
        RawValue::MinKey => f.write_str("MinKey"),
        RawValue::MaxKey => f.write_str("MaxKey"),
        other => write!(f, "{other}"),
    }
}

/// Whole numbers keep a point, so that they differ from integers.
fn write_double(f: &mut fmt::Formatter<'_>, number: f64) -> fmt::Result {
    match number {
        _ if number.is_nan() => f.write_str("nan.0"),
        _ if number.is_infinite() => f.write_str(if number > 0.0 { "inf.0" } else { "-inf.0" }),
        _ => write!(f, "{number:?}"),
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, binary: RawBinary<'_>) -> fmt::Result {
    let is_uuid = binary.subtype == UUID_SUBTYPE && binary.bytes.len() == UUID_BYTES;
    if !is_uuid {
        write!(f, "BinData({}, ", binary.subtype)?;
        for byte in binary.bytes {
            write!(f, "{byte:02X}")?;
        }
        return f.write_str(")");
    }
    f.write_str("UUID(\"")?;
    for (position, byte) in binary.bytes.iter().enumerate() {
        let dash = if matches!(position, 4 | 6 | 8 | 10) {
            "-"
        } else {
            ""
        };
        write!(f, "{dash}{byte:02x}")?;
    }
    f.write_str("\")")
}

#[cfg(test)]
mod tests {
    use quarry_bson::{DateTime, Decimal128, ObjectId, Timestamp, Value, doc};

    use super::*;

    #[test]
    fn values_print_as_in_a_message_of_mongodb() {
        let document = doc! {
            "s": "it's \"x\"", "d": 1.0, "e": 1.5, "n": 5i64, "i": 5, "b": true, "z": null,
            "o": ObjectId::parse_hex("507f1f77bcf86cd799439011").unwrap(), "t": DateTime(1_514_764_800_000),
            "u": Value::binary(4, &[0x11; 16]), "x": Value::binary(0, b"abc"), "l": [1, "a", {}],
            "ts": Timestamp { time: 1, increment: 2 }, "m": Value::max_key(), "q": { "a b": -0.0 },
            "c": Decimal128::parse("1.50").unwrap(), "nan": f64::NAN,
        };
        assert_eq!(
            Printed(document.as_raw()).to_string(),
            "{ s: \"it's \"x\"\", d: 1.0, e: 1.5, n: 5, i: 5, b: true, z: null, \
             o: ObjectId('507f1f77bcf86cd799439011'), t: new Date(1514764800000), \
             u: UUID(\"11111111-1111-1111-1111-111111111111\"), x: BinData(0, 616263), l: [ 1, \"a\", {} ], \
             ts: Timestamp(1, 2), m: MaxKey, q: { a b: -0.0 }, c: 1.50, nan: nan.0 }"
        );
    }

    #[test]
    fn a_long_text_is_cut_in_a_bound_and_not_in_a_message() {
        let printed = |len| {
            let value = Value::from("x".repeat(len));
            (
                PrintedValue(value.as_raw()).to_string().len(),
                Printed(doc! { "a": value }.as_raw()).to_string().len(),
            )
        };
        assert_eq!(printed(159), (161, 168));
        assert_eq!(printed(160), (155, 169));
    }
}
