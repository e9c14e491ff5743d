//! `shutdown`: stops the server as SIGTERM does, after this answer.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, flag, number};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::process::shutdown::BY_COMMAND;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[flag("force").ignored(), number("timeoutSecs").ignored()]),
    is_admin_only: true,
    ..Command::new(
        "shutdown",
        "stops the server",
        Requires::Each(&[need(Action::Shutdown, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    invocation.server.shutdown.request(BY_COMMAND);
    Ok(())
}
