//! `$dateFromString`: a date of a text, by a format or in one of the usual notations.
//!
//! Keeps true: a text without a format is read by `without_format`, one with a format by the `Reader` here, and both name the
//! parts of a date as `Fields`, which add up to a moment.

use quarry_bson::RawValue;

use super::super::parameters::{call_of, need, parameters};
use super::super::tree::Operator;
use super::super::{Call, Context, Evaluated, Expression, Variables, type_name};
use super::arguments::{date, zone_argument};
use super::calendar::{MINUTE_MS, date_of, days_of};
use super::fields::{Fields, fraction_ms, month_name};
use super::text::check_format;
use super::without_format;
use super::zone::{NO_ZONE, Zone, read_zone};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::interrupts;

pub fn parse_from_string(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let [text, format, zone, on_null, on_error] = parameters(
        operand,
        ["dateString", "format", "timezone", "onNull", "onError"],
        |found| {
            let kind = type_name(found);
            let text =
                format!("$dateFromString only supports an object as an argument, found: {kind}");
            Error::location(40540, text)
        },
        |name| {
            let text = format!("Unrecognized argument to $dateFromString: {name}");
            Error::location(40541, text)
        },
    )?;
    let text = need(
        text,
        40542,
        "Missing 'dateString' parameter to $dateFromString",
    )?;
    call_of(
        operator,
        [Some(text), format, zone, on_null, on_error],
        variables,
    )
}

pub fn from_string<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let text = call.argument(0, context)?;
    let zone = zone_argument(call, context, 2)?;
    if text.is_nullish() {
        return Ok(if call.has(3) {
            call.argument(3, context)?
        } else {
            Evaluated::NULL
        });
    }
    let Some(zone) = zone else {
        return Ok(Evaluated::NULL);
    };
    let format = call.argument(1, context)?;
    if call.has(1) && format.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    match read_by(call, &text, &format, &zone) {
        Err(error) if error.code == ErrorCode::CONVERSION_FAILURE && call.has(4) => {
            call.argument(4, context)
        }
        read => read.map(date),
    }
}

fn read_by(call: &Call, text: &Evaluated<'_>, format: &Evaluated<'_>, zone: &Zone) -> Result<i64> {
    let Some(text) = text.as_str() else {
        let text = format!(
            "$dateFromString requires that 'dateString' be a string, found: {} with value {}",
            text.type_name(),
            text.display()
        );
        return Err(Error::new(ErrorCode::CONVERSION_FAILURE, text));
    };
    if !call.has(1) {
        return read_any(text, call.has(2).then_some(zone));
    }
    let Some(format) = format.as_str() else {
        let text = format!(
            "$dateFromString requires that 'format' be a string, found: {} with value {}",
            format.type_name(),
            format.display()
        );
        return Err(Error::location(40684, text));
    };
    check_format(format, LETTERS_READ)?;
    interrupts::work(format.len() + text.len())?;
    let mut reader = Reader::over(text);
    let read = reader.read_format(format).and_then(|()| {
        if reader.rest.is_empty() {
            reader.fields.moment(call.has(2).then_some(zone))
        } else {
            Err("Trailing data")
        }
    });
    read.map_err(|cause| failure(text, text.len() - reader.rest.len(), cause))
}

const LETTERS_READ: &str = "YmdHMSLjuGVzZbB%";

/// The milliseconds of a date in one of the usual notations, in UTC unless the text says where.
pub fn of_text(text: &str) -> Result<i64> {
    read_any(text, None)
}

/// Reads a date in one of the usual notations. A zone that is given is where the text's clock stands, and then the text must
/// not name one itself.
fn read_any(text: &str, zone: Option<&Zone>) -> Result<i64> {
    interrupts::work(text.len())?;
    let text = text.trim();
    let read = without_format::read(text)
        .and_then(|fields| fields.moment(zone).map_err(|cause| (text.len(), cause)));
    read.map_err(|(at, cause)| failure(text, at, cause))
}

/// A text on its way to a date by a format.
struct Reader<'t> {
    rest: &'t str,
    fields: Fields,
}

