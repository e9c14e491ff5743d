//! `$convert`, and `$toString $toInt $toLong $toDouble $toDecimal $toBool $toObjectId $toDate`. A nullish operand stays Null;
//! what has no meaning in the type asked for is ConversionFailure. Binary data stands in `binary_conversion.rs`.

use quarry_bson::{DateTime, Decimal128, ElementType, ObjectId, RawStr, RawValue};

use super::binary_conversion::{self, ByteOrder, Format, format_missing};
use super::dates;
use super::number::Number;
use super::parameters::{call_of, parameters};
use super::strings::double_text;
use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables, type_name};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Converts a value that is not nullish.
type Conversion<'a> = for<'v> fn(RawValue<'v>) -> Result<Evaluated<'a>>;

/// Converts the argument unless it is nullish.
fn convert<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    conversion: Conversion<'a>,
) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    match value.as_raw().filter(|value| !value.is_nullish()) {
        None => Ok(Evaluated::NULL),
        Some(value) => conversion(value),
    }
}

fn failure(text: String) -> Error {
    Error::new(
        ErrorCode::CONVERSION_FAILURE,
        format!("{text} with no onError value"),
    )
}

fn unsupported(value: RawValue<'_>, target: &str) -> Error {
    failure(format!(
        "Unsupported conversion from {} to {target} in $convert",
        type_name(value)
    ))
}

fn unparsed(text: &str, target: &str) -> Error {
    failure(format!("Failed to parse {target} '{text}' in $convert"))
}

fn out_of_range(value: RawValue<'_>) -> Error {
    failure(format!(
        "Conversion would overflow target type in $convert: {value}"
    ))
}

pub(super) fn to_string<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, string)
}

fn string<'a>(value: RawValue<'_>) -> Result<Evaluated<'a>> {
    Ok(match value {
        RawValue::String(text) => text.as_str()?.into(),
        RawValue::Boolean(truth) => truth.to_string().into(),
        RawValue::Int32(n) => n.to_string().into(),
        RawValue::Int64(n) => n.to_string().into(),
        RawValue::Double(d) => double_text(d).into(),
        RawValue::Decimal128(d) => d.to_string().into(),
        RawValue::ObjectId(id) => id.to_hex().into(),
        RawValue::DateTime(ms) => DateTime(ms).to_string().into(),
        RawValue::Binary(binary) => return binary_conversion::to_text(binary, Format::Auto),
        other => return Err(unsupported(other, "string")),
    })
}

/// The whole part of a number, a truth, a date or a text of digits.
fn whole(value: RawValue<'_>, target: &str) -> Result<i64> {
    match value {
        RawValue::Boolean(truth) => Ok(i64::from(truth)),
        RawValue::Int32(n) => Ok(i64::from(n)),
        RawValue::Int64(n) => Ok(n),
        RawValue::Double(d) => RawValue::Double(d.trunc())
            .as_i64_exact()
            .ok_or_else(|| out_of_range(value)),
        RawValue::Decimal128(d) => d.to_i64_truncated().ok_or_else(|| out_of_range(value)),
        RawValue::DateTime(ms) if target == "long" => Ok(ms),
        RawValue::String(text) => text
            .as_str()?
            .parse()
            .map_err(|_| unparsed(&text.to_string_lossy(), "number")),
        other => Err(unsupported(other, target)),
    }
}

pub(super) fn to_int<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, int)
}

fn int<'a>(value: RawValue<'_>) -> Result<Evaluated<'a>> {
    i32::try_from(whole(value, "int")?)
        .map(Evaluated::from)
        .map_err(|_| out_of_range(value))
}

pub(super) fn to_long<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, long)
}

fn long<'a>(value: RawValue<'_>) -> Result<Evaluated<'a>> {
    whole(value, "long").map(Evaluated::from)
}

pub(super) fn to_double<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, double)
}

fn double<'a>(value: RawValue<'_>) -> Result<Evaluated<'a>> {
    match value {
        RawValue::Boolean(truth) => Ok(Evaluated::from(f64::from(u8::from(truth)))),
        RawValue::DateTime(ms) => Ok(Evaluated::from(ms as f64)),
        RawValue::String(text) => double_of_text(text.as_str()?).map(Evaluated::from),
        RawValue::Decimal128(d) if d.is_finite() && !fits_double(d) => Err(out_of_range(value)),
        other => {
            let number = Number::from_raw(other).ok_or_else(|| unsupported(other, "double"))?;
            Ok(Evaluated::from(number.to_f64()))
        }
    }
}

