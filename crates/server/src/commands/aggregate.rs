//! `aggregate`: runs a pipeline over a collection, or over what a first stage makes; a last stage may write what comes of it.

use std::sync::Arc;

use quarry_bson::{DateTime, Document, DocumentBuilder, RawArray, RawDocument, RawValue};
use quarry_database::Namespace;
use quarry_query::ErrorCode;
use quarry_query::exec::{AggregateRequest, Over};
use quarry_query::matcher::Matcher;
use quarry_query::pipeline::{AddedSource, Documents, Input, Specification, Stage};
use quarry_timing::OperationKind;

use super::find::some_hint;
use crate::commands::first_batch::{FirstBatch, answer};
use crate::commands::{backup_cursor, change_stream, list_sessions, own_views, writes};
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::concerns::ReadLevel;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any, flag, object};
use crate::dispatch::privilege::{Action, On, Requires, When, Written, need, need_when};
use crate::dispatch::transaction_arguments::SessionUse;
use crate::sessions::client_cursor::ClientCursor;

/// The collection of a pipeline that reads none.
const COLLECTIONLESS: &str = "$cmd.aggregate";
/// First stages that make their documents of what is now, not of a collection at one moment.
pub(super) const STAGES_OF_NOW: &[&str] = &[
    backup_cursor::STAGE,
    change_stream::STAGE,
    "$collStats",
    "$currentOp",
    "$listLocalSessions",
    "$listSessions",
];
/// First stages that API version 1 does not have.
const STAGES_OUTSIDE_API_1: &[&str] = &[
    "$currentOp",
    "$indexStats",
    "$listLocalSessions",
    "$listSessions",
];
/// Last stages that write the result.
const STAGES_THAT_WRITE: &[&str] = &["$merge", "$out"];
/// The bytes that a list of idle cursors may hold.
const LISTED_BYTES_MAX: usize = 64 << 20;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        any("pipeline"),
        object("cursor"),
        flag("explain"),
        flag("allowDiskUse"),
        flag("bypassDocumentValidation"),
        object("collation"),
        any("hint"),
        object("let"),
        flag("fromMongos").ignored(),
        flag("needsMerge").ignored(),
    ]),
    kind: OperationKind::Aggregate,
    takes_read_concern: true,
    takes_snapshot: true,
    takes_write_concern: true,
    is_in_api_1: true,
    session_use: SessionUse::InTransactions,
    ..Command::new(
        "aggregate",
        "runs a pipeline",
        Requires::Each(&[
            need_when(
                Action::Find,
                On::Collection,
                // The others ask for what they need themselves.
                When::OtherFirstStage(&[
                    backup_cursor::STAGE,
                    "$collStats",
                    "$currentOp",
                    "$listLocalSessions",
                    "$listSessions",
                ]),
            ),
            need_when(
                Action::Fsync,
                On::Cluster,
                When::FirstStage(backup_cursor::STAGE),
            ),
            need_when(
                Action::CollStats,
                On::Collection,
                When::FirstStage("$collStats"),
            ),
            need_when(
                Action::ChangeStream,
                On::Collection,
                When::FirstStage(change_stream::STAGE),
            ),
            need_when(
                Action::Find,
                On::AllDatabases,
                When::FirstStageWith {
                    stage: change_stream::STAGE,
                    option: "allChangesForCluster",
                },
            ),
            need_when(
                Action::ChangeStream,
                On::AllDatabases,
                When::FirstStageWith {
                    stage: change_stream::STAGE,
                    option: "allChangesForCluster",
                },
            ),
            need_when(
                Action::Inprog,
                On::Cluster,
                When::FirstStageWith {
                    stage: "$currentOp",
                    option: "allUsers",
                },
            ),
            need(Action::Find, On::CollectionsOfStages),
            need(Action::Insert, On::CollectionsWritten(Written::Inserts)),
            need(Action::Update, On::CollectionsWritten(Written::Updates)),
            need(Action::Remove, On::CollectionsWritten(Written::Removes)),
            need_when(
                Action::BypassDocumentValidation,
                On::CollectionsWritten(Written::InAnyWay),
                When::Field("bypassDocumentValidation"),
            ),
        ]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    if invocation.boolean("explain")? {
        return super::explain::explain_aggregate(invocation, invocation.body, reply);
    }
    if invocation.get("cursor").is_none() {
        return Err(CommandError::failed_to_parse(
            "The 'cursor' option is required, except for aggregate with the explain argument",
        ));
    }
    check_stages(invocation)?;
    if let Some(specification) = change_stream::specification(invocation.body) {
        let namespace = namespace(invocation, invocation.body)?;
        let opened = change_stream::open(invocation, specification, namespace, reply);
        return opened.map_err(change_stream::label_error);
    }
    if backup_cursor::is_first(invocation.body) {
        return backup_cursor::open(invocation, reply);
    }
    let batch = FirstBatch::parse(invocation)?;
    let shared: &Invocation<'_> = invocation;
    let cursor = with_request(shared, shared.body, |request| {
        let namespace = match request.over {
            Over::Collection(namespace) => namespace.as_str().to_owned(),
            Over::Database(database) => format!("{database}.{COLLECTIONLESS}"),
        };
        let source = shared.data().aggregate(shared.operation, request)?;
        let session = shared.generic.session;
        Ok(ClientCursor::new(namespace, session, source))
    })?;
    answer(cursor, invocation, batch, reply)?;
    if writing_stage(invocation.body).is_some() {
        invocation.generic.write_concern.append_error(reply);
    }
    Ok(())
}

/// The name of the last stage, where it writes the result.
fn writing_stage(body: RawDocument<'_>) -> Option<&'static str> {
    let last = body.get_array("pipeline")?.iter().last()?;
    let name = last.as_document()?.first()?.name();
    let mut stages = STAGES_THAT_WRITE.iter();
    stages.find(|stage| name == **stage).copied()
}

/// Refuses first stages that tell of now, and last ones that write, where the aggregate reads another moment, and those that the API
/// version of a strict client does not have.
fn check_stages(invocation: &Invocation<'_>) -> Result<()> {
    let is_in_transaction = invocation.data().is_in_transaction();
    let is_strict = invocation.generic.is_api_strict;
    let writing = writing_stage(invocation.body);
    if let Some(stage) = writing
        && invocation.generic.read_concern.level == ReadLevel::Linearizable
    {
        let message = format!("{stage} cannot be used with a 'linearizable' read concern level");
        return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
    }
    if !is_in_transaction && invocation.pinned.is_none() && !is_strict {
        return Ok(());
    }
    let Some(pipeline) = invocation.body.get_array("pipeline") else {
        return Ok(());
    };
    let mut outside = STAGES_OUTSIDE_API_1.iter();
    if is_strict && let Some(stage) = outside.find(|stage| is_first_stage(pipeline, stage)) {
        let message =
            format!("stage {stage} is not allowed with 'apiStrict: true' in API Version 1");
        return Err(CommandError::new(ErrorCode::API_STRICT_ERROR, message));
    }
    if !is_in_transaction && invocation.pinned.is_none() {
        return Ok(());
    }
    let told = STAGES_OF_NOW
        .iter()
        .find(|stage| is_first_stage(pipeline, stage))
        .or(writing.as_ref());
    let Some(stage) = told else {
        return Ok(());
    };
    Err(match is_in_transaction {
        true => CommandError::new(
            ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            format!("Stage not supported inside of a multi-document transaction: {stage}"),
        ),
        false => CommandError::new(
            ErrorCode::INVALID_OPTIONS,
            format!("Aggregation stage {stage} cannot run with readConcern level 'snapshot'"),
        ),
    })
}

/// Reads the aggregate that `body` is and hands its request to `answer`, which runs or explains it. `body` is the
/// invocation's own, or what an `explain` holds. The request borrows what is made here, and so cannot be returned.
pub fn with_request<T>(
    invocation: &Invocation<'_>,
    body: RawDocument<'_>,
    answer: impl FnOnce(AggregateRequest<'_>) -> Result<T>,
) -> Result<T> {
    let pipeline = body.get_array("pipeline").ok_or_else(|| {
        CommandError::type_mismatch("'pipeline' option must be specified as an array")
    })?;
    let namespace = namespace(invocation, body)?;
    if let Some(namespace) = &namespace
        && let Some(view) = own_views::view_of(invocation, namespace.collection())
        && !is_first_stage(pipeline, "$collStats")
        && !is_first_stage(pipeline, "$listSessions")
    {
        return own_views::aggregate(invocation, view, pipeline, answer);
    }
    let context = writes::context_of(COMMAND.name, body)?;
    if let Some(disk_use) = body.get("allowDiskUse") {
        context.set_disk_use(disk_use.is_truthy());
    }
    let current_op = |specification: Specification<'_>| {
        let documents = operations(invocation, pipeline, specification)?;
        Ok(stage(Documents::new(
            specification,
            documents,
            Input::MadeOfNothing,
        )))
    };
    let coll_stats = |specification: Specification<'_>| {
        let documents = vec![stats(invocation, namespace.as_ref(), specification)?];
        Ok(stage(Documents::new(
            specification,
            documents,
            Input::MadeOfCollection,
        )))
    };
    let list_sessions = |specification: Specification<'_>| {
        let documents = list_sessions::stored(invocation, namespace.as_ref(), specification)?;
        Ok(stage(Documents::new(
            specification,
            documents,
            Input::MadeOfCollection,
        )))
    };
    let list_local_sessions = |specification: Specification<'_>| {
        let documents = list_sessions::local(invocation, namespace.as_ref(), specification)?;
        Ok(stage(Documents::new(
            specification,
            documents,
            Input::MadeOfNothing,
        )))
    };
    let sources = [
        AddedSource {
            name: "$listSessions",
            parse: &list_sessions,
        },
        AddedSource {
            name: "$listLocalSessions",
            parse: &list_local_sessions,
        },
        AddedSource {
            name: "$collStats",
            parse: &coll_stats,
        },
        AddedSource {
            name: "$currentOp",
            parse: &current_op,
        },
    ];
    let over = match &namespace {
        Some(namespace) => Over::Collection(namespace),
        None => Over::Database(invocation.generic.database),
    };
    let mut request = AggregateRequest::new(over, pipeline);
    request.context = Some(&context);
    request.sources = &sources;
    request.level = writes::level(invocation);
    request.hint = body.get("hint").map(some_hint).transpose()?.flatten();
    answer(request)
}

