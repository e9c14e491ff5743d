//! `$replaceOne $replaceAll`: a text with another in the place of a part.

use quarry_bson::RawValue;

use super::parameters::{call_of, need, parameters};
use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables, type_name};
use crate::error::{Error, Result};
use crate::interrupts;
use crate::memory::Charge;

pub(super) fn parse(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let name = operator.name;
    let [input, find, replacement] = parameters(
        operand,
        ["input", "find", "replacement"],
        |found| {
            let kind = type_name(found);
            let text = format!("{name} requires an object as an argument, found: {kind}");
            Error::location(51751, text)
        },
        |found| Error::location(51750, format!("{name} found an unknown argument: {found}")),
    )?;
    let missing = |parameter| format!("{name} requires '{parameter}' to be specified");
    let input = need(input, 51749, &missing("input"))?;
    let find = need(find, 51748, &missing("find"))?;
    let replacement = need(replacement, 51747, &missing("replacement"))?;
    call_of(
        operator,
        [Some(input), Some(find), Some(replacement)],
        variables,
    )
}

pub(super) fn one<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    replaced(call, context, 1)
}

pub(super) fn all<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    replaced(call, context, usize::MAX)
}

fn replaced<'a>(call: &'a Call, context: &mut Context<'a>, times: usize) -> Result<Evaluated<'a>> {
    let (input, find) = (call.argument(0, context)?, call.argument(1, context)?);
    let replacement = call.argument(2, context)?;
    let input_text = text_or_null(call, &input, 51746, "input")?;
    let find_text = text_or_null(call, &find, 51745, "find")?;
    let replacement_text = text_or_null(call, &replacement, 51744, "replacement")?;
    let (Some(text), Some(find), Some(replacement)) = (input_text, find_text, replacement_text)
    else {
        return Ok(Evaluated::NULL);
    };
    interrupts::work_on_bytes(text.len())?;
    let (mut out, mut held, mut copied) = (String::new(), Charge::default(), 0);
    for (at, found) in text.match_indices(find).take(times) {
        interrupts::work(1)?;
        held.cover(out.len() + at - copied + replacement.len())?;
        out.push_str(&text[copied..at]);
        out.push_str(replacement);
        copied = at + found.len();
    }
    held.cover(out.len() + text.len() - copied)?;
    out.push_str(&text[copied..]);
    Ok(out.into())
}

fn text_or_null<'v>(
    call: &Call,
    value: &'v Evaluated<'_>,
    code: i32,
    parameter: &str,
) -> Result<Option<&'v str>> {
    if value.is_nullish() {
        return Ok(None);
    }
    value.as_str().map(Some).ok_or_else(|| {
        let (name, shown) = (call.name(), value.display());
        let text = format!("{name} requires that '{parameter}' be a string, found: {shown}");
        Error::location(code, text)
    })
}
