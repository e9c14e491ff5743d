//! `$trim $ltrim $rtrim`: a text without blanks, or without given characters, at its ends.

use quarry_bson::RawValue;

use super::parameters::{call_of, need, parameters};
use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables, type_name};
use crate::error::{Error, Result};
use crate::interrupts;

pub(super) fn parse(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let name = operator.name;
    let [input, chars] = parameters(
        operand,
        ["input", "chars"],
        |found| {
            let kind = type_name(found);
            let text = format!("{name} only supports an object as an argument, found {kind}");
            Error::location(50696, text)
        },
        |found| Error::location(50694, format!("{name} found an unknown argument: {found}")),
    )?;
    let input = need(input, 50695, &format!("{name} requires an 'input' field"))?;
    call_of(operator, [Some(input), chars], variables)
}

pub(super) fn both<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    trimmed(call, context, |text, goes| text.trim_matches(goes))
}

pub(super) fn left<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    trimmed(call, context, |text, goes| text.trim_start_matches(goes))
}

pub(super) fn right<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    trimmed(call, context, |text, goes| text.trim_end_matches(goes))
}

fn trimmed<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    trim: for<'t, 'c> fn(&'t str, &'c [char]) -> &'t str,
) -> Result<Evaluated<'a>> {
    let (input, chars) = (call.argument(0, context)?, call.argument(1, context)?);
    if input.is_nullish() || (call.has(1) && chars.is_nullish()) {
        return Ok(Evaluated::NULL);
    }
    let name = call.name();
    let Some(text) = input.as_str() else {
        let text = format!(
            "{name} requires its input to be a string, got {} (of type {}) instead.",
            input.display(),
            input.type_name()
        );
        return Err(Error::location(50699, text));
    };
    if !call.has(1) {
        interrupts::work_on_bytes(text.len())?;
        return Ok(trim(text, &BLANKS).into());
    }
    let Some(chars) = chars.as_str() else {
        let text = format!(
            "{name} requires 'chars' to be a string, got {} (of type {}) instead.",
            chars.display(),
            chars.type_name()
        );
        return Err(Error::location(50700, text));
    };
    let mut goes: Vec<char> = chars.chars().collect();
    goes.sort_unstable();
    goes.dedup();
    // Every character of the text may be compared with every one that goes.
    let comparisons = text.len().saturating_mul(goes.len());
    interrupts::work_on_bytes(text.len() + chars.len() + comparisons)?;
    Ok(trim(text, &goes).into())
}

/// The characters that count as blanks, as MongoDB documents them.
const BLANKS: [char; 20] = [
    '\0', ' ', '\t', '\n', '\u{b}', '\u{c}', '\r', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}',
    '\u{2002}', '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}',
    '\u{200a}',
];