/// Whether a finite number is neither too large for a Double nor so small that a Double loses digits that it has elsewhere.
fn fits_double(decimal: Decimal128) -> bool {
    let double = decimal.to_f64();
    double.is_normal() || (double == 0.0 && decimal.is_zero())
}

/// The Double that a text writes. A text with digits says a number that fits, or it is refused.
fn double_of_text(text: &str) -> Result<f64> {
    let double: f64 = text.parse().map_err(|_| unparsed(text, "number"))?;
    match has_value(text) && !double.is_normal() {
        true => Err(unparsed(text, "number")),
        false => Ok(double),
    }
}

/// Whether a text of a number writes one other than zero in digits, and is no name such as `Infinity`.
fn has_value(text: &str) -> bool {
    let (mantissa, _) = text.split_once(['e', 'E']).unwrap_or((text, ""));
    mantissa.bytes().any(|digit| matches!(digit, b'1'..=b'9'))
}

pub(super) fn to_decimal<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, decimal)
}

fn decimal<'a>(value: RawValue<'_>) -> Result<Evaluated<'a>> {
    let decimal = match value {
        RawValue::Boolean(truth) => Decimal128::from_i64(i64::from(truth)),
        RawValue::DateTime(ms) => Decimal128::from_i64(ms),
        RawValue::String(text) => decimal_of_text(text.as_str()?)?,
        other => Number::from_raw(other)
            .ok_or_else(|| unsupported(other, "decimal"))?
            .to_decimal(),
    };
    Ok(Number::Decimal(decimal).into())
}

/// The Decimal128 that a text writes, rounded to its digits. A text with digits says a number that fits, or it is refused.
fn decimal_of_text(text: &str) -> Result<Decimal128> {
    let decimal = Decimal128::parse_rounded(text).map_err(|_| unparsed(text, "number"))?;
    match has_value(text) && (!decimal.is_finite() || decimal.is_zero()) {
        true => Err(unparsed(text, "number")),
        false => Ok(decimal),
    }
}

/// Zero and false are false, everything else that is not nullish is true.
pub(super) fn to_bool<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, boolean)
}

fn boolean<'a>(value: RawValue<'_>) -> Result<Evaluated<'a>> {
    Ok(value.is_truthy().into())
}

pub(super) fn to_object_id<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, object_id)
}

fn object_id<'a>(value: RawValue<'_>) -> Result<Evaluated<'a>> {
    match value {
        RawValue::ObjectId(id) => Ok(Evaluated::Raw(RawValue::ObjectId(id))),
        RawValue::String(text) => ObjectId::parse_hex(text.as_str()?)
            .map(|id| Evaluated::Raw(RawValue::ObjectId(id)))
            .map_err(|_| unparsed(&text.to_string_lossy(), "objectId")),
        other => Err(unsupported(other, "objectId")),
    }
}

pub(super) fn to_date<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, date)
}

fn date<'a>(value: RawValue<'_>) -> Result<Evaluated<'a>> {
    let ms = match value {
        RawValue::Int64(ms) => ms,
        RawValue::Double(_) | RawValue::Decimal128(_) => whole(value, "date")?,
        RawValue::String(text) => dates::of_text(text.as_str()?)?,
        other => dates::milliseconds(other).ok_or_else(|| unsupported(other, "date"))?,
    };
    Ok(Evaluated::Raw(RawValue::DateTime(ms)))
}

pub(super) fn parse_convert(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let [input, to, on_error, on_null, format, byte_order, base] = parameters(
        operand,
        [
            "input",
            "to",
            "onError",
            "onNull",
            "format",
            "byteOrder",
            "base",
        ],
        |found| {
            let kind = type_name(found);
            let text = format!("$convert expects an object of named arguments but found: {kind}");
            Error::failed_to_parse(text)
        },
        |name| Error::failed_to_parse(format!("$convert found an unknown argument: {name}")),
    )?;
    let missing = |name| Error::failed_to_parse(format!("Missing '{name}' parameter to $convert"));
    let input = input.ok_or_else(|| missing("input"))?;
    let to = to.ok_or_else(|| missing("to"))?;
    let given = [
        Some(input),
        Some(to),
        on_error,
        on_null,
        format,
        byte_order,
        base,
    ];
    call_of(operator, given, variables)
}

