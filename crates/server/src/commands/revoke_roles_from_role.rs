//! `revokeRolesFromRole`: takes roles from a role.

use quarry_bson::{DocumentBuilder, doc};
use rustc_hash::FxHashSet;

use super::create_role::changed_role;
use crate::access::name::{Kind, Name};
use crate::access::{roles, store};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, array};
use crate::dispatch::privilege::{Action, Requires, Resource};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[array("roles").required()]),
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
    let named = roles::stored_names(Some(listed), invocation.generic.database)?;
    for name in &named {
        invocation.require(Action::RevokeRole, Resource::Database(&name.database))?;
    }
    let named: FxHashSet<Name> = named.into_iter().collect();
    let _changes = invocation.lock_changes()?;
    let role = changed_role(invocation)?;
    let mut held = role.roles;
    held.retain(|name| !named.contains(name));
    let update = doc! { "$set": { "roles": (roles::array(&held)) } };
    store::update(&server.database, Kind::Role, &role.name, update)?;
    server.access.note_change();
    Ok(())
}
