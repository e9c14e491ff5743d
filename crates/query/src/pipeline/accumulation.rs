//! An accumulator with the expression of what it takes of a document, as `$group` and the windows of `$setWindowFields` name it:
//! `{$sum: "$a"}`.

use std::sync::Arc;

use quarry_bson::RawValue;

use super::accumulators::{
    self, AccumulatorKind, Column, DIGEST_BYTES, Digests, Operand, PICK_BYTES, Pick,
};
use super::stage::Specification;
use crate::Collation;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::Expression;
use crate::expression::quantiles::{self, Wanted};

#[derive(Debug)]
pub(super) struct Accumulation {
    accumulator: Parsed,
    /// The value that the accumulator takes of a document.
    pub operand: Expression,
    collation: Collation,
}

/// The accumulator of a field.
#[derive(Debug)]
enum Parsed {
    Plain(&'static AccumulatorKind),
    /// One with options of its own.
    Pick(Arc<Pick>),
    /// `$percentile` or `$median`.
    Quantiles(Arc<Wanted>),
}

impl Accumulation {
    /// Parses the operand of the accumulator of that name; None for a name that no accumulator has.
    pub fn parse(
        operator: &str,
        value: RawValue<'_>,
        specification: Specification<'_>,
    ) -> Result<Option<Accumulation>> {
        let constant = |value: RawValue<'_>| {
            let expression = specification.expression(value)?.folded()?;
            Ok::<_, Error>(expression.constant().cloned())
        };
        if let Some(not_object) = quantiles::code_of_accumulator(operator) {
            let options = quantiles::options(operator, value, not_object)?;
            let operand = specification.expression(options.input)?;
            let percentiles = options
                .p
                .map(|p| quantiles::percentiles(p, constant(p)?.as_ref()));
            let wanted = Wanted::new(percentiles.transpose()?);
            return Ok(Some(Accumulation {
                accumulator: Parsed::Quantiles(Arc::new(wanted)),
                operand,
                collation: Collation::SIMPLE,
            }));
        }
        if let Some(kind) = accumulators::find_pick(operator) {
            let collation = specification.context.collation();
            let (pick, operand) =
                kind.parse(value, collation, |n| specification.expression(n)?.folded())?;
            return Ok(Some(Accumulation {
                accumulator: Parsed::Pick(Arc::new(pick)),
                operand: specification.expression(operand.as_raw())?,
                collation: Collation::SIMPLE,
            }));
        }
        let Some(kind) = accumulators::find(operator) else {
            return match accumulators::refusal(operator) {
                Some(text) => Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text)),
                None => Ok(None),
            };
        };
        Ok(Some(Accumulation {
            accumulator: Parsed::Plain(kind),
            operand: parse_operand(kind, value, specification)?,
            collation: specification.context.collation().clone(),
        }))
    }

    /// Whether it takes the first value and no other.
    pub fn is_first(&self) -> bool {
        matches!(self.accumulator, Parsed::Plain(kind) if kind.name == "$first")
    }

    /// The column of no groups.
    pub fn start(&self) -> Box<dyn Column> {
        match &self.accumulator {
            Parsed::Plain(kind) => (kind.start)(&self.collation),
            Parsed::Pick(pick) => pick.start(),
            Parsed::Quantiles(wanted) => Box::new(Digests::new(wanted)),
        }
    }

    /// The bytes that it takes for a group without values.
    pub fn start_bytes(&self) -> usize {
        match &self.accumulator {
            Parsed::Plain(kind) => kind.start_bytes,
            Parsed::Pick(_) => PICK_BYTES,
            Parsed::Quantiles(_) => DIGEST_BYTES,
        }
    }
}

fn parse_operand(
    kind: &AccumulatorKind,
    value: RawValue<'_>,
    specification: Specification<'_>,
) -> Result<Expression> {
    match (kind.operand, value) {
        (Operand::Nothing, RawValue::Document(empty)) if empty.is_empty() => Ok(Expression::Absent),
        (Operand::Nothing, _) => Err(Error::type_mismatch(format!(
            "{0} takes no arguments, i.e. {0}:{{}}",
            kind.name
        ))),
        (Operand::Expression, RawValue::Array(_)) => Err(Error::location(
            40237,
            format!("The {} accumulator is a unary operator", kind.name),
        )),
        (Operand::Expression, single) => specification.expression(single),
    }
}
