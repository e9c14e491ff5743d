//! `dataSize`: the bytes and the number of documents of a collection, or of those whose keys lie between two bounds.

use std::time::Instant;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};
use quarry_database::{CollStats, Namespace};
use quarry_query::ErrorCode;
use quarry_query::exec::{FindRequest, KeyOptions};

use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, flag, number, object};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::sessions::client_cursor::Source;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        object("keyPattern"),
        object("min"),
        object("max"),
        flag("estimate"),
        number("maxSize"),
        number("maxObjects"),
    ]),
    ..Command::new(
        "dataSize",
        "shows the size of a collection's documents",
        Requires::Each(&[need(Action::Find, On::CollectionIn("dataSize"))]),
        run,
    )
};

/// The documents that were found so far.
#[derive(Default)]
struct Found {
    bytes: u64,
    documents: u64,
    is_cut: bool,
}

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let began = Instant::now();
    let name = invocation.subject().and_then(|name| name.as_str());
    let namespace = Namespace::parse(name.unwrap_or_default())?;
    let estimates = invocation.boolean("estimate")?;
    let stats = invocation.server.catalog().coll_stats(&namespace)?;
    let bound = |name: &str| -> Result<Option<RawDocument<'_>>> {
        let bound = invocation.document(name)?;
        Ok(bound.filter(|bound| !bound.is_empty()))
    };
    let found = match (stats, bound("min")?, bound("max")?) {
        (None, _, _) => Found::default(),
        (Some(stats), None, None) => Found {
            bytes: stats.data_bytes,
            documents: stats.documents,
            is_cut: false,
        },
        (Some(stats), Some(min), Some(max)) => {
            let average = estimates.then(|| average_bytes(&stats));
            between(invocation, &namespace, (min, max), average)?
        }
        _ => return Err(CommandError::bad_value("only one of min or max specified")),
    };
    reply.append("estimate", estimates);
    reply.append("size", i64::try_from(found.bytes).unwrap_or(i64::MAX));
    let documents = i64::try_from(found.documents).unwrap_or(i64::MAX);
    reply.append("numObjects", documents);
    let millis = began.elapsed().as_millis();
    reply.append("millis", i32::try_from(millis).unwrap_or(i32::MAX));
    if found.is_cut {
        reply.append("maxReached", true);
    }
    Ok(())
}

fn average_bytes(stats: &CollStats) -> u64 {
    stats
        .data_bytes
        .checked_div(stats.documents)
        .unwrap_or_default()
}

/// The documents whose keys lie between two bounds of an index, each taken to have `average` bytes, if that is given.
fn between(
    invocation: &Invocation<'_>,
    namespace: &Namespace,
    (min, max): (RawDocument<'_>, RawDocument<'_>),
    average: Option<u64>,
) -> Result<Found> {
    let bound = |name: &str| -> Result<u64> {
        let bound = invocation.argument(name);
        let bound = bound.map_or(Ok(0), |bound| bound.number())?;
        Ok(u64::try_from(bound)
            .ok()
            .filter(|bound| *bound > 0)
            .unwrap_or(u64::MAX))
    };
    let (bytes_max, documents_max) = (bound("maxSize")?, bound("maxObjects")?);
    let pattern = match invocation.document("keyPattern")? {
        Some(pattern) if !pattern.is_empty() => pattern.to_owned_document(),
        _ => Document::build(|pattern| {
            for field in min {
                pattern.append(field.name().as_bytes(), 1);
            }
        }),
    };
    check_index(invocation, namespace, pattern.as_raw())?;
    let request = FindRequest {
        hint: Some(RawValue::Document(pattern.as_raw())),
        key_options: Some(KeyOptions {
            min: Some(min),
            max: Some(max),
            ..KeyOptions::default()
        }),
        ..FindRequest::new(namespace)
    };
    let mut found = Found::default();
    let Source::Executor(mut executor) = invocation.data().find(invocation.operation, request)?
    else {
        return Ok(found);
    };
    let mut document = Vec::new();
    while executor.next(invocation.operation, &mut document)? {
        found.bytes += average.unwrap_or(document.len() as u64);
        found.documents += 1;
        document.clear();
        if found.bytes > bytes_max || found.documents > documents_max {
            found.is_cut = true;
            break;
        }
    }
    Ok(found)
}

/// Fails where there is no index of that key pattern.
fn check_index(
    invocation: &Invocation<'_>,
    namespace: &Namespace,
    pattern: RawDocument<'_>,
) -> Result<()> {
    let specs = invocation.server.catalog().list_indexes(namespace)?;
    let is_it = |spec: &Document| {
        let key = spec.get_document("key");
        key.is_some_and(|key| quarry_bson::compare::compare_documents(key, pattern).is_eq())
    };
    if specs.iter().any(is_it) {
        return Ok(());
    }
    let text = "couldn't find valid index containing key pattern";
    Err(CommandError::new(ErrorCode::OPERATION_FAILED, text))
}
