//! `killSessions`: ends the operations, transactions and cursors of the sessions named; of all sessions when none is. A user who may
//! not end the sessions of others ends its own alone.

use quarry_bson::{DocumentBuilder, RawValue};

use crate::commands::named_sessions::named_sessions;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, Requires, Resource};
use crate::server::Server;
use crate::sessions::session::SessionId;

pub static COMMAND: Command = Command::new(
    "killSessions",
    "ends what sessions are doing",
    Requires::Login,
    run,
);

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let may_name_any = invocation.may(Action::KillAnySession, Resource::Cluster);
    let mut named = named_sessions(invocation, may_name_any)?;
    let means_all = matches!(invocation.subject(), Some(RawValue::Array(all)) if all.is_empty());
    if means_all && !may_name_any {
        let own = invocation.session_owner().copied();
        named = invocation.server.sessions.of(&own.into_iter().collect());
    }
    // To `kill` no name means every session.
    if !named.is_empty() || (means_all && may_name_any) {
        kill(invocation.server, named, invocation.generic.session);
    }
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
