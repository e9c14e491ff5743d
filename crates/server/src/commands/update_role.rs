//! `updateRole`: changes the privileges or the roles of a role.

use quarry_bson::{Document, DocumentBuilder};

use super::create_role::{changed_role, check_inherited, granted_privileges};
use super::create_user::{granted_roles, name, restrictions};
use crate::access::name::Kind;
use crate::access::{privilege_document, roles, store};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, array};
use crate::dispatch::privilege::{Action, Requires, Resource};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        array("privileges"),
        array("roles"),
        array("authenticationRestrictions"),
    ]),
    takes_write_concern: true,
    ..Command::new("updateRole", "changes a role", Requires::Login, run)
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    // Who sets a role's contents takes others away, wherever they are.
    invocation.require(Action::RevokeRole, Resource::Database(""))?;
    let restrictions = restrictions(invocation)?;
    let given = |field| {
        invocation
            .argument(field)
            .filter(|argument| !argument.is_absent())
    };
    let name = name(invocation, Kind::Role)?;
    let privileges = given("privileges")
        .map(|listed| granted_privileges(invocation, &name, listed.array()?))
        .transpose()?;
    let inherited = given("roles")
        .map(|listed| granted_roles(invocation, listed.array()?))
        .transpose()?;
    let server = invocation.server;
    let _changes = invocation.lock_changes()?;
    let role = changed_role(invocation)?;
    let mut set = Document::new();
    if let Some(privileges) = privileges {
        set.append("privileges", privilege_document::array(&privileges));
    }
    if let Some(inherited) = inherited {
        check_inherited(&server.database, &role.name, &inherited)?;
        set.append("roles", roles::array(&inherited));
    }
    if let Some(restrictions) = restrictions {
        set.append("authenticationRestrictions", restrictions.array());
    }
    if set.is_empty() {
        return Err(CommandError::bad_value(
            "Must specify at least one field to update in updateRole",
        ));
    }
    let mut update = Document::new();
    update.append("$set", set);
    store::update(&server.database, Kind::Role, &role.name, update)?;
    server.access.note_change();
    Ok(())
}
