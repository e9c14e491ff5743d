//! `fsync`: makes everything written so far durable. Locking the server for a backup is not there yet.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, flag, number};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        flag("lock"),
        flag("async").ignored(),
        number("fsyncLockAcquisitionTimeoutMillis").ignored(),
    ]),
    is_admin_only: true,
    ..Command::new(
        "fsync",
        "makes all writes durable",
        Requires::Each(&[need(Action::Fsync, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    if invocation.boolean("lock")? {
        return Err(CommandError::not_supported("the option 'lock'"));
    }
    if !invocation.server.config.can_promise_durability() {
        return Err(CommandError::bad_value(
            "fsync promises nothing under --mdbx-sync utterly-no-sync",
        ));
    }
    invocation.server.catalog().sync()?;
    reply.append("numFiles", 1);
    Ok(())
}
