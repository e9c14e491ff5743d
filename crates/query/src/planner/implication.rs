//! Whether every document that matches a filter matches the filter of a partial index, too, so that the index has all of
//! them.
//!
//! Keeps true: yes is said only where it follows from the two trees, whatever the documents are. Two predicates of one path
//! are compared where they stand alone: a document may meet several predicates of a path by different elements of an array,
//! so that none of them can be put together with another.

use quarry_bson::RawValue;
use quarry_bson::compare::{canonical_type, compare_values};

use crate::interrupts;
use crate::matcher::{CompareOp, MatchExpression, Predicate, compares};

/// Whether `filter` implies `partial`. The recursion is as deep as the filter and the partial filter together, whose parsers
/// bound them; where the operation is to end, the answer is no.
pub fn implies(filter: &MatchExpression, partial: &MatchExpression) -> bool {
    if interrupts::is_over(1) {
        return false;
    }
    match partial {
        MatchExpression::AlwaysTrue => return true,
        MatchExpression::And(children) => {
            return children.iter().all(|child| implies(filter, child));
        }
        MatchExpression::Or(children) if children.iter().any(|child| implies(filter, child)) => {
            return true;
        }
        _ => {}
    }
    match (filter, partial) {
        (MatchExpression::AlwaysFalse, _) => true,
        (MatchExpression::And(children), _) => children.iter().any(|child| implies(child, partial)),
        (MatchExpression::Or(children), _) => {
            !children.is_empty() && children.iter().all(|child| implies(child, partial))
        }
        (MatchExpression::Field(asked), MatchExpression::Field(kept)) => {
            asked.path.as_str() == kept.path.as_str()
                && predicate_implies(&asked.predicate, &kept.predicate)
        }
        _ => false,
    }
}

/// Whether a path that meets `asked` meets `kept`.
fn predicate_implies(asked: &Predicate, kept: &Predicate) -> bool {
    match (asked, kept) {
        (
            Predicate::Compare { op, value },
            Predicate::Compare {
                op: kept,
                value: bound,
            },
        ) => compare_implies((*op, value.as_raw()), (*kept, bound.as_raw())),
        (Predicate::In(list), Predicate::Compare { op, value }) => {
            list.regexes().is_empty()
                && list.values().iter().all(|member| {
                    compare_implies((CompareOp::Eq, member.as_raw()), (*op, value.as_raw()))
                })
        }
        (
            Predicate::Compare {
                op: CompareOp::Eq,
                value,
            },
            Predicate::In(list),
        ) => {
            let is_equal = |member: &quarry_bson::Value| is_same(member.as_raw(), value.as_raw());
            list.values().iter().any(is_equal)
        }
        (Predicate::In(asked), Predicate::In(kept)) => {
            asked.regexes().is_empty()
                && asked.values().iter().all(|value| {
                    let mut kept = kept.values().iter();
                    kept.any(|member| is_same(member.as_raw(), value.as_raw()))
                })
        }
        (Predicate::Compare { value, .. }, Predicate::Exists) => matches_no_missing(value.as_raw()),
        (Predicate::In(list), Predicate::Exists) => !list.has_null(),
        // Each of them asks for a value.
        (
            Predicate::Exists
            | Predicate::Regex(_)
            | Predicate::Test(_)
            | Predicate::ElemMatchObject(_)
            | Predicate::ElemMatchValue(_),
            Predicate::Exists,
        ) => true,
        (Predicate::Test(asked), Predicate::Test(kept)) => match (asked.types(), kept.types()) {
            (Some(asked), Some(kept)) => asked & !kept == 0,
            _ => false,
        },
        _ => false,
    }
}

/// Whether what is related to a value as asked is related to the bound of the partial filter as that asks.
fn compare_implies(
    (op, value): (CompareOp, RawValue<'_>),
    (kept, bound): (CompareOp, RawValue<'_>),
) -> bool {
    if op == kept && is_same(value, bound) {
        return true;
    }
    if !is_ordered(value) || !is_ordered(bound) || canonical_type(value) != canonical_type(bound) {
        return false;
    }
    let order = compare_values(value, bound);
    match (op, kept) {
        (CompareOp::Eq, _) => compares(kept, bound, Some(value)),
        (CompareOp::Gt, CompareOp::Gt | CompareOp::Gte) | (CompareOp::Gte, CompareOp::Gte) => {
            order.is_ge()
        }
        (CompareOp::Gte, CompareOp::Gt) => order.is_gt(),
        (CompareOp::Lt, CompareOp::Lt | CompareOp::Lte) | (CompareOp::Lte, CompareOp::Lte) => {
            order.is_le()
        }
        (CompareOp::Lte, CompareOp::Lt) => order.is_lt(),
        _ => false,
    }
}

fn is_same(a: RawValue<'_>, b: RawValue<'_>) -> bool {
    canonical_type(a) == canonical_type(b) && compare_values(a, b).is_eq()
}

/// Whether the values that a comparison finds by this operand are those of its type, one element of an array at a time. An
/// operand that is an array is compared with whole arrays and with their elements, null means missing fields as well, the
/// ends of the order stand outside of every type, and NaN is in no order.
fn is_ordered(value: RawValue<'_>) -> bool {
    let is_nan = value.is_number() && value.as_f64_lossy().is_none_or(f64::is_nan);
    matches_no_missing(value) && !matches!(value, RawValue::Array(_)) && !is_nan
}

/// Whether no missing field is related to the operand.
fn matches_no_missing(value: RawValue<'_>) -> bool {
    !matches!(
        value,
        RawValue::Null | RawValue::Undefined | RawValue::MinKey | RawValue::MaxKey
    )
}
