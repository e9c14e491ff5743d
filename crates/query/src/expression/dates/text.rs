//! `$dateToString`, and the letters of a format.

use std::fmt::Write;

use quarry_bson::RawValue;

use super::super::parameters::{call_of, need, parameters};
use super::super::tree::Operator;
use super::super::{Call, Context, Evaluated, Expression, Variables};
use super::arguments::{date_argument, zone_argument};
use super::calendar::{Local, MINUTE_MS};
use super::zone::Zone;
use crate::error::{Error, Result};
use crate::interrupts;
use crate::memory::Charge;

const OF_UTC: &str = "%Y-%m-%dT%H:%M:%S.%LZ";
const OF_OTHER_ZONES: &str = "%Y-%m-%dT%H:%M:%S.%L";

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub fn parse_to_string(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let [format, date, zone, on_null] = parameters(
        operand,
        ["format", "date", "timezone", "onNull"],
        |_| {
            let text = "$dateToString only supports an object as its argument";
            Error::location(18629, text)
        },
        |name| {
            let text = format!("Unrecognized argument to $dateToString: {name}");
            Error::location(18534, text)
        },
    )?;
    let date = need(date, 18628, "Missing 'date' parameter to $dateToString")?;
    call_of(operator, [Some(date), format, zone, on_null], variables)
}

pub fn to_string<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let format = call.argument(1, context)?;
    let format_text = match format.as_str() {
        Some(text) => Some(text),
        None if !format.is_nullish() => {
            let text = format!(
                "$dateToString requires that 'format' be a string, found: {} with value {}",
                format.type_name(),
                format.display()
            );
            return Err(Error::location(18533, text));
        }
        None => None,
    };
    format_text.map_or(Ok(()), |text| check_format(text, LETTERS_WRITTEN))?;
    let Some(date) = date_argument(call, context, 0)? else {
        let on_null = call.argument(3, context)?;
        return Ok(if call.has(3) {
            on_null
        } else {
            Evaluated::NULL
        });
    };
    let Some(zone) = zone_argument(call, context, 2)? else {
        return Ok(Evaluated::NULL);
    };
    let text = match format_text {
        Some(text) => text,
        None if call.has(1) => return Ok(Evaluated::NULL),
        None if zone.is_utc() => OF_UTC,
        None => OF_OTHER_ZONES,
    };
    write_date(date, text, &zone)
}

const LETTERS_WRITTEN: &str = "YmdHMSLjwuUVGzZbB%";

/// Refuses a format with a letter that means nothing.
pub(super) fn check_format(format: &str, letters: &str) -> Result<()> {
    let mut rest = format.chars();
    while let Some(letter) = rest.next() {
        if letter != '%' {
            continue;
        }
        match rest.next() {
            None => {
                let text = "Unmatched '%' at end of format string";
                return Err(Error::location(18535, text));
            }
            Some(letter) if !letters.contains(letter) => {
                let text = format!("Invalid format character '%{letter}' in format string");
                return Err(Error::location(18536, text));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn write_date<'a>(date: i64, format: &str, zone: &Zone) -> Result<Evaluated<'a>> {
    interrupts::work(format.len())?;
    let offset = zone.offset_ms(date);
    let local = Local::at(zone.to_local(date));
    let (mut out, mut held) = (String::new(), Charge::default());
    let mut rest = format.chars();
    while let Some(letter) = rest.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        if let Some(letter) = rest.next() {
            write_part(&mut out, letter, &local, offset)?;
        }
        held.cover(out.len())?;
    }
    Ok(out.into())
}

fn write_part(out: &mut String, letter: char, local: &Local, offset_ms: i64) -> Result<()> {
    let (iso_year, iso_week) = local.iso_week();
    let month_name = MONTHS[(local.month - 1) as usize];
    let (number, width) = match letter {
        'Y' => (checked_year(local.year)?, 4),
        'G' => (checked_year(iso_year)?, 4),
        'm' => (local.month, 2),
        'd' => (local.day, 2),
        'H' => (local.hour(), 2),
        'M' => (local.minute(), 2),
        'S' => (local.second(), 2),
        'L' => (local.millisecond(), 3),
        'j' => (local.day_of_year(), 3),
        'w' => (local.day_of_week(), 1),
        'u' => (local.iso_day_of_week(), 1),
        'U' => (local.week(), 2),
        'V' => (iso_week, 2),
        'Z' => (offset_ms / MINUTE_MS, 1),
        'z' => {
            out.push(if offset_ms < 0 { '-' } else { '+' });
            let minutes = offset_ms.abs() / MINUTE_MS;
            (minutes / 60 * 100 + minutes % 60, 4)
        }
        'b' => {
            out.push_str(&month_name[..3]);
            return Ok(());
        }
        'B' => {
            out.push_str(month_name);
            return Ok(());
        }
        other => {
            out.push(other);
            return Ok(());
        }
    };
    // Writing to a String does not fail.
    let _ = write!(out, "{number:0width$}");
    Ok(())
}

fn checked_year(year: i64) -> Result<i64> {
    if (0..=9999).contains(&year) {
        return Ok(year);
    }
    let text = format!("$dateToString is only defined on year 0-9999, tried to use year {year}");
    Err(Error::location(18537, text))
}
