//! `dropIndexes`: removes indexes by name, by key pattern, or all of them (`"*"`) but the one on `_id`.

use quarry_bson::{DocumentBuilder, RawValue};
use quarry_timing::OperationKind;

use crate::commands::writes;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, any};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    aliases: &["deleteIndexes"],
    fields: Fields::named(&[any("index").required()]),
    kind: OperationKind::Catalog,
    takes_write_concern: true,
    is_in_api_1: true,
    ..Command::new(
        "dropIndexes",
        "drops indexes",
        Requires::Each(&[need(Action::DropIndex, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let argument = invocation.required("index")?;
    let index = argument.value();
    let level = writes::level(invocation);
    let catalog = invocation.server.catalog();
    let mut is_all = false;
    let before = match index {
        RawValue::String(name) if name == "*" => {
            is_all = true;
            catalog.drop_all_indexes(&namespace, invocation.operation, level)?
        }
        RawValue::String(_) | RawValue::Document(_) => {
            catalog.drop_indexes(&namespace, &[index], invocation.operation, level)?
        }
        RawValue::Array(names) => {
            let names: Vec<RawValue<'_>> = names.iter().collect();
            catalog.drop_indexes(&namespace, &names, invocation.operation, level)?
        }
        _ => return Err(argument.wrong_type("[string, object, array")),
    };
    reply.append("nIndexesWas", i32::try_from(before).unwrap_or(i32::MAX));
    if is_all {
        reply.append("msg", "non-_id indexes dropped for collection");
    }
    Ok(())
}
