//! Which values an `_id` may have.

use quarry_bson::{RawDocument, RawValue};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Refuses an `_id` that a filter would not find its document by: of such a type, or with fields that look like
/// operators.
pub fn check_id(id: RawValue<'_>) -> Result<()> {
    let refused = match id {
        RawValue::Array(_) => "array",
        RawValue::Regex(_) => "regex",
        RawValue::Undefined => "undefined",
        RawValue::Document(document) => return check_fields(document),
        _ => return Ok(()),
    };
    let text = format!("The '_id' value cannot be of type {refused}");
    Err(Error::new(ErrorCode::INVALID_ID_FIELD, text))
}

/// The fields of a DBRef are no operators.
fn check_fields(document: RawDocument<'_>) -> Result<()> {
    for element in document {
        let name = element.name().as_bytes();
        if name.starts_with(b"$") && !matches!(name, b"$ref" | b"$id" | b"$db") {
            let text = format!(
                "_id fields may not contain '$'-prefixed fields: {} is not valid for storage.",
                element.name()
            );
            return Err(Error::new(ErrorCode::DOLLAR_PREFIXED_FIELD_NAME, text));
        }
        match element.value() {
            RawValue::Document(inner) => check_fields(inner)?,
            RawValue::Array(array) => check_fields(array.as_document())?,
            _ => {}
        }
    }
    Ok(())
}
