//! Reads of views: each is an aggregate over the collection that the view is on (`view_stages.rs`). A find that meets a view goes
//! on here.

use quarry_bson::{Document, RawArray, RawDocument, RawValue};
use quarry_database::{Collection, Operation, Scope};

use super::aggregate::aggregate;
use super::collation::context_beneath;
use super::executor::Executor;
use super::find::{Found, find_stored};
use super::request::{AggregateRequest, CountRequest, DistinctRequest, FindRequest, Over};
use super::view_stages::{resolve, stages_of_count, stages_of_find};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::ExpressionContext;

/// Plans and begins a find. The executor that is returned gives its documents.
pub fn find(scope: Scope<'_>, operation: &Operation, request: FindRequest<'_>) -> Result<Executor> {
    match find_stored(scope, operation, request)? {
        Found::Documents(executor) => Ok(executor),
        Found::View(view) => find_over(scope, operation, &view, request),
    }
}

/// Plans and begins a find over a view.
fn find_over(
    scope: Scope<'_>,
    operation: &Operation,
    collection: &Collection,
    request: FindRequest<'_>,
) -> Result<Executor> {
    if request.is_tailable {
        let text = "Option tailable not supported in aggregation.";
        return Err(Error::new(ErrorCode::INVALID_PIPELINE_OPERATOR, text));
    }
    let more = stages_of_find(&request)?;
    run(
        scope,
        operation,
        collection,
        &more,
        request.hint,
        request.context,
    )
}

/// Begins a run of the view's stages with these behind them.
fn run(
    scope: Scope<'_>,
    operation: &Operation,
    collection: &Collection,
    more: &[Document],
    hint: Option<RawValue<'_>>,
    context: Option<&ExpressionContext>,
) -> Result<Executor> {
    let context = context_beneath(context, collection)?;
    let resolved = resolve(scope, operation, collection)?;
    let more = more.iter().map(|stage| RawValue::Document(stage.as_raw()));
    let stages = resolved.stages(more)?;
    let stages = RawArray::from_document(RawDocument::new(&stages)?);
    let mut request = AggregateRequest::new(Over::Collection(&resolved.on), stages);
    (request.hint, request.context) = (hint, Some(&context));
    aggregate(scope, operation, request)
}

/// Counts the documents of a view that match.
pub(super) fn count(
    scope: Scope<'_>,
    operation: &Operation,
    collection: &Collection,
    request: CountRequest<'_>,
) -> Result<u64> {
    let more = stages_of_count(&request)?;
    let mut executor = run(
        scope,
        operation,
        collection,
        &more,
        request.hint,
        request.context,
    )?;
    let mut document = Vec::new();
    if !executor.next(operation, &mut document)? {
        return Ok(0);
    }
    let counted = RawDocument::new(&document)?.get("n");
    let counted = counted.and_then(|count| count.as_i64_exact());
    Ok(counted.map_or(0, i64::unsigned_abs))
}

/// Hands over the documents of a view that match.
pub(super) fn each_match(
    scope: Scope<'_>,
    operation: &Operation,
    collection: &Collection,
    request: DistinctRequest<'_>,
    take: &mut dyn FnMut(RawDocument<'_>) -> Result<()>,
) -> Result<()> {
    let mut find = FindRequest::new(request.namespace);
    find.filter = request.filter;
    let more = stages_of_find(&find)?;
    let mut executor = run(
        scope,
        operation,
        collection,
        &more,
        request.hint,
        request.context,
    )?;
    let mut document = Vec::new();
    while executor.next(operation, &mut document)? {
        take(RawDocument::new(&document)?)?;
        document.clear();
    }
    Ok(())
}
