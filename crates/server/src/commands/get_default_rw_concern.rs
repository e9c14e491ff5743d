//! `getDefaultRWConcern`: the read and write concern of commands that name none.

use quarry_bson::DocumentBuilder;

use crate::commands::set_default_rw_concern::defaults_of;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, flag};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[flag("inMemory")]),
    is_admin_only: true,
    ..Command::new(
        "getDefaultRWConcern",
        "shows the read and write concern of commands that name none",
        Requires::Each(&[need(Action::GetDefaultRwConcern, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    defaults_of(invocation)?.append(reply);
    if invocation.boolean("inMemory")? {
        reply.append("inMemory", true);
    }
    Ok(())
}
