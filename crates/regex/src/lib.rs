//! Regular expressions by PCRE2 whose matches can be ended at any time.
//!
//! A pattern can make a backtracking matcher work for hours on a text of some kilobytes, and PCRE2's own limits count
//! anew for every place at which a match may begin. So a pattern is compiled twice. Short texts are tried with plain
//! machine code whose limit follows from their length; what is long, or reaches that limit, is matched by code that
//! calls back before each item of the pattern (PCRE2's automatic callouts), and the caller counts work there and says
//! when it is over. A pattern that is too long for that second code is tried by plain code from a few places of the
//! text after the other. Texts need not be UTF-8: what is not matches nothing.
//!
//! It is a crate of its own because PCRE2 is called here, in `ffi.rs`, and nowhere else.
#![warn(missing_docs)]

mod ffi;

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, OnceLock};

use ffi::{Code, Ending, Limits, Scratch, Use};

/// Texts that plain code may try: with a text of this length it takes at most some ten milliseconds.
const PLAIN_BYTES_MAX: usize = 1024;

/// The bound of what plain code may spend on a text: the places to begin at, times the steps of a match, times the bytes that
/// a step may run over.
const PLAIN_WORK_MAX: usize = 20_000_000;

/// The steps of plain code that count as one unit of work.
const WORK_A_UNIT: usize = 16;

/// Steps of plain code from one place, at least and at most.
const PLAIN_STEPS_MIN: usize = 16;
const PLAIN_STEPS_MAX: usize = 10_000;

/// Steps of a match from one place before it is given up.
const STEPS_MAX: u32 = 10_000_000;

/// Work of a match before it is given up, in units of some ten nanoseconds.
const UNITS_MAX: u64 = 1_000_000_000;

/// Settings that a pattern may begin with in PCRE2, to lift or lower its limits. They are refused, because the limits are ours.
const REFUSED_SETTINGS: [&str; 7] = [
    "NO_JIT",
    "NO_START_OPT",
    "NO_AUTO_POSSESS",
    "NO_DOTSTAR_ANCHOR",
    "LIMIT_MATCH",
    "LIMIT_DEPTH",
    "LIMIT_HEAP",
];
const REFUSED_OLD_SETTINGS: [&str; 1] = ["LIMIT_RECURSION"];

/// How letters, lines and spaces of a pattern are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// `i`: letters match whatever their case.
    pub caseless: bool,
    /// `m`: `^` and `$` match at line breaks as well.
    pub multi_line: bool,
    /// `s`: `.` matches line breaks as well.
    pub dot_all: bool,
    /// `x`: blanks and comments in the pattern count for nothing.
    pub extended: bool,
}

/// A pattern that cannot be compiled, or a match that was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The pattern is refused, with PCRE2's words.
    Pattern(String),
    /// The match took more than is allowed, or its pattern is too involved.
    Match(String),
    /// The caller ended it.
    Ended,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Pattern(text) | Error::Match(text) => out.write_str(text),
            Error::Ended => out.write_str("the match was ended"),
        }
    }
}

impl std::error::Error for Error {}

/// The places of a match and of its groups in a text, in bytes.
pub type Places = Vec<Option<Range<usize>>>;

/// A compiled pattern. Threads may share it.
pub struct Regex {
    pattern: Box<str>,
    flags: Flags,
    plain: Code,
    /// Made when a text first asks for it.
    long: OnceLock<LongCode>,
    /// The memory of a match, lent to one thread at a time.
    scratch: Mutex<Option<Scratch>>,
}

/// The code that matches long texts.
enum LongCode {
    /// Calls back before each item of the pattern.
    Stepping(Code),
    /// Is told where a match may begin: callouts make code of some 8 KB of pattern longer than PCRE2 can link.
    Placed(Code),
}

impl Regex {
    /// Checks the settings of `pattern` and compiles it for short texts.
    pub fn new(pattern: &str, flags: Flags) -> Result<Regex, Error> {
        check_settings(pattern)?;
        Ok(Regex {
            pattern: pattern.into(),
            flags,
            plain: Code::compile(pattern, flags, Use::Plain)?,
            long: OnceLock::new(),
            scratch: Mutex::new(None),
        })
    }

