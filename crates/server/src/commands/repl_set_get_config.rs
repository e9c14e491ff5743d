//! `replSetGetConfig`: the configuration of the set.

use quarry_bson::DocumentBuilder;

use super::repl_set_get_status::set_of;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, flag};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[flag("commitmentStatus")]),
    is_admin_only: true,
    ..Command::new(
        "replSetGetConfig",
        "shows the configuration of the replica set",
        Requires::Each(&[need(Action::ReplSetGetConfig, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let set = set_of(invocation)?;
    let host = set.host(invocation.connection.transport.local_address());
    let config = set.config().to_document(&set.name, host.as_str());
    reply.append("config", &config);
    if invocation.boolean("commitmentStatus")? {
        // The only member has every configuration that there is.
        reply.append("commitmentStatus", true);
    }
    Ok(())
}
