//! Regular expressions, as a filter's `$regex` or a literal `/x/`. What a match takes is bounded, and counted where all
//! work of the operation is. A regular expression also matches a stored regular expression that is spelled the same. The literal text that
//! every match must begin with is offered to the planner.

use quarry_bson::{RawRegex, RawValue};
use quarry_regex::{Flags, Regex};

pub use quarry_regex::Places;

use crate::error::{Error, Result};
use crate::interrupts;

/// The work of compiling a short pattern, and of beginning a match.
const UNITS_OF_A_PATTERN: usize = 5000;
const UNITS_OF_A_MATCH: usize = 20;
/// The work of beginning a match whose places are asked for: it allocates.
const UNITS_OF_A_SEARCH: usize = 100;

/// As MongoDB: a longer pattern is refused.
const PATTERN_BYTES_MAX: usize = 16_764;

/// A regular expression with its options.
pub struct RegexPredicate {
    pattern: Box<str>,
    /// Sorted, without duplicates.
    options: Box<str>,
    compiled: Box<Regex>,
}

impl RegexPredicate {
    /// Compiles a pattern with MongoDB's options.
    pub fn new(pattern: &str, options: &str) -> Result<RegexPredicate> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(Error::bad_value("Regular expression is too long"));
        }
        interrupts::work(UNITS_OF_A_PATTERN)?;
        let mut flags = Flags::default();
        for option in options.chars() {
            match option {
                'i' => flags.caseless = true,
                'm' => flags.multi_line = true,
                's' => flags.dot_all = true,
                'x' => flags.extended = true,
                'u' => {}
                other => {
                    return Err(Error::location(
                        51108,
                        format!("invalid flag in regex options: {other}"),
                    ));
                }
            };
        }
        let compiled = Regex::new(pattern, flags).map_err(|cause| {
            Error::location(51091, format!("Regular expression is invalid: {cause}"))
        })?;
        let mut letters: Vec<char> = options.chars().collect();
        letters.sort_unstable();
        letters.dedup();
        Ok(RegexPredicate {
            pattern: pattern.into(),
            options: letters.into_iter().collect(),
            compiled: Box::new(compiled),
        })
    }

    pub(super) fn from_raw(regex: RawRegex<'_>) -> Result<RegexPredicate> {
        RegexPredicate::new(regex.pattern.as_str()?, regex.options.as_str()?)
    }

    /// The pattern as it was given.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The options as they were given.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Fails when the match takes more work than is allowed.
    pub fn matches(&self, value: RawValue<'_>) -> Result<bool> {
        match value {
            RawValue::String(text) | RawValue::Symbol(text) => self.is_match(text.as_bytes()),
            RawValue::Regex(stored) => {
                Ok(stored.pattern == self.pattern.as_ref()
                    && stored.options == self.options.as_ref())
            }
            _ => Ok(false),
        }
    }

    /// Whether the expression is found in a text.
    pub fn is_match(&self, text: &[u8]) -> Result<bool> {
        interrupts::work(UNITS_OF_A_MATCH + text.len())?;
        let found = self
            .compiled
            .is_match(text, &mut |units| !interrupts::is_over(units));
        found.map_err(not_matched)
    }

    /// The place of the first match at or behind `from`, which is no middle of a letter, and those of its groups.
    pub fn find(&self, text: &[u8], from: usize) -> Result<Option<Places>> {
        interrupts::work(UNITS_OF_A_SEARCH + text.len().saturating_sub(from))?;
        let found = self
            .compiled
            .find(text, from, &mut |units| !interrupts::is_over(units));
        found.map_err(not_matched)
    }

    /// The text that every matching string begins with, for index bounds; None if there is none to be sure of.
    pub fn prefix(&self) -> Option<RegexPrefix> {
        // Case and free spacing change what the letters mean; multi-line changes `^`.
        if self.options.contains(['i', 'm', 'x']) {
            return None;
        }
        let rest = self
            .pattern
            .strip_prefix('^')
            .or_else(|| self.pattern.strip_prefix("\\A"))?;
        literal_prefix(rest)
    }
}

#[cold]
fn not_matched(cause: quarry_regex::Error) -> Error {
    match cause {
        quarry_regex::Error::Ended => interrupts::check()
            .err()
            .unwrap_or_else(|| refused("it was ended")),
        cause => refused(cause),
    }
}

#[cold]
fn refused(cause: impl std::fmt::Display) -> Error {
    let text = format!("Error occurred while executing regular expression: {cause}");
    Error::location(51156, text)
}

/// A prefix of every match; `exact` if every string with the prefix matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegexPrefix {
    /// The text that every match begins with.
    pub text: String,
    /// Whether every text that begins so matches.
    pub exact: bool,
}

impl std::fmt::Debug for RegexPredicate {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "/{}/{}", self.pattern, self.options)
    }
}

/// Reads literal characters up to the first that means something. An alternative anywhere makes it void.
fn literal_prefix(pattern: &str) -> Option<RegexPrefix> {
    if pattern.contains('|') {
        return None;
    }
    let mut text = String::new();
    let mut rest = pattern.chars();
    let mut exact = false;
    loop {
        let before = rest.as_str();
        let Some(letter) = rest.next() else {
            exact = true;
            break;
        };
        match letter {
            // The character before may be absent.
            '*' | '?' | '{' => {
                text.pop();
                break;
            }
            '\\' => match rest.next() {
                Some(escaped) if escaped.is_ascii_punctuation() => text.push(escaped),
                _ => break,
            },
            '.' if before == ".*" || before == ".*$" => {
                // `.` does not cross a line break unless `s` is set, but nothing after `^x` requires it to.
                exact = before == ".*";
                break;
            }
            '^' | '$' | '.' | '[' | '(' | ')' | '+' | '}' | ']' => break,
            plain => text.push(plain),
        }
    }
    (!text.is_empty()).then_some(RegexPrefix { text, exact })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(pattern: &str, options: &str) -> String {
        let prefix = RegexPredicate::new(pattern, options).unwrap().prefix();
        prefix.map_or("none".to_owned(), |prefix| {
            format!(
                "{}{}",
                prefix.text,
                if prefix.exact { "" } else { " and more" }
            )
        })
    }

    #[test]
    fn the_prefix_is_what_every_match_begins_with() {
        for (pattern, wanted) in [
            ("^abc", "abc"),
            ("\\Aabc", "abc"),
            ("^abc.*", "abc"),
            ("^abc.*$", "abc and more"),
            ("^abc$", "abc and more"),
            ("^ab+", "ab and more"),
            ("^ab*c", "a and more"),
            ("^ab?c", "a and more"),
            ("^ab{2}", "a and more"),
            ("^a\\.b", "a.b"),
            ("^a\\.*b", "a and more"),
            ("^a\\db", "a and more"),
            ("^a[bc]", "a and more"),
            ("^a(b)", "a and more"),
            ("^\u{e9}t\u{e9}", "\u{e9}t\u{e9}"),
            ("^a|b", "none"),
            ("^(a|b)", "none"),
            ("^a?", "none"),
            ("abc", "none"),
            ("^", "none"),
            ("(?i)^abc", "none"),
            ("^(?i)abc", "none"),
        ] {
            assert_eq!(prefix(pattern, ""), wanted, "{pattern}");
        }
        assert_eq!(prefix("^abc", "s"), "abc");
        for changes_meaning in ["i", "m", "x"] {
            assert_eq!(prefix("^abc", changes_meaning), "none");
        }
    }
}
