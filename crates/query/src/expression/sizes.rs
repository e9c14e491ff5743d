//! `$binarySize $bsonSize`: the bytes of a text or a Binary, and of a document.

use quarry_bson::RawValue;

use super::strings::length;
use super::{Call, Context, Evaluated};
use crate::error::{Error, Result};

pub(super) fn of_binary<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    match value.as_raw() {
        None | Some(RawValue::Null | RawValue::Undefined) => Ok(Evaluated::NULL),
        Some(RawValue::String(text)) => Ok(length(text.as_bytes().len())),
        Some(RawValue::Binary(binary)) => Ok(length(binary.bytes.len())),
        Some(_) => {
            let kind = value.type_name();
            let text = format!("$binarySize requires a string or BinData argument, found: {kind}");
            Err(Error::location(51276, text))
        }
    }
}

pub(super) fn of_document<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let value = call.argument(0, context)?;
    match value.as_raw() {
        None | Some(RawValue::Null | RawValue::Undefined) => Ok(Evaluated::NULL),
        Some(RawValue::Document(document)) => Ok(length(document.len_bytes())),
        Some(_) => {
            let kind = value.type_name();
            let text = format!("$bsonSize requires a document input, found: {kind}");
            Err(Error::location(31393, text))
        }
    }
}
