//! Types of columns, and the values that texts stand for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use quarry_bson::{DateTime, Decimal128, RawBinary, RawValue};

use super::date_layout::DateLayout;
use crate::error::{Error, Result};

/// A column's type.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnType {
    /// A number where the text is one, and a String otherwise.
    Auto,
    Binary(Encoding),
    Boolean,
    Date(DateLayout),
    Decimal,
    Double,
    Int32,
    Int64,
    Text,
}

/// How the bytes of a Binary are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Encoding {
    Base64,
    Hex,
}

/// The fate of a value that is not of its column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Grace {
    /// The import ends
    Stop,
    /// The value is read as if the column had no type
    #[value(name = "autoCast")]
    AutoCast,
    /// The field is left out
    #[value(name = "skipField")]
    SkipField,
    /// The whole document is left out
    #[value(name = "skipRow")]
    SkipRow,
}

impl ColumnType {
    /// Splits `name.type(argument)`.
    pub fn parse(column: &str) -> Result<(String, ColumnType)> {
        let bad = || {
            Error::usage(format!(
                "the column `{column}` has no type behind its name, as `name.int32()` has"
            ))
        };
        let (head, argument) = column
            .strip_suffix(')')
            .ok_or_else(bad)?
            .split_once('(')
            .ok_or_else(bad)?;
        let (name, kind) = head.rsplit_once('.').ok_or_else(bad)?;
        let column_type = match (kind, argument) {
            ("auto", "") => ColumnType::Auto,
            ("boolean", "") => ColumnType::Boolean,
            ("decimal", "") => ColumnType::Decimal,
            ("double", "") => ColumnType::Double,
            ("int32", "") => ColumnType::Int32,
            ("int64", "") => ColumnType::Int64,
            ("string", "") => ColumnType::Text,
            ("binary", "base64") => ColumnType::Binary(Encoding::Base64),
            ("binary", "hex") => ColumnType::Binary(Encoding::Hex),
            ("date" | "date_go", layout) => ColumnType::Date(DateLayout::of_go(layout)?),
            ("date_ms", layout) => ColumnType::Date(DateLayout::of_ms(layout)?),
            ("date_oracle", layout) => ColumnType::Date(DateLayout::of_oracle(layout)?),
            _ => {
                let what = format!(
                    "the type `{kind}({argument})` of the column `{name}` is not supported"
                );
                return Err(Error::usage(what));
            }
        };
        Ok((name.to_owned(), column_type))
    }

    fn shown(&self) -> &'static str {
        match self {
            ColumnType::Auto => "value",
            ColumnType::Binary(_) => "Binary",
            ColumnType::Boolean => "Boolean",
            ColumnType::Date(_) => "date of the column's layout",
            ColumnType::Decimal => "Decimal128",
            ColumnType::Double => "Double",
            ColumnType::Int32 => "Int32",
            ColumnType::Int64 => "Int64",
            ColumnType::Text => "String",
        }
    }

    /// Hands the value of a text to `take`; the error says what the text is not. `bytes` is memory to decode in.
    pub fn read(
        &self,
        text: &str,
        bytes: &mut Vec<u8>,
        take: impl FnOnce(RawValue<'_>),
    ) -> std::result::Result<(), String> {
        let value = match self {
            ColumnType::Auto => Some(auto(text)),
            ColumnType::Text => Some(RawValue::from(text)),
            ColumnType::Boolean => match text.to_ascii_lowercase().as_str() {
                "true" | "t" | "yes" | "1" => Some(RawValue::Boolean(true)),
                "false" | "f" | "no" | "0" => Some(RawValue::Boolean(false)),
                _ => None,
            },
            ColumnType::Int32 => text.parse().ok().map(RawValue::Int32),
            ColumnType::Int64 => text.parse().ok().map(RawValue::Int64),
            ColumnType::Double => text.parse().ok().map(RawValue::Double),
            ColumnType::Decimal => Decimal128::parse(text).ok().map(RawValue::Decimal128),
            ColumnType::Date(layout) => layout.read(text).map(|ms| RawValue::from(DateTime(ms))),
            ColumnType::Binary(encoding) => {
                bytes.clear();
                encoding
                    .decode(text, bytes)
                    .map(|()| RawValue::Binary(RawBinary { subtype: 0, bytes }))
            }
        };
        match value {
            Some(value) => {
                take(value);
                Ok(())
            }
            None => Err(format!("`{text}` is no {}", self.shown())),
        }
    }
}

