//! Time zones: a name of the IANA database, or a distance from UTC such as `+02`, `-0330` and `+05:45`.
//!
//! A zone stands either in an argument of its own (`Zone::parse`), or within the text of a date (`read_zone`), where MongoDB
//! takes abbreviations such as `CEST` and letters such as `A`, but no names of the database.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::calendar::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};
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

/// The complaint about a text in which `read_zone` finds no zone: most often a name of the database stands there.
pub(super) const NO_ZONE: &str =
    "passing a time zone identifier as part of the string is not allowed";

/// Reads the zone with which a text begins, behind blanks: a distance from UTC, also one behind `GMT`, an abbreviation, or the
/// letter of a military zone. Parentheses around it are passed over. Gives the zone's milliseconds east of Greenwich and the
/// text behind it.
pub(super) fn read_zone(text: &str) -> Option<(i64, &str)> {
    let text = text.trim_start_matches([' ', '\t', '(']);
    let signed = text
        .strip_prefix("GMT")
        .filter(|rest| rest.starts_with(['+', '-']))
        .unwrap_or(text);
    let (offset, rest) = match signed.as_bytes().first()? {
        b'+' => read_distance(&signed[1..])?,
        b'-' => {
            let (distance, rest) = read_distance(&signed[1..])?;
            (-distance, rest)
        }
        _ => {
            let end = text.find(|next: char| !next.is_ascii_alphabetic());
            let (word, rest) = text.split_at(end.unwrap_or(text.len()));
            (abbreviation_minutes(word)? * MINUTE_MS, rest)
        }
    };
    Some((offset, rest.trim_start_matches(')')))
}

/// Reads the milliseconds of hours, of hours and minutes, or of hours, minutes and seconds, with or without colons: `2`, `02`,
/// `330`, `0330`, `3:30`, `03:30`, `033015`, `03:30:15`.
fn read_distance(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|next: char| !next.is_ascii_digit() && next != ':');
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let mut parts = digits.splitn(3, ':');
    let (first, second, third) = (parts.next()?, parts.next(), parts.next());
    let (hours, minutes, seconds) = match (first.len(), second, third) {
        (1..=2, None, None) => (first, "0", "0"),
        (3..=4, None, None) => (&first[..first.len() - 2], &first[first.len() - 2..], "0"),
        (6, None, None) => (&first[..2], &first[2..4], &first[4..]),
        (1..=2, Some(minutes), None) if minutes.len() <= 2 => (first, minutes, "0"),
        (2, Some(minutes), Some(seconds)) if minutes.len() == 2 && seconds.len() == 2 => {
            (first, minutes, seconds)
        }
        _ => return None,
    };
    let number = |part: &str| part.parse::<i64>().ok();
    let distance = number(hours)? * HOUR_MS + number(minutes)? * MINUTE_MS;
    Some((distance + number(seconds)? * SECOND_MS, rest))
}

/// The minutes east of Greenwich that an abbreviation stands for, in letters of either case.
fn abbreviation_minutes(word: &str) -> Option<i64> {
    if let &[letter] = word.as_bytes() {
        return military_hours(letter.to_ascii_uppercase()).map(|hours| hours * 60);
    }
    let found = ABBREVIATIONS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(word));
    found.map(|&(_, minutes)| minutes)
}

/// The military zones are named eastward from A to M, westward from N to Y, and Z at Greenwich. J is none of them.
fn military_hours(letter: u8) -> Option<i64> {
    Some(match letter {
        b'A'..=b'I' => i64::from(letter - b'A') + 1,
        b'K'..=b'M' => i64::from(letter - b'K') + 10,
        b'N'..=b'Y' => -i64::from(letter - b'N') - 1,
        b'Z' => 0,
        _ => return None,
    })
}

/// Abbreviations of zones with their minutes east of Greenwich. One that is in use for several zones, such as `IST`, is left
/// out, or stands for the zone that MongoDB takes it for.
const ABBREVIATIONS: [(&str, i64); 42] = [
    ("UTC", 0),
    ("GMT", 0),
    ("WET", 0),
    ("WEST", 60),
    ("BST", 60),
    ("CET", 60),
    ("CEST", 120),
    ("MET", 60),
    ("MEST", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("MSD", 240),
    ("WAT", 60),
    ("CAT", 120),
    ("SAST", 120),
    ("EAT", 180),
    ("SGT", 480),
    ("AWST", 480),
    ("JST", 540),
    ("KST", 540),
    ("ACST", 570),
    ("ACDT", 630),
    ("AEST", 600),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
    ("NST", -210),
    ("NDT", -150),
    ("AST", -240),
    ("ADT", -180),
    ("EST", -300),
    ("EDT", -240),
    ("CST", -360),
    ("CDT", -300),
    ("MST", -420),
    ("MDT", -360),
    ("PST", -480),
    ("PDT", -420),
    ("AKST", -540),
    ("AKDT", -480),
    ("HST", -600),
];
