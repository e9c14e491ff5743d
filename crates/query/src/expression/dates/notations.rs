//! The patterns of dates, and the reading of one date or time of day by them.
//!
//! Keeps true: a pattern is read from left to right without going back, and a number takes as many digits as its range allows.
//! What the numbers say together, such as a day that its month does not have, is left to `Fields`.

use std::ops::RangeInclusive;

use super::fields::{Fields, begins_with, fraction_ms, month_name};

/// The notation of dates that is most in use. No text that fits it fits a longer one.
const USUAL: &str = "Y-m-d";

/// The other notations of dates that begin with a digit. `Attempt::part` says what each character stands for.
const OF_DIGITS: [&str; 28] = [
    "y-m-d",
    "Y-m1",
    "Y/m/d",
    "Y/M/D/",
    "YMD",
    "Yj",
    "Y.j",
    "Y-j",
    "Y-WV-u",
    "Y-Wv-u",
    "Y-WVu",
    "Y-WV",
    "YWV-u",
    "YWVu",
    "YWV",
    "m/d/y",
    "m/d",
    "d.m.Y",
    "d-m-Y",
    "d.m-Y",
    "d-m.Y",
    "d.m.2",
    "d_B_y",
    "d_B",
    "Y_B1",
    "y-b-D",
    "d/b/Y:H:I:S",
    "Y:M:D H:I:S",
];

/// The notations of dates that begin with the name of a month. A time may stand behind a day without a year, which would else
/// be read as the year: `Jul 4 11:56`.
const OF_LETTERS: [&str; 5] = ["B_e,y", "B_e,@", "B_d", "B_Y1", "b-D-y"];

/// A date or a time that is read from a place in a text, into parts that were read before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt<'t> {
    text: &'t str,
    pub at: usize,
    pub fields: Fields,
    pub has_date: bool,
    pub has_time: bool,
    /// Whether it is a time with seconds in two digits and nothing behind them.
    pub ends_in_seconds: bool,
}

impl<'t> Attempt<'t> {
    pub fn new(text: &'t str, at: usize, fields: Fields) -> Attempt<'t> {
        Attempt {
            text,
            at,
            fields,
            has_date: false,
            has_time: false,
            ends_in_seconds: false,
        }
    }

    /// Reads a date in the notation by which it is longest, and of those equally long in the first one.
    pub fn date(self) -> Option<Attempt<'t>> {
        let patterns: &[&str] = match self.rest().as_bytes().first()? {
            b'0'..=b'9' => &OF_DIGITS,
            next if next.is_ascii_alphabetic() => &OF_LETTERS,
            _ => return None,
        };
        if let Some(read) = self.pattern(USUAL) {
            return Some(read);
        }
        let read = patterns.iter().filter_map(|pattern| self.pattern(pattern));
        read.reduce(|best, next| if next.at > best.at { next } else { best })
    }

