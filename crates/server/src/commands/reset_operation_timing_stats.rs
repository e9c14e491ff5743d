//! `resetOperationTimingStats`: begins the window `sinceReset` anew for one kind of operation, or for all.

use quarry_bson::DocumentBuilder;

use super::get_op_timing::kind;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, text};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[text("op")]),
    is_admin_only: true,
    ..Command::new(
        "resetOperationTimingStats",
        "begins the figures of one kind of operation anew",
        Requires::Each(&[need(Action::SetParameter, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    quarry_timing::reset(kind(invocation)?);
    Ok(())
}
