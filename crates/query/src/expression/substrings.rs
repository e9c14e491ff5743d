//! `$substr $substrBytes $substrCP`, the last by code points, the others by bytes.

use super::arrays::whole_argument;
use super::strings::coerce;
use super::{Call, Context, Evaluated};
use crate::error::{Error, Result};

pub(super) fn by_bytes<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let (value, start, len) = (
        call.argument(0, context)?,
        call.argument(1, context)?,
        call.argument(2, context)?,
    );
    let text = coerce(&value)?;
    let start = byte_count(&start, 16034, "starting index")?;
    let len = byte_count(&len, 16035, "length")?;
    let Ok(start) = usize::try_from(start) else {
        let text = format!("$substrBytes:  starting index must be non-negative (got: {start})");
        return Err(Error::location(50752, text));
    };
    if start >= text.len() {
        return Ok(String::new().into());
    }
    // A negative length takes all the rest.
    let end =
        usize::try_from(len).map_or(text.len(), |len| start.saturating_add(len).min(text.len()));
    if !text.is_char_boundary(start) {
        let text = "$substrBytes:  Invalid range, starting index is a UTF-8 continuation byte.";
        return Err(Error::location(28656, text));
    }
    let part = text.get(start..end).ok_or_else(|| {
        Error::location(
            28657,
            "$substrBytes:  Invalid range, ending index is in the middle of a UTF-8 character.",
        )
    })?;
    Ok(part.into())
}

fn byte_count(value: &Evaluated<'_>, code: i32, what: &str) -> Result<i64> {
    let number = value.as_raw().and_then(|value| value.as_f64_lossy());
    // The cast cuts a fraction off and brings what is out of range to the edge.
    number.map(|number| number as i64).ok_or_else(|| {
        let kind = value.type_name();
        Error::location(
            code,
            format!("$substrBytes:  {what} must be a numeric type (is BSON type {kind})"),
        )
    })
}

pub(super) fn by_code_points<'a>(
    call: &'a Call,
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
    let (value, start, len) = (
        call.argument(0, context)?,
        call.argument(1, context)?,
        call.argument(2, context)?,
    );
    let text = coerce(&value)?;
    let start = whole_argument(
        &start,
        (
            34450,
            "$substrCP: starting index must be a numeric type, not ",
        ),
        (
            34451,
            "$substrCP: starting index cannot be represented as a 32-bit integral value: ",
        ),
    )?;
    let len = whole_argument(
        &len,
        (34452, "$substrCP: length must be a numeric type, not "),
        (
            34453,
            "$substrCP: length cannot be represented as a 32-bit integral value: ",
        ),
    )?;
    let len = usize::try_from(len)
        .map_err(|_| Error::location(34454, "$substrCP: length must be a nonnegative integer."))?;
    let start = usize::try_from(start).map_err(|_| {
        Error::location(
            34455,
            "$substrCP: the starting index must be nonnegative integer.",
        )
    })?;
    Ok(text
        .chars()
        .skip(start)
        .take(len)
        .collect::<String>()
        .into())
}
