//! `delete`: removes documents, one statement after the other.

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_database::Namespace;
use quarry_query::exec::DeleteRequest;
use quarry_query::expression::ExpressionContext;
use quarry_timing::OperationKind;

use super::find::some_hint;
use crate::commands::statements::{Statements, refuse_many};
use crate::commands::writes;
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any, array, flag, number, object};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::dispatch::transaction_arguments::SessionUse;
use crate::observe::counters::Counter;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        array("deletes"),
        flag("ordered"),
        object("let"),
        number("stmtId"),
        array("stmtIds"),
        flag("bypassDocumentValidation").ignored(),
        object("encryptionInformation").not_served(),
    ]),
    kind: OperationKind::Delete,
    takes_write_concern: true,
    is_in_api_1: true,
    session_use: SessionUse::Retryable,
    ..Command::new(
        "delete",
        "deletes documents",
        Requires::Each(&[need(Action::Remove, On::Collection)]),
        run,
    )
};

/// The name that MongoDB's errors give a statement.
const PARSER: &str = "delete.deletes";

static STATEMENT: Fields = Fields::named(&[
    object("q").required(),
    any("limit").required(),
    any("hint"),
    object("collation"),
    any("sampleId").ignored(),
]);

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let statements = invocation.documents("deletes")?;
    writes::check_batch(statements.len())?;
    let context = writes::context(invocation)?;
    let is_ordered = !invocation.generic.is_unordered;
    let requests = statements
        .iter()
        .map(|statement| parse(&namespace, &context, *statement))
        .collect::<Result<Vec<_>>>()?;
    let count = requests.len() as u64;
    let mut deleted = 0;
    let mut statements = Statements::of(invocation, requests.len())?;
    let run = |index, request: DeleteRequest<'_>, level| {
        refuse_many(statements.as_ref(), request.is_multi, "limit=0")?;
        let recorded = statements
            .as_mut()
            .map(|statements| statements.recorded(index));
        deleted += match recorded.transpose()?.flatten() {
            // Only a delete that has removed its document is recorded.
            Some(_) => 1,
            None => {
                let data = invocation.data();
                data.delete(invocation.operation, request, level)?
            }
        };
        Ok(())
    };
    let errors = writes::run_statements(invocation, requests, is_ordered, run)?;
    let lane = invocation.connection.id;
    invocation.server.counters.add(lane, Counter::Delete, count);
    invocation
        .server
        .counters
        .add(lane, Counter::DocumentsDeleted, deleted);
    reply.append("n", i32::try_from(deleted).unwrap_or(i32::MAX));
    if let Some(statements) = &statements {
        statements.append_retried(reply);
    }
    errors.finish(invocation, reply);
    Ok(())
}

/// Reads one statement; `explain` shares it.
pub fn parse<'a>(
    namespace: &'a Namespace,
    context: &'a ExpressionContext,
    statement: RawDocument<'a>,
) -> Result<DeleteRequest<'a>> {
    let (mut filter, mut limit, mut hint) = (None, None, None);
    let mut collation = None;
    STATEMENT.read(PARSER, statement, |argument| {
        match argument.name().as_bytes() {
            b"q" => filter = Some(argument.document()?),
            b"limit" => limit = argument.value().as_i64_exact(),
            b"hint" => hint = some_hint(argument.value())?,
            b"collation" => collation = Some(argument.document()?),
            _ => {}
        }
        Ok(())
    })?;
    let filter = filter.ok_or_else(|| CommandError::missing_field(PARSER, "q"))?;
    let is_multi = match limit {
        Some(0) => true,
        Some(1) => false,
        _ => {
            return Err(CommandError::failed_to_parse(
                "The limit field in delete objects must be 0 or 1. Got another value",
            ));
        }
    };
    Ok(DeleteRequest {
        namespace,
        context: Some(context),
        collation,
        filter,
        is_multi,
        hint,
    })
}
