//! `$indexOfBytes $indexOfCP`: where a text is found in another, between two places, counted in bytes or in code points.

use super::arrays::position;
use super::strings::{length, required};
use super::{Call, Context, Evaluated};
use crate::error::Result;
use crate::interrupts;

pub(super) fn by_bytes<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let codes = (40091, 40092);
    search(call, context, codes, |place, _| Some(place), |at, _| at)
}

pub(super) fn by_code_points<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
    let byte_of = |place: usize, text: &str| {
        let mut places = text.char_indices().map(|(at, _)| at);
        // The place behind the last code point is one, too.
        places
            .nth(place)
            .or_else(|| (text.chars().count() == place).then_some(text.len()))
    };
    let place_of = |at: usize, text: &str| text[..at].chars().count();
    search(call, context, (40093, 40094), byte_of, place_of)
}

/// `byte_of` tells where in the text a place is, None behind its end; `place_of` is the way back.
fn search<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
    (first_code, second_code): (i32, i32),
    byte_of: fn(usize, &str) -> Option<usize>,
    place_of: fn(usize, &str) -> usize,
) -> Result<Evaluated<'a>> {
    let not_found = || Ok(Evaluated::from(-1));
    let (name, value) = (call.name(), call.argument(0, context)?);
    if value.is_nullish() {
        return Ok(Evaluated::NULL);
    }
    let text = format!("{name} requires a string as the first argument, found: ");
    let text = required(&value, first_code, &text)?;
    let wanted = call.argument(1, context)?;
    let complaint = format!("{name} requires a string as the second argument, found: ");
    let wanted = required(&wanted, second_code, &complaint)?;
    let start = position(call, context, 2, "starting")?.unwrap_or(0);
    let end = position(call, context, 3, "ending")?;
    interrupts::work(text.len() / 8 + wanted.len() / 8)?;
    let Some(from) = byte_of(start, text).filter(|from| *from <= text.len()) else {
        return not_found();
    };
    let to = end.and_then(|end| byte_of(end, text)).unwrap_or(text.len());
    let Some(part) = text.as_bytes().get(from..to.min(text.len())) else {
        return not_found();
    };
    match memchr::memmem::find(part, wanted.as_bytes()) {
        Some(at) => Ok(length(place_of(from + at, text))),
        None => not_found(),
    }
}
