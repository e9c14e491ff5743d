//! `compact`: asks for the space of a collection back. The engines give it back by themselves, so that there is nothing left to
//! do: the collection is looked for, and nothing is freed.

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, flag, number};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        flag("force").ignored(),
        number("freeSpaceTargetMB").ignored(),
        flag("dryRun"),
    ]),
    ..Command::new(
        "compact",
        "asks for the space of a collection back, which the engines give back by themselves",
        Requires::Each(&[need(Action::Compact, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let Some(collection) = invocation.server.catalog().collection(&namespace)? else {
        let message = "collection does not exist";
        return Err(CommandError::new(ErrorCode::NAMESPACE_NOT_FOUND, message));
    };
    collection.refuse_view()?;
    let name = match invocation.boolean("dryRun")? {
        true => "estimatedBytesFreed",
        false => "bytesFreed",
    };
    reply.append(name, 0_i64);
    Ok(())
}
