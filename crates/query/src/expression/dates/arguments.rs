//! The arguments that the operators of dates have in common: a date, and a time zone.

use quarry_bson::RawValue;

use super::super::{Call, Context, Evaluated, type_name};
use super::zone::Zone;
use crate::error::{Error, Result};

/// The milliseconds of a value that is read as a date: a DateTime, a Timestamp or an ObjectId.
pub fn milliseconds(value: RawValue<'_>) -> Option<i64> {
    match value {
        RawValue::DateTime(ms) => Some(ms),
        RawValue::Timestamp(timestamp) => Some(i64::from(timestamp.time) * 1000),
        RawValue::ObjectId(id) => Some(i64::from(id.seconds()) * 1000),
        _ => None,
    }
}

/// An argument that is read as a date, None if it is nullish.
pub(super) fn date_argument<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    index: usize,
) -> Result<Option<i64>> {
    let value = call.argument(index, context)?;
    let Some(raw) = value.as_raw().filter(|raw| !raw.is_nullish()) else {
        return Ok(None);
    };
    milliseconds(raw).map(Some).ok_or_else(|| {
        let text = format!("can't convert from BSON type {} to Date", type_name(raw));
        Error::location(16006, text)
    })
}

/// The time zone that an argument names: UTC where it was not given, None if it is nullish.
pub(super) fn zone_argument<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    index: usize,
) -> Result<Option<Zone>> {
    if !call.has(index) {
        return Ok(Some(Zone::UTC));
    }
    let value = call.argument(index, context)?;
    if value.is_nullish() {
        return Ok(None);
    }
    let Some(name) = value.as_str() else {
        let text = format!(
            "timezone must evaluate to a string, found {}",
            value.type_name()
        );
        return Err(Error::location(40517, text));
    };
    Zone::parse(name).map(Some)
}

/// A result that is a date.
pub(super) fn date<'a>(ms: i64) -> Evaluated<'a> {
    Evaluated::Raw(RawValue::DateTime(ms))
}
