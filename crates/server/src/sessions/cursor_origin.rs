//! Where an open cursor comes from: the command that made it and its plan, for `$currentOp`, the log and the profiler.

use std::fmt::{self, Write as _};

use quarry_bson::{DateTime, RawDocument, doc};
use quarry_database::PlanSummary;

/// A longer command is kept as the beginning of its text.
const COMMAND_BYTES_MAX: usize = 2 << 10;

/// The command that made a cursor, without its document sequences.
pub struct CursorOrigin {
    pub created: DateTime,
    pub plan: Option<PlanSummary>,
    /// The command, or where it is too long to be kept a document with the beginning of its text as `$truncated`.
    command: Box<[u8]>,
    is_whole: bool,
}

impl CursorOrigin {
    pub fn new(command: RawDocument<'_>, plan: Option<&PlanSummary>) -> CursorOrigin {
        let is_whole = command.len_bytes() <= COMMAND_BYTES_MAX;
        let kept: Box<[u8]> = match is_whole {
            true => command.as_bytes().into(),
            false => doc! { "$truncated": (beginning_of(command)) }
                .as_bytes()
                .into(),
        };
        CursorOrigin {
            created: DateTime::now(),
            plan: plan.cloned(),
            command: kept,
            is_whole,
        }
    }

    /// The command as it is shown: whole, or `{$truncated: <the beginning of its text>}`.
    pub fn shown(&self) -> RawDocument<'_> {
        RawDocument::new(&self.command).unwrap_or(RawDocument::EMPTY)
    }

    /// The command, if it was short enough to be kept.
    pub fn command(&self) -> Option<RawDocument<'_>> {
        self.is_whole.then(|| self.shown())
    }
}

/// The first bytes of a command's text; no more of a large one is written than is kept.
fn beginning_of(command: RawDocument<'_>) -> String {
    let mut beginning = Beginning(String::new());
    // It fails once it is full.
    let _ = write!(beginning, "{command}");
    beginning.0
}

struct Beginning(String);

impl fmt::Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = COMMAND_BYTES_MAX.saturating_sub(self.0.len());
        let taken = &text[..text.floor_char_boundary(room)];
        self.0.push_str(taken);
        match taken.len() == text.len() {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_kept_as_the_beginning_of_its_text() {
        let short = doc! { "find": "c", "$db": "db" };
        let origin = CursorOrigin::new(short.as_raw(), None);
        assert_eq!(origin.command(), Some(short.as_raw()));
        assert_eq!(origin.shown(), short.as_raw());

        let long = doc! { "find": "c", "filter": { "a": ("ü".repeat(10_000).as_str()) } };
        let origin = CursorOrigin::new(long.as_raw(), None);
        assert!(origin.command().is_none());
        let text = origin.shown().get_str("$truncated").unwrap();
        assert!(long.to_string().starts_with(text), "{text}");
        let wanted = COMMAND_BYTES_MAX - 'ü'.len_utf8()..=COMMAND_BYTES_MAX;
        assert!(wanted.contains(&text.len()), "{}", text.len());
    }
}