/// The arguments of `$convert` behind the first four, by their places.
const FORMAT: usize = 4;
const BYTE_ORDER: usize = 5;
const BASE: usize = 6;

pub(super) fn convert_to<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (input, to) = (call.argument(0, context)?, call.argument(1, context)?);
    let target = target(&to)?;
    let Some(value) = input.as_raw().filter(|value| !value.is_nullish()) else {
        return Ok(if call.has(3) {
            call.argument(3, context)?
        } else {
            Evaluated::NULL
        });
    };
    let Some(target) = target else {
        return Ok(Evaluated::NULL);
    };
    match convert_value(call, context, value, target) {
        Err(error) if error.code == ErrorCode::CONVERSION_FAILURE && call.has(2) => {
            call.argument(2, context)
        }
        converted => converted,
    }
}

/// Converts a value that is not nullish.
fn convert_value<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    value: RawValue<'_>,
    target: Target,
) -> Result<Evaluated<'a>> {
    let base = match call.has(BASE) {
        true => base(&call.argument(BASE, context)?)?,
        false => None,
    };
    let format = Format::of(&call.argument(FORMAT, context)?)?;
    let order = ByteOrder::of(&call.argument(BYTE_ORDER, context)?)?;
    let format = || format.ok_or_else(|| format_missing(value.element_type(), target.kind));
    match (value, target.kind) {
        (RawValue::Binary(binary), ElementType::Binary) => match binary.subtype == target.subtype {
            true => Ok(Evaluated::from(value.to_value())),
            false => Err(Error::new(
                ErrorCode::CONVERSION_FAILURE,
                "Conversions between different BinData subtypes are not supported",
            )),
        },
        (RawValue::Binary(binary), ElementType::String) => {
            binary_conversion::to_text(binary, format()?)
        }
        (RawValue::Binary(binary), kind) => {
            let number = binary_conversion::to_number(binary, order, kind);
            number.unwrap_or_else(|| plain(value, kind))
        }
        (RawValue::String(text), ElementType::Binary) => {
            binary_conversion::of_text(text.as_str()?, format()?, target.subtype)
        }
        (number, ElementType::Binary) => {
            let made = binary_conversion::of_number(number, order, target.subtype);
            made.ok_or_else(|| unsupported(number, target.kind.alias()))
        }
        (value, kind) => {
            if let Some(base) = base
                && let Some(converted) = in_base(value, kind, base)
            {
                return converted;
            }
            plain(value, kind)
        }
    }
}

fn plain<'a>(value: RawValue<'_>, kind: ElementType) -> Result<Evaluated<'a>> {
    match conversion_to(kind) {
        Some(conversion) => conversion(value),
        None => Err(unsupported(value, kind.alias())),
    }
}

/// The base that an argument gives, None if it is nullish.
fn base(value: &Evaluated<'_>) -> Result<Option<u32>> {
    let Some(raw) = value.as_raw().filter(|raw| !raw.is_nullish()) else {
        return Ok(None);
    };
    let base = raw.as_i64_exact().ok_or_else(|| {
        let text = "In $convert, 'base' argument is not an integer";
        Error::location(3_501_300, text)
    })?;
    match base {
        2 | 8 | 10 | 16 => Ok(Some(base as u32)),
        _ => {
            let text = "In $convert, 'base' argument is not a valid base";
            Err(Error::location(3_501_301, text))
        }
    }
}

/// The number as a text in a base, or the text in a base as a number; None for what has no base.
fn in_base<'a>(value: RawValue<'_>, kind: ElementType, base: u32) -> Option<Result<Evaluated<'a>>> {
    match (value, kind) {
        (RawValue::String(text), _) if is_number(kind) => Some(number_of_text(text, kind, base)),
        (number, ElementType::String) if number.is_number() => {
            let whole = number.as_i64_exact().ok_or_else(|| {
                failure(format!(
                    "Base conversion is not supported for non-integers in $convert: {number}"
                ))
            });
            Some(whole.map(|whole| {
                let (sign, size) = (if whole < 0 { "-" } else { "" }, whole.unsigned_abs());
                Evaluated::from(match base {
                    2 => format!("{sign}{size:b}"),
                    8 => format!("{sign}{size:o}"),
                    16 => format!("{sign}{size:X}"),
                    _ => format!("{sign}{size}"),
                })
            }))
        }
        _ => None,
    }
}

