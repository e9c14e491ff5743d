//! `insert`: stores documents.

use quarry_bson::DocumentBuilder;
use quarry_query::exec::{InsertOutcome, InsertRequest};
use quarry_timing::OperationKind;

use crate::commands::statements::Statements;
use crate::commands::write_errors::WriteErrors;
use crate::commands::writes;
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, array, flag, number, object};
use crate::dispatch::privilege::{Action, On, Requires, When, need, need_when};
use crate::dispatch::transaction_arguments::SessionUse;
use crate::observe::counters::Counter;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        array("documents"),
        flag("ordered"),
        flag("bypassDocumentValidation"),
        number("stmtId"),
        array("stmtIds"),
        object("encryptionInformation").not_served(),
    ]),
    kind: OperationKind::Insert,
    takes_write_concern: true,
    is_in_api_1: true,
    session_use: SessionUse::Retryable,
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
    let count = documents.len();
    let mut statements = Statements::of(invocation, count)?;
    let open = statements
        .as_mut()
        .map(|statements| statements.take_open(0..count))
        .transpose()?;
    let documents = match &open {
        Some(open) if open.len() < count => open.iter().map(|&at| documents[at]).collect(),
        _ => documents,
    };
    let request = InsertRequest {
        // The first error ends a transaction.
        is_ordered: !invocation.generic.is_unordered || invocation.data().is_in_transaction(),
        keeps_empty_timestamps: invocation.generic.keeps_empty_timestamps,
        may_be_too_deep: invocation.has_deep_documents,
        ..InsertRequest::new(&namespace, &documents)
    };
    let level = writes::level(invocation);
    let outcome = match documents.is_empty() {
        false => invocation
            .data()
            .insert(invocation.operation, request, level)?,
        // All of them are there already; they are to be as durable as the command asks for.
        true => {
            invocation.data().settle(level)?;
            InsertOutcome::default()
        }
    };
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
        let index = open.as_ref().map_or(index, |open| open[index]);
        errors.add(index, error.into());
    }
    let retried = statements.as_ref().map_or(0, Statements::retried) as u64;
    let inserted = outcome.inserted + retried;
    reply.append("n", i32::try_from(inserted).unwrap_or(i32::MAX));
    if let Some(statements) = &statements {
        statements.append_retried(reply);
    }
    errors.finish(invocation, reply);
    Ok(())
}
