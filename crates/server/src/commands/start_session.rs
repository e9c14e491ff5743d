//! `startSession`: begins a session and names it.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::Requires;
use crate::sessions::session::{SESSION_TIMEOUT_MINUTES, SessionId};

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
    reply.append("timeoutMinutes", SESSION_TIMEOUT_MINUTES);
    Ok(())
}
