//! The shape of a query as explain and `$planCacheStats` print it, so that an entry of the profiler or a line of the log leads to
//! its plan. It takes a parse, and is made for the operations that are written about alone; `query_shape` makes the cheap
//! hash of every operation.

use quarry_bson::RawDocument;
use quarry_database::Namespace;
use quarry_query::expression::ExpressionContext;
use quarry_query::pipeline::Pipeline;
use quarry_query::query_shape::QueryParts;
use quarry_timing::OperationKind;

use crate::catalog::Catalog;
use crate::dispatch::call::{Call, Outcome};
use crate::dispatch::expression_context::context_of;
use crate::observe::query_shape::first_statement;

/// The shape in eight digits; none for what is no query, does not parse, or reads a view.
pub fn of(catalog: &dyn Catalog, call: &Call<'_>, outcome: &Outcome<'_>) -> Option<String> {
    let asked = outcome.asked;
    let filter = asked.filter.unwrap_or(RawDocument::EMPTY);
    match outcome.kind {
        OperationKind::Find => {
            let projection = call.body.get_document("projection");
            shape(
                catalog,
                call.body,
                outcome,
                (filter, asked.sort, projection),
            )
        }
        OperationKind::FindAndModify => {
            shape(catalog, call.body, outcome, (filter, asked.sort, None))
        }
        OperationKind::Count | OperationKind::Distinct => {
            shape(catalog, call.body, outcome, (filter, None, None))
        }
        OperationKind::Update | OperationKind::Delete => {
            let statements = match outcome.kind {
                OperationKind::Update => "updates",
                _ => "deletes",
            };
            let statement = first_statement(call, statements)?;
            let parts = (
                statement.get_document("q")?,
                statement.get_document("sort"),
                None,
            );
            shape(catalog, statement, outcome, parts)
        }
        OperationKind::Aggregate => {
            let context = context(catalog, call.body, outcome)?;
            let pipeline = Pipeline::parse(asked.pipeline?, &context).ok()?;
            let leading = pipeline.leading();
            let filter = leading.filter.unwrap_or(RawDocument::EMPTY);
            text((filter, leading.sort_specification, None), &context)
        }
        _ => None,
    }
}

/// Filter, sort and projection.
type Parts<'a> = (
    RawDocument<'a>,
    Option<RawDocument<'a>>,
    Option<RawDocument<'a>>,
);

fn shape(
    catalog: &dyn Catalog,
    statement: RawDocument<'_>,
    outcome: &Outcome<'_>,
    parts: Parts<'_>,
) -> Option<String> {
    text(parts, &context(catalog, statement, outcome)?)
}

fn text((filter, sort, projection): Parts<'_>, context: &ExpressionContext) -> Option<String> {
    let parts = QueryParts {
        filter,
        sort,
        projection,
        collation: context.collation(),
    };
    Some(parts.shape().ok()?.text())
}

/// The context of a statement, which compares strings as it says or as its collection says.
fn context(
    catalog: &dyn Catalog,
    statement: RawDocument<'_>,
    outcome: &Outcome<'_>,
) -> Option<ExpressionContext> {
    let own = context_of("", statement).ok()?;
    let namespace = Namespace::new(outcome.database, outcome.collection).ok()?;
    match catalog.collection(&namespace).ok()? {
        Some(collection) if collection.view.is_some() => None,
        Some(collection) if !own.has_collation() && !collection.collation.is_simple() => {
            Some(own.with_collation(collection.collation.clone()))
        }
        _ => Some(own),
    }
}
