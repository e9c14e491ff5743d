//! `replSetReconfig`: gives the only member of the set another host, other tags or another priority.

use quarry_bson::DocumentBuilder;

use super::repl_set_get_status::set_of;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, flag};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::observe::log;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[flag("force")]),
    is_admin_only: true,
    ..Command::new(
        "replSetReconfig",
        "changes the configuration of the replica set",
        Requires::Each(&[need(Action::ReplSetConfigure, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let set = set_of(invocation)?;
    let asked = invocation.required(COMMAND.name)?.document()?;
    let is_forced = invocation.boolean("force")?;
    let shown = set.host(invocation.connection.transport.local_address());
    set.reconfigure(&invocation.server.database, |current| {
        current.changed_to(&set.name, asked, &shown, is_forced)
    })?;
    let config = set.config().to_document(&set.name, shown.as_str());
    let line = [("config", config.to_string().into())];
    log::info("control", "replica set reconfigured", &line);
    Ok(())
}
