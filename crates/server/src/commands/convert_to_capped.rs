//! `convertToCapped`: makes a collection a capped one, of the last of its documents that have room.

use quarry_bson::DocumentBuilder;
use quarry_database::Namespace;
use quarry_query::ErrorCode;
use quarry_timing::OperationKind;

use crate::commands::writes;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, number};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::dispatch::read_only_views;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[number("size")]),
    kind: OperationKind::Catalog,
    takes_write_concern: true,
    ..Command::new(
        "convertToCapped",
        "makes a collection a capped one, without indexes but that on _id",
        Requires::Each(&[need(Action::ConvertToCapped, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let size = capped_size(invocation)?;
    refuse_system(invocation, &namespace)?;
    let level = writes::level(invocation);
    let (catalog, operation) = (invocation.server.catalog(), invocation.operation);
    Ok(catalog.convert_to_capped(&namespace, size, operation, level)?)
}

/// The bytes that a capped copy is to hold, rounded up to 256 as MongoDB does.
pub(super) fn capped_size(invocation: &Invocation<'_>) -> Result<i64> {
    /// One PiB.
    const SIZE_MAX: i64 = 1 << 50;
    let size = invocation.argument("size");
    match size.map_or(Ok(0), |size| size.number())? {
        ..=0 => Err(CommandError::new(
            ErrorCode::INVALID_OPTIONS,
            "Capped collection size must be greater than zero",
        )),
        size if size > SIZE_MAX => Err(CommandError::bad_value("size cannot exceed 1 PB")),
        size => Ok((size + 0xff) & !0xff),
    }
}

/// Refuses a collection of the server itself.
pub(super) fn refuse_system(invocation: &Invocation<'_>, namespace: &Namespace) -> Result<()> {
    read_only_views::refuse_removal(invocation.server.replica_set.is_some(), namespace)?;
    if namespace.collection().starts_with("system.") {
        let message = format!("{namespace} is a system collection, which is not made a capped one");
        return Err(CommandError::new(ErrorCode::ILLEGAL_OPERATION, message));
    }
    Ok(())
}
