//! `replSetStepDown`: refused, because a set of one has nobody who could be the primary instead.

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;

use super::repl_set_get_status::set_of;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, flag, number};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        number("secondaryCatchUpPeriodSecs").ignored(),
        flag("force").ignored(),
    ]),
    is_admin_only: true,
    ..Command::new(
        "replSetStepDown",
        "makes another member the primary",
        Requires::Each(&[need(Action::ReplSetStateChange, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    set_of(invocation)?;
    Err(CommandError::new(
        ErrorCode::EXCEEDED_TIME_LIMIT,
        "No electable secondaries: the set has one member, which stays the primary",
    ))
}
