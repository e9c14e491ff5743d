//! `shutdown`: stops the server as SIGTERM does, after this answer.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::Named(&["force", "timeoutSecs"]),
    is_admin_only: true,
    ..Command::new(
        "shutdown",
        "stops the server",
        Requires::Each(&[need(Action::Shutdown, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    invocation.server.shutdown.request("the shutdown command");
    Ok(())
}
