//! `aggregate`: runs a pipeline over a collection, or over what a first stage makes; a last stage may write what comes of it.

use std::sync::Arc;

use quarry_bson::{DocumentBuilder, RawArray, RawDocument, RawValue};
use quarry_database::{Namespace, refuse_buckets};
use quarry_query::ErrorCode;
use quarry_query::exec::{AggregateRequest, Over};
use quarry_query::pipeline::{AddedSource, Specification, Stage};
use quarry_timing::OperationKind;

use super::find::some_hint;
use super::query_shape::ShapedQuery;
use super::server_stages::{self, STAGES, is_of_now};
use super::stage_surroundings::Surroundings;
use crate::commands::first_batch::{FirstBatch, answer};
use crate::commands::{
    backup_cursor, change_stream, own_views, query_settings, query_stats, writes,
};
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::concerns::ReadLevel;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::expression_context::context_of;
use crate::dispatch::fields::{Fields, any, flag, object};
use crate::dispatch::privilege::{Action, On, Requires, When, Written, need, need_when};
use crate::dispatch::transaction_arguments::SessionUse;
use crate::sessions::client_cursor::ClientCursor;

/// The collection of a pipeline that reads none.
const COLLECTIONLESS: &str = "$cmd.aggregate";
/// Last stages that write the result.
const STAGES_THAT_WRITE: &[&str] = &["$merge", "$out"];
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
        object("encryptionInformation").not_served(),
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
                When::OtherFirstStage(server_stages::WITH_OWN_NEEDS),
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
                Action::IndexStats,
                On::Collection,
                When::FirstStage("$indexStats"),
            ),
            need_when(
                Action::PlanCacheRead,
                On::Collection,
                When::FirstStage("$planCacheStats"),
            ),
            need_when(
                Action::QueryStatsRead,
                On::Cluster,
                When::FirstStage("$queryStats"),
            ),
            need_when(
                Action::QuerySettings,
                On::Cluster,
                When::FirstStage(query_settings::STAGE),
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
        return super::explained_aggregate::explain_instead(invocation, invocation.body, reply);
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
    let counted = query_stats::begin(invocation);
    let batch = FirstBatch::parse(invocation)?;
    let shared: &Invocation<'_> = invocation;
    let mut cursor = with_request(shared, shared.body, |request| {
        let namespace = match request.over {
            Over::Collection(namespace) => namespace.as_str().to_owned(),
            Over::Database(database) => format!("{database}.{COLLECTIONLESS}"),
        };
        let source = shared.data().aggregate(shared.operation, request)?;
        let session = shared.generic.session;
        Ok(ClientCursor::new(namespace, session, source))
    })?;
    cursor.query_stats = counted;
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
    let is_strict = invocation.generic.api.is_strict();
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
    let mut outside = STAGES.iter().filter(|stage| !stage.is_in_api_1);
    let outside = outside.find(|stage| is_first_stage(pipeline, stage.name));
    if is_strict && let Some(stage) = outside.map(|stage| stage.name) {
        let message =
            format!("stage {stage} is not allowed with 'apiStrict: true' in API Version 1");
        return Err(CommandError::new(ErrorCode::API_STRICT_ERROR, message));
    }
    if !is_in_transaction && invocation.pinned.is_none() {
        return Ok(());
    }
    let first = pipeline
        .get(0)
        .and_then(|stage| stage.as_document()?.first());
    let first = first.map(|stage| stage.name().to_string_lossy());
    let told = first.as_deref().filter(|name| is_of_now(name)).or(writing);
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
    let mut context = context_of(COMMAND.name, body)?;
    let query = ShapedQuery {
        command: COMMAND.name,
        database: invocation.generic.database,
        body,
    };
    let runs = invocation.command.name == COMMAND.name && !invocation.boolean("explain")?;
    match runs {
        true => query_settings::apply(invocation, query, &mut context)?,
        false => query_settings::apply_to_explained(invocation, query, &mut context)?,
    }
    if let Some(disk_use) = body.get("allowDiskUse") {
        context.set_disk_use(disk_use.is_truthy());
    }
    let surroundings = Surroundings {
        invocation,
        namespace: namespace.as_ref(),
        pipeline,
    };
    let makers = STAGES.each_ref().map(|stage| {
        move |specification: Specification<'_>| -> quarry_query::Result<Arc<dyn Stage>> {
            Ok(Arc::new(stage.stage(surroundings, specification)?))
        }
    });
    let sources: [AddedSource<'_>; server_stages::LEN] = std::array::from_fn(|place| AddedSource {
        name: STAGES[place].name,
        parse: &makers[place],
    });
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

fn is_first_stage(pipeline: RawArray<'_>, name: &str) -> bool {
    let first = pipeline.get(0).and_then(|stage| stage.as_document());
    first.is_some_and(|stage| stage.sole_element(name).is_some())
}

/// The collection, or none for `aggregate: 1`.
fn namespace(invocation: &Invocation<'_>, body: RawDocument<'_>) -> Result<Option<Namespace>> {
    let subject = body.first().map(|first| first.value());
    match subject {
        Some(RawValue::String(name)) => {
            let namespace = Namespace::new(invocation.generic.database, name.as_str()?)?;
            refuse_buckets(&namespace)?;
            Ok(Some(namespace))
        }
        Some(value) if value.as_i64_exact() == Some(1) => Ok(None),
        _ => Err(CommandError::failed_to_parse(
            "Invalid command format: the 'aggregate' field must specify a collection name or 1",
        )),
    }
}
