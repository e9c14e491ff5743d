//! `update`: changes documents, one statement after the other.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_database::Namespace;
use quarry_query::exec::{self, UpdateRequest};
use quarry_query::expression::ExpressionContext;
use quarry_query::pipeline;
use quarry_timing::OperationKind;

use super::find::some_hint;
use crate::commands::statements::{Statements, refuse_many};
use crate::commands::writes;
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any, array, flag, number, object};
use crate::dispatch::privilege::{Action, On, Requires, When, need, need_when};
use crate::dispatch::transaction_arguments::SessionUse;
use crate::observe::counters::Counter;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        array("updates"),
        flag("ordered"),
        flag("bypassDocumentValidation"),
        object("let"),
        number("stmtId"),
        array("stmtIds"),
        object("encryptionInformation").not_served(),
    ]),
    kind: OperationKind::Update,
    takes_write_concern: true,
    is_in_api_1: true,
    session_use: SessionUse::Retryable,
    ..Command::new(
        "update",
        "updates documents",
        Requires::Each(&[
            need(Action::Update, On::Collection),
            need_when(
                Action::Insert,
                On::Collection,
                When::Statement {
                    list: "updates",
                    field: "upsert",
                },
            ),
            need_when(
                Action::BypassDocumentValidation,
                On::Collection,
                When::Field("bypassDocumentValidation"),
            ),
        ]),
        run,
    )
};

/// The name that MongoDB's errors give a statement.
const PARSER: &str = "update.updates";

static STATEMENT: Fields = Fields::named(&[
    object("q").required(),
    any("u").required(),
    flag("multi"),
    flag("upsert"),
    any("hint"),
    object("collation"),
    array("arrayFilters"),
    object("sort"),
    object("c"),
    flag("upsertSupplied").ignored(),
    any("sampleId").ignored(),
    flag("allowShardKeyUpdatesWithoutFullShardKeyInQuery").ignored(),
]);

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let statements = invocation.documents("updates")?;
    writes::check_batch(statements.len())?;
    let context = writes::context(invocation)?;
    let is_ordered = !invocation.generic.is_unordered;
    let requests = statements
        .iter()
        .map(|statement| {
            Ok(UpdateRequest {
                keeps_empty_timestamps: invocation.generic.keeps_empty_timestamps,
                ..parse(&namespace, &context, *statement)?
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let count = requests.len() as u64;
    let (mut matched, mut modified) = (0, 0);
    let mut upserted = Vec::new();
    let mut statements = Statements::of(invocation, requests.len())?;
    let run = |index, request: UpdateRequest<'_>, level| {
        refuse_many(statements.as_ref(), request.is_multi, "multi=true")?;
        let recorded = statements
            .as_mut()
            .map(|statements| statements.recorded(index));
        let outcome = match recorded.transpose()?.flatten() {
            Some(recorded) => exec::update_again(&recorded)?,
            None => {
                let data = invocation.data();
                data.update(invocation.operation, request, level)?
            }
        };
        matched += outcome.matched + u64::from(outcome.upserted.is_some());
        modified += outcome.modified;
        upserted.extend(outcome.upserted.map(|id| (index, id)));
        Ok(())
    };
    let errors = writes::run_statements(invocation, requests, is_ordered, run)?;
    let lane = invocation.connection.id;
    invocation.server.counters.add(lane, Counter::Update, count);
    invocation
        .server
        .counters
        .add(lane, Counter::DocumentsUpdated, modified);
    reply.append("n", i32::try_from(matched).unwrap_or(i32::MAX));
    if !upserted.is_empty() {
        let mut list = reply.array("upserted");
        for (index, id) in &upserted {
            let mut entry = list.document();
            entry.append("index", i32::try_from(*index).unwrap_or(i32::MAX));
            entry.append("_id", id);
            entry.finish();
        }
        list.finish();
    }
    reply.append("nModified", i32::try_from(modified).unwrap_or(i32::MAX));
    if let Some(statements) = &statements {
        statements.append_retried(reply);
    }
    errors.finish(invocation, reply);
    Ok(())
}

/// Refuses a pipeline with a stage that there is not: MongoDB counts stages before it runs any statement, so that the command fails and
/// not the statement.
fn check_stage_names(update: RawValue<'_>) -> Result<()> {
    let RawValue::Array(stages) = update else {
        return Ok(());
    };
    let stages = stages.iter().filter_map(|stage| stage.as_document());
    let mut names = stages.filter_map(|stage| stage.first()?.name().as_str().ok());
    Ok(names.try_for_each(pipeline::check_stage_name)?)
}

/// Reads one statement; `explain` shares it.
pub fn parse<'a>(
    namespace: &'a Namespace,
    context: &'a ExpressionContext,
    statement: RawDocument<'a>,
) -> Result<UpdateRequest<'a>> {
    let (mut filter, mut update) = (None, None);
    let (mut is_upsert, mut is_multi, mut hint) = (false, false, None);
    let (mut array_filters, mut constants, mut sort) = (None, None, None);
    let mut collation = None;
    STATEMENT.read(PARSER, statement, |argument| {
        match argument.name().as_bytes() {
            b"q" => filter = Some(argument.document()?),
            b"u" => {
                check_stage_names(argument.value())?;
                update = Some(argument.value());
            }
            b"upsert" => is_upsert = argument.flag()?,
            b"multi" => is_multi = argument.flag()?,
            b"hint" => hint = some_hint(argument.value())?,
            b"collation" => collation = Some(argument.document()?),
            b"arrayFilters" => array_filters = Some(argument.array()?),
            b"sort" => sort = argument.some_document()?,
            b"c" => constants = Some(argument.document()?),
            _ => {}
        }
        Ok(())
    })?;
    let filter = filter.ok_or_else(|| CommandError::missing_field(PARSER, "q"))?;
    let update = update.ok_or_else(|| CommandError::missing_field(PARSER, "u"))?;
    if !matches!(update, RawValue::Document(_) | RawValue::Array(_)) {
        return Err(CommandError::failed_to_parse(
            "Update argument must be either an object or an array",
        ));
    }
    Ok(UpdateRequest {
        namespace,
        context: Some(context),
        collation,
        filter,
        update,
        is_upsert,
        is_multi,
        hint,
        array_filters,
        constants,
        sort,
        keeps_empty_timestamps: false,
    })
}
