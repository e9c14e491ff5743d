//! `invalidateUserCache`: every connection reads its user again before its next command.

use crate::dispatch::command::Command;
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command::new(
    "invalidateUserCache",
    "reads users and roles again",
    Requires::Each(&[need(Action::InvalidateUserCache, On::Cluster)]),
    |invocation, _| {
        invocation.server.access.note_change();
        Ok(())
    },
);
