//! `revokePrivilegesFromRole`: takes privileges from a role.

use quarry_bson::{DocumentBuilder, doc};

use super::create_role::changed_role;
use crate::access::name::Kind;
use crate::access::resource::Pattern;
use crate::access::{privilege_document, store};
use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, Requires, Resource};

pub static COMMAND: Command = Command {
    fields: Fields::Named(&["privileges"]),
    takes_write_concern: true,
    ..Command::new(
        "revokePrivilegesFromRole",
        "takes privileges from a role",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let listed = invocation.required("privileges")?.array()?;
    let server = invocation.server;
    let _changes = server.access.changes.lock();
    let role = changed_role(invocation)?;
    let mut held = role.privileges;
    for privilege in privilege_document::parse_all(listed)? {
        let database = match &privilege.pattern {
            Pattern::Namespace { database, .. } if !database.is_empty() => database.as_str(),
            _ => "admin",
        };
        invocation.require(Action::RevokeRole, Resource::Database(database))?;
        for held in &mut held {
            if held.pattern == privilege.pattern {
                held.actions = held.actions.without(privilege.actions);
            }
        }
    }
    held.retain(|privilege| !privilege.actions.is_empty());
    let update = doc! { "$set": { "privileges": (privilege_document::array(&held)) } };
    store::update(&server.database, Kind::Role, &role.name, update)?;
    server.access.note_change();
    Ok(())
}
