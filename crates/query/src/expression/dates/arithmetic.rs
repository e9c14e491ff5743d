//! `$dateAdd $dateSubtract $dateDiff`. Months, weeks and days go by the calendar of the time zone, hours and less by the clock
//! of the world: a day is 23 hours long when the clocks are put forward.

use quarry_bson::RawValue;

use super::super::parameters::{call_of, need, parameters};
use super::super::tree::Operator;
use super::super::{Call, Context, Evaluated, Expression, Variables, type_name};
use super::arguments::{date, milliseconds, zone_argument};
use super::calendar::{DAY_MS, Local, days_in_month, days_of, weekday};
use super::unit::{Unit, start_of_week};
use super::zone::Zone;
use crate::error::{Error, Result};

pub fn parse_add(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let name = operator.name;
    let given = parameters(
        operand,
        ["startDate", "unit", "amount", "timezone"],
        |found| {
            let kind = type_name(found);
            let text = format!("{name} expects an object as its argument.found input type:{kind}");
            Error::location(5_166_400, text)
        },
        |found| {
            let text = format!(
                "Unrecognized argument to {name}: {found}. Expected arguments are startDate, unit, amount, and optionally timezone."
            );
            Error::location(5_166_401, text)
        },
    )?;
    if given[..3].iter().any(Option::is_none) {
        let text = format!("{name} requires startDate, unit, and amount to be present");
        return Err(Error::location(5_166_402, text));
    }
    call_of(operator, given, variables)
}

pub fn add<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    moved(call, context, Ok)
}

pub fn subtract<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    moved(call, context, |amount| {
        amount.checked_neg().ok_or_else(|| {
            let text = format!("invalid $dateSubtract 'amount' parameter value: {amount}");
            Error::location(6_045_000, text)
        })
    })
}

fn moved<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    signed: fn(i64) -> Result<i64>,
) -> Result<Evaluated<'a>> {
    let name = call.name();
    let (start, unit) = (call.argument(0, context)?, call.argument(1, context)?);
    let amount = call.argument(2, context)?;
    let zone = zone_argument(call, context, 3)?;
    let is_null = start.is_nullish() || unit.is_nullish() || amount.is_nullish();
    let Some(zone) = zone.filter(|_| !is_null) else {
        return Ok(Evaluated::NULL);
    };
    let start = start.as_raw().and_then(milliseconds).ok_or_else(|| {
        let text = format!("{name} requires startDate to be convertible to a date");
        Error::location(5_166_403, text)
    })?;
    let unit_name = unit.as_str().ok_or_else(|| {
        let text = format!("{name} expects string defining the time unit");
        Error::location(5_166_404, text)
    })?;
    let unit = Unit::of(unit_name)
        .ok_or_else(|| Error::failed_to_parse(format!("unknown time unit value: {unit_name}")))?;
    let amount = amount.as_raw().and_then(|amount| amount.as_i64_exact());
    let amount = amount.ok_or_else(|| {
        let text = format!("{name} expects integer amount of time units");
        Error::location(5_166_405, text)
    })?;
    let amount = signed(amount)?;
    if amount_end(unit).is_some_and(|end| amount.unsigned_abs() >= end) {
        let text = format!("invalid dateAdd 'amount' parameter value: {amount} {unit_name}");
        return Err(Error::location(5_976_500, text));
    }
    move_by(start, unit, amount, &zone)
        .map(date)
        .ok_or_else(|| {
            let text = format!("{name} overflowed");
            Error::location(5_166_406, text)
        })
}

/// The first amount of a unit that MongoDB refuses without adding it, in either direction: so much time does not fit between
/// any two dates. Milliseconds have no such end.
fn amount_end(unit: Unit) -> Option<u64> {
    const DAYS: u64 = u64::MAX / DAY_MS.unsigned_abs() + 1;
    const MONTHS: u64 = (DAYS / 365 + 1) * 12;
    match unit {
        Unit::Months(months) => Some(MONTHS / months.unsigned_abs()),
        Unit::Days(days) => Some(DAYS / days.unsigned_abs()),
        Unit::Fixed(1) => None,
        Unit::Fixed(ms) => Some(DAYS * (DAY_MS / ms).unsigned_abs()),
    }
}

