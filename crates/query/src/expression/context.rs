//! The context that all expressions of one command share. The command makes it once and gives it to everything that parses an
//! expression: its filter, its projection, its update, each stage of its pipeline.
//!
//! Keeps true: `$$NOW` is one moment for the whole command, its later batches included, because it and the variables of
//! `let` are constants by the time that an expression is evaluated. All readers of a variable share its value. How long an
//! operation may run and what it may hold are not here: they belong to the thread that runs it (`interrupts`, `memory`), so
//! that loops without a context see them too.

use std::cell::OnceCell;
use std::sync::Arc;

use quarry_bson::{DateTime, Value};

use super::bounds::VALUE_BYTES_MAX;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::memory::Charge;

/// The constants of a command's expressions.
#[derive(Debug, Default)]
pub struct ExpressionContext {
    /// `$$NOW`, looked up by the first that asks for it: most commands never do.
    now_ms: OnceCell<i64>,
    /// The variables of `let`, the later ones in front of earlier namesakes; None for a value that is missing.
    /// Expressions that read a value share it, and so do cursors that outlive the context.
    variables: Vec<(Box<str>, Option<Arc<Value>>)>,
    /// For the values of the variables.
    held: Charge,
}

impl ExpressionContext {
    /// The context of a command that runs at a given moment and has no `let`.
    pub fn at(now_ms: i64) -> ExpressionContext {
        ExpressionContext {
            now_ms: OnceCell::from(now_ms),
            ..ExpressionContext::default()
        }
    }

    /// `$$NOW`, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        *self.now_ms.get_or_init(|| DateTime::now().0)
    }

    /// The value of a variable of `let`: None if there is no such variable, `Some(None)` if its value is missing.
    pub(super) fn variable(&self, name: &str) -> Option<Option<&Arc<Value>>> {
        let bound = self.variables.iter().rev();
        let mut named = bound.filter(|(bound, _)| **bound == *name);
        named.next().map(|(_, value)| value.as_ref())
    }

    /// Fails where all variables together would hold more than one value may: a cursor keeps them as long as it is open.
    pub(super) fn bind(&mut self, name: &str, value: Option<Value>) -> Result<()> {
        let bytes = value.as_ref().map_or(0, |value| value.as_bytes().len());
        if self.held.bytes() + bytes > VALUE_BYTES_MAX {
            let text =
                format!("the variables of 'let' would hold more than {VALUE_BYTES_MAX} bytes");
            return Err(Error::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, text));
        }
        self.held.grow(bytes)?;
        self.variables.push((name.into(), value.map(Arc::new)));
        Ok(())
    }
}
