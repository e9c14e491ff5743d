//! Folding: what reads neither a document nor a variable is evaluated once, where its expression is parsed, so that a
//! mistake in it is told before anything is read or written.
//!
//! Keeps true: a folded expression has the value of the one it was made from. Calls that bind variables stay calls, and
//! so do those whose value is missing or large.

use quarry_bson::RawDocument;

use super::Call;
use super::{Context, Expression};
use crate::error::Result;
use crate::memory::bytes_of;

/// A larger value is made again for every document: a request that makes many of them with a few bytes each must not keep
/// hundreds of times its size.
const FOLDED_BYTES_MAX: usize = 256;

impl Expression {
    /// The expression with its constant parts evaluated; fails as the evaluation of one of them does, even of one that no
    /// document would have asked for, as in MongoDB. Recursion is bounded by `EXPRESSION_DEPTH_MAX`.
    pub fn folded(self) -> Result<Expression> {
        match self {
            Expression::Object(fields) => {
                let folded = fields
                    .into_iter()
                    .map(|(name, field)| Ok((name, field.folded()?)))
                    .collect::<Result<_>>()?;
                Ok(Expression::Object(folded))
            }
            Expression::Array(items) => Ok(Expression::Array(all_folded(items)?)),
            Expression::Call(call) => call_folded(*call),
            Expression::Literal(_) | Expression::Path(_) | Expression::Absent => Ok(self),
        }
    }

    /// Whether its value is the same for every document.
    fn is_constant(&self) -> bool {
        match self {
            Expression::Literal(_) | Expression::Absent => true,
            Expression::Path(_) | Expression::Call(_) => false,
            Expression::Object(fields) => fields.iter().all(|(_, field)| field.is_constant()),
            Expression::Array(items) => items.iter().all(Expression::is_constant),
        }
    }
}

fn all_folded(expressions: impl IntoIterator<Item = Expression>) -> Result<Vec<Expression>> {
    expressions.into_iter().map(Expression::folded).collect()
}

fn call_folded(call: Call) -> Result<Expression> {
    let call = Call {
        arguments: all_folded(call.arguments)?.into_boxed_slice(),
        ..call
    };
    let is_constant = !call.operator.varies
        && call.slots.is_empty()
        && call.arguments.iter().all(Expression::is_constant);
    if is_constant {
        let mut context = Context::new(RawDocument::EMPTY);
        let value = (call.operator.evaluate)(&call, &mut context)?;
        if let Some(raw) = value.as_raw()
            && bytes_of(raw) <= FOLDED_BYTES_MAX
        {
            return Ok(Expression::Literal(raw.to_value()));
        }
    }
    Ok(Expression::Call(Box::new(call)))
}
