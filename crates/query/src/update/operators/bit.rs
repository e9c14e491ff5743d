//! `$bit`: whole numbers combined bit by bit.

use quarry_bson::{RawElement, RawValue, Value};

use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::update::modifier::{Found, FromArgument, Modifier, Target};
use crate::update::write::put;

#[derive(Debug)]
pub(super) struct Bit(Vec<(BitOp, Value)>);

impl FromArgument for Bit {
    fn from_argument(_: &FieldPath, argument: RawValue<'_>, _: &ExpressionContext) -> Result<Bit> {
        Ok(Bit(parse_steps(argument)?))
    }
}

impl Modifier for Bit {
    fn modify(&self, found: &Found<'_>, target: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        let mut bits = found.element.value();
        for (op, operand) in &self.0 {
            let result = bitwise(*op, bits, operand.as_raw());
            bits = result.ok_or_else(|| not_integral(found.element, target))?;
        }
        put(found.name(), bits, out);
        Ok(())
    }

    fn creates(&self, _: &Target<'_>) -> bool {
        true
    }

    fn create(&self, name: &[u8], _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        let mut bits = RawValue::Int32(0);
        for (op, operand) in &self.0 {
            bits = bitwise(*op, bits, operand.as_raw())
                .expect("operands of $bit were checked to be integers");
        }
        put(name, bits, out);
        Ok(())
    }
}

/// The steps that the argument names, each with its operand.
fn parse_steps(argument: RawValue<'_>) -> Result<Vec<(BitOp, Value)>> {
    let RawValue::Document(operations) = argument else {
        return Err(Error::bad_value(format!(
            "The $bit modifier is not compatible with a {}. You must pass in an embedded document: {{$bit: {{field: {{and/or/xor: #}}}}",
            argument.element_type().alias()
        )));
    };
    let mut steps = Vec::new();
    for element in operations {
        let op = match element.name().as_bytes() {
            b"and" => BitOp::And,
            b"or" => BitOp::Or,
            b"xor" => BitOp::Xor,
            _ => {
                return Err(Error::bad_value(format!(
                    "The $bit modifier only supports 'and', 'or', and 'xor', not '{}' which is an unknown operator: {{{}: {}}}",
                    element.name(),
                    element.name(),
                    element.value()
                )));
            }
        };
        if !matches!(element.value(), RawValue::Int32(_) | RawValue::Int64(_)) {
            return Err(Error::bad_value(format!(
                "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here: {{{}: {}}}",
                element.element_type().alias(),
                element.name(),
                element.value()
            )));
        }
        steps.push((op, element.value().to_value()));
    }
    if steps.is_empty() {
        return Err(Error::bad_value(
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}",
        ));
    }
    Ok(steps)
}

fn not_integral(element: RawElement<'_>, target: &Target<'_>) -> Error {
    Error::bad_value(format!(
        "Cannot apply $bit to a value of non-integral type.{} has the field {} of non-integer type {}",
        target.id_shown(),
        element.name(),
        element.element_type().alias()
    ))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BitOp {
    And,
    Or,
    Xor,
}

/// One bitwise step. None if an operand is not a whole-number type.
fn bitwise<'a>(op: BitOp, a: RawValue<'_>, b: RawValue<'_>) -> Option<RawValue<'a>> {
    let apply = |a: i64, b: i64| match op {
        BitOp::And => a & b,
        BitOp::Or => a | b,
        BitOp::Xor => a ^ b,
    };
    match (a, b) {
        (RawValue::Int32(a), RawValue::Int32(b)) => {
            Some(RawValue::Int32(apply(a.into(), b.into()) as i32))
        }
        (RawValue::Int32(_) | RawValue::Int64(_), RawValue::Int32(_) | RawValue::Int64(_)) => {
            Some(RawValue::Int64(apply(a.as_i64_exact()?, b.as_i64_exact()?)))
        }
        _ => None,
    }
}
