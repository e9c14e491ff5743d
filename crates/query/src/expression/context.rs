//! The context that all expressions of one command share. The command makes it once and gives it to everything that parses an
//! expression: its filter, its projection, its update, each stage of its pipeline.
//!
//! Keeps true: `$$NOW` is one moment for the whole command, its later batches included, because it and the variables of
//! `let` are constants by the time that an expression is evaluated. How long an operation may run and what it may hold are
//! not here: they belong to the thread that runs it (`interrupts`, `memory`), so that loops without a context see them too.

use std::cell::OnceCell;

use quarry_bson::{DateTime, Value};

/// The constants of a command's expressions.
#[derive(Debug, Clone, Default)]
pub struct ExpressionContext {
    /// `$$NOW`, looked up by the first that asks for it: most commands never do.
    now_ms: OnceCell<i64>,
    /// The variables of `let`, the later ones in front of earlier namesakes; None for a value that is missing.
    variables: Vec<(Box<str>, Option<Value>)>,
}

impl ExpressionContext {
    /// The context of a command that runs at a given moment and has no `let`.
    pub fn at(now_ms: i64) -> ExpressionContext {
        ExpressionContext {
            now_ms: OnceCell::from(now_ms),
            variables: Vec::new(),
        }
    }

    /// `$$NOW`, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        *self.now_ms.get_or_init(|| DateTime::now().0)
    }

    /// The value of a variable of `let`: None if there is no such variable, `Some(None)` if its value is missing.
    pub(super) fn variable(&self, name: &str) -> Option<Option<&Value>> {
        let bound = self.variables.iter().rev();
        let mut named = bound.filter(|(bound, _)| **bound == *name);
        named.next().map(|(_, value)| value.as_ref())
    }

    pub(super) fn bind(&mut self, name: &str, value: Option<Value>) {
        self.variables.push((name.into(), value));
    }
}
