//! `endSessions`: ends sessions and the cursors that they hold. Those of another user are not the client's to end.

use quarry_bson::DocumentBuilder;

use crate::commands::named_sessions::named_sessions;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command {
    is_in_api_1: true,
    ..Command::new("endSessions", "ends logical sessions", Requires::Login, run)
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    for session in named_sessions(invocation, false)? {
        invocation.server.sessions.remove(session);
        invocation.server.cursors.kill_session(session);
    }
    Ok(())
}
