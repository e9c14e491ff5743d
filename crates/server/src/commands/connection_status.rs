//! `connectionStatus`: who is logged in on this connection, and what that user may do.

use quarry_bson::{Document, DocumentBuilder, Value};

use crate::access::control;
use crate::access::name::Kind;
use crate::access::user::User;
use crate::access::{privilege_document, roles};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, flag};
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[flag("showPrivileges")]),
    ..Command::new(
        "connectionStatus",
        "tells who is authenticated on this connection",
        Requires::Nothing,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let show_privileges = invocation.boolean("showPrivileges")?;
    let name = invocation.connection.login.lock().name().cloned();
    // Read anew: without access control nothing else keeps what the connection remembers up to date.
    let user = match name {
        Some(name) => control::load(&invocation.server.database, &name)?,
        None => None,
    };
    let user = user.unwrap_or_else(User::nobody);
    let users: Vec<Document> = user
        .name
        .iter()
        .map(|name| name.document(Kind::User))
        .collect();
    let mut info = Document::new();
    info.append("authenticatedUsers", Value::from(users));
    info.append(
        "authenticatedUserRoles",
        roles::array(&user.inherited_roles),
    );
    if show_privileges {
        info.append(
            "authenticatedUserPrivileges",
            privilege_document::array(&user.privileges),
        );
    }
    reply.append("authInfo", &info);
    Ok(())
}