fn stage(documents: Documents) -> Arc<dyn Stage> {
    Arc::new(documents)
}

/// The document of `$collStats`.
fn stats(
    invocation: &Invocation<'_>,
    namespace: Option<&Namespace>,
    specification: Specification<'_>,
) -> Result<Document> {
    let RawValue::Document(options) = specification.value else {
        return Err(CommandError::failed_to_parse(
            "$collStats must take a nested object",
        ));
    };
    let Some(namespace) = namespace else {
        let message = "{aggregate: 1} is not valid for '$collStats'; a collection is required.";
        return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
    };
    let stats = match own_views::is_log(invocation, namespace.collection()) {
        true => Some(own_views::stats(invocation)),
        false => invocation.server.catalog().coll_stats(namespace)?,
    };
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

fn is_first_stage(pipeline: RawArray<'_>, name: &str) -> bool {
    let first = pipeline.get(0).and_then(|stage| stage.as_document());
    first.is_some_and(|stage| stage.sole_element(name).is_some())
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

/// The documents of `$currentOp`: those that a `$match` behind it lets through, because a list of all idle cursors may be
/// larger than what may be held.
fn operations(
    invocation: &Invocation<'_>,
    pipeline: RawArray<'_>,
    specification: Specification<'_>,
) -> Result<Vec<Document>> {
    if invocation.generic.database != "admin" {
        let message =
            "$currentOp must be run against the 'admin' database with {aggregate: 1}".to_owned();
        return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
    }
    let RawValue::Document(options) = specification.value else {
        return Err(CommandError::failed_to_parse("$currentOp takes an object"));
    };
    let asks_for = |option: &str| options.get(option).is_some_and(|value| value.is_truthy());
    let behind = pipeline.get(1).and_then(|stage| stage.as_document());
    let filter = behind.and_then(|stage| stage.sole_element("$match")?.value().as_document());
    let matcher = match filter {
        Some(filter) => Matcher::parse_in(filter, specification.context)?,
        None => Matcher::of_everything(),
    };
    // A user sees its own operations alone unless it asks for all, which needs a privilege.
    let own_only = invocation.user.is_some() && !asks_for("allUsers");
    let mut documents = super::current_op::list(invocation, own_only, asks_for("idleConnections"));
    documents.retain(|document| matcher.matches(document.as_raw()));
    // A session is nobody's own, and its id lets whoever knows it end its transaction: only who may see all sees them.
    let leaves_out_sessions = options.get_bool("idleSessions") == Some(false);
    if !leaves_out_sessions && !own_only {
        let idle = list_sessions::idle_transactions(invocation.server);
        let is_asked = |entry: &Document| matcher.matches(entry.as_raw());
        documents.extend(idle.into_iter().filter(is_asked));
    }
    if asks_for("idleCursors") {
        let mut bytes = 0;
        let cursors = &invocation.server.cursors;
        let owner = invocation.user.filter(|_| own_only);
        cursors.list_idle(invocation.operation, owner, &mut |document| {
            if matcher.matches(document.as_raw()) {
                bytes += document.as_bytes().len();
                documents.push(document);
            }
            check_listed(bytes)
        })?;
    }
    Ok(documents)
}

/// The collection, or none for `aggregate: 1`.
fn namespace(invocation: &Invocation<'_>, body: RawDocument<'_>) -> Result<Option<Namespace>> {
    let subject = body.first().map(|first| first.value());
    match subject {
        Some(RawValue::String(name)) => {
            let namespace = Namespace::new(invocation.generic.database, name.as_str()?)?;
            Ok(Some(namespace))
        }
        Some(value) if value.as_i64_exact() == Some(1) => Ok(None),
        _ => Err(CommandError::failed_to_parse(
            "Invalid command format: the 'aggregate' field must specify a collection name or 1",
        )),
    }
}
