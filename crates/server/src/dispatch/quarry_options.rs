//! `$quarry`: what a client may ask of any command beyond MongoDB's arguments.

use quarry_bson::RawValue;

use crate::dispatch::command::boolean;
use crate::dispatch::error::{CommandError, Result};

/// Whether `{timing: true}` asks for the command's breakdown in its reply.
pub fn wants_timing(value: RawValue<'_>) -> Result<bool> {
    let Some(options) = value.as_document() else {
        return Err(CommandError::field_type(
            "$quarry",
            "$quarry",
            value.element_type().alias(),
            "object",
        ));
    };
    let mut wants_timing = false;
    for element in options {
        let name = element.name();
        if name != "timing" {
            return Err(CommandError::unknown_field(
                "$quarry",
                &name.to_string_lossy(),
            ));
        }
        wants_timing = boolean("$quarry", "timing", element.value())?;
    }
    Ok(wants_timing)
}