    /// Reads a time of day: `11:56`, `11:56:02.813`, `11.56.02`, `11am`, `11:56 p.m.`, `115602`. Those by 24 hours may stand
    /// behind a `T`, and there an hour may stand alone.
    pub fn time(mut self) -> Option<Attempt<'t>> {
        self.has_time = true;
        let is_tagged = self.skip("tT");
        if let Some(read) = self.time_without_marks() {
            return Some(read);
        }
        self.fields.hour = self.number(1..=2, 24)?;
        let minute = self.behind(":.", 59);
        if let Some(minute) = minute {
            self.fields.minute = minute;
            self.seconds();
        }
        if is_tagged {
            // An hour alone does not end within a number: `T1156` has its minutes in the next two digits.
            let is_cut = self.rest().starts_with(|next: char| next.is_ascii_digit());
            return Some(self).filter(|_| minute.is_some() || !is_cut);
        }
        let is_by_12_hours = self.half_of_day();
        Some(self).filter(|_| minute.is_some() || is_by_12_hours)
    }

    fn time_without_marks(mut self) -> Option<Attempt<'t>> {
        for letter in ['H', 'I', 'S'] {
            self.part(letter)?;
        }
        Some(self)
    }

    /// Reads an hour and a minute in four digits, also behind a `T`.
    pub fn hour_and_minute(mut self) -> Option<Attempt<'t>> {
        self.has_time = true;
        self.skip("tT");
        self.part('H')?;
        self.part('I')?;
        Some(self)
    }

    /// Reads a year in four digits.
    pub fn year(mut self) -> Option<Attempt<'t>> {
        self.part('Y')?;
        Some(self)
    }

    fn pattern(mut self, pattern: &str) -> Option<Attempt<'t>> {
        self.has_date = true;
        for letter in pattern.chars() {
            self.part(letter)?;
        }
        Some(self)
    }

    /// Reads what a character of a pattern stands for: here the parts of a date.
    fn part(&mut self, letter: char) -> Option<()> {
        match letter {
            'Y' => self.fields.year = Some(self.number(4..=4, 9999)?),
            'y' => self.fields.year = Some(self.short_year(4)?),
            '2' => self.fields.year = Some(self.short_year(2)?),
            'm' => self.fields.month = Some(self.number(1..=2, 12)?),
            'M' => self.fields.month = Some(self.number(2..=2, 12)?),
            'B' => self.fields.month = Some(self.month()?),
            'b' => self.fields.month = Some(self.short_month()?),
            'e' => self.fields.day = Some(self.number(1..=2, 31)?),
            'd' => {
                self.part('e')?;
                let is_suffixed = SUFFIXES.iter().any(|end| self.rest().starts_with(end));
                self.at += if is_suffixed { 2 } else { 0 };
            }
            'D' => self.fields.day = Some(self.number(2..=2, 31)?),
            // Nothing is read: a month without a day stands for its first.
            '1' => self.fields.day = Some(1),
            'j' => self.fields.day_of_year = Some(self.number(3..=3, 366)?),
            'V' | 'v' => {
                let digits = if letter == 'V' { 2..=2 } else { 1..=1 };
                self.fields.iso_year = self.fields.year.take();
                self.fields.iso_week = Some(self.number(digits, 53)?);
            }
            'u' => self.fields.iso_day = Some(self.number(1..=1, 7)?),
            other => return self.time_or_mark(other),
        }
        Some(())
    }

    /// Reads what the other characters of a pattern stand for: parts of a time, runs of marks, and themselves.
    fn time_or_mark(&mut self, letter: char) -> Option<()> {
        match letter {
            'H' => {
                self.has_time = true;
                self.fields.hour = self.number(2..=2, 24)?;
            }
            'I' => self.fields.minute = self.number(2..=2, 59)?,
            'S' => self.fields.second = self.number(2..=2, 60)?,
            '@' => *self = self.time()?,
            '_' => while self.skip(" \t.-") {},
            // Between a day and a year, among the marks the letters of `1st`, `2nd`, `3rd` and `4th`.
            ',' => {
                let before = self.at;
                while self.skip(", \t.stndrh") {}
                return (self.at > before).then_some(());
            }
            literal => {
                let rest = self.rest().strip_prefix(literal)?;
                self.at = self.text.len() - rest.len();
            }
        }
        Some(())
    }

    /// Reads the seconds behind a minute, if they are there, and their fraction.
    fn seconds(&mut self) {
        let before = self.at;
        let Some(second) = self.behind(":.", 60) else {
            return;
        };
        self.fields.second = second;
        // A mark and two digits.
        self.ends_in_seconds = self.at - before == 3;
        let rest = self.rest();
        let Some(fraction) = rest.strip_prefix(['.', ',']) else {
            return;
        };
        let end = fraction.find(|next: char| !next.is_ascii_digit());
        let digits = &fraction[..end.unwrap_or(fraction.len())];
        if !digits.is_empty() {
            self.fields.millisecond = fraction_ms(digits);
            self.at += 1 + digits.len();
            self.ends_in_seconds = false;
        }
    }

    /// Reads `am` or `pm`, also with points, behind a time by 12 hours. A blank or the end of the text must follow.
    fn half_of_day(&mut self) -> bool {
        let mut read = *self;
        while read.skip(" \t") {}
        let is_afternoon = begins_with(read.rest(), "p");
        let is_read = read.skip("aApP") && {
            read.skip(".");
            read.skip("mM")
        };
        read.skip(".");
        let ends = read.rest().is_empty() || read.rest().starts_with([' ', '\t']);
        if !is_read || !ends || !(1..=12).contains(&read.fields.hour) {
            return false;
        }
        read.fields.hour = read.fields.hour % 12 + if is_afternoon { 12 } else { 0 };
        read.ends_in_seconds = false;
        *self = read;
        true
    }

    /// Reads the name of a month, its abbreviation, or its Roman number in capital letters.
    fn month(&mut self) -> Option<i64> {
        let rest = self.rest();
        if let Some((month, len)) = month_name(rest) {
            let len = if begins_with(rest, "sept") {
                len.max(4)
            } else {
                len
            };
            self.at += len;
            return Some(month);
        }
        let end = rest.find(|next: char| !matches!(next, 'I' | 'V' | 'X'));
        let roman = &rest[..end.unwrap_or(rest.len())];
        let (month, _) = (1..).zip(ROMAN).find(|(_, name)| *name == roman)?;
        self.at += roman.len();
        Some(month)
    }

    /// Reads the abbreviation of a month.
    fn short_month(&mut self) -> Option<i64> {
        let (month, _) = month_name(self.rest())?;
        self.at += if begins_with(self.rest(), "sept") {
            4
        } else {
            3
        };
        Some(month)
    }

    /// Reads a year of at most so many digits. Those below 100 in fewer than four digits lie between 1970 and 2069.
    fn short_year(&mut self, digits_max: usize) -> Option<i64> {
        let before = self.at;
        let digits_min = if digits_max == 2 { 2 } else { 1 };
        let year = self.number(digits_min..=digits_max, 9999)?;
        Some(match year {
            0..=69 if self.at - before < 4 => 2000 + year,
            70..=99 if self.at - before < 4 => 1900 + year,
            _ => year,
        })
    }

    /// Reads a number of one or two digits behind one of the marks, or nothing.
    fn behind(&mut self, marks: &str, max: i64) -> Option<i64> {
        let mut read = *self;
        let number = read.skip(marks).then(|| read.number(1..=2, max))??;
        *self = read;
        Some(number)
    }

    /// Reads a number of as many digits as may be without exceeding the largest value.
    fn number(&mut self, digits: RangeInclusive<usize>, max: i64) -> Option<i64> {
        let rest = self.rest();
        let (count, number) = digits.rev().find_map(|count| {
            let digits = rest.get(..count)?;
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits
                .parse()
                .ok()
                .filter(|number| is_number && *number <= max)?;
            Some((count, number))
        })?;
        self.at += count;
        Some(number)
    }

    /// Passes over one of some ASCII characters.
    fn skip(&mut self, characters: &str) -> bool {
        let is_there = self.rest().starts_with(|next| characters.contains(next));
        self.at += usize::from(is_there);
        is_there
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }
}

const SUFFIXES: [&str; 4] = ["st", "nd", "rd", "th"];

const ROMAN: [&str; 12] = [
    "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII",
];
