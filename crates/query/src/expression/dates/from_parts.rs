//! `$dateFromParts`: a date of its parts. Parts beyond their range carry into the next larger one.

use quarry_bson::RawValue;

use super::super::parameters::{call_of, parameters};
use super::super::tree::Operator;
use super::super::{Call, Context, Evaluated, Expression, Variables};
use super::arguments::{date, zone_argument};
use super::calendar::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, days_of, first_iso_week};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

const NAMES: [&str; 11] = [
    "year",
    "isoWeekYear",
    "month",
    "isoWeek",
    "day",
    "isoDayOfWeek",
    "hour",
    "minute",
    "second",
    "millisecond",
    "timezone",
];
const TIMEZONE: usize = 10;

pub fn parse_from_parts(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let given = parameters(
        operand,
        NAMES,
        |_| {
            let text = "$dateFromParts only supports an object as its argument";
            Error::location(40519, text)
        },
        |name| {
            let text = format!("Unrecognized argument to $dateFromParts: {name}");
            Error::location(40518, text)
        },
    )?;
    let natural = [given[0], given[2], given[4]];
    let iso = [given[1], given[3], given[5]];
    match (natural[0], iso[0]) {
        (None, None) => {
            let text = "$dateFromParts requires either 'year' or 'isoWeekYear' to be present";
            return Err(Error::location(40516, text));
        }
        (Some(_), _) if iso.iter().any(Option::is_some) => {
            let text = "$dateFromParts does not allow mixing natural dates with ISO dates";
            return Err(Error::location(40489, text));
        }
        (None, Some(_)) if natural.iter().any(Option::is_some) => {
            let text = "$dateFromParts does not allow mixing ISO dates with natural dates";
            return Err(Error::location(40525, text));
        }
        _ => {}
    }
    call_of(operator, given, variables)
}

pub fn from_parts<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let Some(zone) = zone_argument(call, context, TIMEZONE)? else {
        return Ok(Evaluated::NULL);
    };
    let is_iso = call.has(1);
    // The first three parts are those of one of the two calendars.
    let calendar = usize::from(is_iso);
    let defaults = [1970, 1, 1, 0, 0, 0, 0];
    let mut parts = [0; 7];
    for (place, default) in defaults.into_iter().enumerate() {
        let argument = match place {
            0..=2 => 2 * place + calendar,
            later => later + 3,
        };
        match part(call, context, argument, default)? {
            Some(value) => parts[place] = value,
            None => return Ok(Evaluated::NULL),
        }
    }
    let [year, month, day, hour, minute, second, millisecond] = parts;
    let days = if is_iso {
        first_iso_week(year) + (month - 1) * 7 + day - 1
    } else {
        let months = month - 1;
        days_of(year + months.div_euclid(12), months.rem_euclid(12) + 1, 1) + day - 1
    };
    let of_day = hour * HOUR_MS + minute * MINUTE_MS;
    let local = second
        .checked_mul(SECOND_MS)
        .and_then(|ms| ms.checked_add(millisecond))
        .and_then(|ms| ms.checked_add(days * DAY_MS + of_day));
    let local = local.ok_or_else(|| {
        let text = "$dateFromParts: the date does not fit 64 bits of milliseconds";
        Error::new(ErrorCode::DURATION_OVERFLOW, text)
    })?;
    Ok(date(zone.to_utc(local)))
}

/// A part, None if it is nullish. All but seconds and milliseconds have a range, so that no sum of theirs overflows.
fn part<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    argument: usize,
    default: i64,
) -> Result<Option<i64>> {
    if !call.has(argument) {
        return Ok(Some(default));
    }
    let (name, value) = (NAMES[argument], call.argument(argument, context)?);
    if value.is_nullish() {
        return Ok(None);
    }
    let Some(part) = value.as_raw().and_then(|value| value.as_i64_exact()) else {
        let text = format!(
            "'{name}' must evaluate to an integer, found {} with value {}",
            value.type_name(),
            value.display()
        );
        return Err(Error::location(40515, text));
    };
    match name {
        "year" | "isoWeekYear" if !(1..=9999).contains(&part) => {
            let code = if name == "year" { 40523 } else { 31095 };
            let text = format!(
                "'{name}' must evaluate to an integer in the range 1 to 9999, found {part}"
            );
            Err(Error::location(code, text))
        }
        "year" | "isoWeekYear" | "second" | "millisecond" => Ok(Some(part)),
        _ if i16::try_from(part).is_err() => {
            let text = format!(
                "'{name}' must evaluate to a value in the range [-32768, 32767]; value {part} is not in range"
            );
            Err(Error::location(31034, text))
        }
        _ => Ok(Some(part)),
    }
}
