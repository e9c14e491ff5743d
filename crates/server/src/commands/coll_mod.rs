//! `collMod`: changes a collection after its creation. What applies so far: hiding and unhiding an index, and whether the
//! journal keeps documents as they were before a change.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_query::ErrorCode;
use quarry_timing::OperationKind;

use crate::commands::create::keeps_pre_images;
use crate::commands::writes;
use crate::dispatch::argument::Argument;
use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::Named(&FIELDS),
    kind: OperationKind::Catalog,
    takes_write_concern: true,
    is_in_api_1: true,
    ..Command::new(
        "collMod",
        "changes a collection",
        Requires::Each(&[need(Action::CollMod, On::Collection)]),
        run,
    )
};

/// The fields of collMod. The first two are served so far; the others are known and refused.
const FIELDS: [&str; 12] = [
    "index",
    "changeStreamPreAndPostImages",
    "validator",
    "validationLevel",
    "validationAction",
    "viewOn",
    "pipeline",
    "cappedSize",
    "cappedMax",
    "expireAfterSeconds",
    "timeseries",
    "dryRun",
];

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    if let Some(option) = FIELDS[2..]
        .iter()
        .find(|option| invocation.get(option).is_some())
    {
        return Err(CommandError::not_supported(format_args!(
            "the option '{option}'"
        )));
    }
    let images = Argument::each_of_command(COMMAND.name, invocation.body)
        .find(|argument| argument.name() == FIELDS[1]);
    if let Some(images) = images {
        let enabled = keeps_pre_images(&images)?;
        let level = writes::level(invocation);
        let (database, operation) = (&invocation.server.database, invocation.operation);
        database.set_pre_images(&namespace, enabled, operation, level)?;
        if invocation.get(FIELDS[0]).is_none() {
            return Ok(());
        }
    }
    let Some(change) = invocation.document("index")? else {
        let level = writes::level(invocation);
        let (database, operation) = (&invocation.server.database, invocation.operation);
        return Ok(database.modify_nothing(&namespace, operation, level)?);
    };
    let (index, hidden) = parse(change)?;
    let level = writes::level(invocation);
    let was = invocation.server.database.set_hidden(
        &namespace,
        index,
        hidden,
        invocation.operation,
        level,
    )?;
    if was != hidden {
        reply.append("hidden_old", was);
        reply.append("hidden_new", hidden);
    }
    Ok(())
}

/// The index, by name or key pattern, and whether it is to be hidden.
fn parse(change: RawDocument<'_>) -> Result<(RawValue<'_>, bool)> {
    let (mut index, mut hidden) = (None, None);
    for argument in Argument::each("collMod.index", change) {
        let name = argument.name();
        match (name.as_bytes(), argument.value()) {
            (b"name", value @ RawValue::String(_))
            | (b"keyPattern", value @ RawValue::Document(_)) => {
                index = Some(value);
            }
            (b"hidden", _) => hidden = argument.optional(Argument::flag)?,
            (b"expireAfterSeconds" | b"unique" | b"prepareUnique", _) => {
                return Err(CommandError::not_supported(format_args!(
                    "the option 'index.{name}'"
                )));
            }
            _ => return Err(argument.unknown()),
        }
    }
    match (index, hidden) {
        (Some(index), Some(hidden)) => Ok((index, hidden)),
        _ => Err(CommandError::new(
            ErrorCode::INVALID_OPTIONS,
            "collMod needs the name or keyPattern of an index, and what to change of it",
        )),
    }
}
