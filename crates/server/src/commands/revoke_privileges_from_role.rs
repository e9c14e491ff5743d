//! `revokePrivilegesFromRole`: takes privileges from a role.

use quarry_bson::{DocumentBuilder, doc};
use rustc_hash::FxHashMap;

use super::create_role::changed_role;
use crate::access::action::ActionSet;
use crate::access::name::Kind;
use crate::access::resource::Pattern;
use crate::access::{privilege_document, store};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, array};
use crate::dispatch::privilege::{Action, Requires, Resource};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[array("privileges").required()]),
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
    let named = privilege_document::parse_all(listed)?;
    for privilege in &named {
        let database = match &privilege.pattern {
            Pattern::Namespace { database, .. } if !database.is_empty() => database.as_str(),
            _ => "admin",
        };
        invocation.require(Action::RevokeRole, Resource::Database(database))?;
    }
    let mut revoked = FxHashMap::default();
    for privilege in named {
        let actions: &mut ActionSet = revoked.entry(privilege.pattern).or_default();
        *actions = actions.and(privilege.actions);
    }
    let _changes = invocation.lock_changes()?;
    let role = changed_role(invocation)?;
    let mut held = role.privileges;
    for held in &mut held {
        if let Some(actions) = revoked.get(&held.pattern) {
            held.actions = held.actions.without(*actions);
        }
    }
    held.retain(|privilege| !privilege.actions.is_empty());
    let update = doc! { "$set": { "privileges": (privilege_document::array(&held)) } };
    store::update(&server.database, Kind::Role, &role.name, update)?;
    server.access.note_change();
    Ok(())
}