/// The number that a text is, or the text.
fn auto(text: &str) -> RawValue<'_> {
    // Most texts are no numbers, which their first byte tells.
    let may_be = text.as_bytes().first().is_some_and(|byte| {
        byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'i' | b'I' | b'n' | b'N')
    });
    if !may_be {
        return RawValue::from(text);
    }
    if let Ok(number) = text.parse::<i64>() {
        return i32::try_from(number).map_or(RawValue::Int64(number), RawValue::Int32);
    }
    text.parse().map_or(RawValue::from(text), RawValue::Double)
}

impl Encoding {
    fn decode(self, text: &str, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Encoding::Base64 => STANDARD.decode_vec(text, out).ok(),
            Encoding::Hex => {
                if !text.len().is_multiple_of(2) {
                    return None;
                }
                for pair in text.as_bytes().chunks_exact(2) {
                    let digit = |byte: u8| char::from(byte).to_digit(16);
                    out.push((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
                }
                Some(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(column: &str, text: &str) -> String {
        let (_, column_type) = ColumnType::parse(column).unwrap();
        let mut said = String::new();
        match column_type.read(text, &mut Vec::new(), |value| {
            said = quarry_bson::extjson::canonical_value(value);
        }) {
            Ok(()) => said,
            Err(what) => what,
        }
    }

    #[test]
    fn texts_are_values_of_their_columns() {
        for (column, text, said) in [
            ("a.auto()", "12", r#"{"$numberInt":"12"}"#),
            ("a.auto()", "3000000000", r#"{"$numberLong":"3000000000"}"#),
            ("a.auto()", "1.5e3", r#"{"$numberDouble":"1500.0"}"#),
            ("a.auto()", "1.2.3", r#""1.2.3""#),
            ("a.auto()", "", r#""""#),
            ("a.string()", "12", r#""12""#),
            ("a.boolean()", "TRUE", "true"),
            ("a.boolean()", "0", "false"),
            ("a.boolean()", "maybe", "`maybe` is no Boolean"),
            ("a.int32()", "-7", r#"{"$numberInt":"-7"}"#),
            ("a.int32()", "3000000000", "`3000000000` is no Int32"),
            ("a.int64()", "7", r#"{"$numberLong":"7"}"#),
            ("a.double()", "7", r#"{"$numberDouble":"7.0"}"#),
            ("a.decimal()", "1.10", r#"{"$numberDecimal":"1.10"}"#),
            (
                "a.binary(hex)",
                "00ff",
                r#"{"$binary":{"base64":"AP8=","subType":"00"}}"#,
            ),
            ("a.binary(hex)", "0", "`0` is no Binary"),
            (
                "a.binary(base64)",
                "AP8=",
                r#"{"$binary":{"base64":"AP8=","subType":"00"}}"#,
            ),
            (
                "a.date(2006-01-02)",
                "1970-01-02",
                r#"{"$date":{"$numberLong":"86400000"}}"#,
            ),
        ] {
            assert_eq!(read(column, text), said, "{column} {text}");
        }
    }

    #[test]
    fn names_may_hold_dots() {
        assert_eq!(ColumnType::parse("a.b.int32()").unwrap().0, "a.b");
        for bad in [
            "a",
            "a.int32",
            "int32()",
            "a.int16()",
            "a.int32(x)",
            "a.binary(base32)",
            "a.date(Q)",
        ] {
            assert!(ColumnType::parse(bad).is_err(), "{bad}");
        }
    }
}
