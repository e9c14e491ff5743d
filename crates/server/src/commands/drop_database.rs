//! `dropDatabase`: removes every collection of a database.

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;
use quarry_timing::OperationKind;

use crate::commands::writes;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    kind: OperationKind::Catalog,
    takes_write_concern: true,
    is_in_api_1: true,
    ..Command::new(
        "dropDatabase",
        "drops a database",
        Requires::Each(&[need(Action::DropDatabase, On::Database)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let name = invocation.generic.database;
    let subject = invocation.generic.subject.map(|subject| subject.value());
    if subject.and_then(|one| one.as_i64_exact()) != Some(1) {
        let message = "Have to pass 1 as 'drop' parameter";
        return Err(CommandError::new(ErrorCode(5_255_100), message));
    }
    if invocation.user.is_some() && name == "admin" {
        // Users and roles are there: without them the server would be open to the next client on its machine.
        let message = "Dropping the 'admin' database is prohibited.";
        return Err(CommandError::new(ErrorCode::ILLEGAL_OPERATION, message));
    }
    if invocation.server.replica_set.is_some() && name == "local" {
        let message = "Cannot drop 'local' database while replication is active";
        return Err(CommandError::new(ErrorCode::ILLEGAL_OPERATION, message));
    }
    let level = writes::level(invocation);
    if invocation
        .server
        .catalog()
        .drop_database(name, invocation.operation, level)?
    {
        reply.append("dropped", name);
    }
    Ok(())
}
