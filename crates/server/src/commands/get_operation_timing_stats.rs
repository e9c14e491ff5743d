//! `getOperationTimingStats`: one kind of operation over all windows.

use quarry_bson::DocumentBuilder;
use quarry_timing::Window;

use super::get_op_timing::{append, append_rate, kind};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, text};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[text("op")]),
    is_admin_only: true,
    ..Command::new(
        "getOperationTimingStats",
        "shows where the time of one kind of operation went",
        Requires::Each(&[need(Action::ServerStatus, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let Some(kind) = kind(invocation)? else {
        return Err(CommandError::missing_field(invocation.command.name, "op"));
    };
    reply.append("op", kind.name());
    reply.append("enabled", quarry_timing::is_enabled());
    let mut windows = reply.document("windows");
    for window in Window::ALL {
        let reports = quarry_timing::kinds(window);
        let Some(report) = reports.iter().find(|report| report.kind == kind) else {
            continue;
        };
        let mut shown = windows.document(window.name());
        append_rate(&mut shown, &report.times, report.seconds);
        append(&mut shown, &report.times, false);
        shown.finish();
    }
    windows.finish();
    Ok(())
}
