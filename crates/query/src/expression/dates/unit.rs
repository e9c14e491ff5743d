//! The units of time that `$dateAdd $dateSubtract $dateDiff $dateTrunc` take, and the day on which weeks begin.

use super::super::{Call, Context, Evaluated};
use super::calendar::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};
use crate::error::{Error, Result};

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of months, by the calendar.
    Months(i64),
    /// A number of days, by the calendar.
    Days(i64),
    /// A number of milliseconds.
    Fixed(i64),
}

impl Unit {
    pub const WEEK: Unit = Unit::Days(7);

    pub fn of(name: &str) -> Option<Unit> {
        Some(match name {
            "year" => Unit::Months(12),
            "quarter" => Unit::Months(3),
            "month" => Unit::Months(1),
            "week" => Unit::WEEK,
            "day" => Unit::Days(1),
            "hour" => Unit::Fixed(HOUR_MS),
            "minute" => Unit::Fixed(MINUTE_MS),
            "second" => Unit::Fixed(SECOND_MS),
            "millisecond" => Unit::Fixed(1),
            _ => return None,
        })
    }

    /// The length of a unit that is always as long: a week or less, where days have 24 hours.
    pub fn fixed_ms(self) -> Option<i64> {
        match self {
            Unit::Months(_) => None,
            Unit::Days(days) => Some(days * DAY_MS),
            Unit::Fixed(ms) => Some(ms),
        }
    }

    /// The unit that an argument names, None if it is nullish.
    pub fn argument<'a>(
        call: &'a Call,
        context: &mut Context<'a>,
        index: usize,
    ) -> Result<Option<Unit>> {
        let (value, name) = (call.argument(index, context)?, call.name());
        if value.is_nullish() {
            return Ok(None);
        }
        let Some(unit) = value.as_str() else {
            let kind = value.type_name();
            let text = format!("{name} requires 'unit' to be a string, but got {kind}");
            return Err(Error::location(5_439_013, text));
        };
        Unit::of(unit).map(Some).ok_or_else(|| {
            let text = format!(
                "{name} parameter 'unit' value cannot be recognized as a time unit: {unit}"
            );
            Error::location(5_439_014, text)
        })
    }
}

/// The day on which weeks begin, Monday being 0; Sunday where it is not given, None if it is nullish.
pub(super) fn start_of_week<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    index: usize,
) -> Result<Option<i64>> {
    if !call.has(index) {
        return Ok(Some(6));
    }
    let (value, name): (Evaluated<'a>, _) = (call.argument(index, context)?, call.name());
    if value.is_nullish() {
        return Ok(None);
    }
    let Some(day) = value.as_str() else {
        let kind = value.type_name();
        let text = format!("{name} requires 'startOfWeek' to be a string, but got {kind}");
        return Err(Error::location(5_439_015, text));
    };
    let lower = day.to_ascii_lowercase();
    let found = DAYS
        .iter()
        .position(|(short, long)| lower == *short || lower == *long);
    found.map(|found| Some(found as i64)).ok_or_else(|| {
        let text = format!(
            "{name} parameter 'startOfWeek' value cannot be recognized as a day of a week: {day}"
        );
        Error::location(5_439_016, text)
    })
}

const DAYS: [(&str, &str); 7] = [
    ("mon", "monday"),
    ("tue", "tuesday"),
    ("wed", "wednesday"),
    ("thu", "thursday"),
    ("fri", "friday"),
    ("sat", "saturday"),
    ("sun", "sunday"),
];
