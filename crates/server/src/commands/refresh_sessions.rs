//! `refreshSessions`: notes that sessions are still wanted.

use quarry_bson::DocumentBuilder;

use crate::command::{Command, Invocation};
use crate::error::Result;
use crate::sessions::SessionId;

pub static COMMAND: Command = Command {
    is_in_api_1: true,
    ..Command::new("refreshSessions", "keeps logical sessions alive", run)
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    for session in SessionId::parse_all(invocation.command.name, invocation.subject())? {
        invocation.server.sessions.touch(session)?;
    }
    Ok(())
}
