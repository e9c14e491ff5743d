//! `aggregate`: runs a pipeline over a collection, or over what a first stage makes.

use std::collections::VecDeque;

use quarry_bson::{DateTime, Document, DocumentBuilder, RawArray, RawDocument, RawValue};
use quarry_database::Namespace;
use quarry_query::ErrorCode;
use quarry_query::exec::{self, AggregateRequest};
use quarry_query::matcher::Matcher;
use quarry_timing::OperationKind;

use super::find::some_hint;
use crate::commands::first_batch::{FirstBatch, answer};
use crate::commands::writes;
use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::sessions::client_cursor::{ClientCursor, Source};

/// The collection of a pipeline that reads none.
const COLLECTIONLESS: &str = "$cmd.aggregate";
/// What a list of idle cursors may hold.
const LISTED_BYTES_MAX: usize = 64 << 20;

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
    let Some(namespace) = namespace else {
        let source = Source::Documents(collectionless(invocation, pipeline)?);
        let shown = format!("{}.{COLLECTIONLESS}", invocation.generic.database);
        return answer(
            ClientCursor::new(shown, invocation.generic.session, source),
            invocation,
            batch,
            reply,
        );
    };
    let shown = namespace.as_str().to_owned();
    if let Some(options) = stats_stage(pipeline) {
        let source = Source::Documents([stats(invocation, &namespace, options?)?].into());
        return answer(
            ClientCursor::new(shown, invocation.generic.session, source),
            invocation,
            batch,
            reply,
        );
    }
    let mut request = AggregateRequest::new(&namespace, pipeline);
    request.hint = invocation.get("hint").map(some_hint).transpose()?.flatten();
    let executor = exec::aggregate(&invocation.server.database, invocation.operation, request)?;
    let source = Source::Executor(Box::new(executor));
    answer(
        ClientCursor::new(shown, invocation.generic.session, source),
        invocation,
        batch,
        reply,
    )
}

/// The options of a pipeline that is `$collStats` alone.
fn stats_stage(pipeline: RawArray<'_>) -> Option<Result<RawDocument<'_>>> {
    let stage = pipeline.get(0)?.as_document()?.first()?;
    if stage.name() != "$collStats" {
        return None;
    }
    if pipeline.get(1).is_some() {
        return Some(Err(CommandError::not_supported(
            "a stage behind $collStats",
        )));
    }
    let options = stage.value().as_document();
    Some(
        options
            .ok_or_else(|| CommandError::failed_to_parse("$collStats must take a nested object")),
    )
}

fn stats(
    invocation: &Invocation<'_>,
    namespace: &Namespace,
    options: RawDocument<'_>,
) -> Result<Document> {
    let stats = invocation.server.database.coll_stats(namespace)?;
    let mut document = Document::new();
    document.append("ns", namespace.as_str());
    document.append(
        "host",
        &*rustix::system::uname().nodename().to_string_lossy(),
    );
    document.append("localTime", DateTime::now());
    for option in options {
        match (option.name().as_bytes(), option.value()) {
            (b"storageStats", RawValue::Document(of)) => {
                let scale = super::coll_stats::scale(of.get("scale"))?;
                let figures = Document::build(|figures| {
                    super::coll_stats::append(stats.as_ref(), scale, figures);
                });
                document.append("storageStats", figures);
            }
            (b"latencyStats", RawValue::Document(of)) => {
                let histograms = of.get("histograms").is_some_and(|value| value.is_truthy());
                let latencies = super::coll_stats::latency_stats(namespace, histograms);
                document.append("latencyStats", latencies);
            }
            (b"count", _) => {
                let count = stats.as_ref().map_or(0, |stats| stats.documents);
                document.append("count", i64::try_from(count).unwrap_or(i64::MAX));
            }
            _ => {
                let message = format!("the option '{}' of $collStats", option.name());
                return Err(CommandError::not_supported(message));
            }
        }
    }
    Ok(document)
}

fn check_listed(bytes: usize) -> Result<()> {
    if bytes <= LISTED_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "$currentOp lists more than {LISTED_BYTES_MAX} bytes of idle cursors; a $match behind it selects some"
    );
    Err(CommandError::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, message))
}

/// A pipeline over no collection: `$currentOp`, and `$match` behind it.
fn collectionless(
    invocation: &Invocation<'_>,
    pipeline: RawArray<'_>,
) -> Result<VecDeque<Document>> {
    let mut stages = pipeline
        .iter()
        .filter_map(|stage| stage.as_document()?.first());
    let options = match stages.next() {
        Some(stage) if stage.name() == "$currentOp" && invocation.generic.database == "admin" => {
            stage
                .value()
                .as_document()
                .ok_or_else(|| CommandError::failed_to_parse("$currentOp takes an object"))?
        }
        Some(stage) => {
            let message = format!(
                "{{aggregate: 1}} is not valid for '{}'; a collection is required.",
                stage.name()
            );
            return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
        }
        None => {
            return Err(CommandError::new(
                ErrorCode::INVALID_NAMESPACE,
                "{aggregate: 1} is not valid for an empty pipeline.",
            ));
        }
    };
    let with_idle = options
        .get("idleConnections")
        .is_some_and(|value| value.is_truthy());
    let with_cursors = options
        .get("idleCursors")
        .is_some_and(|value| value.is_truthy());
    let mut matchers = Vec::new();
    for stage in stages {
        let RawValue::Document(filter) = stage.value() else {
            return Err(CommandError::failed_to_parse(format!(
                "{} takes an object",
                stage.name()
            )));
        };
        if stage.name() != "$match" {
            return Err(CommandError::not_supported(format_args!(
                "{} behind $currentOp",
                stage.name()
            )));
        }
        matchers.push(Matcher::parse(filter)?);
    }
    let mut documents: VecDeque<Document> =
        super::current_op::list(invocation, false, with_idle).into();
    let is_meant = |document: &Document| {
        let matches = |matcher: &Matcher| matcher.matches(document.as_raw());
        matchers.iter().all(matches)
    };
    documents.retain(is_meant);
    if with_cursors {
        let mut bytes = 0;
        let cursors = &invocation.server.cursors;
        cursors.list_idle(invocation.operation, &mut |document| {
            if is_meant(&document) {
                bytes += document.as_bytes().len();
                documents.push_back(document);
            }
            check_listed(bytes)
        })?;
    }
    Ok(documents)
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
