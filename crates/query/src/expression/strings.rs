//! `$concat $toLower $toUpper $strLenBytes $strLenCP $split $strcasecmp`. Letters outside ASCII keep their case,
//! as MongoDB documents.

use quarry_bson::{ArrayBuilder, DateTime, RawValue};

use super::{Call, Context, Evaluated, type_name};
use crate::error::{Error, Result};
use crate::interrupts::{self, units_of};
use crate::memory::{Charge, Counted};

pub(super) fn concat<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (mut text, mut held) = (String::new(), Charge::default());
    for argument in &call.arguments {
        let value = argument.evaluate(context)?;
        if value.is_nullish() {
            return Ok(Evaluated::NULL);
        }
        let Some(part) = value.as_str() else {
            return Err(Error::location(
                16702,
                format!("$concat only supports strings, not {}", value.type_name()),
            ));
        };
        text.push_str(part);
        held.cover(text.len())?;
    }
    Ok(text.into())
}

/// The text that MongoDB reads a scalar as where a string is wanted; nullish values are empty.
pub(super) fn coerce(value: &Evaluated<'_>) -> Result<String> {
    let Some(raw) = value.as_raw() else {
        return Ok(String::new());
    };
    match raw {
        RawValue::Null | RawValue::Undefined => Ok(String::new()),
        RawValue::String(text) | RawValue::Symbol(text) | RawValue::JavaScript(text) => {
            interrupts::work(units_of(raw))?;
            Ok(text.as_str()?.to_owned())
        }
        RawValue::Int32(n) => Ok(n.to_string()),
        RawValue::Int64(n) => Ok(n.to_string()),
        RawValue::Double(d) => Ok(double_text(d)),
        RawValue::Decimal128(d) => Ok(d.to_string()),
        RawValue::DateTime(ms) => Ok(DateTime(ms).to_string()),
        RawValue::Timestamp(t) => Ok(format!("Timestamp({}, {})", t.time, t.increment)),
        other => Err(Error::location(
            16007,
            format!(
                "can't convert from BSON type {} to String",
                type_name(other)
            ),
        )),
    }
}

/// A Double as `$toString` writes it, with C's `%g` for its form: 1.0 is `1`, 1e16 is `1e+16`, 0.00001 is `1e-05`.
pub(super) fn double_text(d: f64) -> String {
    if d.is_nan() {
        return "NaN".to_owned();
    }
    if d.is_infinite() {
        return if d > 0.0 {
            "Infinity".to_owned()
        } else {
            "-Infinity".to_owned()
        };
    }
    if d != 0.0 && !(1e-4..1e16).contains(&d.abs()) {
        let text = format!("{d:e}");
        if let Some((digits, exponent)) = text.split_once('e') {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            return format!("{digits}e{sign}{exponent:0>2}");
        }
    }
    d.to_string()
}

pub(super) fn to_lower<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(coerce(&call.argument(0, context)?)?
        .to_ascii_lowercase()
        .into())
}

pub(super) fn to_upper<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(coerce(&call.argument(0, context)?)?
        .to_ascii_uppercase()
        .into())
}

pub(super) fn len_bytes<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    let text = required(
        &value,
        34473,
        "$strLenBytes requires a string argument, found: ",
    )?;
    Ok(length(text.len()))
}

pub(super) fn len_code_points<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    let text = required(
        &value,
        34471,
        "$strLenCP requires a string argument, found: ",
    )?;
    interrupts::work(text.len() / 8)?;
    Ok(length(text.chars().count()))
}

/// Lengths and positions are Int32: no value is longer.
pub(super) fn length<'a>(count: usize) -> Evaluated<'a> {
    Evaluated::from(i32::try_from(count).unwrap_or(i32::MAX))
}

/// The text, or an error that ends in the type found.
pub(super) fn required<'v>(value: &'v Evaluated<'_>, code: i32, text: &str) -> Result<&'v str> {
    value
        .as_str()
        .ok_or_else(|| Error::location(code, format!("{text}{}", value.type_name())))
}

pub(super) fn split<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (value, separator) = (call.argument(0, context)?, call.argument(1, context)?);
    if value.is_nullish() || separator.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let (first, second) = (
        "$split requires an expression that evaluates to a string as a first argument, found: ",
        "$split requires an expression that evaluates to a string as a second argument, found: ",
    );
    let (text, separator) = (
        required(&value, 40085, first)?,
        required(&separator, 40086, second)?,
    );
    if separator.is_empty() {
        return Err(Error::location(
            40087,
            "$split requires a non-empty separator",
        ));
    }
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for part in text.split(separator) {
        interrupts::work_on_bytes(part.len())?;
        builder.push(part);
        built.charge.cover(builder.len_bytes())?;
    }
    builder.finish();
    Ok(Evaluated::array(built))
}

pub(super) fn compare_ignoring_case<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
    let left = coerce(&call.argument(0, context)?)?.to_ascii_uppercase();
    let right = coerce(&call.argument(1, context)?)?.to_ascii_uppercase();
    Ok(Evaluated::from(left.cmp(&right) as i32))
}
