//! `$let $map $filter $reduce`: expressions that bind variables.

use quarry_bson::{ArrayBuilder, RawArray, RawDocument, RawValue};

use super::parameters::{need, parameters};
use super::tree::Operator;
use super::variables::check_bindable;
use super::{Call, Context, Evaluated, Expression, Variables, bounds, type_name};
use crate::error::{Error, Result};
use crate::interrupts;
use crate::memory::{Counted, bytes_of};

/// The variables' values are evaluated before any is bound: none sees another.
pub(super) fn parse_let(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let [vars, body] = parameters(
        operand,
        ["vars", "in"],
        |_| Error::location(16874, "$let only supports an object as its argument"),
        |name| Error::location(16875, format!("Unrecognized parameter to $let: {name}")),
    )?;
    let vars = need(vars, 16876, "Missing 'vars' parameter to $let")?;
    let body = need(body, 16877, "Missing 'in' parameter to $let")?;
    let vars: RawDocument<'_> = vars
        .as_document()
        .ok_or_else(|| Error::location(10065, "invalid parameter: expected an object (vars)"))?;
    let (mut arguments, mut names, mut slots) = (Vec::new(), Vec::new(), Vec::new());
    for element in vars {
        let name = element.name().as_str()?;
        check_bindable(name)?;
        arguments.push(Expression::read(element.value(), variables)?);
        names.push(name);
    }
    for name in names {
        slots.push(variables.bind(name)?);
    }
    arguments.push(Expression::read(body, variables)?);
    variables.unbind(slots.len());
    Ok(Expression::call(operator, arguments, slots))
}

pub(super) fn evaluate_let<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    for (index, slot) in call.slots.iter().enumerate() {
        let value = call.argument(index, context)?;
        context.set(*slot, value);
    }
    call.argument(call.slots.len(), context)
}

pub(super) fn parse_map(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let [input, name, body] = parameters(
        operand,
        ["input", "as", "in"],
        |_| Error::location(16878, "$map only supports an object as its argument"),
        |name| Error::location(16879, format!("Unrecognized parameter to $map: {name}")),
    )?;
    let input = Expression::read(
        need(input, 16880, "Missing 'input' parameter to $map")?,
        variables,
    )?;
    let body = need(body, 16882, "Missing 'in' parameter to $map")?;
    let slot = variables.bind(&element_name(name)?)?;
    let body = Expression::read(body, variables)?;
    variables.unbind(1);
    Ok(Expression::call(operator, vec![input, body], vec![slot]))
}

/// `as`, or `this` where it is not given.
fn element_name(name: Option<RawValue<'_>>) -> Result<String> {
    let Some(name) = name else {
        return Ok("this".to_owned());
    };
    let name = name
        .as_str()
        .ok_or_else(|| Error::failed_to_parse("'as' must be a string that names a variable"))?;
    check_bindable(name)?;
    Ok(name.to_owned())
}

pub(super) fn map<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let input = call.argument(0, context)?;
    if input.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let Some(array) = input.as_array() else {
        return Err(Error::location(
            16883,
            format!("input to $map must be an array not {}", input.type_name()),
        ));
    };
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for item in Items::over(&input, array) {
        interrupts::work(1)?;
        context.set(call.slots[0], item);
        let value = call.argument(1, context)?;
        let value = value.as_raw().unwrap_or(RawValue::Null);
        bounds::check_depth(value, 1)?;
        built.charge.cover(builder.len_bytes() + bytes_of(value))?;
        builder.push(value);
    }
    builder.finish();
    Ok(Evaluated::array(built))
}

/// The elements of an array as variables hold them: borrowed where the array itself is.
enum Items<'v, 'a> {
    Borrowed(quarry_bson::Values<'a>),
    Owned(quarry_bson::Values<'v>),
}

impl<'v, 'a> Items<'v, 'a> {
    fn over(input: &'v Evaluated<'a>, array: RawArray<'v>) -> Items<'v, 'a> {
        match input {
            Evaluated::Raw(RawValue::Array(borrowed)) => Items::Borrowed(borrowed.iter()),
            _ => Items::Owned(array.iter()),
        }
    }
}

impl<'a> Iterator for Items<'_, 'a> {
    type Item = Evaluated<'a>;

    fn next(&mut self) -> Option<Evaluated<'a>> {
        match self {
            Items::Borrowed(values) => values.next().map(Evaluated::Raw),
            Items::Owned(values) => values.next().map(|value| value.to_value().into()),
        }
    }
}

