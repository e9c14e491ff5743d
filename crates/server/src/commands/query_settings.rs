//! The settings of queries (`setQuerySettings`) where they are met: the stage `$querySettings`, and the find, distinct or aggregate that
//! has some by its shape.

use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};
use quarry_query::ErrorCode;
use quarry_query::expression::ExpressionContext;
use quarry_query::pipeline::Specification;
use quarry_query::query_settings::QuerySettings;

use super::query_shape::ShapedQuery;
use super::stage_surroundings::Surroundings;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::replication::query_settings::{SettingsByShape, ShapeHash, ShapeSettings};

pub const STAGE: &str = "$querySettings";

/// First stages that tell of the server: a pipeline that begins with one is never refused.
const NEVER_REJECTED: [&str; 11] = [
    "$collStats",
    "$currentOp",
    "$indexStats",
    "$listCatalog",
    "$listLocalSessions",
    "$listSampledQueries",
    "$listSearchIndexes",
    "$listSessions",
    "$operationMetrics",
    "$planCacheStats",
    "$queryStats",
];

/// Options of a find with which an `_id` alone does not say how it is found.
const BESIDE_AN_ID: [&str; 6] = ["hint", "max", "min", "showRecordId", "skip", "tailable"];

/// Gives the context the settings that the query has by its shape. Fails where they refuse it.
#[inline]
pub fn apply(
    invocation: &Invocation<'_>,
    query: ShapedQuery<'_>,
    context: &mut ExpressionContext,
) -> Result<()> {
    match in_force(invocation) {
        None => Ok(()),
        Some(table) => apply_from(table, query, context),
    }
}

/// Like `apply`, for a query that is only explained: it is shown even where it would be refused.
pub fn apply_to_explained(
    invocation: &Invocation<'_>,
    query: ShapedQuery<'_>,
    context: &mut ExpressionContext,
) -> Result<()> {
    if let Some(table) = in_force(invocation)
        && let Some(settings) = settings_of(table, query)?
    {
        context.set_query_settings(settings);
    }
    Ok(())
}