fn is_number(kind: ElementType) -> bool {
    matches!(
        kind,
        ElementType::Int32 | ElementType::Int64 | ElementType::Double | ElementType::Decimal128
    )
}

fn number_of_text<'a>(text: RawStr<'_>, kind: ElementType, base: u32) -> Result<Evaluated<'a>> {
    let text = text.as_str()?;
    let whole = i64::from_str_radix(text, base).map_err(|_| unparsed(text, "number"))?;
    match kind {
        ElementType::Int32 => int(RawValue::Int64(whole)),
        ElementType::Double => double(RawValue::Int64(whole)),
        ElementType::Decimal128 => decimal(RawValue::Int64(whole)),
        _ => Ok(Evaluated::from(whole)),
    }
}

pub(super) fn to_uuid<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, |value| match value {
        RawValue::String(text) => {
            binary_conversion::of_text(text.as_str()?, Format::Uuid, binary_conversion::UUID)
        }
        RawValue::Binary(binary) if binary.subtype == binary_conversion::UUID => {
            Ok(Evaluated::from(value.to_value()))
        }
        RawValue::Binary(_) => Err(Error::new(
            ErrorCode::CONVERSION_FAILURE,
            "Conversions between different BinData subtypes are not supported",
        )),
        other => Err(unsupported(other, "binData")),
    })
}

fn conversion_to<'a>(target: ElementType) -> Option<Conversion<'a>> {
    Some(match target {
        ElementType::Double => double,
        ElementType::String => string,
        ElementType::ObjectId => object_id,
        ElementType::Boolean => boolean,
        ElementType::DateTime => date,
        ElementType::Int32 => int,
        ElementType::Int64 => long,
        ElementType::Decimal128 => decimal,
        _ => return None,
    })
}

/// The type that is converted to.
#[derive(Clone, Copy)]
struct Target {
    kind: ElementType,
    /// The subtype of binary data.
    subtype: u8,
}

/// The type that `to` names or numbers, alone or as `{type: .., subtype: ..}`; None if it is nullish.
fn target(to: &Evaluated<'_>) -> Result<Option<Target>> {
    let (kind, of_binary) = match to.as_raw() {
        Some(RawValue::Document(options)) => {
            let known = |name: RawStr<'_>| name == "type" || name == "subtype";
            if let Some(other) = options.iter().find(|option| !known(option.name())) {
                let text = format!("$convert found an unknown argument: {}", other.name());
                return Err(Error::failed_to_parse(text));
            }
            (kind(options.get("type"))?, options.get("subtype"))
        }
        other => (kind(other)?, None),
    };
    let Some(kind) = kind else {
        return Ok(None);
    };
    let subtype = match of_binary.filter(|_| kind == ElementType::Binary) {
        Some(of_binary) => binary_conversion::subtype(of_binary)?,
        None => 0,
    };
    Ok(Some(Target { kind, subtype }))
}

fn kind(named: Option<RawValue<'_>>) -> Result<Option<ElementType>> {
    match named {
        None | Some(RawValue::Null | RawValue::Undefined) => Ok(None),
        Some(RawValue::String(name)) => {
            let name = name.as_str()?;
            let found = ElementType::from_alias(name);
            let unknown = || Error::bad_value(format!("Unknown type name: {name}"));
            found.map(Some).ok_or_else(unknown)
        }
        Some(number) if number.is_number() => {
            let whole = number.as_i64_exact().ok_or_else(|| {
                let text = "In $convert, numeric 'to' argument is not an integer";
                Error::failed_to_parse(text)
            })?;
            let found = i32::try_from(whole).ok().and_then(ElementType::from_number);
            let text = format!(
                "In $convert, numeric value for 'to' does not correspond to a BSON type: {whole}"
            );
            found.map(Some).ok_or_else(|| Error::failed_to_parse(text))
        }
        Some(other) => Err(Error::failed_to_parse(format!(
            "$convert's 'to' argument must be a string or number, but is {}",
            type_name(other)
        ))),
    }
}
