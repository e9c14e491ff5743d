//! `revokeRolesFromUser`: takes roles from a user.

use quarry_bson::{DocumentBuilder, doc};
use rustc_hash::FxHashSet;

use super::create_user::name;
use super::update_user::not_found;
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
        "revokeRolesFromUser",
        "takes roles from a user",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let name = name(invocation, Kind::User)?;
    let listed = invocation.required("roles")?.array()?;
    let server = invocation.server;
    let named = roles::stored_names(Some(listed), &name.database)?;
    for role in &named {
        invocation.require(Action::RevokeRole, Resource::Database(&role.database))?;
    }
    let named: FxHashSet<Name> = named.into_iter().collect();
    let _changes = invocation.lock_changes()?;
    let user = store::get(&server.database, Kind::User, &name)?.ok_or_else(|| not_found(&name))?;
    let mut held = roles::stored_names(user.get_array("roles"), &name.database)?;
    held.retain(|role| !named.contains(role));
    let update = doc! { "$set": { "roles": (roles::array(&held)) } };
    store::update(&server.database, Kind::User, &name, update)?;
    server.access.note_change();
    Ok(())
}
