//! `count`: without a filter the collection's own count, which is exact; else as many as match.

use quarry_database::{Operation, PlanSummary, Scope};

use super::executor::matches;
use super::find::Parsed;
use super::request::CountRequest;
use super::scan::{Flow, Scan};
use crate::error::Result;
use crate::expression::ExpressionContext;

/// Counts the documents that match.
pub fn count(scope: Scope<'_>, operation: &Operation, request: CountRequest<'_>) -> Result<u64> {
    let parsed = Parsed::parse(request.filter, None, None, &ExpressionContext::default())?;
    let limit = request.limit.unwrap_or(u64::MAX);
    if parsed.matcher.is_match_all() && request.hint.is_none() {
        let Some(collection) = scope.collection(request.namespace, operation)? else {
            return Ok(0);
        };
        let all = scope.count(&collection)?;
        operation.plan.get_or_init(|| PlanSummary::RecordStoreCount);
        return Ok(all.saturating_sub(request.skip).min(limit));
    }
    let Some(snapshot) = scope.snapshot(request.namespace, operation)? else {
        return Ok(0);
    };
    let mut scan = Scan::new(parsed.plan(&snapshot, request.hint)?);
    let enough = request.skip.saturating_add(limit);
    let mut found = 0;
    scan.run(&snapshot, operation, &mut |_, document| {
        found += u64::from(matches(&parsed, document)?);
        Ok(if found >= enough {
            Flow::Stop
        } else {
            Flow::Continue
        })
    })?;
    Ok(found.saturating_sub(request.skip))
}
