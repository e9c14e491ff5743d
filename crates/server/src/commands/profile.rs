//! `profile`: reads and sets the threshold of the slow-operation log lines. The profiler's collection is not there yet.

use std::sync::atomic::Ordering::Relaxed;

use quarry_bson::DocumentBuilder;

use crate::command::{Command, Fields, Invocation};
use crate::error::{CommandError, Result};

pub static COMMAND: Command = Command {
    fields: Fields::Named(&["slowms", "sampleRate", "filter"]),
    ..Command::new("profile", "sets which operations are logged as slow", run)
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let level = invocation.subject().and_then(|value| value.as_i64_exact());
    if !matches!(level, Some(-1 | 0)) {
        return Err(CommandError::not_supported(
            "a profiling level other than -1 and 0",
        ));
    }
    if let Some(field) = ["sampleRate", "filter"]
        .into_iter()
        .find(|field| invocation.get(field).is_some())
    {
        return Err(CommandError::not_supported(format_args!(
            "the option '{field}'"
        )));
    }
    let slow_ms = &invocation.server.parameters.slow_ms;
    reply.append("was", 0);
    reply.append(
        "slowms",
        i32::try_from(slow_ms.load(Relaxed)).unwrap_or(i32::MAX),
    );
    reply.append("sampleRate", 1.0);
    if let Some(value) = invocation.get("slowms") {
        let ms = value.as_i64_exact().ok_or_else(|| {
            CommandError::field_type("profile", "slowms", value.element_type().alias(), "long")
        })?;
        slow_ms.store(ms, Relaxed);
    }
    Ok(())
}
