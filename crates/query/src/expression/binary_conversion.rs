//! Conversions of binary data for `$convert`, `$toString` and `$toUUID`: to and from texts by a format, to and from numbers by a
//! byte order. What fails is ConversionFailure, so that `onError` answers for it.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use quarry_bson::{ElementType, RawBinary, RawValue};

use super::Evaluated;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::interrupts;
use crate::memory::Charge;

/// The subtype of a UUID.
pub(super) const UUID: u8 = 4;
const UUID_BYTES: usize = 16;
/// Where the hyphens of a UUID stand.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The notation of bytes as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// A UUID as one, anything else in base64.
    Auto,
    Base64,
    Base64Url,
    Hex,
    Utf8,
    Uuid,
}

/// The order of a number's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl Format {
    /// The format that an argument names, None if it is nullish.
    pub fn of(value: &Evaluated<'_>) -> Result<Option<Format>> {
        let names = [
            ("auto", Format::Auto),
            ("base64", Format::Base64),
            ("base64url", Format::Base64Url),
            ("hex", Format::Hex),
            ("utf8", Format::Utf8),
            ("uuid", Format::Uuid),
        ];
        named(value, "format", &names, [4_341_114, 4_341_125])
    }
}

impl ByteOrder {
    /// The order that an argument names, `little` if it is nullish.
    pub fn of(value: &Evaluated<'_>) -> Result<ByteOrder> {
        let names = [("big", ByteOrder::Big), ("little", ByteOrder::Little)];
        let order = named(value, "byteOrder", &names, [9_130_001, 9_130_002])?;
        Ok(order.unwrap_or(ByteOrder::Little))
    }

    /// Big-endian bytes of a number in this order; or bytes in this order as big-endian ones.
    fn turn<const N: usize>(self, mut bytes: [u8; N]) -> [u8; N] {
        if self == ByteOrder::Little {
            bytes.reverse();
        }
        bytes
    }
}

/// The value that an argument names; `codes` are those of the errors for no text and for an unknown one.
fn named<T: Copy>(
    value: &Evaluated<'_>,
    argument: &str,
    names: &[(&str, T)],
    codes: [i32; 2],
) -> Result<Option<T>> {
    if value.is_nullish() {
        return Ok(None);
    }
    let Some(text) = value.as_str() else {
        let text = format!(
            "$convert requires that '{argument}' be a string, found: {} with value {}",
            value.type_name(),
            value.display()
        );
        return Err(Error::location(codes[0], text));
    };
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, named)| Some(*named)).ok_or_else(|| {
        let text = format!("Invalid '{argument}' argument for $convert: {text}");
        Error::location(codes[1], text)
    })
}

fn failure(text: String) -> Error {
    Error::new(ErrorCode::CONVERSION_FAILURE, text)
}

/// The error for a conversion that cannot be done without a format.
pub(super) fn format_missing(from: ElementType, to: ElementType) -> Error {
    let text = format!(
        "Format must be speficied when converting from '{}' to '{}'",
        from.alias(),
        to.alias()
    );
    Error::location(4_341_115, text)
}

/// The subtype that the argument of that name gives.
pub(super) fn subtype(value: RawValue<'_>) -> Result<u8> {
    if !value.is_number() {
        let kind = super::type_name(value);
        let text =
            format!("For BinData, $convert's 'subtype' argument must be a number, but is {kind}");
        return Err(Error::location(4_341_108, text));
    }
    let Some(number) = value.as_i64_exact() else {
        let text = "In $convert, numeric 'subtype' argument is not an integer";
        return Err(Error::location(4_341_106, text));
    };
    match u8::try_from(number) {
        Ok(subtype @ (0..=8 | 128..)) => Ok(subtype),
        _ => {
            let text = format!(
                "In $convert, numeric value for 'subtype' does not correspond to a BinData type: {number}"
            );
            Err(Error::location(4_341_107, text))
        }
    }
}

fn made<'a>(subtype: u8, bytes: &[u8]) -> Evaluated<'a> {
    Evaluated::from(RawValue::Binary(RawBinary { subtype, bytes }).to_value())
}

