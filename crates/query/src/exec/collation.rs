//! How a command compares strings: as it says itself, else as the collection that it reads or writes says, else byte by byte.
//!
//! A write learns of the collection only when it holds it: an update by `_id` asks the catalog once. So it begins as if the
//! collection had no collation, and where it meets one it has done nothing yet, and begins again.

use quarry_bson::RawDocument;
use quarry_database::{Collation, Collection, Error as DatabaseError, parse_collation};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
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

/// The collation of the collection, where the command does not say how it compares strings and the collection does.
#[inline]
pub(super) fn imposed(
    context: Option<&ExpressionContext>,
    collection: &Collection,
) -> Option<Collation> {
    let is_imposed =
        !collection.collation.is_simple() && !context.is_some_and(ExpressionContext::has_collation);
    is_imposed.then(|| collection.collation.clone())
}

/// How a command over a collection compares strings.
#[inline]
pub(super) fn collation_over<'c>(
    context: Option<&'c ExpressionContext>,
    collection: &'c Collection,
) -> &'c Collation {
    match context {
        Some(context) if context.has_collation() => context.collation(),
        _ => &collection.collation,
    }
}

/// The context of a command over a collection, if there is one; `held` is where it stands if it is not the command's own.
pub(super) fn context_over<'c>(
    context: &'c ExpressionContext,
    collection: Option<&Collection>,
    held: &'c mut Option<ExpressionContext>,
) -> &'c ExpressionContext {
    match collection {
        Some(collection) if !collection.collation.is_simple() && !context.has_collation() => {
            held.insert(context.with_collation(collection.collation.clone()))
        }
        _ => context,
    }
}

/// The context of what is read beneath a view, which compares strings as the view says, whatever the collection that it is on.
pub(super) fn context_beneath(
    context: Option<&ExpressionContext>,
    view: &Collection,
) -> Result<ExpressionContext> {
    let own = ExpressionContext::default();
    let context = context.unwrap_or(&own);
    if context.has_collation() && *context.collation() != view.collation {
        return Err(other_collation(view));
    }
    Ok(context.with_collation(view.collation.clone()))
}

/// The refusal of a read of a view with another collation than the view's.
pub(super) fn other_collation(view: &Collection) -> Error {
    let text = format!(
        "Cannot override a view's default collation: {}",
        view.namespace
    );
    Error::new(ErrorCode::OPTION_NOT_SUPPORTED_ON_VIEW, text)
}

/// The outcome of a statement of a write.
pub(super) enum Outcome<T> {
    Done(T),
    /// Nothing was done: the collection has this collation, and the statement was parsed without.
    Imposed(Collation),
}

/// Runs a statement, and again with the collation of its collection where it meets one.
pub(super) fn run_collated<T>(
    context: Option<&ExpressionContext>,
    mut run: impl FnMut(Option<&ExpressionContext>) -> Result<Outcome<T>>,
) -> Result<T> {
    let collation = match run(context)? {
        Outcome::Done(done) => return Ok(done),
        Outcome::Imposed(collation) => collation,
    };
    let own = ExpressionContext::default();
    let collated = context.unwrap_or(&own).with_collation(collation);
    match run(Some(&collated))? {
        Outcome::Done(done) => Ok(done),
        // A statement that says how it compares strings is imposed nothing on.
        Outcome::Imposed(_) => Err(DatabaseError::WriteConflict.into()),
    }
}
