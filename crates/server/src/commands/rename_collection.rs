//! `renameCollection`: gives a collection another name, and with `dropTarget` the place of another.

use quarry_bson::{DocumentBuilder, RawValue};
use quarry_database::Namespace;
use quarry_timing::OperationKind;

use crate::commands::writes;
use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, When, need, need_when};

pub static COMMAND: Command = Command {
    fields: Fields::Named(&["to", "dropTarget", "stayTemp"]),
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
    let level = writes::level(invocation);
    invocation.server.database.rename_collection(
        &from,
        &to,
        drops_target,
        invocation.operation,
        level,
    )?;
    crate::observe::labels::forget(&from);
    Ok(())
}
