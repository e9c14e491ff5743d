//! `grantPrivilegesToRole`: adds privileges to a role.

use quarry_bson::{DocumentBuilder, doc};

use super::create_role::{changed_role, granted_privileges};
use super::create_user::name;
use crate::access::name::Kind;
use crate::access::user::merge;
use crate::access::{privilege_document, store};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, array};
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[array("privileges").required()]),
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
    let more = granted_privileges(invocation, &name(invocation, Kind::Role)?, listed)?;
    let _changes = invocation.lock_changes()?;
    let role = changed_role(invocation)?;
    let mut held = role.privileges;
    merge(&mut held, more);
    privilege_document::check_count(held.len())?;
    let update = doc! { "$set": { "privileges": (privilege_document::array(&held)) } };
    store::update(&server.database, Kind::Role, &role.name, update)?;
    server.access.note_change();
    Ok(())
}
