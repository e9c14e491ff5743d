//! `connectionStatus`: who is logged in on this connection. Nobody is yet: there is no authentication.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command {
    fields: Fields::Named(&["showPrivileges"]),
    ..Command::new(
        "connectionStatus",
        "tells who is authenticated on this connection",
        Requires::Nothing,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let show_privileges = invocation.boolean("showPrivileges")?;
    let mut info = reply.document("authInfo");
    info.array("authenticatedUsers").finish();
    info.array("authenticatedUserRoles").finish();
    if show_privileges {
        info.array("authenticatedUserPrivileges").finish();
    }
    info.finish();
    Ok(())
}