/// The bytes that a text stands for.
pub(super) fn of_text<'a>(text: &str, format: Format, subtype: u8) -> Result<Evaluated<'a>> {
    interrupts::work_on_bytes(text.len())?;
    let mut held = Charge::default();
    held.cover(text.len())?;
    let bytes = match format {
        _ if (format == Format::Uuid) != (subtype == UUID) => {
            Err("only the format uuid goes with the UUID subtype, and no other format".to_owned())
        }
        Format::Auto => Err("the format auto is for texts that are made".to_owned()),
        Format::Base64 => STANDARD.decode(text).map_err(|error| error.to_string()),
        // With padding or without.
        Format::Base64Url => {
            (URL_SAFE_NO_PAD.decode(text.trim_end_matches('='))).map_err(|error| error.to_string())
        }
        Format::Hex => hex(text).ok_or_else(|| "not a list of hexadecimal bytes".to_owned()),
        Format::Utf8 => Ok(text.as_bytes().to_vec()),
        Format::Uuid => uuid(text).ok_or_else(|| format!("Invalid UUID string: {text}")),
    };
    let bytes = bytes.map_err(|why| {
        failure(format!(
            "Failed to parse BinData '{text}' in $convert with no onError value: {why}"
        ))
    })?;
    Ok(made(subtype, &bytes))
}

/// The text that stands for bytes.
pub(super) fn to_text<'a>(binary: RawBinary<'_>, format: Format) -> Result<Evaluated<'a>> {
    let bytes = binary.bytes;
    interrupts::work_on_bytes(bytes.len())?;
    let mut held = Charge::default();
    held.cover(bytes.len() * 2)?;
    let is_uuid = binary.subtype == UUID && bytes.len() == UUID_BYTES;
    let text = match format {
        Format::Auto if is_uuid => Ok(uuid_text(bytes)),
        Format::Auto | Format::Base64 => Ok(STANDARD.encode(bytes)),
        Format::Base64Url => Ok(URL_SAFE_NO_PAD.encode(bytes)),
        Format::Hex => Ok(bytes.iter().map(|byte| format!("{byte:02X}")).collect()),
        Format::Utf8 => String::from_utf8(bytes.to_vec())
            .map_err(|_| "BinData does not represent a valid UTF-8 string"),
        Format::Uuid if is_uuid => Ok(uuid_text(bytes)),
        Format::Uuid => Err("BinData does not represent a valid UUID"),
    };
    let text = text.map_err(|why| {
        let shown = RawValue::Binary(binary);
        failure(format!(
            "Failed to convert '{shown}' to string in $convert with no onError value: {why}"
        ))
    })?;
    Ok(text.into())
}

/// The bytes of a number.
pub(super) fn of_number<'a>(
    number: RawValue<'_>,
    order: ByteOrder,
    subtype: u8,
) -> Option<Evaluated<'a>> {
    Some(match number {
        RawValue::Int32(n) => made(subtype, &order.turn(n.to_be_bytes())),
        RawValue::Int64(n) => made(subtype, &order.turn(n.to_be_bytes())),
        RawValue::Double(d) => made(subtype, &order.turn(d.to_be_bytes())),
        _ => return None,
    })
}

/// The number that bytes are, of a type that binary data can be converted to; None for any other type.
pub(super) fn to_number<'a>(
    binary: RawBinary<'_>,
    order: ByteOrder,
    target: ElementType,
) -> Option<Result<Evaluated<'a>>> {
    let bytes = binary.bytes;
    let whole = || -> Option<i64> {
        Some(match bytes.len() {
            1 => i64::from(i8::from_be_bytes(bytes.try_into().ok()?)),
            2 => i64::from(i16::from_be_bytes(order.turn(bytes.try_into().ok()?))),
            4 => i64::from(i32::from_be_bytes(order.turn(bytes.try_into().ok()?))),
            8 => i64::from_be_bytes(order.turn(bytes.try_into().ok()?)),
            _ => return None,
        })
    };
    let float = || -> Option<f64> {
        Some(match bytes.len() {
            4 => f64::from(f32::from_be_bytes(order.turn(bytes.try_into().ok()?))),
            8 => f64::from_be_bytes(order.turn(bytes.try_into().ok()?)),
            _ => return None,
        })
    };
    let number = match target {
        ElementType::Int32 => whole()
            .filter(|_| bytes.len() <= 4)
            .map(|n| Evaluated::from(n as i32)),
        ElementType::Int64 => whole().map(Evaluated::from),
        ElementType::Double => float().map(Evaluated::from),
        _ => return None,
    };
    Some(number.ok_or_else(|| {
        failure(format!(
            "Failed to convert '{}' to number in $convert because of invalid length: {}",
            RawValue::Binary(binary),
            bytes.len()
        ))
    }))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
    digits.chunks_exact(2).map(byte).collect()
}

fn uuid(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let has_form = bytes.len() == 2 * UUID_BYTES + HYPHENS.len()
        && HYPHENS.iter().all(|place| bytes[*place] == b'-');
    if !has_form {
        return None;
    }
    hex(&text.replace('-', "")).filter(|bytes| bytes.len() == UUID_BYTES)
}

fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * UUID_BYTES + HYPHENS.len());
    for byte in bytes {
        if HYPHENS.contains(&text.len()) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
