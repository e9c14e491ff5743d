//! The stage `$queryStats`, and the shapes of the commands whose queries it counts: `find` and `aggregate`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use quarry_bson::{DateTime, Document, DocumentBuilder, RawDocument, RawValue, Timestamp};
use quarry_query::ErrorCode;
use quarry_query::normalised::{
    append_filter, append_pipeline, append_projection, append_values, placeholder,
};
use quarry_query::pipeline::Specification;
use sha2::{Digest, Sha256};

use super::stage_surroundings::Surroundings;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::observe::query_stats::{QueryStats, RecordedQuery};

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
    let collection = invocation.subject().and_then(|subject| subject.as_str());
    let collection = collection.unwrap_or("$cmd.aggregate");
    let mut shape = out.document("queryShape");
    let mut namespace = shape.document("cmdNs");
    namespace.append("db", invocation.generic.database);
    namespace.append("coll", collection);
    namespace.finish();
    shape.append("command", invocation.command.name);
    if let Some(pipeline) = body.get_array("pipeline") {
        append_pipeline("pipeline", pipeline, &mut shape)?;
    } else {
        let filter = body.get_document("filter").unwrap_or(RawDocument::EMPTY);
        append_filter("filter", filter, &mut shape)?;
    }
    for name in ["sort", "hint", "collation"] {
        if let Some(value) = body.get(name).filter(|value| !value.is_nullish()) {
            shape.append(name, value);
        }
    }
    if let Some(projection) = body.get_document("projection") {
        append_projection("projection", projection, &mut shape);
    }
    if let Some(variables) = body.get_document("let") {
        append_values("let", variables, &mut shape);
    }
    for name in ["limit", "skip", "min", "max"] {
        if let Some(value) = body.get(name).filter(|value| !value.is_nullish()) {
            shape.append(name, placeholder(value).as_str());
        }
    }
    for name in [
        "singleBatch",
        "allowDiskUse",
        "returnKey",
        "showRecordId",
        "tailable",
        "awaitData",
    ] {
        if let Some(value) = body.get(name).filter(RawValue::is_truthy) {
            shape.append(name, value.is_truthy());
        }
    }
    shape.finish();
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
            out.append(
                "queryShapeHash",
                hex(&Sha256::digest(shape.as_bytes())).as_str(),
            );
            out.append("metrics", metrics.as_raw());
            out.append("asOf", now);
        }));
        Ok(())
    })?;
    Ok(documents)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
