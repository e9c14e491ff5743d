//! Variables: the names in scope while an expression is parsed, and what they hold while it is evaluated.
//!
//! Each binding in an expression has a slot of its own, so that no evaluation overwrites another's variable.
//! `$$CURRENT` is `$$ROOT` until a `$let` binds it. There is no `$$CLUSTER_TIME` and no `$$USER_ROLES` here.

use quarry_bson::RawDocument;

use super::{Evaluated, ExpressionContext};
use crate::error::{Error, Result};

/// Bindings in one expression.
const SLOTS_MAX: usize = 10_000;

/// The names in scope while parsing.
#[derive(Debug)]
pub struct Variables<'c> {
    pub(super) context: &'c ExpressionContext,
    scope: Vec<(Box<str>, usize)>,
    slots: usize,
    depth: usize,
}

impl<'c> Variables<'c> {
    /// The variables of a command, before any that expressions define.
    pub fn new(context: &'c ExpressionContext) -> Variables<'c> {
        Variables {
            context,
            scope: Vec::new(),
            slots: 0,
            depth: 0,
        }
    }

    /// The slot of the innermost variable of that name.
    pub(super) fn slot(&self, name: &str) -> Option<usize> {
        self.scope
            .iter()
            .rev()
            .find(|(bound, _)| **bound == *name)
            .map(|(_, slot)| *slot)
    }

    pub(super) fn bind(&mut self, name: &str) -> Result<usize> {
        if self.slots >= SLOTS_MAX {
            return Err(Error::bad_value(format!(
                "an expression can bind at most {SLOTS_MAX} variables"
            )));
        }
        let slot = self.slots;
        self.slots += 1;
        self.scope.push((name.into(), slot));
        Ok(slot)
    }

    /// Ends the scope of the latest `count` bindings.
    pub(super) fn unbind(&mut self, count: usize) {
        self.scope.truncate(self.scope.len().saturating_sub(count));
    }

    pub(super) fn descend(&mut self) -> usize {
        self.depth += 1;
        self.depth
    }

    pub(super) fn ascend(&mut self) {
        self.depth -= 1;
    }
}

/// The surroundings in which an expression is evaluated: the document and the variables.
pub struct Context<'a> {
    /// The document that `$$ROOT` means.
    pub root: RawDocument<'a>,
    /// The document's metadata, where the plan has attached it.
    pub(crate) metadata: Option<RawDocument<'a>>,
    slots: Vec<Evaluated<'a>>,
}

impl<'a> Context<'a> {
    /// A context over the document, without variables.
    pub fn new(root: RawDocument<'a>) -> Context<'a> {
        Context {
            root,
            metadata: None,
            slots: Vec::new(),
        }
    }

    pub(super) fn variable(&self, slot: usize) -> Evaluated<'a> {
        self.slots
            .get(slot)
            .map_or(Evaluated::Missing, Evaluated::share)
    }

    pub(super) fn set(&mut self, slot: usize, value: Evaluated<'a>) {
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || Evaluated::Missing);
        }
        self.slots[slot] = value.shared();
    }
}

/// Checks the name of a variable that an expression binds.
pub(super) fn check_bindable(name: &str) -> Result<()> {
    if name == "CURRENT" {
        return Ok(());
    }
    let mut letters = name.chars();
    let Some(first) = letters.next() else {
        return Err(Error::failed_to_parse(
            "empty variable names are not allowed",
        ));
    };
    if first.is_ascii() && !first.is_ascii_lowercase() {
        let text = format!("'{name}' starts with an invalid character for a user variable name");
        return Err(Error::failed_to_parse(text));
    }
    check_letters(name, letters)
}

/// Checks the name of a variable that an expression reads: system variables begin with a capital.
pub(super) fn check_readable(name: &str) -> Result<()> {
    let mut letters = name.chars();
    let Some(first) = letters.next() else {
        return Err(Error::failed_to_parse(
            "empty variable names are not allowed",
        ));
    };
    if first.is_ascii() && !first.is_ascii_alphabetic() {
        let text = format!("'{name}' starts with an invalid character for a variable name");
        return Err(Error::failed_to_parse(text));
    }
    check_letters(name, letters)
}

fn check_letters(name: &str, letters: std::str::Chars<'_>) -> Result<()> {
    for letter in letters {
        if !(letter.is_ascii_alphanumeric() || letter == '_' || !letter.is_ascii()) {
            let text =
                format!("'{name}' contains an invalid character for a variable name: '{letter}'");
            return Err(Error::failed_to_parse(text));
        }
    }
    Ok(())
}
