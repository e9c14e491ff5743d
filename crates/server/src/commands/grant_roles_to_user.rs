//! `grantRolesToUser`: gives roles to a user.

use quarry_bson::{DocumentBuilder, doc};

use super::create_user::{granted_roles, name};
use super::update_user::not_found;
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
        "grantRolesToUser",
        "gives roles to a user",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let name = name(invocation, Kind::User)?;
    let listed = invocation.required("roles")?.array()?;
    let server = invocation.server;
    let named = granted_roles(invocation, listed)?;
    let _changes = invocation.lock_changes()?;
    roles::check_exist(&server.database, &named)?;
    let user = store::get(&server.database, Kind::User, &name)?.ok_or_else(|| not_found(&name))?;
    let mut held = roles::stored_names(user.get_array("roles"), &name.database)?;
    for role in named {
        if !held.contains(&role) {
            held.push(role);
        }
    }
    // One that was dropped is there no more; it is kept and grants nothing.
    roles::check_within(&server.database, &held)?;
    let update = doc! { "$set": { "roles": (roles::array(&held)) } };
    store::update(&server.database, Kind::User, &name, update)?;
    server.access.note_change();
    Ok(())
}
