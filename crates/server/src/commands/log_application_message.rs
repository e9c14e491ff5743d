//! `logApplicationMessage`: leaves a message of an application in the audit log.

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    is_admin_only: true,
    ..Command::new(
        "logApplicationMessage",
        "leaves a message in the audit log",
        Requires::Each(&[need(Action::ApplicationMessage, On::Cluster)]),
        run,
    )
};

/// Refuses what would leave no message; the row of the audit log's table writes it.
fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    if invocation
        .subject()
        .is_none_or(|message| message.as_str().is_none())
    {
        return Err(CommandError::type_mismatch(
            "logApplicationMessage takes a text",
        ));
    }
    match invocation.server.audit {
        Some(_) => Ok(()),
        None => Err(CommandError::new(
            ErrorCode::ILLEGAL_OPERATION,
            "logApplicationMessage: this server keeps no audit log; give --auditDestination",
        )),
    }
}
