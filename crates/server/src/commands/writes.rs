//! The parts that write commands share: the bound on a batch, and the level that a write is acknowledged at.

use quarry_bson::RawDocument;
use quarry_journal::Level;
use quarry_query::ErrorCode;
use quarry_query::expression::ExpressionContext;

use crate::commands::WRITE_BATCH_DOCUMENTS_MAX;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};

pub fn check_batch(statements: usize) -> Result<()> {
    if (1..=WRITE_BATCH_DOCUMENTS_MAX).contains(&statements) {
        return Ok(());
    }
    let message = format!(
        "Write batch sizes must be between 1 and {WRITE_BATCH_DOCUMENTS_MAX}. Got {statements} operations."
    );
    Err(CommandError::new(ErrorCode::INVALID_LENGTH, message))
}

/// The level that the write concern and the server's policy ask to wait for.
pub fn level(invocation: &Invocation<'_>) -> Level {
    if invocation
        .generic
        .write_concern
        .waits_for_sync(invocation.server.config.durability)
    {
        Level::Durable
    } else {
        Level::Written
    }
}

/// Tells the operation when all that it commits will be waited for at once: a sync may then begin early.
pub fn announce(invocation: &Invocation<'_>, level: Level, statements: usize) {
    if statement_level(level, statements) == Level::Durable {
        invocation.operation.await_sync();
    }
}

/// How a statement of a command is acknowledged: one alone as the command is, one of several at the lower level, because
/// `settle` waits for all of them at once.
pub fn statement_level(level: Level, statements: usize) -> Level {
    match statements {
        1 => level,
        _ => Level::Written,
    }
}

/// Waits until what several statements committed has reached `level`.
pub fn settle(invocation: &Invocation<'_>, level: Level, statements: usize) -> Result<()> {
    if statements > 1 {
        let database = &invocation.server.database;
        // Applied before the statement returned; what others wrote meanwhile is synced along.
        database.settle(None, level)?;
    }
    Ok(())
}

/// Whether empty timestamps are stored as they are. Tools that restore data ask for it; otherwise they become the time.
pub fn keeps_empty_timestamps(body: RawDocument<'_>) -> bool {
    body.get("bypassEmptyTsReplacement")
        .is_some_and(|value| value.is_truthy())
}

/// Makes the context that all expressions of the command share: its `let`, and the moment that `$$NOW` is.
pub fn context(invocation: &Invocation<'_>) -> Result<ExpressionContext> {
    bind(invocation.document("let")?)
}

/// Like `context`, for a command that is explained.
pub fn context_of(explained: RawDocument<'_>) -> Result<ExpressionContext> {
    bind(explained.get("let").and_then(|value| value.as_document()))
}

fn bind(variables: Option<RawDocument<'_>>) -> Result<ExpressionContext> {
    let mut context = ExpressionContext::default();
    if let Some(variables) = variables {
        context.bind_let(variables)?;
    }
    Ok(context)
}

/// An interruption, or an outcome that cannot be told, ends the command; any other error is the statement's own.
pub fn check_going_on(error: &CommandError) -> Result<()> {
    let ends = [
        ErrorCode::INTERRUPTED,
        ErrorCode::INTERRUPTED_AT_SHUTDOWN,
        ErrorCode::MAX_TIME_MS_EXPIRED,
        ErrorCode::SHUTDOWN_IN_PROGRESS,
    ];
    if error.is_unanswerable || ends.iter().any(|code| code.0 == error.code) {
        return Err(error.clone());
    }
    Ok(())
}
