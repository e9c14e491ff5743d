//! `find`: the documents of a collection that match a filter.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_query::exec::{self, FindRequest};
use quarry_query::expression::ExpressionContext;
use quarry_timing::OperationKind;

use crate::commands::first_batch::{FirstBatch, answer};
use crate::commands::writes;
use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::sessions::client_cursor::{ClientCursor, Source};

pub static COMMAND: Command = Command {
    fields: Fields::Named(&[
        "filter",
        "projection",
        "sort",
        "hint",
        "skip",
        "limit",
        "batchSize",
        "singleBatch",
        "tailable",
        "awaitData",
        "noCursorTimeout",
        "allowPartialResults",
        "oplogReplay",
        "allowDiskUse",
        "collation",
        "let",
        "min",
        "max",
        "returnKey",
        "showRecordId",
        "ntoreturn",
        "resumeAfter",
        "requestResumeToken",
    ]),
    kind: OperationKind::Find,
    takes_read_concern: true,
    is_in_api_1: true,
    ..Command::new(
        "find",
        "finds documents",
        Requires::Each(&[need(Action::Find, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let context = writes::context(invocation)?;
    let (request, options) = parse(&namespace, &context, invocation.body)?;
    let executor = exec::find(&invocation.server.database, invocation.operation, request)?;
    let mut cursor = ClientCursor::new(
        namespace.as_str().to_owned(),
        invocation.generic.session,
        Source::Executor(Box::new(executor)),
    );
    cursor.is_tailable = options.is_tailable;
    cursor.is_await_data = options.is_await_data;
    cursor.has_no_timeout = options.has_no_timeout;
    answer(cursor, invocation, options.first_batch, reply)
}

/// The options of a find that concern its cursor.
#[derive(Default)]
pub struct CursorOptions {
    pub is_tailable: bool,
    pub is_await_data: bool,
    pub has_no_timeout: bool,
    pub first_batch: FirstBatch,
}

/// Reads the fields of a find; `explain` shares it.
pub fn parse<'a>(
    namespace: &'a quarry_database::Namespace,
    context: &'a ExpressionContext,
    body: RawDocument<'a>,
) -> Result<(FindRequest<'a>, CursorOptions)> {
    let mut request = FindRequest::new(namespace);
    request.context = Some(context);
    let mut options = CursorOptions::default();
    for element in body.iter().skip(1) {
        let value = element.value();
        let name = element.name();
        match name.as_bytes() {
            b"filter" => request.filter = document("filter", value)?,
            b"projection" => request.projection = some_document("projection", value)?,
            b"sort" => request.sort = some_document("sort", value)?,
            b"hint" => request.hint = some_hint(value)?,
            b"skip" => request.skip = count("skip", value)?,
            b"limit" => {
                let limit = count("limit", value)?;
                request.limit = (limit != 0).then_some(limit);
            }
            b"batchSize" => options.first_batch.documents_max = count("batchSize", value)?,
            b"singleBatch" => options.first_batch.is_only = boolean("singleBatch", value)?,
            b"tailable" => options.is_tailable = boolean("tailable", value)?,
            b"awaitData" => options.is_await_data = boolean("awaitData", value)?,
            b"noCursorTimeout" => options.has_no_timeout = boolean("noCursorTimeout", value)?,
            // Options that change a result and are not served.
            b"returnKey" | b"showRecordId" | b"requestResumeToken" => {
                let field = name.to_string_lossy();
                if boolean(&field, value)? {
                    return Err(not_served(&field));
                }
            }
            b"min" | b"max" | b"resumeAfter"
                if value.as_document().is_none_or(|asked| !asked.is_empty()) =>
            {
                return Err(not_served(&name.to_string_lossy()));
            }
            _ => {}
        }
    }
    if options.is_await_data && !options.is_tailable {
        return Err(CommandError::failed_to_parse(
            "Cannot set 'awaitData' without also setting 'tailable'",
        ));
    }
    request.is_tailable = options.is_tailable;
    options.first_batch.limit = request.limit;
    Ok((request, options))
}

fn document<'a>(field: &str, value: RawValue<'a>) -> Result<RawDocument<'a>> {
    value.as_document().ok_or_else(|| {
        CommandError::field_type(
            "FindCommandRequest",
            field,
            value.element_type().alias(),
            "object",
        )
    })
}

fn some_document<'a>(field: &str, value: RawValue<'a>) -> Result<Option<RawDocument<'a>>> {
    Ok(Some(document(field, value)?).filter(|document| !document.is_empty()))
}

/// A hint is the name of an index or its key pattern; an empty one is none.
pub fn some_hint(value: RawValue<'_>) -> Result<Option<RawValue<'_>>> {
    match value {
        RawValue::Document(pattern) if pattern.is_empty() => Ok(None),
        RawValue::String(name) if name.is_empty() => Ok(None),
        RawValue::Document(_) | RawValue::String(_) => Ok(Some(value)),
        _ => Err(CommandError::failed_to_parse(
            "Hint must be a string or an object",
        )),
    }
}

fn not_served(field: &str) -> CommandError {
    CommandError::not_supported(format_args!("the option '{field}'"))
}

fn boolean(field: &str, value: RawValue<'_>) -> Result<bool> {
    crate::dispatch::command::boolean("FindCommandRequest", field, value)
}

fn count(field: &str, value: RawValue<'_>) -> Result<u64> {
    // A fraction is cut off, as MongoDB does.
    let number = value
        .as_i64_truncated()
        .ok_or_else(|| not_a_number(field, value))?;
    u64::try_from(number).map_err(|_| {
        let message = format!("BSON field '{field}' value must be >= 0, actual value '{number}'");
        CommandError::new(quarry_query::ErrorCode(51_024), message)
    })
}

fn not_a_number(field: &str, value: RawValue<'_>) -> CommandError {
    CommandError::field_type(
        "FindCommandRequest",
        field,
        value.element_type().alias(),
        "[long, int, decimal, double]",
    )
}
