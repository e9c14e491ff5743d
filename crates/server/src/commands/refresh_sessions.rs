//! `refreshSessions`: notes that sessions are still wanted. Those of another user are not the client's to keep.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::Requires;
use crate::sessions::session::SessionId;

pub static COMMAND: Command = Command {
    is_in_api_1: true,
    ..Command::new(
        "refreshSessions",
        "keeps logical sessions alive",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    for session in SessionId::parse_all(invocation.command.name, invocation.subject())? {
        let (sessions, user) = (&invocation.server.sessions, invocation.session_owner());
        if !sessions.is_of_another(session, user) {
            sessions.touch(session, user)?;
        }
    }
    Ok(())
}
