//! `drop`: removes a collection and its indexes. Dropping one that is not there is no error, as since MongoDB 7.0.

use quarry_bson::DocumentBuilder;
use quarry_timing::OperationKind;

use crate::commands::writes;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, object};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::dispatch::read_only_views;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[object("encryptedFields").ignored()]),
    kind: OperationKind::Catalog,
    takes_write_concern: true,
    is_in_api_1: true,
    ..Command::new(
        "drop",
        "drops a collection",
        Requires::Each(&[need(Action::DropCollection, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    read_only_views::refuse_removal(invocation.server.replica_set.is_some(), &namespace)?;
    let level = writes::level(invocation);
    let dropped =
        invocation
            .server
            .catalog()
            .drop_collection(&namespace, invocation.operation, level)?;
    if let Some(dropped) = dropped {
        crate::observe::labels::forget(&namespace);
        reply.append(
            "nIndexesWas",
            i32::try_from(dropped.indexes).unwrap_or(i32::MAX),
        );
        reply.append("ns", namespace.as_str());
    }
    Ok(())
}
