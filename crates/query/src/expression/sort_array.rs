//! `$sortArray`: the elements of an array in an order, as wholes or by fields. Equal ones keep their order.

use quarry_bson::{ArrayBuilder, RawArray, RawDocument, RawValue};

use super::parameters::{need, parameters};
use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables};
use crate::Collation;
use crate::error::{Error, Result};
use crate::interrupts;
use crate::memory::{Charge, Counted};
use crate::sort::SortPattern;
use crate::sorter::sort_in_steps;

/// The pattern is checked here, and kept as it was given.
pub(super) fn parse(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let [input, order] = parameters(
        operand,
        ["input", "sortBy"],
        |found| {
            let kind = super::type_name(found);
            let text = format!("$sortArray requires an object as an argument, found: {kind}");
            Error::location(2_942_500, text)
        },
        |name| {
            let text = format!("$sortArray found an unknown argument: {name}");
            Error::location(2_942_501, text)
        },
    )?;
    let input = need(
        input,
        2_942_502,
        "$sortArray requires 'input' to be specified",
    )?;
    let order = need(
        order,
        2_942_503,
        "$sortArray requires 'sortBy' to be specified",
    )?;
    match order {
        RawValue::Document(pattern) => {
            if pattern.is_empty() || SortPattern::parse(pattern)?.natural().is_some() {
                let text = "$sortArray: 'sortBy' must name the fields to sort by";
                return Err(Error::location(2_942_507, text));
            }
        }
        direction if matches!(direction.as_i64_exact(), Some(1 | -1)) => {}
        other => {
            let text = format!("$sortArray: 'sortBy' must be an object, 1 or -1, found: {other}");
            return Err(Error::location(2_942_507, text));
        }
    }
    let input = Expression::read(input, variables)?;
    let order = Expression::Literal(order.to_value());
    Ok(Expression::call(operator, vec![input, order], Vec::new()))
}

pub(super) fn sort<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (value, order) = (call.argument(0, context)?, call.argument(1, context)?);
    if value.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let Some(array) = value.as_array() else {
        let text = format!(
            "The input argument to $sortArray must be an array, but was of type: {}",
            value.type_name()
        );
        return Err(Error::location(2_942_504, text));
    };
    match order.as_raw() {
        Some(RawValue::Document(pattern)) => {
            by_fields(array, &SortPattern::parse_in(pattern, &call.collation)?)
        }
        direction => {
            let is_descending = direction.and_then(|order| order.as_i64_exact()) == Some(-1);
            as_wholes(&call.collation, array, is_descending)
        }
    }
}

/// The values in the order of the collation or against it, with the charge of the list; equal ones keep their order.
pub(super) fn in_order<'v>(
    collation: &Collation,
    values: impl Iterator<Item = RawValue<'v>>,
    is_descending: bool,
) -> Result<(Vec<RawValue<'v>>, Charge)> {
    let (mut items, mut held) = (Vec::new(), Charge::default());
    for item in values {
        interrupts::work(1)?;
        held.grow(size_of::<RawValue<'_>>())?;
        items.push(item);
    }
    sort_in_steps(&mut items, |a, b| {
        let order = collation.compare(*a, *b);
        if is_descending {
            order.reverse()
        } else {
            order
        }
    })?;
    Ok((items, held))
}

fn as_wholes<'a>(
    collation: &Collation,
    array: RawArray<'_>,
    is_descending: bool,
) -> Result<Evaluated<'a>> {
    let (items, _held) = in_order(collation, array.iter(), is_descending)?;
    built(items.into_iter())
}

/// An element that is no document has none of the fields.
fn by_fields<'a>(array: RawArray<'_>, pattern: &SortPattern) -> Result<Evaluated<'a>> {
    let (mut rows, mut held) = (Vec::new(), Charge::default());
    for item in array {
        let mut key = Vec::new();
        let document = item.as_document().unwrap_or(RawDocument::EMPTY);
        pattern.key(document, &mut key)?;
        held.grow(key.len() + size_of::<(Vec<u8>, RawValue<'_>)>())?;
        rows.push((key, item));
    }
    sort_in_steps(&mut rows, |a, b| a.0.cmp(&b.0))?;
    built(rows.into_iter().map(|(_, item)| item))
}

fn built<'a, 'v>(items: impl Iterator<Item = RawValue<'v>>) -> Result<Evaluated<'a>> {
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for item in items {
        interrupts::work(1)?;
        builder.push(item);
        built.charge.cover(builder.len_bytes())?;
    }
    builder.finish();
    Ok(Evaluated::array(built))
}
