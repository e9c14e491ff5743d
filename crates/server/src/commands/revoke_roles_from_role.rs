//! `revokeRolesFromRole`: takes roles from a role.

use quarry_bson::{DocumentBuilder, doc};

use super::create_role::changed_role;
use crate::access::name::Kind;
use crate::access::{roles, store};
use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, Requires, Resource};

pub static COMMAND: Command = Command {
    fields: Fields::Named(&["roles"]),
    takes_write_concern: true,
    ..Command::new(
        "revokeRolesFromRole",
        "takes roles from a role",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let listed = invocation.required("roles")?.array()?;
    let server = invocation.server;
    let _changes = server.access.changes.lock();
    let role = changed_role(invocation)?;
    let named = roles::stored_names(Some(listed), &role.name.database)?;
    for name in &named {
        invocation.require(Action::RevokeRole, Resource::Database(&name.database))?;
    }
    let mut held = role.roles;
    held.retain(|name| !named.contains(name));
    let update = doc! { "$set": { "roles": (roles::array(&held)) } };
    store::update(&server.database, Kind::Role, &role.name, update)?;
    server.access.note_change();
    Ok(())
}
