//! The context that the expressions of a command share: its `let`, its collation, and the moment that `$$NOW` is.

use quarry_bson::RawDocument;
use quarry_database::{Collation, parse_collation};
use quarry_query::expression::ExpressionContext;

use super::argument::Argument;
use super::error::Result;

/// Makes the context of a command that is not run itself, whose name is given: one that is explained, or was run before.
pub fn context_of(name: &'static str, body: RawDocument<'_>) -> Result<ExpressionContext> {
    let variables = body.get_element("let");
    let variables = variables.map(|variables| Argument::new(name, variables));
    let variables = variables.map_or(Ok(None), |variables| variables.document_or_null())?;
    let collation = body.get_document("collation");
    let collation = collation.map_or(Ok(None), parse_collation)?;
    bound(variables, collation)
}

/// Makes a context with variables and a collation.
pub fn bound(
    variables: Option<RawDocument<'_>>,
    collation: Option<Collation>,
) -> Result<ExpressionContext> {
    let mut context = ExpressionContext::default();
    context.set_collation(collation);
    if let Some(variables) = variables {
        context.bind_let(variables)?;
    }
    Ok(context)
}
