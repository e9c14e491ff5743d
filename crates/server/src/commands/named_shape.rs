//! The shape that `setQuerySettings` and `removeQuerySettings` name: by its hash, or by a query that has it.

use quarry_bson::{RawDocument, RawValue};
use quarry_database::Namespace;
use quarry_query::ErrorCode;
use quarry_query::exec::{FindRequest, check_find};
use quarry_query::expression::ExpressionContext;
use quarry_query::pipeline::Pipeline;

use super::query_settings::stage_never_rejected;
use super::query_shape::ShapedQuery;
use super::{aggregate, change_stream, distinct};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::expression_context::context_of;
use crate::replication::query_settings::{SettingsByShape, ShapeHash};

/// The commands that have settings.
static COMMANDS: [&Command; 3] = [
    &super::find::COMMAND,
    &aggregate::COMMAND,
    &distinct::COMMAND,
];

/// A shape that a command names.
pub struct NamedShape<'i> {
    pub hash: ShapeHash,
    /// The query, unless the shape is named by its hash.
    pub query: Option<ShapedQuery<'i>>,
}

impl<'i> NamedShape<'i> {
    /// Reads the shape from the command's first field.
    pub fn read(invocation: &Invocation<'i>) -> Result<NamedShape<'i>> {
        match invocation.subject() {
            Some(RawValue::String(hash)) => Ok(NamedShape {
                hash: ShapeHash::parse(hash.as_str()?)?,
                query: None,
            }),
            Some(RawValue::Document(query)) => {
                let query = read_query(query)?;
                Ok(NamedShape {
                    hash: ShapeHash::of(query.shape()?.as_raw()),
                    query: Some(query),
                })
            }
            other => {
                let found = other.map_or("missing", |other| other.element_type().alias());
                let name = invocation.command.name;
                let expected = "[string, object";
                Err(CommandError::field_type(name, name, found, expected))
            }
        }
    }
}

/// The settings of the set; a standalone has none.
pub fn settings_of(invocation: &Invocation<'_>) -> Result<&'static SettingsByShape> {
    let set = invocation.server.replica_set.as_ref();
    set.map(|set| &set.query_settings).ok_or_else(|| {
        let message = format!(
            "{} can only run on replica sets or sharded clusters",
            invocation.command.name
        );
        CommandError::new(ErrorCode::ILLEGAL_OPERATION, message)
    })
}

/// Reads a query as the command reads it that runs it.
fn read_query(query: RawDocument<'_>) -> Result<ShapedQuery<'_>> {
    let name = query.first().map(|first| first.name().to_string_lossy());
    let name = name.unwrap_or_default();
    let command = COMMANDS.into_iter().find(|known| known.is_called(&name));
    let Some(command) = command else {
        let message = format!("QueryShape can not be computed for command: {query}");
        return Err(CommandError::new(ErrorCode(7_746_402), message));
    };
    command.check(query)?;
    let database = query.get_str("$db");
    let database = database.ok_or_else(|| CommandError::missing_field(command.parser, "$db"))?;
    let context = context_of(command.parser, query)?;
    match command.name {
        "aggregate" => check_aggregate(query, &context)?,
        _ => {
            let namespace = Namespace::new(database, collection_of(command, query)?)?;
            let arguments = command.arguments(query);
            let mut request = FindRequest::new(&namespace);
            if command.name == "find" {
                super::find::parse(arguments, &context, &mut request)?;
            } else {
                let asked = distinct::parse(&namespace, &context, arguments)?;
                (request.filter, request.context) = (asked.filter, asked.context);
            }
            check_find(&request)?;
        }
    }
    Ok(ShapedQuery {
        command: command.name,
        database,
        body: query,
    })
}

fn collection_of<'q>(command: &Command, query: RawDocument<'q>) -> Result<&'q str> {
    let subject = query.first().and_then(|first| first.value().as_str());
    subject.ok_or_else(|| {
        let code = match command.name {
            "find" => 7_746_605,
            _ => 7_919_501,
        };
        let message = "Collection namespace string must be provided for setQuerySettings command";
        CommandError::new(ErrorCode(code), message)
    })
}

fn check_aggregate(query: RawDocument<'_>, context: &ExpressionContext) -> Result<()> {
    let subject = query.first().map(|first| first.value());
    let is_over_none = subject.and_then(|subject| subject.as_i64_exact()) == Some(1);
    if !is_over_none && subject.and_then(|subject| subject.as_str()).is_none() {
        let message =
            "Invalid command format: the 'aggregate' field must specify a collection name or 1";
        return Err(CommandError::failed_to_parse(message));
    }
    let Some(pipeline) = query.get_array("pipeline") else {
        let message = "'pipeline' option must be specified as an array";
        return Err(CommandError::type_mismatch(message));
    };
    if change_stream::specification(query).is_some() {
        return Err(CommandError::not_supported(
            "setQuerySettings for a change stream",
        ));
    }
    // The server makes their documents, and what they take is theirs to say.
    if stage_never_rejected(query).is_none() {
        Pipeline::parse(pipeline, context)?;
    }
    Ok(())
}
