//! `killAllSessions`: as killSessions, over all sessions, or those of the users named. Without access control no user has any.

use std::collections::HashSet;

use quarry_bson::{DocumentBuilder, RawValue};

use crate::commands::kill_sessions::kill;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::sessions::owner::SessionOwner;

pub static COMMAND: Command = Command::new(
    "killAllSessions",
    "ends what all sessions are doing",
    Requires::Each(&[need(Action::KillAnySession, On::Cluster)]),
    run,
);

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let Some(RawValue::Array(users)) = invocation.subject() else {
        return Err(CommandError::type_mismatch(
            "BSON field 'killAllSessions.killAllSessions' is not an array",
        ));
    };
    let users = users
        .iter()
        .map(SessionOwner::parse_user)
        .collect::<Result<HashSet<_>>>()?;
    let server = invocation.server;
    let named = server.sessions.of(&users);
    if users.is_empty() || !named.is_empty() {
        kill(server, named, invocation.generic.session);
    }
    Ok(())
}
