//! The parts that write commands share: the bound on a batch, the level that a write is acknowledged at, and the loop
//! over statements.

use quarry_journal::Level;
use quarry_query::ErrorCode;
use quarry_query::expression::ExpressionContext;

use crate::commands::WRITE_BATCH_DOCUMENTS_MAX;
use crate::commands::write_errors::WriteErrors;
use crate::data::Data;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::error_labels::is_transient;
use crate::dispatch::expression_context::bound;

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

/// Runs the statements of a command one after the other and returns the errors of those that failed; an ordered command
/// ends with the first. `run` runs one statement, given its place, and is acknowledged at the level that it is told. All
/// that was committed has reached the command's own level when this returns.
///
/// # Errors
/// An interruption, or an outcome that cannot be told: the command ends, and so do the statements behind.
pub fn run_statements<S>(
    invocation: &Invocation<'_>,
    statements: Vec<S>,
    is_ordered: bool,
    mut run: impl FnMut(usize, S, Level) -> Result<()>,
) -> Result<WriteErrors> {
    let level = level(invocation);
    let count = statements.len();
    let mut errors = WriteErrors::default();
    for (index, statement) in statements.into_iter().enumerate() {
        if let Err(error) = run(index, statement, statement_level(level, count)) {
            let goes_on = goes_on_behind(&error, invocation, is_ordered)?;
            errors.add(index, error);
            if !goes_on {
                break;
            }
        }
    }
    settle(invocation, level, count)?;
    Ok(errors)
}

/// Whether the statements behind one that has failed are run, too.
///
/// # Errors
/// The error itself, where it is not the statement's alone: the command ends with it.
pub fn goes_on_behind(
    error: &CommandError,
    invocation: &Invocation<'_>,
    is_ordered: bool,
) -> Result<bool> {
    // An interruption, or an outcome that cannot be told.
    if error.ends_command {
        return Err(error.clone());
    }
    // A transaction ends with its first error. Where it may be run again, the whole command tells so.
    let is_in_transaction = invocation.data().is_in_transaction();
    if is_in_transaction && is_transient(ErrorCode(error.code)) {
        return Err(error.clone());
    }
    Ok(!is_ordered && !is_in_transaction)
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
        // Applied before the statement returned; what others wrote meanwhile is synced along.
        invocation.data().settle(level)?;
    }
    Ok(())
}

/// Makes the context that all expressions of the command share: its `let`, and the moment that `$$NOW` is.
pub fn context(invocation: &Invocation<'_>) -> Result<ExpressionContext> {
    let generic = &invocation.generic;
    bound(generic.variables, generic.collation.clone())
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use crate::dispatch::dispatcher::answer;
    use crate::server::Server;

    /// Runs an update of three statements, the second of which cannot work; returns what it changed and which failed.
    fn changed_and_failed(is_ordered: bool) -> (Option<i32>, Vec<i32>) {
        let server: &'static Server = Box::leak(Box::new(Server::in_memory()));
        let documents =
            doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }], "$db": "db" };
        assert_eq!(answer(server, &documents).get_i32("n"), Some(2));
        let statement = |id: i32, update: Document| doc! { "q": { "_id": id }, "u": update };
        let [set, fail, set_other] = [
            statement(1, doc! { "$set": { "a": 1 } }),
            statement(1, doc! { "$inc": { "a": "x" } }),
            statement(2, doc! { "$set": { "a": 1 } }),
        ];
        let command = doc! {
            "update": "c", "updates": [(set), (fail), (set_other)], "ordered": is_ordered, "$db": "db",
        };
        let reply = answer(server, &command);
        let errors = reply.get_array("writeErrors").unwrap();
        let index = |error: quarry_bson::RawValue<'_>| error.as_document()?.get_i32("index");
        let failed = errors.iter().filter_map(index).collect();
        (reply.get_i32("nModified"), failed)
    }

    #[test]
    fn an_ordered_command_ends_with_its_first_error_and_another_one_goes_on() {
        assert_eq!(changed_and_failed(true), (Some(1), vec![1]));
        assert_eq!(changed_and_failed(false), (Some(2), vec![1]));
    }
}
