//! `resetOpTiming`: begins the window `sinceReset` anew for everything. The figures since the start stay.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    is_admin_only: true,
    ..Command::new(
        "resetOpTiming",
        "begins the figures of operations anew",
        Requires::Each(&[need(Action::SetParameter, On::Cluster)]),
        run,
    )
};

fn run(_: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    quarry_timing::reset(None);
    Ok(())
}
