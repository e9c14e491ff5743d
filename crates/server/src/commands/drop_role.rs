//! `dropRole`: removes a role, and takes it from all who have it.

use quarry_bson::{DocumentBuilder, doc};

use super::create_role::built_in;
use super::create_user::name;
use crate::access::name::Kind;
use crate::access::{built_in_roles, roles, store};
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
    let name = name(invocation, Kind::Role)?;
    if built_in_roles::is_built_in(&name) {
        return Err(built_in(&name));
    }
    let _changes = invocation.lock_changes()?;
    // The name is enough: a role whose document cannot be read must be possible to drop.
    if store::get(&server.database, Kind::Role, &name)?.is_none() {
        return Err(roles::not_found(&name));
    }
    store::take_role_from_all(&server.database, &name)?;
    let filter = doc! { "_id": (name.id()) };
    store::delete(&server.database, Kind::Role, filter.as_raw())?;
    server.access.note_change();
    Ok(())
}
