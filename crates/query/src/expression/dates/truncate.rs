//! `$dateTrunc`: the beginning of the bin that a date lies in. Bins are counted from 2000-01-01 in the time zone, weeks from
//! the first beginning of a week in that year.

use quarry_bson::RawValue;

use super::super::parameters::{call_of, need, parameters};
use super::super::tree::Operator;
use super::super::{Call, Context, Evaluated, Expression, Variables};
use super::arguments::{date, milliseconds, zone_argument};
use super::calendar::{DAY_MS, Local, days_of, weekday};
use super::unit::{Unit, start_of_week};
use super::zone::Zone;
use crate::error::{Error, Result};

/// 2000-01-01, in days and in months since the year 0.
const REFERENCE_DAYS: i64 = 10_957;
const REFERENCE_MONTHS: i64 = 2000 * 12;

pub fn parse_truncate(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let [date, unit, bin, zone, week] = parameters(
        operand,
        ["date", "unit", "binSize", "timezone", "startOfWeek"],
        |_| {
            let text = "$dateTrunc only supports an object as its argument";
            Error::location(5_439_007, text)
        },
        |name| {
            let text = format!("Unrecognized argument to $dateTrunc: {name}");
            Error::location(5_439_008, text)
        },
    )?;
    let date = need(date, 5_439_009, "Missing 'date' parameter to $dateTrunc")?;
    let unit = need(unit, 5_439_010, "Missing 'unit' parameter to $dateTrunc")?;
    call_of(
        operator,
        [Some(date), Some(unit), bin, zone, week],
        variables,
    )
}

pub fn truncate<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    if value.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let moment = value.as_raw().and_then(milliseconds).ok_or_else(|| {
        let kind = value.type_name();
        let text = format!("$dateTrunc requires 'date' to be a date, but got {kind}");
        Error::location(5_439_012, text)
    })?;
    let Some(unit) = Unit::argument(call, context, 1)? else {
        return Ok(Evaluated::NULL);
    };
    let (Some(bin), Some(zone)) = (bin_size(call, context)?, zone_argument(call, context, 3)?)
    else {
        return Ok(Evaluated::NULL);
    };
    let first_day = match unit {
        Unit::WEEK => start_of_week(call, context, 4)?,
        _ => Some(0),
    };
    let Some(first_day) = first_day else {
        return Ok(Evaluated::NULL);
    };
    let begun = begin(moment, unit, bin, &zone, first_day);
    begun.map(date).ok_or_else(|| {
        let text = "$dateTrunc: the bin does not begin within the range of dates";
        Error::location(5_166_406, text)
    })
}

fn bin_size<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Option<i64>> {
    if !call.has(2) {
        return Ok(Some(1));
    }
    let value = call.argument(2, context)?;
    if value.is_nullish() {
        return Ok(None);
    }
    let (shown, kind) = (value.display(), value.type_name());
    let size = value.as_raw().and_then(|value| value.as_i64_exact());
    let size = size.ok_or_else(|| {
        let text = format!(
            "$dateTrunc requires 'binSize' to be a 64-bit integer, but got value '{shown}' of type {kind}"
        );
        Error::location(5_439_017, text)
    })?;
    if size <= 0 {
        let text =
            format!("$dateTrunc requires 'binSize' to be greater than 0, but got value {size}");
        return Err(Error::location(5_439_018, text));
    }
    Ok(Some(size))
}

/// The moment at which the bin of a moment began; None where the bin is too large to be reckoned with.
fn begin(moment: i64, unit: Unit, bin: i64, zone: &Zone, first_day: i64) -> Option<i64> {
    let reference = REFERENCE_DAYS * DAY_MS;
    if let Unit::Fixed(ms) = unit {
        let bin = bin.checked_mul(ms)?;
        let since = moment.checked_sub(zone.to_utc(reference))?;
        return moment.checked_sub(since.rem_euclid(bin));
    }
    let local = Local::at(zone.to_local(moment));
    let days = match unit {
        Unit::Months(months) => {
            let bin = bin.checked_mul(months)?;
            let month = local.year * 12 + local.month - 1;
            let month = month.checked_sub((month - REFERENCE_MONTHS).rem_euclid(bin))?;
            if month.unsigned_abs() > MONTHS_MAX {
                return None;
            }
            days_of(month.div_euclid(12), month.rem_euclid(12) + 1, 1)
        }
        Unit::Days(days) => {
            let first = match unit {
                Unit::WEEK => REFERENCE_DAYS + (first_day - weekday(REFERENCE_DAYS)).rem_euclid(7),
                _ => REFERENCE_DAYS,
            };
            let bin = bin.checked_mul(days)?;
            local
                .days
                .checked_sub((local.days - first).rem_euclid(bin))?
        }
        Unit::Fixed(_) => return None,
    };
    Some(zone.to_utc(days.checked_mul(DAY_MS)?))
}

/// More than the range of dates has.
const MONTHS_MAX: u64 = 12 * 584_554_050;
