//! The notations of dates that are read without a format, such as `2017-07-04T11:56:02Z`, `July 4th, 2017 11am`, `7/4/17`.
//!
//! Keeps true: a text is read as MongoDB's library timelib reads it, piece by piece: a date, a time of day, a zone, a name of a
//! day, a year behind a time, in any order, with blanks, points and commas between them. Where several notations fit, the
//! longest is read. Each piece is tried with a fixed number of notations and takes at least a byte, and a text has at most one
//! date and one time, so that the work grows with the length of the text alone.
//!
//! Left out are the words and sums that depend on the clock or move a date (`tomorrow`, `+2 days`, `first day of`), and seconds
//! since 1970 (`@1500000000`).

use super::fields::{Fields, begins_with};
use super::notations::Attempt;
use super::zone::{NO_ZONE, read_zone};

/// The cause for which a text is no date, and how many bytes it stands behind the beginning.
pub(super) type Failure = (usize, &'static str);

/// Reads a whole text.
pub(super) fn read(text: &str) -> Result<Fields, Failure> {
    let mut reader = Reader {
        text,
        at: 0,
        fields: Fields::default(),
        has_date: false,
        has_time: false,
        has_zone: false,
    };
    if text.is_empty() {
        return Err((0, UNKNOWN));
    }
    while let Some(next) = text.as_bytes().get(reader.at) {
        if matches!(next, b' ' | b'\t' | b'\n' | b'.' | b',') {
            reader.at += 1;
            continue;
        }
        let before = reader.at;
        reader.piece().map_err(|cause| (reader.at, cause))?;
        debug_assert!(reader.at > before, "a piece takes at least a byte");
    }
    Ok(reader.fields)
}

const UNKNOWN: &str = "The date is in no notation that is known, a format may be given";

/// A text on its way to a date.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    fields: Fields,
    has_date: bool,
    has_time: bool,
    has_zone: bool,
}

impl Reader<'_> {
    /// Reads the piece that stands next. Zones are tried last, since any word but the others might be one.
    fn piece(&mut self) -> Result<(), &'static str> {
        if self.date_or_time()? || self.four_digits() || self.word()? {
            return Ok(());
        }
        let next = self.text.as_bytes()[self.at];
        if !next.is_ascii_alphabetic() && !matches!(next, b'+' | b'-' | b'(') {
            return Err(self.unexpected());
        }
        let Some((offset, rest)) = read_zone(&self.text[self.at..]) else {
            return Err(match next {
                b'+' | b'-' | b'(' => self.unexpected(),
                _ if self.at == 0 => UNKNOWN,
                _ => NO_ZONE,
            });
        };
        if self.has_zone {
            return Err("Double timezone specification");
        }
        self.has_zone = true;
        self.fields.offset_ms = Some(offset);
        self.at = self.text.len() - rest.len();
        Ok(())
    }

    fn unexpected(&self) -> &'static str {
        match self.at {
            0 => UNKNOWN,
            _ => "Unexpected character",
        }
    }

    /// Reads a date, or a time of day, or a date with a time, whichever is longer. Of a date and a time of one length the time
    /// is read: `10.11.12` is one.
    fn date_or_time(&mut self) -> Result<bool, &'static str> {
        let start = Attempt::new(self.text, self.at, self.fields);
        let time = start.time();
        let time_end = time.map_or(self.at, |time| time.at);
        let date = if self.has_date { None } else { start.date() };
        let Some(read) = date.filter(|date| date.at > time_end).or(time) else {
            return Ok(false);
        };
        if read.has_time && self.has_time {
            return Err("Double time specification");
        }
        self.has_date |= read.has_date;
        self.has_time |= read.has_time;
        (self.at, self.fields) = (read.at, read.fields);
        if read.ends_in_seconds {
            self.zone_behind_seconds()?;
        }
        Ok(true)
    }

    /// Reads the zone that stands directly behind the seconds of a time. It does not count as the zone of the text, so that
    /// `11:56:02 GMT+0200 (CEST)` may name another, which holds.
    fn zone_behind_seconds(&mut self) -> Result<(), &'static str> {
        let rest = self.text[self.at..].trim_start_matches([' ', '\t']);
        let begins = |next: char| next.is_ascii_alphabetic() || matches!(next, '+' | '-' | '(');
        if !rest.starts_with(begins) {
            return Ok(());
        }
        self.at = self.text.len() - rest.len();
        let (offset, rest) = read_zone(rest).ok_or(NO_ZONE)?;
        self.fields.offset_ms = Some(offset);
        self.at = self.text.len() - rest.len();
        Ok(())
    }

    /// Reads four digits that stand alone: a year behind a time, or else an hour and a minute. Those that are no time are a
    /// year in any case.
    fn four_digits(&mut self) -> bool {
        let start = Attempt::new(self.text, self.at, self.fields);
        let time = start.hour_and_minute().filter(|_| !self.has_time);
        let Some(read) = time.or_else(|| start.year()) else {
            return false;
        };
        self.has_time |= read.has_time;
        (self.at, self.fields) = (read.at, read.fields);
        true
    }

    /// Reads `noon`, `midnight` or the name of a day.
    fn word(&mut self) -> Result<bool, &'static str> {
        let rest = &self.text[self.at..];
        let end = rest.find(|next: char| !next.is_ascii_alphabetic());
        let word = &rest[..end.unwrap_or(rest.len())];
        let is = |name: &str| word.len() == name.len() && begins_with(word, name);
        let day = (0..).zip(DAYS).find(|(_, name)| is(name) || is(&name[..3]));
        if day.is_none() && !is("noon") && !is("midnight") {
            return Ok(false);
        }
        if self.has_time {
            return Err("Double time specification");
        }
        match day {
            Some((number, _)) => self.fields.weekday = Some(number),
            None => {
                self.fields.hour = if is("noon") { 12 } else { 0 };
                self.has_time = true;
            }
        }
        self.at += word.len();
        Ok(true)
    }
}

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
