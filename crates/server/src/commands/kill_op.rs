//! `killOp`: interrupts one running operation. As in MongoDB the answer does not tell whether there was one.

use quarry_bson::{DocumentBuilder, RawValue};

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any};
use crate::dispatch::privilege::{Action, Requires, Resource};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[any("op").required()]),
    is_admin_only: true,
    ..Command::new("killOp", "interrupts an operation", Requires::Login, run)
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let op = invocation.required("op")?.value();
    let opid = match op {
        RawValue::String(text) => text.as_str()?.parse().ok(),
        number => number
            .as_i64_exact()
            .and_then(|number| u32::try_from(number).ok()),
    };
    let Some(opid) = opid else {
        return Err(CommandError::bad_value(format!("invalid op : {op}")));
    };
    let connections = &invocation.server.connections;
    if invocation.may(Action::Killop, Resource::Cluster) {
        connections.kill_operation(opid, |_| true);
    } else if !connections
        .kill_operation(opid, |other| super::current_op::is_own(invocation, other))
    {
        // Everybody may end its own operations, and learns nothing of others.
        invocation.require(Action::Killop, Resource::Cluster)?;
    }
    reply.append("info", "attempting to kill op");
    Ok(())
}
