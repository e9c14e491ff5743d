//! Timestamp (MongoDB's internal clock type) and DateTime (a Rust name for milliseconds since 1970).

use std::fmt;

/// Seconds and an ordinal within the second; ordered by both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub time: u32,
    /// The ordinal within the second, from 1.
    pub increment: u32,
}

impl Timestamp {
    /// The eight bytes on the wire, read as one little-endian number.
    #[inline]
    pub const fn from_u64(bits: u64) -> Self {
        Self {
            time: (bits >> 32) as u32,
            increment: bits as u32,
        }
    }

    /// The eight bytes on the wire, as one little-endian number.
    #[inline]
    pub const fn to_u64(self) -> u64 {
        (self.time as u64) << 32 | self.increment as u64
    }
}

/// Milliseconds since 1970 in UTC; may be negative. Exists so that `append(name, DateTime(ms))` differs
/// from appending an Int64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(pub i64);

impl DateTime {
    /// The clock of this machine; 0 if that stands before 1970.
    pub fn now() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(now.map_or(0, |d| d.as_millis() as i64))
    }
}

/// ISO 8601 with milliseconds in UTC, over the whole Int64 range: years outside 0000..9999 carry a sign.
impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0.div_euclid(MS_A_DAY), self.0.rem_euclid(MS_A_DAY));
        let (year, month, day) = civil_from_days(days);
        if (0..=9999).contains(&year) {
            write!(f, "{year:04}")?;
        } else {
            write!(f, "{year:+07}")?;
        }
        let (hour, minute, second, ms) =
            (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        write!(
            f,
            "-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"
        )
    }
}

pub(crate) const MS_A_DAY: i64 = 86_400_000;

/// The proleptic Gregorian date of a day counted from 1970-01-01. Eras of 400 years, years from March.
pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_from_days`]; `month` and `day` must be in their ranges.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let march_month = (month + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_print_over_the_whole_range() {
        assert_eq!(DateTime(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            DateTime(1_356_351_330_501).to_string(),
            "2012-12-24T12:15:30.501Z"
        );
        assert_eq!(DateTime(-1).to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(
            DateTime(253_402_300_800_000).to_string(),
            "+010000-01-01T00:00:00.000Z"
        );
        assert_eq!(
            DateTime(i64::MIN).to_string(),
            "-292275055-05-16T16:47:04.192Z"
        );
    }

    #[test]
    fn civil_dates_go_both_ways() {
        for days in (-1_000_000..1_000_000).step_by(37) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }
}
