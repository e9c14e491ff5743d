//! `setOpTimingEnabled`: turns the timing of operations on or off, for operations that begin from now on.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    is_admin_only: true,
    ..Command::new(
        "setOpTimingEnabled",
        "turns the timing of operations on or off",
        Requires::Each(&[need(Action::SetParameter, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let enabled = invocation.boolean(invocation.command.name)?;
    reply.append("was", quarry_timing::is_enabled());
    reply.append("enabled", enabled);
    quarry_timing::set_enabled(enabled);
    Ok(())
}
