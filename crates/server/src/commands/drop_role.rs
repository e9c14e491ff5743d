//! `dropRole`: removes a role, and takes it from all who have it.

use quarry_bson::{DocumentBuilder, doc};

use super::create_role::changed_role;
use crate::access::name::Kind;
use crate::access::store;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    takes_write_concern: true,
    ..Command::new(
        "dropRole",
        "removes a role",
        Requires::Each(&[need(Action::DropRole, On::Database)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let server = invocation.server;
    let _changes = server.access.changes.lock();
    let role = changed_role(invocation)?;
    store::take_role_from_all(&server.database, &role.name)?;
    let filter = doc! { "_id": (role.name.id()) };
    store::delete(&server.database, Kind::Role, filter.as_raw())?;
    server.access.note_change();
    Ok(())
}
