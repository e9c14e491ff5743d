//! `dropUser`: removes a user; its connections are nobody's from their next command on.

use quarry_bson::{DocumentBuilder, doc};
use quarry_query::ErrorCode;

use super::create_user::name;
use crate::access::name::Kind;
use crate::access::store;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    takes_write_concern: true,
    ..Command::new(
        "dropUser",
        "removes a user",
        Requires::Each(&[need(Action::DropUser, On::Database)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let name = name(invocation, Kind::User)?;
    let server = invocation.server;
    let _changes = invocation.lock_changes()?;
    let filter = doc! { "_id": (name.id()) };
    let removed = store::delete(&server.database, Kind::User, filter.as_raw())?;
    server.access.note_change();
    if removed == 0 {
        let message = format!("User '{name}' not found");
        return Err(CommandError::new(ErrorCode::USER_NOT_FOUND, message));
    }
    Ok(())
}
