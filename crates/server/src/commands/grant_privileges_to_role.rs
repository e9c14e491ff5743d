//! `grantPrivilegesToRole`: adds privileges to a role.

use quarry_bson::{DocumentBuilder, doc};

use super::create_role::{changed_role, granted_privileges};
use crate::access::name::Kind;
use crate::access::user::merge;
use crate::access::{privilege_document, store};
use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command {
    fields: Fields::Named(&["privileges"]),
    takes_write_concern: true,
    ..Command::new(
        "grantPrivilegesToRole",
        "adds privileges to a role",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let listed = invocation.required("privileges")?.array()?;
    let server = invocation.server;
    let _changes = server.access.changes.lock();
    let role = changed_role(invocation)?;
    let more = granted_privileges(invocation, &role.name, listed)?;
    let mut held = role.privileges;
    merge(&mut held, more);
    let update = doc! { "$set": { "privileges": (privilege_document::array(&held)) } };
    store::update(&server.database, Kind::Role, &role.name, update)?;
    server.access.note_change();
    Ok(())
}
