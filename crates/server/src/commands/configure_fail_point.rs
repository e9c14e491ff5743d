//! `configureFailPoint`: switches a fault on or off that a driver wants to be tested with. Only in test mode.

use quarry_bson::{DocumentBuilder, RawDocument};

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, any, object};
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[any("mode").required(), object("data")]),
    is_admin_only: true,
    is_for_tests: true,
    ..Command::new(
        "configureFailPoint",
        "switches a fail point, in test mode",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let name = invocation.required(COMMAND.name)?.text()?;
    let mode = invocation.required("mode")?.value();
    let data = invocation.document("data")?.unwrap_or(RawDocument::EMPTY);
    let met = invocation.server.fail_points.configure(name, mode, data)?;
    reply.append("count", met);
    Ok(())
}
