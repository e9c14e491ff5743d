//! `$quarry`: what a client may ask of any command beyond MongoDB's arguments.

use crate::dispatch::argument::Argument;
use crate::dispatch::error::Result;

/// Whether `{timing: true}` asks for the command's breakdown in its reply.
pub fn wants_timing(argument: Argument<'_>) -> Result<bool> {
    let mut wants_timing = false;
    for option in Argument::each("$quarry", argument.document()?) {
        if option.name() != "timing" {
            return Err(option.unknown());
        }
        wants_timing = option.flag()?;
    }
    Ok(wants_timing)
}
