//! `insert`: stores documents.

use quarry_bson::DocumentBuilder;
use quarry_query::exec::InsertRequest;
use quarry_timing::OperationKind;

use crate::commands::write_errors::WriteErrors;
use crate::commands::writes;
use crate::data::Data;
use crate::dispatch::argument::Argument;
use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, When, need, need_when};
use crate::observe::counters::Counter;

pub static COMMAND: Command = Command {
    fields: Fields::Named(&[
        "documents",
        "ordered",
        "bypassDocumentValidation",
        "stmtId",
        "stmtIds",
    ]),
    kind: OperationKind::Insert,
    takes_write_concern: true,
    is_in_api_1: true,
    ..Command::new(
        "insert",
        "inserts documents",
        Requires::Each(&[
            need(Action::Insert, On::Collection),
            need_when(
                Action::BypassDocumentValidation,
                On::Collection,
                When::Field("bypassDocumentValidation"),
            ),
        ]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let documents = invocation.documents("documents")?;
    writes::check_batch(documents.len())?;
    let request = InsertRequest {
        is_ordered: is_ordered(invocation)?,
        keeps_empty_timestamps: writes::keeps_empty_timestamps(invocation.body),
        may_be_too_deep: invocation.has_deep_documents,
        ..InsertRequest::new(&namespace, &documents)
    };
    let level = writes::level(invocation);
    let outcome = invocation
        .server
        .data()
        .insert(invocation.operation, request, level)?;
    let lane = invocation.connection.id;
    invocation
        .server
        .counters
        .add(lane, Counter::Insert, documents.len() as u64);
    invocation
        .server
        .counters
        .add(lane, Counter::DocumentsInserted, outcome.inserted);
    let mut errors = WriteErrors::default();
    for (index, error) in outcome.errors {
        errors.add(index, error.into());
    }
    reply.append("n", i32::try_from(outcome.inserted).unwrap_or(i32::MAX));
    errors.append(reply);
    Ok(())
}

/// A batch stops at its first error unless the client says otherwise.
pub fn is_ordered(invocation: &Invocation<'_>) -> Result<bool> {
    let given = invocation.argument("ordered");
    let given = given.map_or(Ok(None), |argument| argument.optional(Argument::flag))?;
    Ok(given.unwrap_or(true))
}
