//! Reads of views of what the server knows by itself: the ends of its log as `local.oplog.rs`, and its sessions as
//! `config.system.sessions`. A find or a pipeline goes over documents that are made when it is asked. Nobody writes to them.

use std::sync::Arc;

use quarry_bson::{ArrayBuilder, RawArray, RawDocument, RawValue};
use quarry_database::{Capped, CollStats, ErrorCode};
use quarry_query::exec::{AggregateRequest, FindRequest, Over};
use quarry_query::pipeline::{AddedSource, Documents, Input, Specification, Stage};

use crate::commands::list_sessions;
use crate::data::Data;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::read_only_views::SESSIONS;
use crate::replication::oplog_view;
use crate::sessions::client_cursor::Source;

/// The stage that stands for the documents of a view.
const SOURCE: &str = "$ownDocuments";

/// A view of what the server knows by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnView {
    /// `local.oplog.rs`: the first and the last entry of the log. A standalone has none.
    Log,
    /// `config.system.sessions`: the sessions that are open.
    Sessions,
}

/// The view that a command on this collection is on, if it is on one.
pub fn view_of(invocation: &Invocation<'_>, collection: &str) -> Option<OwnView> {
    if is_log(invocation, collection) {
        return Some(OwnView::Log);
    }
    let is_sessions = (invocation.generic.database, collection) == SESSIONS;
    is_sessions.then_some(OwnView::Sessions)
}

/// Whether a command on this collection is on the view of the log.
pub fn is_log(invocation: &Invocation<'_>, collection: &str) -> bool {
    invocation.server.replica_set.is_some()
        && oplog_view::is_view(invocation.generic.database, collection)
}

/// Where the documents come from that a find on a view returns.
pub fn find(
    invocation: &Invocation<'_>,
    view: OwnView,
    request: &FindRequest<'_>,
) -> Result<Source> {
    if request.is_tailable {
        return Err(CommandError::not_supported(
            "a tailable cursor on a view: change streams tell of changes, and it",
        ));
    }
    if let Some(option) = request.key_options.and_then(|asked| asked.not_for_views()) {
        let text = format!("Option {option} not supported in aggregation.");
        return Err(CommandError::new(
            ErrorCode::INVALID_PIPELINE_OPERATOR,
            text,
        ));
    }
    let mut bytes = Vec::new();
    let mut stages = ArrayBuilder::new(&mut bytes);
    let mut stage = |name: &str, value: RawValue<'_>| {
        stages.document().append(name, value);
    };
    let natural = request.sort.and_then(|sort| sort.get("$natural"));
    let is_backward = natural.is_some_and(|order| order.as_f64_lossy() < Some(0.0));
    stage(SOURCE, RawValue::Int32(if is_backward { -1 } else { 1 }));
    stage("$match", RawValue::Document(request.filter));
    if let Some(sort) = request.sort.filter(|_| natural.is_none()) {
        stage("$sort", RawValue::Document(sort));
    }
    if request.skip > 0 {
        stage("$skip", RawValue::Int64(signed(request.skip)));
    }
    if let Some(limit) = request.limit {
        stage("$limit", RawValue::Int64(signed(limit)));
    }
    if let Some(projection) = request.projection {
        stage("$project", RawValue::Document(projection));
    }
    drop(stages);
    run(
        invocation,
        view,
        RawArray::from_document(RawDocument::new(&bytes)?),
        |request| {
            Ok(invocation
                .server
                .data()
                .aggregate(invocation.operation, request)?)
        },
    )
}

/// Hands `answer` the request of a pipeline over a view.
pub fn aggregate<T>(
    invocation: &Invocation<'_>,
    view: OwnView,
    pipeline: RawArray<'_>,
    answer: impl FnOnce(AggregateRequest<'_>) -> Result<T>,
) -> Result<T> {
    let mut bytes = Vec::new();
    let mut stages = ArrayBuilder::new(&mut bytes);
    stages.document().append(SOURCE, 1);
    for stage in pipeline {
        stages.push(stage);
    }
    drop(stages);
    run(
        invocation,
        view,
        RawArray::from_document(RawDocument::new(&bytes)?),
        answer,
    )
}

fn run<T>(
    invocation: &Invocation<'_>,
    view: OwnView,
    pipeline: RawArray<'_>,
    answer: impl FnOnce(AggregateRequest<'_>) -> Result<T>,
) -> Result<T> {
    if invocation.data().is_in_transaction() {
        // As for every collection of these databases.
        let message = format!(
            "Cannot run command against the '{}' database in a transaction.",
            invocation.generic.database
        );
        let code = ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION;
        return Err(CommandError::new(code, message));
    }
    let entries = |specification: Specification<'_>| {
        let mut entries = match view {
            OwnView::Sessions => list_sessions::all(invocation)?,
            OwnView::Log => {
                let set = super::repl_set_get_status::set_of(invocation)?;
                oplog_view::entries(set, &invocation.server.database)?
            }
        };
        if specification.value.as_f64_lossy() < Some(0.0) {
            entries.reverse();
        }
        let stage = Documents::new(specification, entries, Input::MadeOfNothing);
        Ok(Arc::new(stage) as Arc<dyn Stage>)
    };
    let sources = [AddedSource {
        name: SOURCE,
        parse: &entries,
    }];
    let over = Over::Database(invocation.generic.database);
    let mut request = AggregateRequest::new(over, pipeline);
    request.sources = &sources;
    answer(request)
}

/// The sizes of the view of the log: those of the journal, which is the log.
pub fn stats(invocation: &Invocation<'_>) -> CollStats {
    let journal = invocation.server.database.journal();
    let journal_bytes = journal.live_bytes();
    let bounded_bytes = match journal.window().bytes_max {
        u64::MAX => journal_bytes,
        bytes_max => bytes_max.max(journal_bytes),
    };
    CollStats {
        documents: 2,
        data_bytes: journal_bytes,
        storage_bytes: journal_bytes,
        capped: Some(Capped {
            size_bytes: bounded_bytes,
            documents_max: None,
        }),
        series: None,
        indexes: Vec::new(),
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
