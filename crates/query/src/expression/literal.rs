//! `$literal` and `$const`: a value that is not read as an expression.

use quarry_bson::RawValue;

use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables};
use crate::error::Result;

pub(super) fn parse_literal(
    _: &'static Operator,
    operand: RawValue<'_>,
    _: &mut Variables<'_>,
) -> Result<Expression> {
    Ok(Expression::Literal(operand.to_value()))
}

/// No call of these operators is ever built.
pub(super) fn evaluated_at_parse<'a>(_: &'a Call, _: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(Evaluated::Missing)
}
