//! `killAllSessions`: as killSessions, over all sessions. Sessions are not bound to users yet, so a user that is
//! named has no sessions.

use quarry_bson::{DocumentBuilder, RawValue};

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};

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
    if users.is_empty() {
        super::kill_sessions::kill(invocation.server, Vec::new(), invocation.generic.session);
    }
    Ok(())
}
