//! `$year $month $dayOfMonth $hour $minute $second $millisecond $dayOfYear $dayOfWeek $week $isoWeek $isoWeekYear
//! $isoDayOfWeek $dateToParts`, and the parts of a Timestamp: `$tsSecond $tsIncrement`.

use quarry_bson::{Document, RawValue};

use super::super::parameters::{call_of, need, parameters};
use super::super::tree::Operator;
use super::super::{Call, Context, Evaluated, Expression, Variables};
use super::arguments::{date_argument, zone_argument};
use super::calendar::Local;
use crate::error::{Error, Result};

/// The operand is a date, `[date]`, or `{date: .., timezone: ..}`.
pub fn parse_part(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let name = operator.name;
    match operand {
        RawValue::Document(document) if !is_call(operand) => {
            let unknown = |found: &str| {
                let text = format!("unrecognized option to {name}: \"{found}\"");
                Error::location(40535, text)
            };
            let not_document = |_| Error::location(40535, "not a document");
            let [date, zone] = parameters(operand, ["date", "timezone"], not_document, unknown)?;
            if date.is_none() {
                let text =
                    format!("missing 'date' argument to {name}, provided: {name}: {document}");
                return Err(Error::location(40539, text));
            }
            call_of(operator, [date, zone], variables)
        }
        RawValue::Array(list) if list.len() != 1 => {
            let count = list.len();
            let text = format!(
                "{name} accepts exactly one argument if given an array, but was given {count}"
            );
            Err(Error::location(40536, text))
        }
        RawValue::Array(list) => call_of(operator, [list.get(0), None], variables),
        single => call_of(operator, [Some(single), None], variables),
    }
}

/// Whether a document is an operator's.
fn is_call(operand: RawValue<'_>) -> bool {
    let first = operand.as_document().and_then(|document| document.first());
    first.is_some_and(|first| first.name().as_bytes().first() == Some(&b'$'))
}

/// The readings of the calendar and the clock in the zone, None if an argument is nullish.
fn local<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Option<Local>> {
    let (date, zone) = (
        date_argument(call, context, 0)?,
        zone_argument(call, context, 1)?,
    );
    Ok(date
        .zip(zone)
        .map(|(date, zone)| Local::at(zone.to_local(date))))
}

fn part<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    of: fn(&Local) -> i64,
) -> Result<Evaluated<'a>> {
    let part = local(call, context)?.map(|local| of(&local));
    Ok(part.map_or(Evaluated::NULL, int))
}

/// Every part but the year fits an Int32 by far, and the year does because milliseconds fit an Int64.
fn int<'a>(part: i64) -> Evaluated<'a> {
    Evaluated::from(part as i32)
}

pub fn year<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    part(call, context, |local| local.year)
}

pub fn month<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    part(call, context, |local| local.month)
}

pub fn day_of_month<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    part(call, context, |local| local.day)
}

pub fn hour<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    part(call, context, Local::hour)
}

pub fn minute<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    part(call, context, Local::minute)
}

pub fn second<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    part(call, context, Local::second)
}

pub fn millisecond<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    part(call, context, Local::millisecond)
}

pub fn day_of_year<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    part(call, context, Local::day_of_year)
}

pub fn day_of_week<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    part(call, context, Local::day_of_week)
}

pub fn week<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    part(call, context, Local::week)
}

pub fn iso_week<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    part(call, context, |local| local.iso_week().1)
}

/// The only part that is an Int64.
pub fn iso_week_year<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let local = local(call, context)?;
    Ok(local.map_or(Evaluated::NULL, |local| Evaluated::from(local.iso_week().0)))
}

pub fn iso_day_of_week<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    part(call, context, Local::iso_day_of_week)
}

pub fn parse_to_parts(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let [date, zone, iso] = parameters(
        operand,
        ["date", "timezone", "iso8601"],
        |_| {
            let text = "$dateToParts only supports an object as its argument";
            Error::location(40524, text)
        },
        |name| {
            let text = format!("Unrecognized argument to $dateToParts: {name}");
            Error::location(40520, text)
        },
    )?;
    let date = need(date, 40522, "Missing 'date' parameter to $dateToParts")?;
    call_of(operator, [Some(date), zone, iso], variables)
}

pub fn to_parts<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let Some(local) = local(call, context)? else {
        return Ok(Evaluated::NULL);
    };
    let iso = call.argument(2, context)?;
    let is_iso = match iso.as_raw() {
        None if !call.has(2) => false,
        None | Some(RawValue::Null | RawValue::Undefined) => return Ok(Evaluated::NULL),
        Some(RawValue::Boolean(is_iso)) => is_iso,
        Some(_) => {
            let text = format!("iso8601 must evaluate to a bool, found {}", iso.type_name());
            return Err(Error::location(40521, text));
        }
    };
    let parts = Document::build(|out| {
        if is_iso {
            let (year, week) = local.iso_week();
            out.append("isoWeekYear", year as i32);
            out.append("isoWeek", week as i32);
            out.append("isoDayOfWeek", local.iso_day_of_week() as i32);
        } else {
            out.append("year", local.year as i32);
            out.append("month", local.month as i32);
            out.append("day", local.day as i32);
        }
        out.append("hour", local.hour() as i32);
        out.append("minute", local.minute() as i32);
        out.append("second", local.second() as i32);
        out.append("millisecond", local.millisecond() as i32);
    });
    Ok(RawValue::Document(parts.as_raw()).to_value().into())
}

pub fn timestamp_second<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    timestamp_part(call, context, 5_687_301, |timestamp| timestamp.time)
}

pub fn timestamp_increment<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    timestamp_part(call, context, 5_687_302, |timestamp| timestamp.increment)
}

fn timestamp_part<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    code: i32,
    of: fn(quarry_bson::Timestamp) -> u32,
) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    match value.as_raw() {
        None | Some(RawValue::Null | RawValue::Undefined) => Ok(Evaluated::NULL),
        Some(RawValue::Timestamp(timestamp)) => Ok(Evaluated::from(i64::from(of(timestamp)))),
        Some(_) => {
            let text = format!(
                "Argument to {} must be a timestamp, but is {}",
                call.name(),
                value.type_name()
            );
            Err(Error::location(code, text))
        }
    }
}
