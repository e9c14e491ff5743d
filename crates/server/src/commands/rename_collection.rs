//! `renameCollection`: gives a collection another name, and with `dropTarget` the place of another.

use quarry_bson::{DocumentBuilder, RawValue};
use quarry_database::Namespace;
use quarry_timing::OperationKind;

use crate::commands::writes;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any, flag, text};
use crate::dispatch::privilege::{Action, On, Requires, Resource, When, need, need_when};
use crate::dispatch::read_only_views;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        text("to").required(),
        any("dropTarget"),
        flag("stayTemp").ignored(),
    ]),
    kind: OperationKind::Catalog,
    is_admin_only: true,
    takes_write_concern: true,
    ..Command::new(
        "renameCollection",
        "renames a collection",
        Requires::Each(&[
            need(
                Action::RenameCollectionSameDb,
                On::DatabaseIn("renameCollection"),
            ),
            need(Action::RenameCollectionSameDb, On::DatabaseIn("to")),
            need_when(
                Action::DropCollection,
                On::CollectionIn("to"),
                When::Field("dropTarget"),
            ),
        ]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let Some(RawValue::String(from)) = invocation.subject() else {
        return Err(CommandError::type_mismatch(
            "renameCollection takes the full name of a collection",
        ));
    };
    let to = invocation.required("to")?.text()?;
    // MongoDB also takes the UUID of the very collection that may be dropped.
    let drops_target = match invocation.get("dropTarget") {
        Some(RawValue::Binary(_)) => {
            return Err(CommandError::not_supported("a UUID as 'dropTarget'"));
        }
        _ => invocation.boolean("dropTarget")?,
    };
    let from = Namespace::parse(from.as_str()?)?;
    let to = Namespace::parse(to)?;
    authorize(invocation, &from, &to)?;
    let is_set = invocation.server.replica_set.is_some();
    read_only_views::refuse_removal(is_set, &from)?;
    read_only_views::refuse_removal(is_set, &to)?;
    let level = writes::level(invocation);
    invocation.server.catalog().rename_collection(
        &from,
        &to,
        drops_target,
        invocation.operation,
        level,
    )?;
    crate::observe::labels::forget(&from);
    Ok(())
}

/// Checks the privileges that a rename needs beside the privilege to rename within both databases: nobody makes a system collection out of its own
/// or its own out of one, and nobody reads under a new name what the old one did not let it read.
fn authorize(invocation: &Invocation<'_>, from: &Namespace, to: &Namespace) -> Result<()> {
    for namespace in [from, to] {
        if namespace.collection().starts_with("system.") {
            let resource = Resource::Collection(namespace.database(), namespace.collection());
            invocation.require(Action::Insert, resource)?;
            invocation.require(Action::DropCollection, resource)?;
        }
    }
    let source = Resource::Collection(from.database(), from.collection());
    let target = Resource::Collection(to.database(), to.collection());
    if invocation.may(Action::Find, target) {
        invocation.require(Action::Find, source)?;
    }
    Ok(())
}
