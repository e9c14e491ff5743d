//! `findAndModify`: changes or removes one document and returns it, as it was or as it is.

use quarry_bson::{DocumentBuilder, RawValue};
use quarry_database::Namespace;
use quarry_query::exec::{self, FindAndModifyRequest};
use quarry_query::expression::ExpressionContext;
use quarry_timing::OperationKind;

use super::find::some_hint;
use crate::commands::statements::Statements;
use crate::commands::writes;
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, Present, any, array, flag, number, object};
use crate::dispatch::privilege::{Action, On, Requires, When, need, need_when};
use crate::dispatch::transaction_arguments::SessionUse;
use crate::observe::counters::Counter;

pub static COMMAND: Command = Command {
    aliases: &["findandmodify"],
    fields: Fields::named(&[
        object("query"),
        object("sort"),
        flag("remove"),
        any("update"),
        flag("new"),
        object("fields"),
        flag("upsert"),
        flag("bypassDocumentValidation"),
        object("collation"),
        array("arrayFilters"),
        any("hint"),
        object("let"),
        number("stmtId"),
        object("encryptionInformation").not_served(),
    ]),
    kind: OperationKind::FindAndModify,
    takes_write_concern: true,
    is_in_api_1: true,
    session_use: SessionUse::Retryable,
    ..Command::new(
        "findAndModify",
        "changes one document and returns it",
        Requires::Each(&[
            need(Action::Find, On::Collection),
            need_when(Action::Update, On::Collection, When::Without("remove")),
            need_when(Action::Remove, On::Collection, When::Field("remove")),
            need_when(Action::Insert, On::Collection, When::Field("upsert")),
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
    let context = writes::context(invocation)?;
    let request = FindAndModifyRequest {
        keeps_empty_timestamps: invocation.generic.keeps_empty_timestamps,
        ..parse(&namespace, &context, invocation.arguments())?
    };
    let is_remove = request.update.is_none();
    let level = writes::level(invocation);
    let mut statements = Statements::of(invocation, 1)?;
    let recorded = statements.as_mut().map(|statements| statements.recorded(0));
    let outcome = match recorded.transpose()?.flatten() {
        Some(recorded) => exec::find_and_modify_again(&recorded, &request)?,
        None => invocation
            .data()
            .find_and_modify(invocation.operation, request, level)?,
    };
    let lane = invocation.connection.id;
    let mut last = reply.document("lastErrorObject");
    last.append(
        "n",
        i32::from(outcome.matched || outcome.upserted.is_some()),
    );
    if is_remove {
        invocation
            .server
            .counters
            .add(lane, Counter::DocumentsDeleted, u64::from(outcome.matched));
    } else {
        invocation
            .server
            .counters
            .add(lane, Counter::DocumentsUpdated, u64::from(outcome.matched));
        last.append("updatedExisting", outcome.matched);
        if let Some(id) = &outcome.upserted {
            last.append("upserted", id);
        }
    }
    last.finish();
    match &outcome.value {
        Some(document) => reply.append("value", document),
        None => reply.append("value", RawValue::Null),
    };
    if let Some(id) = statements.as_ref().and_then(Statements::only_retried) {
        reply.append("retriedStmtId", id);
    }
    Ok(())
}

/// Reads the command; `explain` shares it.
pub fn parse<'a>(
    namespace: &'a Namespace,
    context: &'a ExpressionContext,
    arguments: Present<'a>,
) -> Result<FindAndModifyRequest<'a>> {
    let mut request = FindAndModifyRequest {
        context: Some(context),
        ..FindAndModifyRequest::new(namespace)
    };
    let mut is_remove = false;
    for argument in arguments {
        match argument.name().as_bytes() {
            b"query" => request.filter = argument.document()?,
            b"sort" => request.sort = argument.some_document()?,
            b"fields" => request.projection = argument.some_document()?,
            b"update" => request.update = Some(argument.value()),
            b"remove" => is_remove = argument.flag()?,
            b"new" => request.returns_new = argument.flag()?,
            b"upsert" => request.is_upsert = argument.flag()?,
            b"hint" => request.hint = some_hint(argument.value())?,
            b"arrayFilters" => request.array_filters = Some(argument.array()?),
            _ => {}
        }
    }
    match (is_remove, request.update.is_some()) {
        (true, true) => Err(CommandError::failed_to_parse(
            "Cannot specify both an update and remove=true",
        )),
        (false, false) => Err(CommandError::failed_to_parse(
            "Either an update or remove=true must be specified",
        )),
        (true, _) if request.is_upsert => Err(CommandError::failed_to_parse(
            "Cannot specify both upsert=true and remove=true",
        )),
        (true, _) if request.returns_new => Err(CommandError::failed_to_parse(
            "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document",
        )),
        (true, _) if request.array_filters.is_some() => Err(CommandError::failed_to_parse(
            "Cannot specify arrayFilters and remove=true",
        )),
        _ => Ok(request),
    }
}
