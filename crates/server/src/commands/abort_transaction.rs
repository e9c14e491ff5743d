//! `abortTransaction`: gives up all that a transaction has written.

use quarry_bson::DocumentBuilder;

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
        "abortTransaction",
        "gives a transaction up",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    match &mut invocation.checked_out {
        Some(session) => session.abort(),
        None => Ok(()),
    }
}