pub(super) fn parse_filter(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let [input, name, condition, limit] = parameters(
        operand,
        ["input", "as", "cond", "limit"],
        |_| Error::location(28646, "$filter only supports an object as its argument"),
        |name| Error::location(28647, format!("Unrecognized parameter to $filter: {name}")),
    )?;
    let input = Expression::read(
        need(input, 28648, "Missing 'input' parameter to $filter")?,
        variables,
    )?;
    let condition = need(condition, 28650, "Missing 'cond' parameter to $filter")?;
    let limit = limit.map_or(Ok(Expression::Absent), |limit| {
        Expression::read(limit, variables)
    })?;
    let slot = variables.bind(&element_name(name)?)?;
    let condition = Expression::read(condition, variables)?;
    variables.unbind(1);
    Ok(Expression::call(
        operator,
        vec![input, condition, limit],
        vec![slot],
    ))
}

pub(super) fn filter<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let input = call.argument(0, context)?;
    if input.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let Some(array) = input.as_array() else {
        return Err(Error::location(
            28651,
            format!(
                "input to $filter must be an array not {}",
                input.type_name()
            ),
        ));
    };
    let limit = filter_limit(call, context)?;
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for (item, element) in Items::over(&input, array).zip(array.elements()) {
        if builder.len() >= limit {
            break;
        }
        interrupts::work(1)?;
        context.set(call.slots[0], item);
        if call.argument(1, context)?.is_truthy() {
            builder.push_element(element);
            built.charge.cover(builder.len_bytes())?;
        }
    }
    builder.finish();
    Ok(Evaluated::array(built))
}

fn filter_limit<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<usize> {
    let limit = call.argument(2, context)?;
    if limit.is_nullish() {
        return Ok(usize::MAX);
    }
    let whole = limit
        .as_raw()
        .and_then(|limit| limit.as_i64_exact())
        .and_then(|limit| i32::try_from(limit).ok());
    let Some(whole) = whole else {
        let text = format!(
            "$filter: limit must be represented as a 32-bit integral value: {}",
            limit.display()
        );
        return Err(Error::location(327_391, text));
    };
    if whole < 1 {
        return Err(Error::location(
            327_392,
            format!("$filter: limit must be greater than 0: {whole}"),
        ));
    }
    Ok(whole as usize)
}

pub(super) fn parse_reduce(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let [input, initial, body] = parameters(
        operand,
        ["input", "initialValue", "in"],
        |found| {
            Error::location(
                40075,
                format!(
                    "$reduce requires an object as an argument, found: {}",
                    type_name(found)
                ),
            )
        },
        |name| Error::location(40076, format!("$reduce found an unknown argument: {name}")),
    )?;
    let input = Expression::read(
        need(input, 40077, "$reduce requires 'input' to be specified")?,
        variables,
    )?;
    let initial = need(
        initial,
        40078,
        "$reduce requires 'initialValue' to be specified",
    )?;
    let initial = Expression::read(initial, variables)?;
    let body = need(body, 40079, "$reduce requires 'in' to be specified")?;
    let slots = vec![variables.bind("value")?, variables.bind("this")?];
    let body = Expression::read(body, variables)?;
    variables.unbind(2);
    Ok(Expression::call(
        operator,
        vec![input, initial, body],
        slots,
    ))
}

pub(super) fn reduce<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let input = call.argument(0, context)?;
    if input.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let Some(array) = input.as_array() else {
        let text = format!(
            "$reduce requires that 'input' be an array, found: {}",
            input.display()
        );
        return Err(Error::location(40080, text));
    };
    let mut value = call.argument(1, context)?;
    for item in Items::over(&input, array) {
        interrupts::work(1)?;
        context.set(call.slots[0], value);
        context.set(call.slots[1], item);
        value = call.argument(2, context)?;
    }
    Ok(value)
}
