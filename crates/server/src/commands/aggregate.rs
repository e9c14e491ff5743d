//! `aggregate`: runs a pipeline over a collection, or over what a first stage makes.

use quarry_bson::{DocumentBuilder, RawValue};
use quarry_database::Namespace;
use quarry_query::exec::{self, AggregateRequest};
use quarry_timing::OperationKind;

use super::find::some_hint;
use crate::command::{Command, Fields, Invocation};
use crate::cursors::{ClientCursor, FirstBatch, Source};
use crate::error::{CommandError, Result};
use crate::writes;

/// The collection of a pipeline that reads none.
const COLLECTIONLESS: &str = "$cmd.aggregate";

pub static COMMAND: Command = Command {
    fields: Fields::Named(&[
        "pipeline",
        "cursor",
        "explain",
        "allowDiskUse",
        "bypassDocumentValidation",
        "collation",
        "hint",
        "let",
        "fromMongos",
        "needsMerge",
    ]),
    kind: OperationKind::Aggregate,
    takes_read_concern: true,
    takes_write_concern: true,
    is_in_api_1: true,
    ..Command::new("aggregate", "runs a pipeline", run)
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    writes::refuse_let(invocation)?;
    if invocation.boolean("explain")? {
        return super::explain::explain_aggregate(invocation, invocation.body, reply);
    }
    if invocation.get("cursor").is_none() {
        return Err(CommandError::failed_to_parse(
            "The 'cursor' option is required, except for aggregate with the explain argument",
        ));
    }
    let batch = FirstBatch::parse(invocation)?;
    let Some(RawValue::Array(pipeline)) = invocation.get("pipeline") else {
        return Err(CommandError::type_mismatch(
            "'pipeline' option must be specified as an array",
        ));
    };
    let namespace = namespace(invocation)?;
    let shown = match &namespace {
        Some(namespace) => namespace.as_str().to_owned(),
        None => format!("{}.{COLLECTIONLESS}", invocation.generic.database),
    };
    let Some(namespace) = namespace else {
        return Err(CommandError::not_supported(
            "an aggregate that reads no collection",
        ));
    };
    let mut request = AggregateRequest::new(&namespace, pipeline);
    request.hint = invocation.get("hint").map(some_hint).transpose()?.flatten();
    let executor = exec::aggregate(&invocation.server.database, invocation.operation, request)?;
    let source = Source::Executor(Box::new(executor));
    ClientCursor::new(shown, invocation.generic.session, source).answer(invocation, batch, reply)
}

/// The collection, or none for `aggregate: 1`.
fn namespace(invocation: &Invocation<'_>) -> Result<Option<Namespace>> {
    match invocation.subject() {
        Some(RawValue::String(_)) => invocation.namespace().map(Some),
        Some(value) if value.as_i64_exact() == Some(1) => Ok(None),
        _ => Err(CommandError::failed_to_parse(
            "Invalid command format: the 'aggregate' field must specify a collection name or 1",
        )),
    }
}
