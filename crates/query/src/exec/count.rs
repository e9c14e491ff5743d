//! `count`: without a filter the collection's own count, which is exact; else as many as match.

use quarry_database::{Operation, PlanSummary, Scope};

use super::collation::{context_over, imposed};
use super::find::plan;
use super::request::CountRequest;
use super::view;
use crate::error::Result;
use crate::expression::ExpressionContext;
use crate::plan::{Count, Flow, Parsed, PlanContext, run};
use crate::planner::Wanted;
use crate::query_shape::QueryParts;

/// Counts the documents that match.
pub fn count(scope: Scope<'_>, operation: &Operation, request: CountRequest<'_>) -> Result<u64> {
    let own = ExpressionContext::default();
    let context = request.context.unwrap_or(&own);
    let mut parsed = Parsed::parse(request.filter, None, None, context)?;
    let limit = request.limit.unwrap_or(u64::MAX);
    if parsed.matcher.is_match_all() && request.hint.is_none() {
        let Some(collection) = scope.collection(request.namespace, operation)? else {
            return Ok(0);
        };
        if collection.view.is_some() {
            return view::count(scope, operation, &collection, request);
        }
        let all = scope.count(&collection)?;
        operation.plan.get_or_init(|| PlanSummary::RecordStoreCount);
        return Ok(all.saturating_sub(request.skip).min(limit));
    }
    let Some(snapshot) = scope.snapshot(request.namespace, operation)? else {
        return Ok(0);
    };
    if snapshot.collection.view.is_some() {
        return view::count(scope, operation, &snapshot.collection, request);
    }
    let mut held = None;
    if imposed(Some(context), &snapshot.collection).is_some() {
        let context = context_over(context, Some(&snapshot.collection), &mut held);
        parsed = Parsed::parse(request.filter, None, None, context)?;
    }
    let collation = parsed.matcher.collation().clone();
    let asked = QueryParts::of(request.filter, &collation);
    let wanted = Wanted {
        asked: Some(&asked),
        hint: request.hint,
        // Documents are counted, and nobody looks at them.
        read: Some(&[]),
        ..Wanted::default()
    };
    let input = plan(&snapshot, &parsed, Some(operation), wanted)?;
    let mut count = Count::new(input, request.skip, request.limit);
    let context = PlanContext {
        snapshot: &snapshot,
        operation,
        parsed: &parsed,
        is_replay: false,
    };
    run(&mut count, &context, &mut |_| Ok(Flow::Continue))?;
    Ok(count.counted())
}
