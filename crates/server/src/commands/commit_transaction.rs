//! `commitTransaction`: makes all that a transaction has written visible at once.

use quarry_bson::DocumentBuilder;

use crate::commands::writes;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, object};
use crate::dispatch::privilege::Requires;
use crate::dispatch::transaction_arguments::SessionUse;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[object("recoveryToken").ignored()]),
    is_admin_only: true,
    takes_write_concern: true,
    session_use: SessionUse::EndsTransaction,
    is_in_api_1: true,
    ..Command::new(
        "commitTransaction",
        "commits a transaction",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let level = writes::level(invocation);
    let (database, operation) = (&invocation.server.database, invocation.operation);
    match &mut invocation.checked_out {
        Some(session) => {
            session.check_api(invocation.generic.api)?;
            session.commit(database, operation, level)
        }
        None => Ok(()),
    }
}
