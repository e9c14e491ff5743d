//! `$dateFromString`: a date of a text, by a format or in one of the usual notations.
//!
//! Without a format these are read: `2024-01-31`, `2024/01/31`, `20240131`, `01/31/2024`, `31 Jan 2024`, `Jan 31, 2024`,
//! `2024-W05-3`, each alone or followed by `T` or a blank, a time (`13:45`, `13:45:06`, `13:45:06.789`) and a zone (`Z`, `+01:00`,
//! `Europe/Paris`). MongoDB's reader knows more of them, among them words such as `yesterday`; those are refused here.

use quarry_bson::RawValue;

use super::super::parameters::{call_of, need, parameters};
use super::super::tree::Operator;
use super::super::{Call, Context, Evaluated, Expression, Variables, type_name};
use super::arguments::{date, zone_argument};
use super::calendar::{
    DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, date_of, days_in_month, days_of, first_iso_week,
};
use super::text::{MONTHS, check_format};
use super::zone::{Zone, parse_offset};
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
    read.map_err(|cause| reader.failure(cause))
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
    let mut reader = Reader::over(text.trim());
    let read = reader
        .read_usual()
        .and_then(|()| reader.fields.moment(zone));
    read.map_err(|cause| reader.failure(cause))
}

/// The notations of a day, the more particular ones first.
const DAYS: [&str; 9] = [
    "%G-W%V-%u",
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y%m%d",
    "%m/%d/%Y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%b %d, %Y",
    "%b %d %Y",
];

/// The parts that a text has named.
#[derive(Debug, Clone, Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    millisecond: i64,
    zone: Option<Zone>,
}

impl Fields {
    fn moment(&self, zone: Option<&Zone>) -> Result<i64, &'static str> {
        let days = self.days()?;
        if self.hour > 23 || self.minute > 59 || self.second > 59 {
            return Err("The parsed time was invalid");
        }
        let of_day = self.hour * HOUR_MS + self.minute * MINUTE_MS + self.second * SECOND_MS;
        let local = days * DAY_MS + of_day + self.millisecond;
        match (&self.zone, zone) {
            (Some(_), Some(_)) => Err(
                "you cannot pass in a date/time string with time zone information together with a timezone argument",
            ),
            (Some(zone), None) | (None, Some(zone)) => Ok(zone.to_utc(local)),
            (None, None) => Ok(local),
        }
    }

    fn days(&self) -> Result<i64, &'static str> {
        const INCOMPLETE: &str =
            "an incomplete date/time string has been found, with elements missing";
        const INVALID: &str = "The parsed date was invalid";
        if let Some(year) = self.iso_year {
            let week = self.iso_week.ok_or(INCOMPLETE)?;
            let day = self.iso_day.unwrap_or(1);
            if !(1..=53).contains(&week) || !(1..=7).contains(&day) {
                return Err(INVALID);
            }
            return Ok(first_iso_week(year) + (week - 1) * 7 + day - 1);
        }
        let year = self.year.ok_or(INCOMPLETE)?;
        let (month, day) = self.month.zip(self.day).ok_or(INCOMPLETE)?;
        if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
            return Err(INVALID);
        }
        Ok(days_of(year, month, day))
    }
}

/// A text on its way to a date.
struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
    fields: Fields,
}

impl<'t> Reader<'t> {
    fn over(text: &'t str) -> Reader<'t> {
        Reader {
            text,
            rest: text,
            fields: Fields::default(),
        }
    }

    fn failure(&self, cause: &str) -> Error {
        let at = self.text.len() - self.rest.len();
        let found = self.rest.chars().next();
        let found = found.map_or_else(String::new, |found| format!(" '{found}'"));
        let text = format!(
            "Error parsing date string '{}'; {at}: {cause}{found}",
            self.text
        );
        Error::new(ErrorCode::CONVERSION_FAILURE, text)
    }

    fn read_usual(&mut self) -> Result<(), &'static str> {
        let known = DAYS.iter().any(|format| {
            let mut attempt = Reader::over(self.text);
            let ends_well = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_digit());
            let is_read = attempt.read_format(format).is_ok() && ends_well(attempt.rest);
            if is_read {
                *self = attempt;
            }
            is_read
        });
        if !known {
            return Err("The date is in no notation that is known, a format may be given");
        }
        if self.rest.is_empty() {
            return Ok(());
        }
        if let Some(rest) = self.rest.strip_prefix(['T', 't']) {
            self.rest = rest;
            self.read_time()?;
        } else if let Some(rest) = self.rest.strip_prefix(' ')
            && rest.starts_with(|next: char| next.is_ascii_digit())
        {
            self.rest = rest;
            self.read_time()?;
        }
        self.rest = self.rest.trim_start();
        if !self.rest.is_empty() {
            let zone = self.rest;
            self.fields.zone = Some(zone_of(zone).ok_or("Unexpected character")?);
            self.rest = "";
        }
        Ok(())
    }

    fn read_time(&mut self) -> Result<(), &'static str> {
        self.read_format("%H:")?;
        // Without a format a digit will do.
        self.fields.minute = self.digits(1, 2)?;
        if let Some(rest) = self.rest.strip_prefix(':') {
            self.rest = rest;
            self.fields.second = self.digits(1, 2)?;
            self.read_fraction();
        }
        Ok(())
    }

    /// Digits behind a point: those beyond milliseconds are passed over.
    fn read_fraction(&mut self) {
        let Some(rest) = self.rest.strip_prefix(['.', ',']) else {
            return;
        };
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        let digits = rest.bytes().take(count).chain(std::iter::repeat(b'0'));
        let digits = digits.take(3);
        self.fields.millisecond = digits.fold(0, |ms, digit| ms * 10 + i64::from(digit - b'0'));
        self.rest = &rest[count..];
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
            'G' => self.fields.iso_year = Some(self.digits(4, 4)?),
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
                let end = self
                    .rest
                    .find(char::is_whitespace)
                    .unwrap_or(self.rest.len());
                let (zone, rest) = self.rest.split_at(end);
                self.fields.zone = Some(zone_of(zone).ok_or("The timezone could not be found")?);
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
                self.fields.zone = Some(Zone::Fixed(minutes * MINUTE_MS));
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

    /// Milliseconds as up to three digits of a fraction: `5` is half a second.
    fn fraction_digits(&mut self) -> Result<i64, &'static str> {
        let before = self.rest.len();
        let number = self.digits(1, 3)?;
        let missing = 3 - (before - self.rest.len());
        Ok((0..missing).fold(number, |ms, _| ms * 10))
    }

    /// A month by its name or the first three letters of it.
    fn month_name(&mut self) -> Result<i64, &'static str> {
        for (number, name) in (1..).zip(MONTHS) {
            for name in [name, &name[..3]] {
                let found = self.rest.get(..name.len());
                if found.is_some_and(|found| found.eq_ignore_ascii_case(name)) {
                    self.rest = &self.rest[name.len()..];
                    return Ok(number);
                }
            }
        }
        Err("A textual month could not be found")
    }
}

/// `Z`, a distance from UTC or the name of a zone.
fn zone_of(text: &str) -> Option<Zone> {
    if matches!(text, "Z" | "z") {
        return Some(Zone::UTC);
    }
    parse_offset(text)
        .map(Zone::Fixed)
        .or_else(|| Zone::parse(text).ok())
}
