//! `$zip`: arrays side by side, as an array of their first elements, of their second ones, and so on.

use quarry_bson::{ArrayBuilder, RawValue};

use super::parameters::parameters;
use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables, bounds, type_name};
use crate::error::{Error, Result};
use crate::interrupts;
use crate::memory::{Counted, bytes_of};

/// The call's arguments are the inputs, then as many defaults where they are given, and last whether the longest array counts.
pub(super) fn parse(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let [inputs, defaults, longest] = parameters(
        operand,
        ["inputs", "defaults", "useLongestLength"],
        |found| {
            let kind = type_name(found);
            let text = format!("$zip only supports an object as an argument, found {kind}");
            Error::location(34460, text)
        },
        |name| Error::location(34464, format!("$zip found an unknown argument: {name}")),
    )?;
    let mut arguments = Vec::new();
    match inputs {
        Some(RawValue::Array(inputs)) if !inputs.is_empty() => {
            for input in inputs {
                arguments.push(Expression::read(input, variables)?);
            }
        }
        None | Some(RawValue::Array(_)) => {
            let text = "$zip requires at least one input array";
            return Err(Error::location(34465, text));
        }
        Some(other) => {
            let kind = type_name(other);
            let text = format!("inputs must be an array of expressions, found {kind}");
            return Err(Error::location(34461, text));
        }
    }
    let is_longest = match longest {
        None => false,
        Some(RawValue::Boolean(is_longest)) => is_longest,
        Some(other) => {
            let kind = type_name(other);
            let text = format!("useLongestLength must be a bool, found {kind}");
            return Err(Error::location(34463, text));
        }
    };
    let count = arguments.len();
    let defaults = match defaults {
        Some(RawValue::Array(defaults)) => defaults.iter().collect(),
        None => Vec::new(),
        Some(other) => {
            let kind = type_name(other);
            let text = format!("defaults must be an array of expressions, found {kind}");
            return Err(Error::location(34462, text));
        }
    };
    if !defaults.is_empty() && !is_longest {
        let text = "cannot specify defaults unless useLongestLength is true";
        return Err(Error::location(34466, text));
    }
    if !defaults.is_empty() && defaults.len() != count {
        let text = "defaults and inputs must have the same length";
        return Err(Error::location(34467, text));
    }
    for default in &defaults {
        arguments.push(Expression::read(*default, variables)?);
    }
    arguments.resize_with(2 * count, || Expression::Absent);
    arguments.push(Expression::Literal(
        RawValue::Boolean(is_longest).to_value(),
    ));
    Ok(Expression::call(operator, arguments, Vec::new()))
}

pub(super) fn zip<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let count = call.arguments.len() / 2;
    let mut inputs = Vec::with_capacity(count);
    for index in 0..count {
        let value = call.argument(index, context)?;
        if value.is_nullish() {
            return Ok(Evaluated::NULL);
        }
        if value.as_array().is_none() {
            let text = format!(
                "$zip found a non-array expression in input: {}",
                value.display()
            );
            return Err(Error::location(34468, text));
        }
        inputs.push(value);
    }
    let mut defaults = Vec::with_capacity(count);
    for index in count..2 * count {
        defaults.push(call.argument(index, context)?);
    }
    let is_longest = call.argument(2 * count, context)?.is_truthy();
    let lens = inputs
        .iter()
        .filter_map(Evaluated::as_array)
        .map(|array| array.len());
    let len = if is_longest { lens.max() } else { lens.min() };
    let mut walks: Vec<_> = inputs
        .iter()
        .filter_map(Evaluated::as_array)
        .map(|array| array.iter())
        .collect();
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for _ in 0..len.unwrap_or(0) {
        let before = builder.len_bytes();
        let mut row = builder.array();
        for (walk, default) in walks.iter_mut().zip(&defaults) {
            interrupts::work(1)?;
            let value = walk.next().or_else(|| default.as_raw());
            let value = value.unwrap_or(RawValue::Null);
            bounds::check_depth(value, 2)?;
            let bytes = before + row.len_bytes() + bytes_of(value);
            built.charge.cover(bytes)?;
            row.push(value);
        }
        row.finish();
    }
    builder.finish();
    Ok(Evaluated::array(built))
}
