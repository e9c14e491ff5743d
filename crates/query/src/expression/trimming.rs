//! `$trim $ltrim $rtrim`: a text without blanks, or without given characters, at its ends.

use std::collections::BTreeSet;

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
    trimmed(call, context, |text, goes| {
        trim_end(trim_start(text, goes)?, goes)
    })
}

pub(super) fn left<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    trimmed(call, context, trim_start)
}

pub(super) fn right<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    trimmed(call, context, trim_end)
}

fn trimmed<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    trim: for<'t, 'c> fn(&'t str, &'c [char]) -> Result<&'t str>,
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
        return Ok(trim(text, &BLANKS)?.into());
    }
    let Some(chars) = chars.as_str() else {
        let text = format!(
            "{name} requires 'chars' to be a string, got {} (of type {}) instead.",
            chars.display(),
            chars.type_name()
        );
        return Err(Error::location(50700, text));
    };
    let mut charge = Charge::default();
    let goes = distinct(chars, &mut charge)?;
    Ok(trim(text, &goes)?.into())
}

/// The characters of a text, each once, in ascending order.
fn distinct(text: &str, charge: &mut Charge) -> Result<Vec<char>> {
    let mut met = BTreeSet::new();
    for character in text.chars() {
        interrupts::work(UNITS_OF_A_CHARACTER)?;
        if met.insert(character) {
            charge.grow(BYTES_OF_A_CHARACTER)?;
        }
    }
    Ok(met.into_iter().collect())
}

/// The text from its first character on that is none of those that go, which are in ascending order.
fn trim_start<'t>(text: &'t str, goes: &[char]) -> Result<&'t str> {
    let mut left = text.chars();
    loop {
        let rest = left.as_str();
        match left.next() {
            Some(first) if goes.binary_search(&first).is_ok() => {
                interrupts::work(UNITS_OF_A_CHARACTER)?;
            }
            _ => return Ok(rest),
        }
    }
}

/// The text up to its last character that is none of those that go, which are in ascending order.
fn trim_end<'t>(text: &'t str, goes: &[char]) -> Result<&'t str> {
    let mut left = text.chars();
    loop {
        let rest = left.as_str();
        match left.next_back() {
            Some(last) if goes.binary_search(&last).is_ok() => {
                interrupts::work(UNITS_OF_A_CHARACTER)?;
            }
            _ => return Ok(rest),
        }
    }
}

/// The work of finding a character among those that go.
const UNITS_OF_A_CHARACTER: usize = 2;

/// A character that goes is held in a tree and in a list.
const BYTES_OF_A_CHARACTER: usize = 4 * size_of::<char>();

/// The characters that count as blanks, as MongoDB documents them, in ascending order.
const BLANKS: [char; 20] = [
    '\0', '\t', '\n', '\u{b}', '\u{c}', '\r', ' ', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}',
    '\u{2002}', '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}',
    '\u{200a}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_found_by_halving() {
        assert!(BLANKS.is_sorted_by(|one, next| one < next));
        assert_eq!(trim_start("\u{200a}\0 \t\u{a0}a ", &BLANKS).unwrap(), "a ");
        assert_eq!(trim_end(" a\u{1680}\r\n ", &BLANKS).unwrap(), " a");
        assert_eq!(trim_end(" \u{200b} ", &BLANKS).unwrap(), " \u{200b}");
    }
}
