//! `refreshSessions`: notes that sessions are still wanted.

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
        invocation.server.sessions.touch(session)?;
    }
    Ok(())
}
