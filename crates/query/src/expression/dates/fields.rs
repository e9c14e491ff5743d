//! The parts of a date that a text names, and the moment that they add up to.

use super::calendar::{
    DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, days_in_month, days_of, first_iso_week, weekday,
};
use super::text::MONTHS;
use super::zone::Zone;

/// The parts that a text has named. The time of day is midnight unless it is named.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fields {
    pub year: Option<i64>,
    pub month: Option<i64>,
    pub day: Option<i64>,
    /// From 1 on, in place of a month and a day.
    pub day_of_year: Option<i64>,
    pub iso_year: Option<i64>,
    pub iso_week: Option<i64>,
    /// From Monday, which is 1, to Sunday, which is 7.
    pub iso_day: Option<i64>,
    /// The day of the week from Monday, which is 0: the date is the first such day that is not before the one named.
    pub weekday: Option<i64>,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub millisecond: i64,
    /// How far the clocks stand east of Greenwich.
    pub offset_ms: Option<i64>,
}

impl Fields {
    /// The milliseconds of the moment, in UTC unless the text or the argument names a zone. Not both may name one.
    pub fn moment(&self, zone: Option<&Zone>) -> Result<i64, &'static str> {
        let days = self.days()?;
        if self.hour > 23 || self.minute > 59 || self.second > 59 {
            return Err("The parsed time was invalid");
        }
        let of_day = self.hour * HOUR_MS + self.minute * MINUTE_MS + self.second * SECOND_MS;
        let local = days * DAY_MS + of_day + self.millisecond;
        match (self.offset_ms, zone) {
            (Some(_), Some(_)) => Err(
                "you cannot pass in a date/time string with time zone information together with a timezone argument",
            ),
            (Some(offset), None) => Ok(local - offset),
            (None, Some(zone)) => Ok(zone.to_utc(local)),
            (None, None) => Ok(local),
        }
    }

    fn days(&self) -> Result<i64, &'static str> {
        let days = self.days_named()?;
        let behind = self
            .weekday
            .map_or(0, |day| (day - weekday(days)).rem_euclid(7));
        Ok(days + behind)
    }

    fn days_named(&self) -> Result<i64, &'static str> {
        const INCOMPLETE: &str =
            "an incomplete date/time string has been found, with elements missing";
        const INVALID: &str = "The parsed date was invalid";
        if self.iso_year.is_some() || self.iso_week.is_some() || self.iso_day.is_some() {
            if self.year.is_some() || self.month.is_some() || self.day.is_some() {
                return Err("Mixing of ISO dates with natural dates is not allowed");
            }
            let year = self.iso_year.ok_or(INVALID)?;
            let (week, day) = (self.iso_week.unwrap_or(1), self.iso_day.unwrap_or(1));
            if !(1..=53).contains(&week) || !(1..=7).contains(&day) {
                return Err(INVALID);
            }
            return Ok(first_iso_week(year) + (week - 1) * 7 + day - 1);
        }
        let year = self.year.ok_or(INCOMPLETE)?;
        if let Some(day) = self.day_of_year {
            let days = 365 - 28 + days_in_month(year, 2);
            let is_valid = (1..=days).contains(&day);
            return is_valid
                .then(|| days_of(year, 1, 1) + day - 1)
                .ok_or(INVALID);
        }
        let (month, day) = self.month.zip(self.day).ok_or(INCOMPLETE)?;
        if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
            return Err(INVALID);
        }
        Ok(days_of(year, month, day))
    }
}

/// The month with whose name a text begins, all of it or three letters, and the length of what stands there.
pub(super) fn month_name(text: &str) -> Option<(i64, usize)> {
    (1..).zip(MONTHS).find_map(|(number, name)| {
        let stands = |name: &&str| begins_with(text, name);
        let found = [name, &name[..3]].into_iter().find(stands)?;
        Some((number, found.len()))
    })
}

/// Whether a text begins with a word of ASCII letters, whatever their case.
pub(super) fn begins_with(text: &str, word: &str) -> bool {
    let start = text.get(..word.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Milliseconds as the digits of a fraction: `5` is half a second. Digits beyond the third are passed over.
pub(super) fn fraction_ms(digits: &str) -> i64 {
    let digits = digits.bytes().chain(std::iter::repeat(b'0')).take(3);
    digits.fold(0, |ms, digit| ms * 10 + i64::from(digit - b'0'))
}
