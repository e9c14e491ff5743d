//! Values as mongosh shows them: on one line, names such as `$set` without quotes, as the server's messages have
//! them.

use std::fmt::{self, Write};

use base64::{display::Base64Display, engine::general_purpose::STANDARD};

use crate::{DEPTH_MAX, DateTime, RawBinary, RawDocument, RawStr, RawValue};

impl fmt::Display for RawDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_document(f, *self, 0)
    }
}

impl fmt::Display for RawValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(f, *self, 0)
    }
}

fn write_document(
    f: &mut fmt::Formatter<'_>,
    document: RawDocument<'_>,
    depth: usize,
) -> fmt::Result {
    if document.is_empty() {
        return f.write_str("{}");
    }
    if depth > DEPTH_MAX {
        return f.write_str("[Object]");
    }
    for (i, element) in document.iter().enumerate() {
        f.write_str(if i == 0 { "{ " } else { ", " })?;
        write_name(f, element.name())?;
        f.write_str(": ")?;
        write_value(f, element.value(), depth + 1)?;
    }
    f.write_str(" }")
}

fn write_value(f: &mut fmt::Formatter<'_>, value: RawValue<'_>, depth: usize) -> fmt::Result {
    match value {
        RawValue::Double(d) => write_double(f, d),
        RawValue::String(text) => write_quoted(f, text),
        RawValue::Document(document) => write_document(f, document, depth),
        RawValue::Array(array) => {
            if array.is_empty() {
                return f.write_str("[]");
            }
            if depth > DEPTH_MAX {
                return f.write_str("[Array]");
            }
            for (i, value) in array.iter().enumerate() {
                f.write_str(if i == 0 { "[ " } else { ", " })?;
                write_value(f, value, depth + 1)?;
            }
            f.write_str(" ]")
        }
        RawValue::Binary(binary) => write_binary(f, binary),
        RawValue::Undefined => f.write_str("undefined"),
        RawValue::ObjectId(id) => write!(f, "ObjectId('{id}')"),
        RawValue::Boolean(b) => write!(f, "{b}"),
        RawValue::DateTime(ms) => write!(f, "ISODate('{}')", DateTime(ms)),
        RawValue::Null => f.write_str("null"),
        RawValue::Regex(regex) => write!(f, "/{}/{}", regex.pattern, regex.options),
        RawValue::DbPointer(pointer) => {
            f.write_str("DBPointer(")?;
            write_quoted(f, pointer.namespace)?;
            write!(f, ", ObjectId('{}'))", pointer.id)
        }
        RawValue::JavaScript(code) => {
            f.write_str("Code(")?;
            write_quoted(f, code)?;
            f.write_str(")")
        }
        RawValue::Symbol(text) => {
            f.write_str("BSONSymbol(")?;
            write_quoted(f, text)?;
            f.write_str(")")
        }
        RawValue::JavaScriptWithScope(code) => {
            f.write_str("Code(")?;
            write_quoted(f, code.code)?;
            f.write_str(", ")?;
            write_document(f, code.scope, depth + 1)?;
            f.write_str(")")
        }
        RawValue::Int32(n) => write!(f, "{n}"),
        RawValue::Timestamp(t) => write!(f, "Timestamp({{ t: {}, i: {} }})", t.time, t.increment),
        RawValue::Int64(n) => write!(f, "Long('{n}')"),
        RawValue::Decimal128(d) => write!(f, "Decimal128('{d}')"),
        RawValue::MinKey => f.write_str("MinKey()"),
        RawValue::MaxKey => f.write_str("MaxKey()"),
    }
}

