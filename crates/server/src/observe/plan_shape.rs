//! The hashes of a query as explain and `$planCacheStats` print them, so that an entry of the profiler or a line of the log leads to
//! its plan. They take a parse, and are made for the operations that are written about alone; `query_shape` makes the cheap
//! hash of every operation.

use std::sync::Arc;

use quarry_bson::RawDocument;
use quarry_database::{Namespace, Operation};
use quarry_query::exec::{FindRequest, PlanCacheInfo};
use quarry_query::expression::ExpressionContext;
use quarry_query::pipeline::Pipeline;
use quarry_timing::OperationKind;

use crate::data::Data;
use crate::dispatch::call::{Asked, Call, Outcome};
use crate::dispatch::expression_context::context_of;
use crate::observe::query_shape::first_statement;

/// The hashes of the call's query, for a getMore of the query that its cursor is of; none for what is no query, does not
/// parse, reads a view, or was ended: what took too long once is not parsed again.
pub fn of(data: &dyn Data, call: &Call<'_>, outcome: &Outcome<'_>) -> Option<PlanCacheInfo> {
    let was_ended = |operation: &Arc<Operation>| operation.check().is_err();
    if outcome.operation.as_ref().is_some_and(was_ended) {
        return None;
    }
    if outcome.kind != OperationKind::GetMore {
        let namespace = Namespace::new(outcome.database, outcome.collection).ok()?;
        return hashes(data, &namespace, (outcome.kind, outcome.asked), call);
    }
    let body = outcome.cursor.origin.as_ref()?.command()?;
    let first = body.first()?;
    let kind = match first.name().as_bytes() {
        b"find" => OperationKind::Find,
        b"aggregate" => OperationKind::Aggregate,
        _ => return None,
    };
    let namespace = Namespace::new(outcome.database, first.value().as_str()?).ok()?;
    let mut asked = Asked::default();
    body.iter().for_each(|field| asked.note(field));
    let made_by = Call {
        body,
        sequences: &[],
        ..*call
    };
    hashes(data, &namespace, (kind, asked), &made_by)
}

fn hashes(
    data: &dyn Data,
    namespace: &Namespace,
    (kind, asked): (OperationKind, Asked<'_>),
    call: &Call<'_>,
) -> Option<PlanCacheInfo> {
    let mut request = FindRequest::new(namespace);
    request.filter = asked.filter.unwrap_or(request.filter);
    let mut statement = call.body;
    match kind {
        OperationKind::Find => {
            request.sort = asked.sort;
            request.projection = call.body.get_document("projection");
        }
        OperationKind::FindAndModify => request.sort = asked.sort,
        OperationKind::Count | OperationKind::Distinct => {}
        OperationKind::Update | OperationKind::Delete => {
            let statements = match kind {
                OperationKind::Update => "updates",
                _ => "deletes",
            };
            statement = first_statement(call, statements)?;
            request.filter = statement.get_document("q")?;
            request.sort = statement.get_document("sort");
        }
        OperationKind::Aggregate => {
            let context = context_of("", call.body).ok()?;
            let pipeline = Pipeline::parse(asked.pipeline?, &context).ok()?;
            let leading = pipeline.leading();
            let head = FindRequest {
                filter: leading.filter.unwrap_or(RawDocument::EMPTY),
                sort: leading.sort_specification,
                ..FindRequest::new(namespace)
            };
            return asked_of(data, head, &context);
        }
        _ => return None,
    }
    asked_of(data, request, &context_of("", statement).ok()?)
}

fn asked_of(
    data: &dyn Data,
    request: FindRequest<'_>,
    context: &ExpressionContext,
) -> Option<PlanCacheInfo> {
    let request = FindRequest {
        context: Some(context),
        ..request
    };
    data.plan_cache_info(&Operation::default(), &request).ok()?
}
