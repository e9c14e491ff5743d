//! `$toString $toInt $toLong $toDouble $toDecimal $toBool $toObjectId`. A nullish operand stays Null; what has no
//! meaning in the type asked for is ConversionFailure. `$convert` and `$toDate` are left out.

use quarry_bson::{DateTime, Decimal128, ObjectId, RawValue};

use super::number::Number;
use super::strings::double_text;
use super::{Call, Context, Evaluated, type_name};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Converts the argument unless it is nullish.
fn convert<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    conversion: impl FnOnce(RawValue<'_>) -> Result<Evaluated<'a>>,
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
    convert(call, context, |value| {
        Ok(match value {
            RawValue::String(text) => text.as_str()?.into(),
            RawValue::Boolean(truth) => truth.to_string().into(),
            RawValue::Int32(n) => n.to_string().into(),
            RawValue::Int64(n) => n.to_string().into(),
            RawValue::Double(d) => double_text(d).into(),
            RawValue::Decimal128(d) => d.to_string().into(),
            RawValue::ObjectId(id) => id.to_hex().into(),
            RawValue::DateTime(ms) => DateTime(ms).to_string().into(),
            other => return Err(unsupported(other, "string")),
        })
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
    convert(call, context, |value| {
        i32::try_from(whole(value, "int")?)
            .map(Evaluated::from)
            .map_err(|_| out_of_range(value))
    })
}

pub(super) fn to_long<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, |value| {
        whole(value, "long").map(Evaluated::from)
    })
}

pub(super) fn to_double<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, |value| match value {
        RawValue::Boolean(truth) => Ok(Evaluated::from(f64::from(u8::from(truth)))),
        RawValue::DateTime(ms) => Ok(Evaluated::from(ms as f64)),
        RawValue::String(text) => text
            .as_str()?
            .parse()
            .map(|d: f64| Evaluated::from(d))
            .map_err(|_| unparsed(&text.to_string_lossy(), "number")),
        RawValue::Decimal128(d) if d.is_finite() && d.to_f64().is_infinite() => {
            Err(out_of_range(value))
        }
        other => {
            let number = Number::from_raw(other).ok_or_else(|| unsupported(other, "double"))?;
            Ok(Evaluated::from(number.to_f64()))
        }
    })
}

pub(super) fn to_decimal<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, |value| {
        let decimal = match value {
            RawValue::Boolean(truth) => Decimal128::from_i64(i64::from(truth)),
            RawValue::DateTime(ms) => Decimal128::from_i64(ms),
            RawValue::String(text) => Decimal128::parse_rounded(text.as_str()?)
                .map_err(|_| unparsed(&text.to_string_lossy(), "number"))?,
            other => Number::from_raw(other)
                .ok_or_else(|| unsupported(other, "decimal"))?
                .to_decimal(),
        };
        Ok(Number::Decimal(decimal).into())
    })
}

/// Zero and false are false, everything else that is not nullish is true.
pub(super) fn to_bool<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, |value| Ok(value.is_truthy().into()))
}

pub(super) fn to_object_id<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    convert(call, context, |value| match value {
        RawValue::ObjectId(id) => Ok(Evaluated::Raw(RawValue::ObjectId(id))),
        RawValue::String(text) => ObjectId::parse_hex(text.as_str()?)
            .map(|id| Evaluated::Raw(RawValue::ObjectId(id)))
            .map_err(|_| unparsed(&text.to_string_lossy(), "objectId")),
        other => Err(unsupported(other, "objectId")),
    })
}
