//! `killSessions`: ends the operations and cursors of the sessions named; of all sessions when none is.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::server::Server;
use crate::sessions::session::SessionId;

pub static COMMAND: Command = Command::new(
    "killSessions",
    "ends what sessions are doing",
    Requires::Each(&[need(Action::KillAnySession, On::Cluster)]),
    run,
);

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let named = SessionId::parse_all(invocation.command.name, invocation.subject())?;
    kill(invocation.server, named, invocation.generic.session);
    Ok(())
}

/// Ends what the sessions (all of them, when none is named) are doing, but not `own`'s operation. The sessions go on: a write
/// that their clients send again must still be known.
pub fn kill(server: &Server, named: Vec<SessionId>, own: Option<SessionId>) {
    let (sessions, ended) = match named.is_empty() {
        true => (server.sessions.all(), None),
        false => (named.clone(), Some(named)),
    };
    server.sessions.end_transactions(ended.as_deref());
    for session in sessions {
        server.cursors.kill_session(session);
        if own != Some(session) {
            server.connections.kill_session(session);
        }
    }
}