/// None where the result or a step to it does not fit.
fn move_by(start: i64, unit: Unit, amount: i64, zone: &Zone) -> Option<i64> {
    if let Unit::Fixed(ms) = unit {
        return start.checked_add(amount.checked_mul(ms)?);
    }
    let local = Local::at(zone.to_local(start));
    let days = match unit {
        Unit::Months(months) => {
            // No Int64 of milliseconds is so far away.
            let months = amount.checked_mul(months)?;
            if months.unsigned_abs() > MONTHS_MAX {
                return None;
            }
            let month = local.year * 12 + local.month - 1 + months;
            let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
            // The day is that of the start, or the last one of a shorter month.
            days_of(year, month, local.day.min(days_in_month(year, month)))
        }
        Unit::Days(days) => local.days.checked_add(amount.checked_mul(days)?)?,
        Unit::Fixed(_) => return None,
    };
    let moved = days.checked_mul(DAY_MS)?.checked_add(local.of_day_ms)?;
    Some(zone.to_utc(moved))
}

impl Unit {
    /// The date so many units behind another by the calendar of UTC; None where there is no such date.
    pub fn added_in_utc(self, start: i64, amount: i64) -> Option<i64> {
        move_by(start, self, amount, &Zone::UTC)
    }
}

/// Twice the months of the range of dates.
const MONTHS_MAX: u64 = 2 * 12 * 584_554_050;

pub fn parse_difference(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let [start, end, unit, zone, week] = parameters(
        operand,
        ["startDate", "endDate", "unit", "timezone", "startOfWeek"],
        |_| {
            let text = "$dateDiff only supports an object as its argument";
            Error::location(5_166_301, text)
        },
        |name| {
            let text = format!("Unrecognized argument to $dateDiff: {name}");
            Error::location(5_166_302, text)
        },
    )?;
    let start = need(
        start,
        5_166_303,
        "Missing 'startDate' parameter to $dateDiff",
    )?;
    let end = need(end, 5_166_304, "Missing 'endDate' parameter to $dateDiff")?;
    let unit = need(unit, 5_166_305, "Missing 'unit' parameter to $dateDiff")?;
    let given = [Some(start), Some(end), Some(unit), zone, week];
    call_of(operator, given, variables)
}

/// The boundaries of the unit that are crossed on the way from one date to the other.
pub fn difference<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let Some(start) = end_of_span(call, context, 0, "startDate")? else {
        return Ok(Evaluated::NULL);
    };
    let Some(end) = end_of_span(call, context, 1, "endDate")? else {
        return Ok(Evaluated::NULL);
    };
    let Some(unit) = Unit::argument(call, context, 2)? else {
        return Ok(Evaluated::NULL);
    };
    let Some(zone) = zone_argument(call, context, 3)? else {
        return Ok(Evaluated::NULL);
    };
    let first_day = match unit {
        Unit::WEEK => start_of_week(call, context, 4)?,
        _ => Some(0),
    };
    let Some(first_day) = first_day else {
        return Ok(Evaluated::NULL);
    };
    let (from, to) = (zone.to_local(start), zone.to_local(end));
    let (first, last) = (Local::at(from), Local::at(to));
    let count = match unit {
        Unit::Months(months) => {
            let number = |local: Local| (local.year * 12 + local.month - 1).div_euclid(months);
            Some(number(last) - number(first))
        }
        Unit::Days(7) => {
            let begun = |local: Local| local.days - (weekday(local.days) - first_day).rem_euclid(7);
            Some((begun(last) - begun(first)) / 7)
        }
        Unit::Days(_) => Some(last.days - first.days),
        Unit::Fixed(1) => end.checked_sub(start),
        // Boundaries are those of the clocks there; hours that the clocks were put forward did not pass.
        Unit::Fixed(ms) => {
            let put_forward = zone.offset_ms(end) - zone.offset_ms(start);
            Some(to.div_euclid(ms) - from.div_euclid(ms) - put_forward.div_euclid(ms))
        }
    };
    let overflow = || Error::location(5_166_308, "$dateDiff overflowed");
    count.map(Evaluated::from).ok_or_else(overflow)
}

fn end_of_span<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    index: usize,
    name: &str,
) -> Result<Option<i64>> {
    let value = call.argument(index, context)?;
    let Some(raw) = value.as_raw().filter(|raw| !raw.is_nullish()) else {
        return Ok(None);
    };
    milliseconds(raw).map(Some).ok_or_else(|| {
        let kind = value.type_name();
        let text = format!("$dateDiff requires '{name}' to be a date, but got {kind}");
        Error::location(5_166_307, text)
    })
}
