//! `cloneCollectionAsCapped`: copies the last documents of a collection, as many as have room, into a new capped one.

use quarry_bson::DocumentBuilder;
use quarry_database::Namespace;
use quarry_timing::OperationKind;

use super::convert_to_capped::{capped_size, refuse_system};
use crate::commands::writes;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, number, text};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[text("toCollection").required(), number("size")]),
    kind: OperationKind::Catalog,
    takes_write_concern: true,
    ..Command::new(
        "cloneCollectionAsCapped",
        "copies a collection into a new capped one",
        Requires::Each(&[
            need(Action::Find, On::Collection),
            need(Action::Insert, On::CollectionNamed("toCollection")),
            need(Action::CreateIndex, On::CollectionNamed("toCollection")),
            need(Action::ConvertToCapped, On::CollectionNamed("toCollection")),
        ]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let from = invocation.namespace()?;
    let to = invocation.required("toCollection")?.text()?;
    let to = Namespace::new(invocation.generic.database, to)?;
    let size = capped_size(invocation)?;
    refuse_system(invocation, &to)?;
    let level = writes::level(invocation);
    let (catalog, operation) = (invocation.server.catalog(), invocation.operation);
    Ok(catalog.clone_as_capped(&from, &to, size, operation, level)?)
}
