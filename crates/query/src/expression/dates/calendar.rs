//! The calendar: days since 1970 against years, months and weeks (the proleptic Gregorian one, and ISO 8601's weeks).

pub(super) const SECOND_MS: i64 = 1000;
pub(super) const MINUTE_MS: i64 = 60 * SECOND_MS;
pub(super) const HOUR_MS: i64 = 60 * MINUTE_MS;
pub(super) const DAY_MS: i64 = 24 * HOUR_MS;

/// The readings of a calendar and a clock at a moment in some time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Local {
    /// Days since 1970-01-01.
    pub days: i64,
    pub year: i64,
    pub month: i64,
    pub day: i64,
    /// Milliseconds since midnight.
    pub of_day_ms: i64,
}

impl Local {
    /// The readings so many milliseconds after 1970 has begun there.
    pub fn at(local_ms: i64) -> Local {
        let days = local_ms.div_euclid(DAY_MS);
        let (year, month, day) = date_of(days);
        Local {
            days,
            year,
            month,
            day,
            of_day_ms: local_ms.rem_euclid(DAY_MS),
        }
    }

    pub fn hour(&self) -> i64 {
        self.of_day_ms / HOUR_MS
    }

    pub fn minute(&self) -> i64 {
        self.of_day_ms / MINUTE_MS % 60
    }

    pub fn second(&self) -> i64 {
        self.of_day_ms / SECOND_MS % 60
    }

    pub fn millisecond(&self) -> i64 {
        self.of_day_ms % SECOND_MS
    }

    /// From 1 on.
    pub fn day_of_year(&self) -> i64 {
        self.days - days_of(self.year, 1, 1) + 1
    }

    /// From Monday, which is 1, to Sunday, which is 7.
    pub fn iso_day_of_week(&self) -> i64 {
        weekday(self.days) + 1
    }

    /// From Sunday, which is 1, to Saturday, which is 7.
    pub fn day_of_week(&self) -> i64 {
        self.iso_day_of_week() % 7 + 1
    }

    /// Weeks begin on Sundays; the days before the year's first one are in week 0.
    pub fn week(&self) -> i64 {
        (self.day_of_year() + 7 - self.day_of_week()) / 7
    }

    /// The year that the week belongs to, and the week's number in it: that of its Thursday.
    pub fn iso_week(&self) -> (i64, i64) {
        let thursday = self.days - weekday(self.days) + 3;
        let (year, _, _) = date_of(thursday);
        (year, (thursday - days_of(year, 1, 1)) / 7 + 1)
    }
}

/// The day of the week from Monday, which is 0: 1970 began on a Thursday.
pub(super) fn weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7)
}

/// The days between 1970-01-01 and a date, whose month lies between 1 and 12.
pub(super) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years are counted from March, so that a leap day ends its year; 400 of them are one era of 146,097 days.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - DAYS_TO_1970
}

const ERA_DAYS: i64 = 146_097;
/// From 0000-03-01.
const DAYS_TO_1970: i64 = 719_468;

/// Year, month and day.
pub(super) fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_1970;
    let (era, of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The Monday with which the first week of a year begins by ISO 8601, in days since 1970.
pub(super) fn first_iso_week(year: i64) -> i64 {
    let fourth = days_of(year, 1, 4);
    fourth - weekday(fourth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_one_date_and_a_date_one_day() {
        for days in (-1_000_000..1_000_000).step_by(97) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month, day), days);
            assert!((1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day));
        }
        assert_eq!(date_of(0), (1970, 1, 1));
    }

    #[test]
    fn weeks_of_iso_8601_follow_each_other() {
        let mut before = Local::at(-DAY_MS * 40_000).iso_week();
        for days in -39_999..40_000 {
            let local = Local::at(days * DAY_MS);
            let week = local.iso_week();
            assert_eq!(week != before, local.iso_day_of_week() == 1, "{local:?}");
            let (year, number) = week;
            assert_eq!(
                first_iso_week(year) + (number - 1) * 7,
                days - weekday(days)
            );
            before = week;
        }
    }
}
