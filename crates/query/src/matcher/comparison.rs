//! `$eq $gt $gte $lt $lte` of one value against an operand. Values compare only within a type bracket (all
//! numbers are one, strings and symbols another); MinKey and MaxKey as operands stand outside every bracket.
//! NaN equals NaN and is neither above nor below any number. A missing field compares as null does.

use quarry_bson::RawValue;
use quarry_bson::compare::canonical_type;

use super::CompareOp;
use crate::Collation;

/// Whether `value` (None: the path reaches nothing) stands in the relation to `operand`.
#[inline]
pub fn compares(
    collation: &Collation,
    op: CompareOp,
    operand: RawValue<'_>,
    value: Option<RawValue<'_>>,
) -> bool {
    let Some(value) = value else {
        return missing_compares(op, operand);
    };
    if canonical_type(value) != canonical_type(operand) {
        return crosses_brackets(op, operand);
    }
    if value.is_number() && (is_nan(value) || is_nan(operand)) {
        return op.accepts_equal() && is_nan(value) && is_nan(operand);
    }
    op.accepts(collation.compare(value, operand))
}

fn missing_compares(op: CompareOp, operand: RawValue<'_>) -> bool {
    match operand {
        RawValue::Null => op.accepts_equal(),
        _ => crosses_brackets(op, operand),
    }
}

fn crosses_brackets(op: CompareOp, operand: RawValue<'_>) -> bool {
    match operand {
        RawValue::MinKey => matches!(op, CompareOp::Gt | CompareOp::Gte),
        RawValue::MaxKey => matches!(op, CompareOp::Lt | CompareOp::Lte),
        _ => false,
    }
}

fn is_nan(value: RawValue<'_>) -> bool {
    match value {
        RawValue::Double(number) => number.is_nan(),
        RawValue::Decimal128(number) => number.is_nan(),
        _ => false,
    }
}