    /// Whether the expression is found in a text. `goes_on` is told of work that was done, in units of some ten
    /// nanoseconds, and ends the match with false.
    pub fn is_match(
        &self,
        text: &[u8],
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, Error> {
        let mut scratch = self.take_scratch();
        let found = self.find_in(&mut scratch, text, 0, goes_on);
        if let Ok(mut kept) = self.scratch.try_lock() {
            *kept = Some(scratch);
        }
        found
    }

    /// The place of the first match at or behind `from`, and behind it those of the pattern's groups; a group that took no part
    /// has none. None for no match. `from` is no middle of a character. `goes_on` is as for `is_match`.
    pub fn find(
        &self,
        text: &[u8],
        from: usize,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Option<Places>, Error> {
        let mut scratch = Scratch::for_groups(self.plain.groups());
        let found = self.find_in(&mut scratch, text, from, goes_on)?;
        Ok(found.then(|| scratch.places()))
    }

    fn take_scratch(&self) -> Scratch {
        let kept = self.scratch.try_lock().ok();
        kept.and_then(|mut kept| kept.take())
            .unwrap_or_else(Scratch::new)
    }

    fn find_in(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
        from: usize,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, Error> {
        if text.len() <= PLAIN_BYTES_MAX {
            let steps = PLAIN_WORK_MAX / (text.len() * text.len()).max(1);
            let steps = steps.clamp(PLAIN_STEPS_MIN, PLAIN_STEPS_MAX);
            match scratch.find(&self.plain, text, from, steps as u32) {
                Err(Ending::Limit | Ending::Stack) => {}
                found => return found.map_err(Error::from),
            }
        }
        let found = match self.long_code()? {
            LongCode::Stepping(code) => {
                scratch.find_in_steps(code, text, from, self.limits(), goes_on)
            }
            LongCode::Placed(code) => find_by_places(scratch, code, text, from, goes_on),
        };
        found.map_err(Error::from)
    }

    fn long_code(&self) -> Result<&LongCode, Error> {
        if let Some(code) = self.long.get() {
            return Ok(code);
        }
        let code = match Code::compile(&self.pattern, self.flags, Use::Stepping) {
            Ok(code) => LongCode::Stepping(code),
            // Verbs and `\G` ask where the attempts before were, or this one, began.
            Err(cause) if self.pattern.contains("(*") || self.pattern.contains("\\G") => {
                return Err(Error::Match(cause.to_string()));
            }
            Err(_) => LongCode::Placed(Code::compile(&self.pattern, self.flags, Use::Placed)?),
        };
        Ok(self.long.get_or_init(|| code))
    }

    fn limits(&self) -> Limits {
        let pattern = &self.pattern;
        let refers_back = ["\\k", "\\g", "(?P="]
            .iter()
            .any(|way| pattern.contains(way))
            || (1..=9).any(|group| pattern.contains(&format!("\\{group}")));
        Limits {
            steps_max: STEPS_MAX,
            units_max: UNITS_MAX,
            refers_back,
        }
    }
}

/// Tries the places of a text, some at a time, and tells `goes_on` before each time what they may take.
fn find_by_places(
    scratch: &mut Scratch,
    code: &Code,
    text: &[u8],
    mut from: usize,
    goes_on: &mut dyn FnMut(usize) -> bool,
) -> Result<bool, Ending> {
    let steps = PLAIN_WORK_MAX / text.len().max(1);
    let steps = steps.clamp(PLAIN_STEPS_MIN, PLAIN_STEPS_MAX);
    let work_of_a_place = text.len().max(1) * steps;
    let places = (PLAIN_WORK_MAX / work_of_a_place).max(1);
    loop {
        let mut end = from + places;
        // PCRE2 begins at a character; what lies within one goes with it.
        while text.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
            end += 1;
        }
        if !goes_on((end - from) * work_of_a_place / WORK_A_UNIT) {
            return Err(Ending::Ended);
        }
        let is_last = end > text.len();
        let last = if is_last { text.len() } else { end - 1 };
        if scratch.find_from(code, text, from..=last, steps as u32)? {
            return Ok(true);
        }
        if is_last {
            return Ok(false);
        }
        from = end;
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "/{}/", self.pattern)
    }
}

impl From<Ending> for Error {
    fn from(ending: Ending) -> Error {
        match ending {
            Ending::Ended => Error::Ended,
            Ending::Limit => Error::Match("match limit exceeded".to_owned()),
            Ending::Stack => Error::Match("JIT stack limit reached".to_owned()),
            Ending::Failed(text) => Error::Match(text),
        }
    }
}

/// Refuses a pattern that begins by undoing what bounds its matches. What settings say of letters and lines stands.
fn check_settings(pattern: &str) -> Result<(), Error> {
    let mut rest = pattern;
    while let Some((setting, after)) = rest
        .strip_prefix("(*")
        .and_then(|setting| setting.split_once(')'))
    {
        let name = setting.split('=').next().unwrap_or_default();
        if REFUSED_SETTINGS.contains(&name) || REFUSED_OLD_SETTINGS.contains(&name) {
            let text = format!("(*{name}) is not allowed in a pattern");
            return Err(Error::Pattern(text));
        }
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, text: &[u8]) -> Result<bool, Error> {
        Regex::new(pattern, Flags::default())?.is_match(text, &mut |_| true)
    }

    #[test]
    fn short_and_long_texts_have_one_answer() {
        for (pattern, text, found) in [
            ("b", "abc", true),
            ("^b", "abc", false),
            ("^(a+)b\\1$", "aabaa", true),
            ("(?<=x)y", "axy", true),
            ("\u{e9}+", "caf\u{e9}", true),
            ("(*UCP)\\w$", "\u{e9}", true),
            ("\\w$", "\u{e9}", false),
            ("", "", true),
        ] {
            assert_eq!(is_match(pattern, text.as_bytes()), Ok(found), "{pattern}");
            let regex = Regex::new(pattern, Flags::default()).unwrap();
            let code = Code::compile(pattern, Flags::default(), Use::Stepping).unwrap();
            let text = text.as_bytes();
            let stepped =
                Scratch::new().find_in_steps(&code, text, 0, regex.limits(), &mut |_| true);
            assert!(
                matches!(stepped, Ok(answer) if answer == found),
                "{regex:?}"
            );
            let code = Code::compile(pattern, Flags::default(), Use::Placed).unwrap();
            let placed = find_by_places(&mut Scratch::new(), &code, text, 0, &mut |_| true);
            assert!(matches!(placed, Ok(answer) if answer == found), "{regex:?}");
        }
        let long = "x".repeat(100_000) + "needle";
        assert_eq!(is_match("ne+dle$", long.as_bytes()), Ok(true));
        assert_eq!(is_match("ne+dles", long.as_bytes()), Ok(false));
    }

    #[test]
    fn the_places_of_groups_are_found_from_a_place_on() {
        let find = |pattern: &str, text: &str, from| {
            let regex = Regex::new(pattern, Flags::default()).unwrap();
            regex.find(text.as_bytes(), from, &mut |_| true).unwrap()
        };
        let places = find("(a)|(b)(c)?", "xbxa", 0);
        assert_eq!(places, Some(vec![Some(1..2), None, Some(1..2), None]));
        let places = find("(a)|(b)(c)?", "xbxa", 2);
        assert_eq!(places, Some(vec![Some(3..4), Some(3..4), None, None]));
        assert_eq!(find("(a)", "xbxa", 4), None);
        assert_eq!(find("(?<=x)", "x", 1), Some(vec![Some(1..1)]));
        // A long text is matched by other code.
        let long = "\u{e9}".repeat(5_000) + "needle";
        let places = find("n(e+)dle(x)?", &long, 9_000);
        let wanted = vec![Some(10_000..10_006), Some(10_001..10_003), None];
        assert_eq!(places, Some(wanted));
    }

    /// A reference is charged for the text that it compares, not for the whole text around it.
    #[test]
    fn a_reference_to_a_letter_is_cheap_in_a_long_text() {
        let text = "ab".repeat(500_000);
        assert_eq!(is_match("(\\w)\\1", text.as_bytes()), Ok(false));
        let text = text + "b";
        assert_eq!(is_match("(\\w)\\1$", text.as_bytes()), Ok(true));
        assert_eq!(is_match("^x(.+)b\\1b$", b"xcbcb"), Ok(true));
    }

    /// Callouts would make its code longer than PCRE2 can link.
    #[test]
    fn a_long_pattern_finds_in_long_texts_and_can_be_ended() {
        let words: Vec<String> = (0..2_000).map(|n| format!("word{n:04}")).collect();
        let pattern = words.join("|");
        assert!(Code::compile(&pattern, Flags::default(), Use::Stepping).is_err());
        for length in [0, 500, 2_000, 100_000] {
            let text = "\u{e9}".repeat(length / 2);
            assert_eq!(is_match(&pattern, text.as_bytes()), Ok(false), "{length}");
            let text = text + "word1999";
            assert_eq!(is_match(&pattern, text.as_bytes()), Ok(true), "{length}");
        }
        let text = b"x".repeat(100_000);
        let regex = Regex::new(&pattern, Flags::default()).unwrap();
        let mut left = 10_000_000;
        let found = regex.is_match(&text, &mut |units| {
            left -= units.min(left);
            left > 0
        });
        assert_eq!(found, Err(Error::Ended));
        let involved = pattern + "|(?:(?:a+)+)+[bc]";
        let found = is_match(&involved, &b"a".repeat(2_000));
        assert!(matches!(found, Err(Error::Match(_))), "{found:?}");
    }

    /// The stack of the machine's code is small where a short text is tried first.
    #[test]
    fn a_short_text_that_needs_a_large_stack_has_an_answer() {
        let text = "a".repeat(1000);
        let pattern = "^(?:(a)|(b)|(c))*$";
        assert_eq!(is_match(pattern, text.as_bytes()), Ok(true));
    }

    #[test]
    fn flags_change_what_is_found() {
        let all = Flags {
            caseless: true,
            multi_line: true,
            dot_all: true,
            extended: true,
        };
        for (flags, pattern, text) in [
            (
                Flags {
                    caseless: true,
                    ..Flags::default()
                },
                "ABC",
                "xabc",
            ),
            (
                Flags {
                    multi_line: true,
                    ..Flags::default()
                },
                "^b",
                "a\nb",
            ),
            (
                Flags {
                    dot_all: true,
                    ..Flags::default()
                },
                "a.b",
                "a\nb",
            ),
            (
                Flags {
                    extended: true,
                    ..Flags::default()
                },
                "a b",
                "ab",
            ),
            (all, "^ A . B $", "x\na\nb\ny"),
        ] {
            let mut goes_on = |_| true;
            let with = Regex::new(pattern, flags).unwrap();
            assert_eq!(
                with.is_match(text.as_bytes(), &mut goes_on),
                Ok(true),
                "{pattern}"
            );
            let without = Regex::new(pattern, Flags::default()).unwrap();
            assert_eq!(
                without.is_match(text.as_bytes(), &mut goes_on),
                Ok(false),
                "{pattern}"
            );
        }
    }

    #[test]
    fn a_pattern_cannot_lift_its_limits() {
        for pattern in [
            "(*NO_JIT)a",
            "(*UTF)(*NO_JIT)a",
            "(*LIMIT_MATCH=4000000000)a",
            "(*LIMIT_DEPTH=1)a",
            "(*LIMIT_HEAP=1)a",
            "(*LIMIT_RECURSION=1)a",
            "(*NO_START_OPT)a",
        ] {
            assert!(
                matches!(is_match(pattern, b"a"), Err(Error::Pattern(_))),
                "{pattern}"
            );
        }
        assert_eq!(is_match("(*ANYCRLF)a$", b"a"), Ok(true));
        assert_eq!(is_match("a(*FAIL)|b", b"ab"), Ok(true));
        assert!(matches!(is_match("a(", b"a"), Err(Error::Pattern(_))));
    }

    /// Whatever the pattern does, the caller hears of it every so often, and ends it.
    #[test]
    fn a_match_ends_when_it_is_told_to() {
        let text = "a".repeat(200_000);
        for pattern in [
            "a.*[bc]",
            "(a+)+[bc]",
            "(a*)(a*)\\1\\2[bc]",
            "a.*?a.*?[bc]",
            "(?=(a+))a*b|[bc]",
            "(a|aa)+[bc]",
            "((?:a.*)*)[bc]",
            "^(?:(?:a+)+)+[bc]",
            "(?R)?a*[bc]",
        ] {
            let regex = Regex::new(pattern, Flags::default()).unwrap();
            let mut steps = 0;
            let found = regex.is_match(text.as_bytes(), &mut |more| {
                steps += more;
                steps < 100_000
            });
            assert!(
                matches!(found, Err(Error::Ended | Error::Match(_))),
                "{pattern}: {found:?} after {steps} steps"
            );
        }
    }

    /// Plain code is given little enough that nobody waits for it, and the rest of the work is told of.
    #[test]
    fn a_short_text_does_not_hide_its_work() {
        for length in [20, 60, 300, 1000] {
            let text = "a".repeat(length);
            let regex = Regex::new("^(?:(?:a+)+)+[bc]", Flags::default()).unwrap();
            let mut steps = 0;
            let found = regex.is_match(text.as_bytes(), &mut |more| {
                steps += more;
                steps < 1_000_000
            });
            assert_eq!(found, Err(Error::Ended), "{length}");
        }
    }

    #[test]
    fn what_is_no_utf8_matches_nothing_and_hides_nothing() {
        assert_eq!(is_match("b", b"a\xFFb"), Ok(true));
        assert_eq!(is_match("a.b", b"a\xFFb"), Ok(false));
        assert_eq!(is_match("x", b"\xC3"), Ok(false));
    }

    #[test]
    fn a_panic_in_the_caller_comes_back_to_it() {
        let regex = Regex::new("(a+)+[bc]", Flags::default()).unwrap();
        let text = "a".repeat(5000);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            regex.is_match(text.as_bytes(), &mut |_| panic!("told of work"))
        }));
        assert!(outcome.is_err());
        assert_eq!(regex.is_match(b"aab", &mut |_| true), Ok(true));
    }
}