/// The settings of the set, if there are some.
#[inline]
fn in_force(invocation: &Invocation<'_>) -> Option<&'static SettingsByShape> {
    let set = invocation.server.replica_set.as_ref()?;
    let table = &set.query_settings;
    (!table.are_none()).then_some(table)
}

#[cold]
fn apply_from(
    table: &SettingsByShape,
    query: ShapedQuery<'_>,
    context: &mut ExpressionContext,
) -> Result<()> {
    let Some(settings) = settings_of(table, query)? else {
        return Ok(());
    };
    if settings.rejects() && stage_never_rejected(query.body).is_none() {
        let message = "Query rejected by admin query settings";
        return Err(CommandError::new(
            ErrorCode::QUERY_REJECTED_BY_SETTINGS,
            message,
        ));
    }
    context.set_query_settings(settings);
    Ok(())
}

fn settings_of(
    table: &SettingsByShape,
    query: ShapedQuery<'_>,
) -> Result<Option<Arc<QuerySettings>>> {
    match why_without(&query) {
        Some(_) => Ok(None),
        None => Ok(table.get(hash_of(query)?)),
    }
}

fn hash_of(query: ShapedQuery<'_>) -> Result<ShapeHash> {
    Ok(ShapeHash::of(query.shape()?.as_raw()))
}

/// Appends the hash of the shape of an explained command, if it is a query that can have settings.
pub fn append_hash(
    database: &str,
    body: RawDocument<'_>,
    reply: &mut DocumentBuilder<'_>,
) -> Result<()> {
    if let Some(query) = ShapedQuery::in_body(database, body)
        && why_without(&query).is_none()
    {
        reply.append("queryShapeHash", hash_of(query)?.text().as_str());
    }
    Ok(())
}

/// The refusal of settings for a query that cannot have any; none for one that can.
pub fn why_without(query: &ShapedQuery<'_>) -> Option<CommandError> {
    let refuse = |code, message| Some(CommandError::new(ErrorCode(code), message));
    if matches!(query.database, "admin" | "config" | "local") {
        let message = "setQuerySettings command cannot be used on internal databases";
        return refuse(8_584_900, message);
    }
    if query.collection().starts_with("system.") {
        let message = "setQuerySettings command cannot be used on system collections";
        return refuse(8_584_901, message);
    }
    if query.command == "find" && finds_by_id(query.body) {
        let message = "setQuerySettings command cannot be used on find queries eligible for IDHACK";
        return refuse(7_746_606, message);
    }
    None
}

/// Whether a find asks for one `_id` and for nothing that needs a plan.
fn finds_by_id(body: RawDocument<'_>) -> bool {
    let asks_for = |name: &str| match body.get(name) {
        None => false,
        Some(RawValue::Document(document)) => !document.is_empty(),
        Some(RawValue::String(text)) => !text.as_bytes().is_empty(),
        Some(value) => value.is_truthy(),
    };
    let filter = body.get_document("filter");
    let id = filter.and_then(|filter| filter.sole_element("_id"));
    id.is_some_and(|id| is_one_id(id.value())) && !BESIDE_AN_ID.into_iter().any(asks_for)
}

fn is_one_id(value: RawValue<'_>) -> bool {
    match value {
        RawValue::Document(document) => match document.first() {
            Some(first) if first.name().as_bytes().starts_with(b"$") => {
                let equal = document.sole_element("$eq");
                equal.is_some_and(|equal| is_exact(equal.value()))
            }
            _ => true,
        },
        value => is_exact(value),
    }
}

fn is_exact(value: RawValue<'_>) -> bool {
    !matches!(value, RawValue::Array(_) | RawValue::Regex(_)) && !value.is_nullish()
}

/// The first stage of a pipeline, if that is never refused.
pub fn stage_never_rejected(body: RawDocument<'_>) -> Option<&'static str> {
    let first = body.get_array("pipeline")?.get(0)?.as_document()?.first()?;
    let mut stages = NEVER_REJECTED.into_iter().chain([STAGE]);
    stages.find(|stage| first.name() == *stage)
}

/// The documents of the stage, one for each shape that has settings.
pub fn documents(
    surroundings: Surroundings<'_, '_>,
    specification: Specification<'_>,
) -> Result<Vec<Document>> {
    let RawValue::Document(options) = specification.value else {
        let message = "$querySettings stage expects a document as argument";
        return Err(CommandError::new(ErrorCode(7_746_801), message));
    };
    let mut shows_shape = false;
    for option in options {
        let name = option.name().to_string_lossy();
        match (&*name, option.value()) {
            ("showDebugQueryShape", RawValue::Boolean(shows)) => shows_shape = shows,
            ("showDebugQueryShape", value) => {
                let found = value.element_type().alias();
                return Err(CommandError::field_type(STAGE, &name, found, "bool"));
            }
            _ => return Err(CommandError::unknown_field(STAGE, &name)),
        }
    }
    let invocation = surroundings.invocation;
    let Some(set) = &invocation.server.replica_set else {
        return Ok(Vec::new());
    };
    let mut documents = Vec::new();
    for (hash, settings) in &*set.query_settings.all() {
        invocation.operation.check()?;
        documents.push(shown(*hash, settings, shows_shape)?);
    }
    Ok(documents)
}

fn shown(hash: ShapeHash, settings: &ShapeSettings, shows_shape: bool) -> Result<Document> {
    let query = settings.query.as_ref().filter(|_| shows_shape);
    let query = query.and_then(|query| {
        let database = query.get_str("$db")?;
        ShapedQuery::in_body(database, query.as_raw())
    });
    let shape = query.map(|query| query.shape()).transpose()?;
    Ok(Document::build(|out| {
        settings.append(hash, out);
        if let Some(shape) = &shape {
            out.append("debugQueryShape", shape.as_raw());
        }
    }))
}
