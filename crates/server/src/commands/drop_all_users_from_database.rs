//! `dropAllUsersFromDatabase`: removes the users of a database.

use quarry_bson::{DocumentBuilder, doc};

use crate::access::name::Kind;
use crate::access::store;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    takes_write_concern: true,
    ..Command::new(
        "dropAllUsersFromDatabase",
        "removes the users of a database",
        Requires::Each(&[need(Action::DropUser, On::Database)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let server = invocation.server;
    let _changes = invocation.lock_changes()?;
    let filter = doc! { "db": (invocation.generic.database) };
    let removed = store::delete(&server.database, Kind::User, filter.as_raw())?;
    server.access.note_change();
    reply.append("n", i32::try_from(removed).unwrap_or(i32::MAX));
    Ok(())
}
