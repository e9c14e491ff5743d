//! Whether every document that matches a filter matches the filter of a partial index, too, so that the index has all of
//! them.
//!
//! Keeps true: yes is said only where it follows from the two trees, whatever the documents are. Two predicates of one path
//! are compared where they stand alone: a document may meet several predicates of a path by different elements of an array,
//! so that none of them can be put together with another.

use quarry_bson::RawValue;
use quarry_bson::compare::canonical_type;
use quarry_database::holds_text;

use crate::Collation;
use crate::interrupts;
use crate::matcher::{CompareOp, MatchExpression, Matcher, Predicate, compares};

/// Whether `filter`, with its collation, implies the filter of a partial index, with its own. The recursion is as deep as both
/// together, whose parsers bound them; where the operation is to end, the answer is no.
pub fn implies((filter, collation): (&MatchExpression, &Collation), partial: &Matcher) -> bool {
    let texts = match collation == partial.collation() {
        true => Some(collation),
        false => None,
    };
    Implication { texts }.holds(filter, partial.root())
}

/// Two filters as to how they compare strings.
#[derive(Clone, Copy)]
struct Implication<'c> {
    /// The collation of both; none where they have different ones, so that nothing is known of a value with strings.
    texts: Option<&'c Collation>,
}

impl Implication<'_> {
    fn holds(self, filter: &MatchExpression, partial: &MatchExpression) -> bool {
        if interrupts::is_over(1) {
            return false;
        }
        match partial {
            MatchExpression::AlwaysTrue => return true,
            MatchExpression::And(children) => {
                return children.iter().all(|child| self.holds(filter, child));
            }
            MatchExpression::Or(children)
                if children.iter().any(|child| self.holds(filter, child)) =>
            {
                return true;
            }
            _ => {}
        }
        match (filter, partial) {
            (MatchExpression::AlwaysFalse, _) => true,
            (MatchExpression::And(children), _) => {
                children.iter().any(|child| self.holds(child, partial))
            }
            (MatchExpression::Or(children), _) => {
                !children.is_empty() && children.iter().all(|child| self.holds(child, partial))
            }
            (MatchExpression::Field(asked), MatchExpression::Field(kept)) => {
                asked.path.as_str() == kept.path.as_str()
                    && self.predicate_holds(&asked.predicate, &kept.predicate)
            }
            _ => false,
        }
    }

    /// Whether a path that meets `asked` meets `kept`.
    fn predicate_holds(self, asked: &Predicate, kept: &Predicate) -> bool {
        match (asked, kept) {
            (
                Predicate::Compare { op, value },
                Predicate::Compare {
                    op: kept,
                    value: bound,
                },
            ) => self.comparison_holds((*op, value.as_raw()), (*kept, bound.as_raw())),
            (Predicate::In(list), Predicate::Compare { op, value }) => {
                list.regexes().is_empty()
                    && list.values().iter().all(|member| {
                        let member = (CompareOp::Eq, member.as_raw());
                        self.comparison_holds(member, (*op, value.as_raw()))
                    })
            }
            (
                Predicate::Compare {
                    op: CompareOp::Eq,
                    value,
                },
                Predicate::In(list),
            ) => {
                let is_equal =
                    |member: &quarry_bson::Value| self.are_same(member.as_raw(), value.as_raw());
                list.values().iter().any(is_equal)
            }
            (Predicate::In(asked), Predicate::In(kept)) => {
                asked.regexes().is_empty()
                    && asked.values().iter().all(|value| {
                        let mut kept = kept.values().iter();
                        kept.any(|member| self.are_same(member.as_raw(), value.as_raw()))
                    })
            }
            (Predicate::Compare { value, .. }, Predicate::Exists) => {
                matches_no_missing(value.as_raw())
            }
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
            (Predicate::Test(asked), Predicate::Test(kept)) => {
                match (asked.types(), kept.types()) {
                    (Some(asked), Some(kept)) => asked & !kept == 0,
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// Whether what is related to a value as asked is related to the bound of the partial filter as that asks.
    fn comparison_holds(
        self,
        (op, value): (CompareOp, RawValue<'_>),
        (kept, bound): (CompareOp, RawValue<'_>),
    ) -> bool {
        if op == kept && self.are_same(value, bound) {
            return true;
        }
        if !is_ordered(value)
            || !is_ordered(bound)
            || canonical_type(value) != canonical_type(bound)
        {
            return false;
        }
        let Some(collation) = self.collation_for(value, bound) else {
            return false;
        };
        let order = collation.compare(value, bound);
        match (op, kept) {
            (CompareOp::Eq, _) => compares(collation, kept, bound, Some(value)),
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

    fn are_same(self, a: RawValue<'_>, b: RawValue<'_>) -> bool {
        let collation = self.collation_for(a, b);
        canonical_type(a) == canonical_type(b)
            && collation.is_some_and(|collation| collation.are_equal(a, b))
    }

    /// By what both filters compare two operands; none if not by the same.
    fn collation_for(&self, a: RawValue<'_>, b: RawValue<'_>) -> Option<&Collation> {
        static SIMPLE: Collation = Collation::SIMPLE;
        match self.texts {
            Some(collation) => Some(collation),
            None => (!holds_text(a) && !holds_text(b)).then_some(&SIMPLE),
        }
    }
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