/// JavaScript's shortest form: whole numbers without a point, exponents from 1e21 and below 1e-6.
fn write_double(f: &mut fmt::Formatter<'_>, d: f64) -> fmt::Result {
    match d {
        _ if d.is_nan() => f.write_str("NaN"),
        _ if d.is_infinite() => f.write_str(if d > 0.0 { "Infinity" } else { "-Infinity" }),
        _ if d == 0.0 => f.write_str(if d.is_sign_negative() { "-0" } else { "0" }),
        _ if (1e-6..1e21).contains(&d.abs()) => write!(f, "{d}"),
        _ => {
            let text = format!("{d:e}");
            match text.split_once('e') {
                Some((digits, power)) if !power.starts_with('-') => write!(f, "{digits}e+{power}"),
                _ => f.write_str(&text),
            }
        }
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, binary: RawBinary<'_>) -> fmt::Result {
    const UUID_SUBTYPE: u8 = 4;
    const MD5_SUBTYPE: u8 = 5;
    if binary.subtype == UUID_SUBTYPE && binary.bytes.len() == 16 {
        f.write_str("UUID('")?;
        for (i, byte) in binary.bytes.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        return f.write_str("')");
    }
    if binary.subtype == MD5_SUBTYPE {
        f.write_str("MD5('")?;
        binary.bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        return f.write_str("')");
    }
    write!(
        f,
        "Binary.createFromBase64('{}', {})",
        Base64Display::new(binary.bytes, &STANDARD),
        binary.subtype
    )
}

/// A name goes bare where JavaScript lets it, else in quotes.
fn write_name(f: &mut fmt::Formatter<'_>, name: RawStr<'_>) -> fmt::Result {
    let part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$');
    let bytes = name.as_bytes();
    let bare = bytes.iter().all(part) && bytes.first().is_some_and(|b| !b.is_ascii_digit());
    if bare {
        write!(f, "{name}")
    } else {
        write_quoted(f, name)
    }
}

/// Single quotes, or others where the text has single ones and not those.
fn write_quoted(f: &mut fmt::Formatter<'_>, text: RawStr<'_>) -> fmt::Result {
    let bytes = text.as_bytes();
    let quote = ['\'', '"', '`']
        .into_iter()
        .find(|quote| memchr::memchr(*quote as u8, bytes).is_none())
        .unwrap_or('\'');
    f.write_char(quote)?;
    for c in text.to_string_lossy().chars() {
        match c {
            '\\' => f.write_str("\\\\")?,
            '\u{8}' => f.write_str("\\b")?,
            '\u{c}' => f.write_str("\\f")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c == quote => write!(f, "\\{c}")?,
            c if c.is_control() => write!(f, "\\x{:02X}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    f.write_char(quote)
}

#[cfg(test)]
mod tests {
    use crate::{DateTime, Decimal128, ObjectId, RawValue, Timestamp, Value, doc};

    #[test]
    fn documents_show_as_in_the_shell() {
        let d = doc! {
            "_id": ObjectId::parse_hex("507f1f77bcf86cd799439011").unwrap(),
            "a b": "it's", "n": 5i64, "d": 1.0, "e": [1.5, null, {}], "f": DateTime(0),
            "g": Decimal128::parse("1.50").unwrap(), "h": Timestamp { time: 1, increment: 2 },
            "u": Value::binary(4, &[0x11; 16]), "x": 1e21, "y": 1e-7, "7": Value::max_key(),
        };
        assert_eq!(
            d.to_string(),
            "{ _id: ObjectId('507f1f77bcf86cd799439011'), 'a b': \"it's\", n: Long('5'), d: 1, e: [ 1.5, null, {} ], \
             f: ISODate('1970-01-01T00:00:00.000Z'), g: Decimal128('1.50'), h: Timestamp({ t: 1, i: 2 }), \
             u: UUID('11111111-1111-1111-1111-111111111111'), x: 1e+21, y: 1e-7, '7': MaxKey() }"
        );
    }

    #[test]
    fn quotes_and_controls_show_as_in_the_shell() {
        for (text, shown) in [
            ("say \"a\"", "'say \"a\"'"),
            ("it's \"a\"", "`it's \"a\"`"),
            ("' \" `", "'\\' \" `'"),
            (
                "\\ \n \u{8} \u{c} \u{1b} \u{7f}",
                "'\\\\ \\n \\b \\f \\x1B \\x7F'",
            ),
        ] {
            assert_eq!(Value::from(text).to_string(), shown);
        }
        assert_eq!(Value::binary(5, b"abc").to_string(), "MD5('616263')");
        assert_eq!(
            Value::from(RawValue::Symbol("s".into())).to_string(),
            "BSONSymbol('s')"
        );
    }
}
