//! `logRotate`: moves the log file and that of the audit log aside, or one of them, and begins a new one.

use std::io;

use quarry_bson::{DocumentBuilder, RawValue};
use quarry_query::ErrorCode;

use crate::audit::audit_log::AuditLog;
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
    let audit = invocation.server.audit.as_deref();
    let rotated = match (invocation.subject(), audit) {
        (Some(RawValue::String(kind)), _) if kind == "server" => log::rotate(),
        (Some(RawValue::String(kind)), Some(audit)) if kind == "audit" => audit.rotate(),
        (Some(RawValue::String(kind)), _) => {
            return Err(CommandError::new(
                ErrorCode::NO_SUCH_KEY,
                format!("Unknown log type for rotation: {kind}"),
            ));
        }
        _ => rotate_all(audit),
    };
    rotated.map_err(|error| {
        CommandError::new(
            ErrorCode::FILE_RENAME_FAILED,
            format!("the log file could not be rotated: {error}"),
        )
    })?;
    log::info("control", "log rotated", &[]);
    Ok(())
}

/// Begins a new log and a new audit log. One that fails does not keep the other from it; the first error is told.
pub fn rotate_all(audit: Option<&AuditLog>) -> io::Result<()> {
    let of_log = log::rotate();
    let of_audit = audit.map_or(Ok(()), AuditLog::rotate);
    of_log.and(of_audit)
}
