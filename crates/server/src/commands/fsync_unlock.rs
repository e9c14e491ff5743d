//! `fsyncUnlock`: gives up one of the locks that `fsync` with `lock: true` has taken. Writes go on with the last one.

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::observe::log;

pub static COMMAND: Command = Command {
    is_admin_only: true,
    ..Command::new(
        "fsyncUnlock",
        "lets writes go on after an fsync with a lock",
        Requires::Each(&[need(Action::Unlock, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let server = invocation.server;
    let left = server.backups.unlock_files(&server.database)?;
    let Some(left) = left else {
        return Err(CommandError::new(
            ErrorCode::ILLEGAL_OPERATION,
            "fsyncUnlock called when not locked",
        ));
    };
    log::info(
        "storage",
        "fsyncUnlock completed",
        &[("lockCount", left.into())],
    );
    reply.append("info", "fsyncUnlock completed");
    reply.append("lockCount", i64::try_from(left).unwrap_or(i64::MAX));
    Ok(())
}
