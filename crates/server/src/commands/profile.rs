//! `profile`: reads and sets which operations of a database are profiled, and which are logged as slow.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use quarry_bson::{DocumentBuilder, RawValue};

use crate::dispatch::argument::Argument;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any, number};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::observe::profiler::{Filter, ProfileLevel};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[number("slowms"), number("sampleRate"), any("filter")]),
    ..Command::new(
        "profile",
        "sets which operations are profiled and logged as slow",
        Requires::Each(&[need(Action::EnableProfiler, On::Database)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let server = invocation.server;
    let database = invocation.generic.database;
    quarry_database::check_database(database)?;
    let level = level(invocation)?;
    let was = server.profiler.settings(database);
    let slow_ms = server.parameters.slow_ms.load(Relaxed);
    server.profiler.append_settings(&was, slow_ms, reply);
    let mut settings = was.clone();
    settings.level = level.unwrap_or(was.level);
    match invocation.get("filter") {
        None => {}
        Some(RawValue::Document(filter)) => {
            settings.filter = Some(Arc::new(Filter::parse(filter)?));
        }
        Some(RawValue::String(text)) if text == "unset" => settings.filter = None,
        Some(_) => {
            return Err(CommandError::bad_value(
                "Expected an object, or the string 'unset'.",
            ));
        }
    }
    let slow_ms = double(invocation, "slowms")?;
    let rate = double(invocation, "sampleRate")?;
    if rate.is_some_and(|rate| !(0.0..=1.0).contains(&rate)) {
        return Err(CommandError::bad_value(
            "'sampleRate' must be between 0.0 and 1.0 inclusive",
        ));
    }
    server.profiler.set(&server.database, database, settings)?;
    if let Some(slow_ms) = slow_ms {
        server.parameters.slow_ms.store(slow_ms as i64, Relaxed);
    }
    if let Some(rate) = rate {
        server.profiler.set_sample_rate(rate);
    }
    Ok(())
}

/// The level to be set; none when the command only reads.
fn level(invocation: &Invocation<'_>) -> Result<Option<ProfileLevel>> {
    let given = invocation.subject().and_then(|value| value.as_i64_exact());
    match given {
        Some(-1) => Ok(None),
        Some(level) => ProfileLevel::parse(level).map(Some).ok_or_else(|| {
            CommandError::bad_value(format!(
                "the profiling level {level} is none of -1, 0, 1, 2"
            ))
        }),
        None => Err(CommandError::type_mismatch(
            "the profiling level must be a number",
        )),
    }
}

fn double(invocation: &Invocation<'_>, field: &str) -> Result<Option<f64>> {
    let argument = invocation.argument(field);
    argument.map_or(Ok(None), |argument| argument.optional(Argument::double))
}
