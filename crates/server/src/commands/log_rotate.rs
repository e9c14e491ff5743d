//! `logRotate`: moves the log file aside and begins a new one.

use quarry_bson::{DocumentBuilder, RawValue};
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::observe::log;

pub static COMMAND: Command = Command {
    is_admin_only: true,
    ..Command::new(
        "logRotate",
        "begins a new log file",
        Requires::Each(&[need(Action::LogRotate, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    if let Some(RawValue::String(kind)) = invocation.subject()
        && kind != "server"
    {
        return Err(CommandError::new(
            ErrorCode::NO_SUCH_KEY,
            format!("Unknown log type for rotation: {kind}"),
        ));
    }
    let audit = invocation.server.audit.as_ref();
    let rotated = log::rotate().and_then(|()| audit.map_or(Ok(()), |audit| audit.rotate()));
    rotated.map_err(|error| {
        CommandError::new(
            ErrorCode::FILE_RENAME_FAILED,
            format!("the log file could not be rotated: {error}"),
        )
    })?;
    log::info("control", "log rotated", &[]);
    Ok(())
}
