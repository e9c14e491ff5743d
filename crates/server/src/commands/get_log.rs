//! `getLog`: the last lines of the log, or the warnings of the start.

use quarry_bson::{DocumentBuilder, RawValue};
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::observe::log;

pub static COMMAND: Command = Command {
    is_admin_only: true,
    ..Command::new(
        "getLog",
        "shows the last lines of the log",
        Requires::Each(&[need(Action::GetLog, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let Some(RawValue::String(name)) = invocation.subject() else {
        return Err(CommandError::type_mismatch(
            "Argument to getLog must be of type String",
        ));
    };
    if name == "*" {
        let mut names = reply.array("names");
        names.push("global").push("startupWarnings");
        names.finish();
        return Ok(());
    }
    let (total, lines) = match name.as_str()? {
        "global" => log::recent(),
        "startupWarnings" => {
            let lines = log::startup_warnings();
            (lines.len() as u64, lines)
        }
        other => {
            return Err(CommandError::new(
                ErrorCode::OPERATION_FAILED,
                format!("No log named '{other}'"),
            ));
        }
    };
    reply.append(
        "totalLinesWritten",
        i32::try_from(total).unwrap_or(i32::MAX),
    );
    let mut shown = reply.array("log");
    for line in &lines {
        shown.push(line.as_str());
    }
    shown.finish();
    Ok(())
}
