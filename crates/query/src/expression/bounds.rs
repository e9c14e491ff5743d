//! Bounds that keep expressions and stages from building without end: no result nests deeper than a document may, and
//! no single value outgrows `VALUE_BYTES_MAX`.

use quarry_bson::{DOCUMENT_BYTES_INTERNAL_MAX, ElementType, RawValue};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::interrupts;

/// The deepest document that is built, in levels.
const DEPTH_MAX: usize = quarry_bson::DEPTH_MAX;

/// The largest value that is built on the way to a result; documents that leave a pipeline are smaller still.
pub(crate) const VALUE_BYTES_MAX: usize = if cfg!(test) {
    1024 * 1024
} else {
    64 * 1024 * 1024
};

/// Checks the size of a value under construction.
pub(crate) fn check_bytes(bytes: usize) -> Result<()> {
    if bytes <= VALUE_BYTES_MAX {
        Ok(())
    } else {
        Err(too_large())
    }
}

/// Checks the size of a document that leaves for the client. A stored one may be larger than what a client may store, by
/// the `_id` that it was given.
pub(crate) fn check_document_bytes(bytes: usize) -> Result<()> {
    if bytes <= DOCUMENT_BYTES_INTERNAL_MAX {
        return Ok(());
    }
    let text = format!(
        "BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and {DOCUMENT_BYTES_INTERNAL_MAX}(16MB)"
    );
    Err(Error::new(ErrorCode::BSON_OBJECT_TOO_LARGE, text))
}

#[cold]
fn too_large() -> Error {
    let text = format!("an expression built a value of more than {VALUE_BYTES_MAX} bytes");
    Error::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, text)
}

/// Checks that a value may stand `levels` deep in a document.
pub(crate) fn check_depth(value: RawValue<'_>, levels: usize) -> Result<()> {
    match value.element_type() {
        ElementType::Document | ElementType::Array => fits(value, DEPTH_MAX.saturating_sub(levels)),
        _ => Ok(()),
    }
}

#[cold]
fn too_deep() -> Error {
    Error::new(
        ErrorCode::OVERFLOW,
        format!("the result exceeds the maximum nested depth of {DEPTH_MAX} levels"),
    )
}

/// Recursion ends at `levels`, which is at most `DEPTH_MAX`.
fn fits(value: RawValue<'_>, levels: usize) -> Result<()> {
    let document = match value {
        RawValue::Document(inner) => inner,
        RawValue::Array(inner) => inner.as_document(),
        _ => return Ok(()),
    };
    // Each level takes seven bytes at least: what is smaller cannot be too deep.
    if document.len_bytes() <= levels * LEVEL_BYTES_MIN {
        return Ok(());
    }
    let levels = levels.checked_sub(1).ok_or_else(too_deep)?;
    for element in document {
        interrupts::work(1)?;
        if let ElementType::Document | ElementType::Array = element.element_type() {
            fits(element.value(), levels)?;
        }
    }
    Ok(())
}

/// A document or an array in another: its type, its name's end, its length and its own end.
const LEVEL_BYTES_MIN: usize = 7;
