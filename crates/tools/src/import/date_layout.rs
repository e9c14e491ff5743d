//! Layouts of dates: Go's, by the date that it writes out (`2006-01-02 15:04:05`), and those of Microsoft and Oracle, by letters.

use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;

use crate::error::{Error, Result};

/// Tokens of a layout and the directives of strptime that read them; the longer of two that begin alike stands first.
type Tokens = &'static [(&'static str, &'static str)];

const GO: Tokens = &[
    ("2006", "%Y"),
    ("January", "%B"),
    ("Monday", "%A"),
    ("-07:00", "%:z"),
    ("Z07:00", "%:z"),
    ("-0700", "%z"),
    ("Jan", "%b"),
    ("Mon", "%a"),
    (".000000", "%.f"),
    (".000", "%.f"),
    ("01", "%m"),
    ("02", "%d"),
    ("03", "%I"),
    ("04", "%M"),
    ("05", "%S"),
    ("06", "%y"),
    ("15", "%H"),
    ("PM", "%p"),
    ("pm", "%p"),
    ("1", "%m"),
    ("2", "%d"),
    ("3", "%I"),
    ("4", "%M"),
    ("5", "%S"),
];
const MS: Tokens = &[
    ("yyyy", "%Y"),
    ("MMMM", "%B"),
    ("dddd", "%A"),
    ("MMM", "%b"),
    ("ddd", "%a"),
    (".fff", "%.f"),
    ("zzz", "%:z"),
    ("yy", "%y"),
    ("MM", "%m"),
    ("dd", "%d"),
    ("HH", "%H"),
    ("hh", "%I"),
    ("mm", "%M"),
    ("ss", "%S"),
    ("tt", "%p"),
    ("M", "%m"),
    ("d", "%d"),
    ("H", "%H"),
    ("h", "%I"),
    ("m", "%M"),
    ("s", "%S"),
];
const ORACLE: Tokens = &[
    ("TZH:TZM", "%:z"),
    ("MONTH", "%B"),
    ("YYYY", "%Y"),
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("DAY", "%A"),
    ("MON", "%b"),
    (".FF", "%.f"),
    ("YY", "%y"),
    ("MM", "%m"),
    ("DD", "%d"),
    ("DY", "%a"),
    ("HH", "%I"),
    ("MI", "%M"),
    ("SS", "%S"),
    ("AM", "%p"),
    ("PM", "%p"),
];

/// Go's name of an offset that is `Z` for UTC.
const Z_OR_OFFSET: &str = "Z07:00";

/// A layout, as strptime has it: in the forms that are tried one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct DateLayout(Vec<String>);

impl DateLayout {
    pub fn of_go(layout: &str) -> Result<DateLayout> {
        let mut forms = DateLayout::of(layout, GO)?;
        if layout.contains(Z_OR_OFFSET) {
            let with_z = DateLayout::of(&layout.replace(Z_OR_OFFSET, "Z"), GO)?;
            forms.0.splice(0..0, with_z.0);
        }
        Ok(forms)
    }

    pub fn of_ms(layout: &str) -> Result<DateLayout> {
        DateLayout::of(layout, MS)
    }

    pub fn of_oracle(layout: &str) -> Result<DateLayout> {
        DateLayout::of(&layout.to_ascii_uppercase(), ORACLE)
    }

    fn of(layout: &str, tokens: Tokens) -> Result<DateLayout> {
        let mut directives = String::new();
        let mut rest = layout;
        while let Some(first) = rest.chars().next() {
            let token = tokens.iter().find(|(token, _)| rest.starts_with(token));
            match token {
                Some((token, directive)) => {
                    directives += directive;
                    rest = &rest[token.len()..];
                }
                // `T` and `Z` stand for themselves in ISO 8601.
                None if first.is_alphabetic() && !matches!(first, 'T' | 'Z') => {
                    let what = format!(
                        "the layout `{layout}` of a date has `{rest}`, which stands for nothing"
                    );
                    return Err(Error::usage(what));
                }
                None => {
                    if first == '%' {
                        directives.push('%');
                    }
                    directives.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        match directives.contains('%') {
            true => Ok(DateLayout(vec![directives])),
            false => Err(Error::usage(format!("`{layout}` is no layout of a date"))),
        }
    }

    /// Milliseconds since 1970 of a text, in UTC where it names no offset.
    pub fn read(&self, text: &str) -> Option<i64> {
        self.0.iter().find_map(|form| read_as(form, text))
    }
}

fn read_as(form: &str, text: &str) -> Option<i64> {
    let parsed = BrokenDownTime::parse(form, text).ok()?;
    let timestamp = match parsed.offset() {
        Some(_) => parsed.to_timestamp().ok()?,
        None => {
            let date = parsed.to_date().ok()?;
            let time = parsed.to_time().unwrap_or_default();
            let moment = date.to_datetime(time).to_zoned(TimeZone::UTC).ok()?;
            moment.timestamp()
        }
    };
    Some(timestamp.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_of_three_kinds_read_the_same_moment() {
        // 2024-02-29T13:05:09Z
        let ms = Some(1_709_211_909_000);
        let go = |layout: &str, text: &str| DateLayout::of_go(layout).unwrap().read(text);
        assert_eq!(go("2006-01-02 15:04:05", "2024-02-29 13:05:09"), ms);
        assert_eq!(go("2006-01-02T15:04:05Z", "2024-02-29T13:05:09Z"), ms);
        assert_eq!(
            go("2006-01-02T15:04:05-07:00", "2024-02-29T15:05:09+02:00"),
            ms
        );
        for text in [
            "2024-02-29T13:05:09Z",
            "2024-02-29T15:05:09+02:00",
            "2024-02-29T11:05:09-02:00",
        ] {
            assert_eq!(go("2006-01-02T15:04:05Z07:00", text), ms, "{text}");
        }
        assert_eq!(go("Jan 2, 2006 3:04:05 PM", "Feb 29, 2024 1:05:09 PM"), ms);
        let microsoft = DateLayout::of_ms("dd.MM.yyyy HH:mm:ss").unwrap();
        assert_eq!(microsoft.read("29.02.2024 13:05:09"), ms);
        let oracle = DateLayout::of_oracle("YYYY-MM-DD HH24:MI:SS").unwrap();
        assert_eq!(oracle.read("2024-02-29 13:05:09"), ms);
        assert_eq!(go("2006-01-02", "2024-02-29"), Some(1_709_164_800_000));
    }

    #[test]
    fn what_is_no_date_is_none() {
        let layout = DateLayout::of_go("2006-01-02").unwrap();
        for bad in ["2023-02-29", "yesterday", "", "2024-02-28 "] {
            assert_eq!(layout.read(bad), None, "{bad}");
        }
        for bad in ["", "/", "quarter"] {
            assert!(DateLayout::of_go(bad).is_err(), "{bad}");
        }
    }
}
