//! `$firstN $lastN $minN $maxN`: some elements of an array, by place or by order.

use quarry_bson::{ArrayBuilder, RawValue};

use super::parameters::{call_of, need, parameters};
use super::sort_array::in_order;
use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables};
use crate::error::{Error, Result};
use crate::interrupts;
use crate::memory::Counted;

pub(super) fn parse(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let name = operator.name;
    let [n, input] = parameters(
        operand,
        ["n", "input"],
        |found| {
            let text = format!("specification must be an object; found {name}: {found}");
            Error::location(5_787_801, text)
        },
        |found| {
            let text = format!("Unknown argument for 'n' operator: {found}");
            Error::location(5_787_901, text)
        },
    )?;
    let n = need(n, 5_787_906, "Missing value for 'n'")?;
    let input = need(input, 5_787_907, "Missing value for 'input'")?;
    call_of(operator, [Some(n), Some(input)], variables)
}

/// The value of `n`.
fn count<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<usize> {
    let value = call.argument(0, context)?;
    let shown = value.display();
    if !value.as_raw().is_some_and(|value| value.is_number()) {
        let text = format!("Value for 'n' must be of integral type, but found {shown}");
        return Err(Error::location(5_787_902, text));
    }
    let n = value.as_raw().and_then(|value| value.as_i64_exact());
    let n = n.ok_or_else(|| {
        let text = format!("Value for 'n' must be of integral type, but found {shown}");
        Error::location(5_787_903, text)
    })?;
    if n <= 0 {
        let text = format!("'n' must be greater than 0, found {shown}");
        return Err(Error::location(5_787_908, text));
    }
    Ok(usize::try_from(n).unwrap_or(usize::MAX))
}

fn not_an_array() -> Error {
    Error::location(5_788_200, "Input must be an array")
}

pub(super) fn first<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    by_place(call, context, |_, _| 0)
}

pub(super) fn last<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    by_place(call, context, usize::saturating_sub)
}

/// The elements from a place on that follows from the length of the array and from `n`.
fn by_place<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    from: fn(usize, usize) -> usize,
) -> Result<Evaluated<'a>> {
    let n = count(call, context)?;
    let value = call.argument(1, context)?;
    let array = value.as_array().ok_or_else(not_an_array)?;
    interrupts::work_on_bytes(array.as_bytes().len())?;
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for element in array.elements().skip(from(array.len(), n)).take(n) {
        interrupts::work(1)?;
        builder.push_element(element);
        built.charge.cover(builder.len_bytes())?;
    }
    builder.finish();
    Ok(Evaluated::array(built))
}

pub(super) fn least<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    by_order(call, context, false)
}

pub(super) fn greatest<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    by_order(call, context, true)
}

/// Nulls do not count.
fn by_order<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    is_descending: bool,
) -> Result<Evaluated<'a>> {
    let n = count(call, context)?;
    let value = call.argument(1, context)?;
    let array = value.as_array().ok_or_else(not_an_array)?;
    let (items, _held) = in_order(
        &call.collation,
        array.iter().filter(|item| !item.is_nullish()),
        is_descending,
    )?;
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for item in items.into_iter().take(n) {
        interrupts::work(1)?;
        builder.push(item);
        built.charge.cover(builder.len_bytes())?;
    }
    builder.finish();
    Ok(Evaluated::array(built))
}
