//! `$and $or $not $cond $ifNull $switch`: operands are evaluated only as far as the result needs them.

use quarry_bson::RawValue;

use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables, type_name};
use crate::error::{Error, Result};

pub(super) fn and<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    for argument in &call.arguments {
        if !argument.evaluate(context)?.is_truthy() {
            return Ok(Evaluated::FALSE);
        }
    }
    Ok(Evaluated::TRUE)
}

pub(super) fn or<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    for argument in &call.arguments {
        if argument.evaluate(context)?.is_truthy() {
            return Ok(Evaluated::TRUE);
        }
    }
    Ok(Evaluated::FALSE)
}

pub(super) fn not<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok((!call.argument(0, context)?.is_truthy()).into())
}

pub(super) fn parse_cond(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let RawValue::Document(document) = operand else {
        let arguments = Expression::parse_arguments(operand, variables)?;
        if arguments.len() != 3 {
            let text = format!(
                "Expression $cond takes exactly 3 arguments. {} were passed in.",
                arguments.len()
            );
            return Err(Error::location(16020, text));
        }
        return Ok(Expression::call(operator, arguments, Vec::new()));
    };
    if document
        .first()
        .is_some_and(|first| first.name().as_bytes().first() == Some(&b'$'))
    {
        return Err(Error::location(
            16020,
            "Expression $cond takes exactly 3 arguments. 1 were passed in.",
        ));
    }
    let mut parts = [const { None }; 3];
    for element in document {
        let index = match element.name().as_bytes() {
            b"if" => 0,
            b"then" => 1,
            b"else" => 2,
            _ => {
                return Err(Error::location(
                    17083,
                    format!("Unrecognized parameter to $cond: {}", element.name()),
                ));
            }
        };
        parts[index] = Some(Expression::read(element.value(), variables)?);
    }
    let [test, then, otherwise] = parts;
    let missing =
        |code, name| Error::location(code, format!("Missing '{name}' parameter to $cond"));
    let arguments = vec![
        test.ok_or_else(|| missing(17080, "if"))?,
        then.ok_or_else(|| missing(17081, "then"))?,
        otherwise.ok_or_else(|| missing(17082, "else"))?,
    ];
    Ok(Expression::call(operator, arguments, Vec::new()))
}

pub(super) fn cond<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let chosen = if call.argument(0, context)?.is_truthy() {
        1
    } else {
        2
    };
    call.argument(chosen, context)
}

pub(super) fn parse_if_null(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let arguments = Expression::parse_arguments(operand, variables)?;
    if arguments.len() < 2 {
        let text = format!(
            "$ifNull needs at least two arguments, had: {}",
            arguments.len()
        );
        return Err(Error::location(1_257_300, text));
    }
    Ok(Expression::call(operator, arguments, Vec::new()))
}

pub(super) fn if_null<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let last = call.arguments.len() - 1;
    for index in 0..last {
        let value = call.argument(index, context)?;
        if !value.is_nullish() {
            return Ok(value);
        }
    }
    call.argument(last, context)
}

/// The call's arguments are case, then, case, then, ... and, last, the default.
pub(super) fn parse_switch(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let RawValue::Document(document) = operand else {
        let text = format!(
            "$switch requires an object as an argument, found: {}",
            type_name(operand)
        );
        return Err(Error::location(40060, text));
    };
    let (mut arguments, mut default) = (Vec::new(), Expression::Absent);
    for element in document {
        match element.name().as_bytes() {
            b"branches" => parse_branches(element.value(), &mut arguments, variables)?,
            b"default" => default = Expression::read(element.value(), variables)?,
            _ => {
                return Err(Error::location(
                    40067,
                    format!("$switch found an unknown argument: {}", element.name()),
                ));
            }
        }
    }
    if arguments.is_empty() {
        return Err(Error::location(
            40068,
            "$switch requires at least one branch.",
        ));
    }
    arguments.push(default);
    Ok(Expression::call(operator, arguments, Vec::new()))
}

fn parse_branches(
    branches: RawValue<'_>,
    arguments: &mut Vec<Expression>,
    variables: &mut Variables<'_>,
) -> Result<()> {
    let RawValue::Array(branches) = branches else {
        let text = format!(
            "$switch expected an array for 'branches', found: {}",
            type_name(branches)
        );
        return Err(Error::location(40061, text));
    };
    for branch in branches {
        let RawValue::Document(branch) = branch else {
            let text = format!(
                "$switch expected each branch to be an object, found: {}",
                type_name(branch)
            );
            return Err(Error::location(40062, text));
        };
        let (mut case, mut then) = (None, None);
        for element in branch {
            let part = match element.name().as_bytes() {
                b"case" => &mut case,
                b"then" => &mut then,
                _ => {
                    let text = format!(
                        "$switch found an unknown argument to a branch: {}",
                        element.name()
                    );
                    return Err(Error::location(40063, text));
                }
            };
            *part = Some(Expression::read(element.value(), variables)?);
        }
        arguments.push(case.ok_or_else(|| {
            Error::location(
                40064,
                "$switch requires each branch have a 'case' expression",
            )
        })?);
        arguments.push(then.ok_or_else(|| {
            Error::location(
                40065,
                "$switch requires each branch have a 'then' expression.",
            )
        })?);
    }
    Ok(())
}

pub(super) fn switch<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let default = call.arguments.len() - 1;
    for case in (0..default).step_by(2) {
        if call.argument(case, context)?.is_truthy() {
            return call.argument(case + 1, context);
        }
    }
    if call.has(default) {
        return call.argument(default, context);
    }
    let text =
        "$switch could not find a matching branch for an input, and no default was specified.";
    Err(Error::location(40066, text))
}
