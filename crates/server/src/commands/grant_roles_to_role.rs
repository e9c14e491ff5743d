//! `grantRolesToRole`: gives roles to a role.

use quarry_bson::{DocumentBuilder, doc};

use super::create_role::{changed_role, check_inherited};
use super::create_user::granted_roles;
use crate::access::name::Kind;
use crate::access::{roles, store};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, array};
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[array("roles").required()]),
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
    let named = granted_roles(invocation, listed)?;
    let _changes = invocation.lock_changes()?;
    let role = changed_role(invocation)?;
    check_inherited(&server.database, &role.name, &named)?;
    let mut held = role.roles;
    for more in named {
        if !held.contains(&more) {
            held.push(more);
        }
    }
    roles::check_within(&server.database, &held)?;
    let update = doc! { "$set": { "roles": (roles::array(&held)) } };
    store::update(&server.database, Kind::Role, &role.name, update)?;
    server.access.note_change();
    Ok(())
}
