//! `replSetInitiate`: refused, because a set of one has initiated itself when its server started.

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;

use super::repl_set_get_status::set_of;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    is_admin_only: true,
    ..Command::new(
        "replSetInitiate",
        "initiates a replica set",
        Requires::Each(&[need(Action::ReplSetConfigure, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    set_of(invocation)?;
    Err(CommandError::new(
        ErrorCode::ALREADY_INITIALIZED,
        "already initialized",
    ))
}
