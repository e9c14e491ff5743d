//! How the statements of a command compare strings, where each may have a collation of its own.

use quarry_bson::RawDocument;
use quarry_database::parse_collation;

use crate::error::Result;
use crate::expression::ExpressionContext;

/// The context of a statement that has a collation of its own; none where it has that of its command.
pub(super) fn statement_context(
    command: Option<&ExpressionContext>,
    collation: Option<RawDocument<'_>>,
) -> Result<Option<ExpressionContext>> {
    let Some(specification) = collation else {
        return Ok(None);
    };
    let Some(collation) = parse_collation(specification)? else {
        return Ok(None);
    };
    let own = ExpressionContext::default();
    Ok(Some(command.unwrap_or(&own).with_collation(collation)))
}
