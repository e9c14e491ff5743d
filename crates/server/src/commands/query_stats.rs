//! The stage `$queryStats`, and the keys by which the queries of `find` and `aggregate` are counted: their shape, and who asked.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use quarry_bson::{DateTime, Document, DocumentBuilder, RawDocument, RawValue, Timestamp};
use quarry_query::ErrorCode;
use quarry_query::normalised::placeholder;
use quarry_query::pipeline::Specification;
use sha2::{Digest, Sha256};

use super::query_shape::ShapedQuery;
use super::stage_surroundings::Surroundings;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::observe::query_stats::{QueryStats, RecordedQuery};
use crate::replication::query_settings::ShapeHash;

/// Begins to record the query that a command is, where queries are recorded.
#[inline]
pub fn begin(invocation: &Invocation<'_>) -> Option<Box<RecordedQuery>> {
    match QueryStats::is_on() {
        true => begin_recording(invocation),
        false => None,
    }
}

#[cold]
fn begin_recording(invocation: &Invocation<'_>) -> Option<Box<RecordedQuery>> {
    let stats = &invocation.server.query_stats;
    stats.begin(invocation.operation, |out| append_key(invocation, out))
}

/// Appends the shape of a query, and who asked it.
fn append_key(
    invocation: &Invocation<'_>,
    out: &mut DocumentBuilder<'_>,
) -> quarry_query::Result<()> {
    let body = invocation.body;
    let mut shape = out.document("queryShape");
    ShapedQuery::of(invocation).append_shape(&mut shape)?;
    shape.finish();
    if let Some(hint) = body.get("hint").filter(|hint| !hint.is_nullish()) {
        out.append("hint", hint);
    }
    if let Some(metadata) = &*invocation.connection.metadata.lock() {
        out.append("client", metadata.as_raw());
    }
    for name in ["maxTimeMS", "batchSize", "comment"] {
        if let Some(value) = body.get(name).filter(|value| !value.is_nullish()) {
            out.append(name, placeholder(value).as_str());
        }
    }
    if let Some(concern) = body.get_document("readConcern") {
        out.append("readConcern", concern);
    }
    Ok(())
}

/// The documents of the stage, one for each shape.
pub fn documents(
    surroundings: Surroundings<'_, '_>,
    specification: Specification<'_>,
) -> Result<Vec<Document>> {
    let invocation = surroundings.invocation;
    if invocation.generic.database != "admin" || surroundings.namespace.is_some() {
        let message = "$queryStats must be run against the 'admin' database with {aggregate: 1}";
        return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
    }
    let RawValue::Document(options) = specification.value else {
        let message = "$queryStats value must be an object";
        return Err(CommandError::failed_to_parse(message));
    };
    if let Some(option) = options.iter().next() {
        let name = option.name().to_string_lossy();
        return Err(match &*name {
            "transformIdentifiers" => {
                CommandError::not_supported("the option 'transformIdentifiers' of $queryStats")
            }
            name => CommandError::unknown_field("$queryStats", name),
        });
    }
    let seconds = u64::try_from(DateTime::now().0 / 1000).unwrap_or(0);
    let now = RawValue::Timestamp(Timestamp::from_u64(seconds << 32 | 1));
    let mut documents = Vec::new();
    invocation.server.query_stats.list(&mut |key, metrics| {
        invocation.operation.check()?;
        documents.push(Document::build(|out| {
            out.append("key", key);
            out.append(
                "keyHash",
                BASE64_STANDARD
                    .encode(Sha256::digest(key.as_bytes()))
                    .as_str(),
            );
            let shape = key.get_document("queryShape").unwrap_or(RawDocument::EMPTY);
            out.append("queryShapeHash", ShapeHash::of(shape).text().as_str());
            out.append("metrics", metrics.as_raw());
            out.append("asOf", now);
        }));
        Ok(())
    })?;
    Ok(documents)
}
