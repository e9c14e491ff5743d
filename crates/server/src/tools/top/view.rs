//! The way in which somebody looks at the picture: what the keys change.

use std::ffi::OsString;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::picture::{Operation, Picture};

/// A longer filter is not typed.
const FILTER_CHARS_MAX: usize = 60;

/// The keys and what they do.
pub const HELP: [(&str, &str); 5] = [
    ("q, Esc", "quit"),
    ("p, Space", "pause and go on"),
    ("s", "sort by the next column"),
    ("/", "filter by a part of a name; Enter ends it"),
    ("h, ?", "this list"),
];

/// The order of the operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The server's.
    #[default]
    Kind,
    /// The most frequent first.
    Rate,
    /// The slowest first.
    P99,
}

impl Sort {
    fn next(self) -> Sort {
        match self {
            Sort::Kind => Sort::Rate,
            Sort::Rate => Sort::P99,
            Sort::P99 => Sort::Kind,
        }
    }

    /// The name of the column that is sorted by.
    pub fn column(self) -> &'static str {
        match self {
            Sort::Kind => "operation",
            Sort::Rate => "ops/s",
            Sort::P99 => "p99",
        }
    }
}

/// The state that keys change.
#[derive(Clone, Debug, Default)]
pub struct ScreenState {
    pub is_paused: bool,
    pub is_help: bool,
    pub sort: Sort,
    pub filter: String,
    /// The keys are the filter's.
    pub is_typing: bool,
    /// Layers are told apart by signs, not by colours.
    pub is_colorless: bool,
}

impl ScreenState {
    /// A view as the environment asks for it: any `NO_COLOR` that is not empty takes the colours away, and so does a terminal that has none.
    pub fn of_environment() -> ScreenState {
        ScreenState {
            is_colorless: is_colorless(|name| std::env::var_os(name)),
            ..ScreenState::default()
        }
    }

    /// Takes a key; true when the user wants to go.
    pub fn press(&mut self, key: KeyEvent) -> bool {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return true;
        }
        if self.is_typing {
            self.type_into_filter(key.code);
            return false;
        }
        match key.code {
            KeyCode::Esc if self.is_help => self.is_help = false,
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('h' | '?') => self.is_help = !self.is_help,
            KeyCode::Char('/') => self.is_typing = true,
            _ => {}
        }
        false
    }

    fn type_into_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.chars().count() < FILTER_CHARS_MAX => {
                self.filter.push(c);
            }
            _ => {}
        }
    }

    fn wants(&self, name: &str) -> bool {
        name.to_lowercase().contains(&self.filter.to_lowercase())
    }

    /// The picture as it is wanted. A kind of operation is kept by its own name, and all of them where none is called so.
    pub fn of(&self, picture: &Picture) -> Picture {
        let mut shown = picture.clone();
        let is_of_kind = |one: &Operation| self.wants(&one.name);
        if shown.operations.iter().any(is_of_kind) {
            shown.operations.retain(is_of_kind);
        }
        match self.sort {
            Sort::Kind => {}
            Sort::Rate => (shown.operations).sort_by(|a, b| b.per_second.total_cmp(&a.per_second)),
            Sort::P99 => (shown.operations).sort_by(|a, b| b.p99_us.total_cmp(&a.p99_us)),
        }
        let is_kind = picture.operations.iter().any(is_of_kind) && !self.filter.is_empty();
        shown
            .collections
            .retain(|one| is_kind || self.wants(&one.name));
        (shown.running).retain(|one| self.wants(&one.namespace) || self.wants(&one.op));
        shown
    }
}

/// Whether an environment takes the colours away.
fn is_colorless(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let asks = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    asks || variable("TERM").is_some_and(|terminal| terminal == "dumb")
}

#[cfg(test)]
mod tests {
    use super::super::picture::Collection;
    use super::*;

    #[test]
    fn a_terminal_without_colours_gets_none() {
        let of = |name: &'static str, value: &'static str| {
            is_colorless(|asked| (asked == name).then(|| value.into()))
        };
        assert!(of("NO_COLOR", "1") && of("TERM", "dumb"));
        assert!(!of("NO_COLOR", "") && !of("TERM", "xterm-256color"));
    }

    fn picture() -> Picture {
        let operation = |name: &str, per_second, p99_us| Operation {
            name: name.into(),
            per_second,
            p50_us: 1.0,
            p99_us,
            shares: Vec::new(),
        };
        let collection = |name: &str| Collection {
            name: name.into(),
            count: 1,
            mean_us: 1.0,
            share: 0.5,
        };
        Picture {
            operations: vec![
                operation("find", 10.0, 5.0),
                operation("insert", 30.0, 1.0),
                operation("update", 20.0, 9.0),
            ],
            collections: vec![collection("shop.things"), collection("shop.others")],
            ..Picture::default()
        }
    }

    fn press(view: &mut ScreenState, keys: &str) -> bool {
        keys.chars().any(|c| {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            view.press(KeyEvent::from(code))
        })
    }

    fn names(view: &ScreenState) -> (Vec<String>, Vec<String>) {
        let shown = view.of(&picture());
        (
            shown.operations.into_iter().map(|one| one.name).collect(),
            shown.collections.into_iter().map(|one| one.name).collect(),
        )
    }

    #[test]
    fn the_order_goes_round() {
        let mut view = ScreenState::default();
        for first in ["insert", "update", "find"] {
            press(&mut view, "s");
            assert_eq!(names(&view).0[0], first);
        }
    }

    #[test]
    fn a_filter_is_typed_and_holds_until_it_is_cleared() {
        let mut view = ScreenState::default();
        assert!(!press(&mut view, "/thingsq"), "a key of the filter's");
        view.press(KeyEvent::from(KeyCode::Backspace));
        press(&mut view, "\n");
        assert_eq!(names(&view).1, ["shop.things"]);
        assert_eq!(names(&view).0.len(), 3);
        press(&mut view, "/\u{1b}");
        assert_eq!(names(&view).1.len(), 2);
        press(&mut view, "/ins\n");
        assert_eq!(names(&view).0, ["insert"]);
        let mut long = ScreenState::default();
        press(&mut long, &format!("/{}", "x".repeat(1_000)));
        assert_eq!(long.filter.len(), FILTER_CHARS_MAX);
    }

    #[test]
    fn keys_pause_help_and_quit() {
        let mut view = ScreenState::default();
        assert!(!press(&mut view, "p") && view.is_paused);
        assert!(!press(&mut view, " ") && !view.is_paused);
        assert!(!press(&mut view, "h") && view.is_help);
        // The first Escape closes the help.
        assert!(!press(&mut view, "\u{1b}") && !view.is_help);
        assert!(press(&mut view, "\u{1b}") && press(&mut view, "q"));
    }
}
