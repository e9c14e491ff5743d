//! An aggregate that begins with `$changeStream`: opens a stream of changes.

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawArray, RawDocument, RawValue};
use quarry_database::{ChangeScope, Namespace};
use quarry_query::ErrorCode;
use quarry_query::pipeline::{self, Pipeline};

use crate::change_streams::change_stream::ChangeStream;
use crate::change_streams::options::Options;
use crate::commands::first_batch::{FirstBatch, answer};
use crate::commands::server_stages::is_of_now;
use crate::commands::writes;
use crate::dispatch::command::Invocation;
use crate::dispatch::concerns::ReadConcern;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::error_labels::is_retryable;
use crate::sessions::client_cursor::{ClientCursor, Source};

/// The stage.
pub const STAGE: &str = "$changeStream";

/// The stage that splits large events, the last one.
const SPLIT: &str = "$changeStreamSplitLargeEvent";

/// The stages that may follow: each makes at most one event of one event.
const STAGES_BEHIND: [&str; 8] = [
    "$addFields",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
];

/// The specification of the stream that the aggregate opens, if it does.
pub fn specification(body: RawDocument<'_>) -> Option<RawValue<'_>> {
    let first = body.get_array("pipeline")?.get(0)?.as_document()?;
    Some(first.sole_element(STAGE)?.value())
}

/// Opens the stream and answers with what there is already.
pub fn open(
    invocation: &mut Invocation<'_>,
    specification: RawValue<'_>,
    namespace: Option<Namespace>,
    reply: &mut DocumentBuilder<'_>,
) -> Result<()> {
    let batch = FirstBatch::parse(invocation)?;
    let mut options = Options::parse(specification)?;
    let level = (invocation.body.get_document("readConcern"))
        .and_then(|concern| concern.get_str("level"))
        .filter(|&level| level != "majority");
    if let Some(level) = level {
        let message = format!(
            "Aggregation stage {STAGE} cannot run with a readConcern other than 'majority', or in a multi-document \
             transaction. Current readConcern: {level}"
        );
        return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
    }
    // An event is durable before it is handed out: there is no more to wait for.
    invocation.generic.read_concern = ReadConcern::default();
    let shown = match &namespace {
        Some(namespace) => namespace.as_str().to_owned(),
        None => format!("{}.$cmd.aggregate", invocation.generic.database),
    };
    if let Some(namespace) = &namespace
        && let Some(collection) = invocation.server.database.collection(namespace)?
    {
        collection.refuse_view()?;
        if collection.series.is_some() {
            let message =
                format!("{STAGE} is not supported on time-series collections: {namespace}");
            return Err(CommandError::new(
                ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW,
                message,
            ));
        }
    }
    let scope = scope(
        invocation.generic.database,
        namespace,
        options.is_for_cluster,
    )?;
    let mut behind = Vec::new();
    options.splits_large_events = stages_behind(invocation.body, &mut behind)?;
    let behind = RawArray::from_document(RawDocument::new(&behind)?);
    let context = writes::context(invocation)?;
    let stages = Pipeline::parse(behind, &context)?.start();
    let stream = ChangeStream::open(&invocation.server.database, scope, options, stages)?;
    let source = Source::Changes(Box::new(stream));
    let mut cursor = ClientCursor::new(shown, invocation.generic.session, source);
    cursor.is_tailable = true;
    cursor.is_await_data = true;
    answer(cursor, invocation, batch, reply)
}

fn scope(
    database: &str,
    namespace: Option<Namespace>,
    is_for_cluster: bool,
) -> Result<ChangeScope> {
    if is_for_cluster {
        if database == "admin" && namespace.is_none() {
            return Ok(ChangeScope::Everything);
        }
        let message = "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with no \
                       collection name; found ";
        let found = namespace.map_or(database.to_owned(), |namespace| namespace.to_string());
        return Err(CommandError::new(
            ErrorCode::INVALID_OPTIONS,
            format!("{message}{found}"),
        ));
    }
    if matches!(database, "admin" | "config" | "local") {
        let message =
            format!("$changeStream may not be opened on the internal {database} database");
        return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
    }
    match namespace {
        None => Ok(ChangeScope::Database(database.to_owned())),
        Some(namespace) if namespace.collection().starts_with("system.") => {
            let message =
                format!("$changeStream may not be opened on the internal {namespace} collection");
            Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message))
        }
        Some(namespace) => Ok(ChangeScope::Collection(namespace)),
    }
}

/// Writes the array of the stages behind `$changeStream`, but for a last `$changeStreamSplitLargeEvent`; whether there is one.
fn stages_behind(body: RawDocument<'_>, out: &mut Vec<u8>) -> Result<bool> {
    let mut behind = ArrayBuilder::new(out);
    let pipeline = body.get_array("pipeline").into_iter().flatten();
    let mut splits = false;
    for stage in pipeline.skip(1) {
        if splits {
            let message = format!("{SPLIT} must be the last stage in the pipeline");
            return Err(CommandError::new(ErrorCode(7_182_802), message));
        }
        let document = stage.as_document().ok_or_else(|| {
            CommandError::type_mismatch("Each element of the 'pipeline' array must be an object")
        })?;
        let name = document.first().map(|first| first.name());
        let name = name.map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        if name == SPLIT {
            let value = document.sole_element(SPLIT).map(|stage| stage.value());
            let is_empty = value
                .and_then(|value| value.as_document())
                .is_some_and(|options| options.is_empty());
            if !is_empty {
                let message = format!("{SPLIT} spec should be an empty object");
                return Err(CommandError::new(ErrorCode(7_182_800), message));
            }
            splits = true;
            continue;
        }
        if !STAGES_BEHIND.contains(&&*name) {
            if !is_of_now(&name) {
                pipeline::check_stage_name(&name)?;
            }
            let message = format!("{name} is not permitted in a $changeStream pipeline");
            return Err(CommandError::new(ErrorCode::ILLEGAL_OPERATION, message));
        }
        behind.push(stage);
    }
    Ok(splits)
}

/// Marks an error of a stream: whether the client may open the stream again at the place that it knows, or never can.
pub fn label_error(mut error: CommandError) -> CommandError {
    const LOST: [ErrorCode; 2] = [
        ErrorCode::CHANGE_STREAM_FATAL_ERROR,
        ErrorCode::CHANGE_STREAM_HISTORY_LOST,
    ];
    // Beside those that may be sent again.
    const RESUMABLE: [ErrorCode; 5] = [
        ErrorCode::FAILED_TO_SATISFY_READ_PREFERENCE,
        ErrorCode::RETRY_CHANGE_STREAM,
        ErrorCode::STALE_CONFIG,
        ErrorCode::STALE_EPOCH,
        ErrorCode::STALE_SHARD_VERSION,
    ];
    let has_labels =
        (error.details.as_ref()).is_some_and(|details| details.contains("errorLabels"));
    let label = match ErrorCode(error.code) {
        code if is_retryable(code) || RESUMABLE.contains(&code) => {
            Some("ResumableChangeStreamError")
        }
        code if LOST.contains(&code) => Some("NonResumableChangeStreamError"),
        _ => None,
    };
    if let Some(label) = label.filter(|_| !has_labels) {
        let labels = quarry_bson::doc! { "errorLabels": [label] };
        let details = error.details.get_or_insert_default();
        for label in &labels {
            details.append_element(label);
        }
    }
    error
}
