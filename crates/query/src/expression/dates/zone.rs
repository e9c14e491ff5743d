//! Time zones: a name of the IANA database, or a distance from UTC such as `+02`, `-0330` and `+05:45`.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::calendar::{DAY_MS, HOUR_MS, MINUTE_MS};
use crate::error::{Error, Result};

/// The rules as they were when the program was built: the machine may have none.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// How far clocks stand from UTC.
#[derive(Debug, Clone)]
pub(super) enum Zone {
    /// Always by so many milliseconds, east of Greenwich positive.
    Fixed(i64),
    /// By the rules of a place.
    Named(TimeZone),
}

impl Zone {
    pub const UTC: Zone = Zone::Fixed(0);

    /// The zone of that name, or at that distance.
    pub fn parse(name: &str) -> Result<Zone> {
        if matches!(name, "UTC" | "GMT") {
            return Ok(Zone::UTC);
        }
        if let Some(offset) = parse_offset(name) {
            return Ok(Zone::Fixed(offset));
        }
        // The database finds a name however its letters are written.
        let found = ZONES.get(name).ok();
        let found = found.filter(|zone| zone.iana_name() == Some(name));
        found.map(Zone::Named).ok_or_else(|| {
            let text = format!("unrecognized time zone identifier: \"{name}\"");
            Error::location(40485, text)
        })
    }

    pub fn is_utc(&self) -> bool {
        matches!(self, Zone::Fixed(0))
    }

    /// How far the clocks stand from UTC at a moment.
    pub fn offset_ms(&self, utc_ms: i64) -> i64 {
        match self {
            Zone::Fixed(offset) => *offset,
            Zone::Named(zone) => {
                // Beyond the years that the rules are made for, those of the first or the last one stand.
                let (first, last) = (Timestamp::MIN, Timestamp::MAX);
                let ms = utc_ms.clamp(first.as_millisecond(), last.as_millisecond());
                let moment = Timestamp::from_millisecond(ms).unwrap_or(last);
                i64::from(zone.to_offset(moment).seconds()) * 1000
            }
        }
    }

    /// The time on the clocks, as milliseconds since 1970 began there.
    pub fn to_local(&self, utc_ms: i64) -> i64 {
        utc_ms.saturating_add(self.offset_ms(utc_ms))
    }

    /// The moment at which the clocks show a time. Of two moments the earlier one; a time that is left out when the clocks
    /// are put forward is read by the clocks before that.
    pub fn to_utc(&self, local_ms: i64) -> i64 {
        let before = self.offset_ms(local_ms.saturating_sub(DAY_MS));
        let after = self.offset_ms(local_ms.saturating_add(DAY_MS));
        let early = local_ms.saturating_sub(before);
        if before == after || self.offset_ms(early) == before {
            return early;
        }
        let late = local_ms.saturating_sub(after);
        if self.offset_ms(late) == after {
            late
        } else {
            early
        }
    }
}

/// The milliseconds of `+hh`, `+hhmm` or `+hh:mm`.
pub(super) fn parse_offset(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = text.get(1..)?;
    let (hours, minutes) = match digits.len() {
        2 => (digits, "0"),
        4 => digits.split_at_checked(2)?,
        5 => digits
            .split_once(':')
            .filter(|(hours, _)| hours.len() == 2)?,
        _ => return None,
    };
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(hours) || !is_number(minutes) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    Some(sign * (hours * HOUR_MS + minutes * MINUTE_MS))
}
