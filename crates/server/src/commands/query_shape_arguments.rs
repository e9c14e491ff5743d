//! The query whose shape `planCacheClear` and the commands on index filters name: `query`, `sort`, `projection`, `collation`.

use quarry_bson::RawDocument;
use quarry_database::Namespace;
use quarry_query::exec::FindRequest;
use quarry_query::expression::ExpressionContext;

use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::expression_context::context_of;

/// The query that the command names, if it names one. Fails for parts of one without `query`.
pub fn named_query<'i>(invocation: &Invocation<'i>) -> Result<Option<RawDocument<'i>>> {
    let body = invocation.body;
    let query = body.get_document("query");
    let parts = ["sort", "projection", "collation"];
    if query.is_none() && parts.iter().any(|name| invocation.get(name).is_some()) {
        let message = "sort or projection provided without query";
        return Err(CommandError::bad_value(message));
    }
    Ok(query)
}

/// The context of the query, which has its collation.
pub fn context(invocation: &Invocation<'_>, name: &'static str) -> Result<ExpressionContext> {
    context_of(name, invocation.body)
}

/// The find that the query is.
pub fn find<'i>(
    invocation: &Invocation<'i>,
    namespace: &'i Namespace,
    query: RawDocument<'i>,
    context: &'i ExpressionContext,
) -> FindRequest<'i> {
    let body = invocation.body;
    let mut request = FindRequest::new(namespace);
    request.filter = query;
    let part = |name| body.get_document(name).filter(|part| !part.is_empty());
    (request.sort, request.projection) = (part("sort"), part("projection"));
    request.context = Some(context);
    request
}