impl<'t> Reader<'t> {
    fn over(text: &'t str) -> Reader<'t> {
        Reader {
            rest: text,
            fields: Fields::default(),
        }
    }

    fn read_format(&mut self, format: &str) -> Result<(), &'static str> {
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            let letter = match letter {
                '%' => letters.next(),
                literal => {
                    self.literal(literal)?;
                    continue;
                }
            };
            self.read_part(letter.unwrap_or('%'))?;
        }
        Ok(())
    }

    /// Reads a day of the year that was read before. MongoDB counts these from 0, unlike those that `$dateToString` writes, and
    /// goes on into the years behind.
    fn day_of_year(&mut self) -> Result<(), &'static str> {
        const NO_YEAR: &str = "A 'day of year' can only come after a year has been found";
        let first = days_of(self.fields.year.ok_or(NO_YEAR)?, 1, 1);
        let (year, month, day) = date_of(first + self.digits(1, 3)?);
        self.fields.year = Some(year);
        self.fields.month = Some(month);
        self.fields.day = Some(day);
        Ok(())
    }

    fn read_part(&mut self, letter: char) -> Result<(), &'static str> {
        match letter {
            'Y' => self.fields.year = Some(self.digits(4, 4)?),
            'G' => self.fields.iso_year = Some(self.digits(1, 4)?),
            'm' => self.fields.month = Some(self.digits(1, 2)?),
            'd' => self.fields.day = Some(self.digits(1, 2)?),
            'j' => self.day_of_year()?,
            'V' => self.fields.iso_week = Some(self.digits(1, 2)?),
            'u' => self.fields.iso_day = Some(self.digits(1, 1)?),
            'H' => self.fields.hour = self.digits(1, 2)?,
            'M' => self.fields.minute = self.digits(2, 2)?,
            'S' => self.fields.second = self.digits(2, 2)?,
            'L' => self.fields.millisecond = self.fraction_digits()?,
            'b' | 'B' => self.fields.month = Some(self.month_name()?),
            'z' => {
                let (offset, rest) = read_zone(self.rest).ok_or(NO_ZONE)?;
                self.fields.offset_ms = Some(offset);
                self.rest = rest;
            }
            'Z' => {
                let sign = self
                    .rest
                    .chars()
                    .next()
                    .filter(|sign| matches!(sign, '+' | '-'));
                self.rest = self.rest.strip_prefix(['+', '-']).unwrap_or(self.rest);
                let minutes = self.digits(1, 4)?;
                let minutes = if sign == Some('-') { -minutes } else { minutes };
                self.fields.offset_ms = Some(minutes * MINUTE_MS);
            }
            literal => self.literal(literal)?,
        }
        Ok(())
    }

    fn literal(&mut self, letter: char) -> Result<(), &'static str> {
        let rest = self.rest.strip_prefix(letter);
        self.rest = rest.ok_or("The format separator does not match")?;
        Ok(())
    }

    fn digits(&mut self, min: usize, max: usize) -> Result<i64, &'static str> {
        let count = self
            .rest
            .bytes()
            .take(max)
            .take_while(u8::is_ascii_digit)
            .count();
        let (digits, rest) = self.rest.split_at(count);
        let number = digits.parse().ok().filter(|_| count >= min);
        let number = number.ok_or("A number of so many digits could not be found")?;
        self.rest = rest;
        Ok(number)
    }

    fn fraction_digits(&mut self) -> Result<i64, &'static str> {
        let before = self.rest;
        self.digits(1, 3)?;
        Ok(fraction_ms(&before[..before.len() - self.rest.len()]))
    }

    fn month_name(&mut self) -> Result<i64, &'static str> {
        let (month, len) = month_name(self.rest).ok_or("A textual month could not be found")?;
        self.rest = &self.rest[len..];
        Ok(month)
    }
}

/// The error of a text that is no date, for a cause that was found so many bytes behind its beginning.
fn failure(text: &str, at: usize, cause: &str) -> Error {
    let found = text.get(at..).and_then(|rest| rest.chars().next());
    let found = found.map_or_else(String::new, |found| format!(" '{found}'"));
    let text = format!("Error parsing date string '{text}'; {at}: {cause}{found}");
    Error::new(ErrorCode::CONVERSION_FAILURE, text)
}
