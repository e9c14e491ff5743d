//! `grantRolesToRole`: gives roles to a role.

use quarry_bson::{DocumentBuilder, doc};

use super::create_role::{changed_role, inherited_roles};
use crate::access::name::Kind;
use crate::access::{roles, store};
use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command {
    fields: Fields::Named(&["roles"]),
    takes_write_concern: true,
    ..Command::new(
        "grantRolesToRole",
        "gives roles to a role",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let listed = invocation.required("roles")?.array()?;
    let server = invocation.server;
    let _changes = server.access.changes.lock();
    let role = changed_role(invocation)?;
    let mut held = role.roles;
    for more in inherited_roles(invocation, &role.name, listed)? {
        if !held.contains(&more) {
            held.push(more);
        }
    }
    let update = doc! { "$set": { "roles": (roles::array(&held)) } };
    store::update(&server.database, Kind::Role, &role.name, update)?;
    server.access.note_change();
    Ok(())
}
