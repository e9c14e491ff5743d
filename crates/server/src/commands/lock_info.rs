//! `lockInfo`: the locks of MongoDB's lock manager, of which there are none here. Diagnostic scripts ask for the list.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, flag};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[flag("includeStorageEngineLocks").ignored()]),
    is_admin_only: true,
    ..Command::new(
        "lockInfo",
        "lists the locks of a lock manager, of which there are none",
        Requires::Each(&[need(Action::ServerStatus, On::Cluster)]),
        run,
    )
};

fn run(_: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    reply.array("lockInfo").finish();
    Ok(())
}
