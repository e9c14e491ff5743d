//! `refreshSessions`: notes that sessions are still wanted. Those of another user are not the client's to keep.

use quarry_bson::DocumentBuilder;

use crate::commands::named_sessions::named_sessions;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::Requires;

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
    for session in named_sessions(invocation, false)? {
        let user = invocation.session_owner();
        invocation.server.sessions.touch(session, user)?;
    }
    Ok(())
}
