//! `startSession`: begins a session and names it.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::Requires;
use crate::sessions::session::SessionId;

pub static COMMAND: Command = Command::new(
    "startSession",
    "begins a logical session",
    Requires::Login,
    run,
);

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let session = SessionId::generate();
    let owner = invocation.session_owner();
    invocation.server.sessions.touch(session, owner)?;
    session.append("id", reply);
    let minutes = invocation.server.parameters.session_timeout_minutes;
    reply.append("timeoutMinutes", minutes);
    Ok(())
}
