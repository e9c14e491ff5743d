//! `getParameter`: one, some or all (`"*"`) of the server parameters.

use quarry_bson::{DocumentBuilder, RawValue};
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::Fields;
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    aliases: &["getparameter"],
    fields: Fields::ANY,
    is_admin_only: true,
    ..Command::new(
        "getParameter",
        "shows server parameters",
        Requires::Each(&[need(Action::GetParameter, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let parameters = &invocation.server.parameters;
    let wants_all = match invocation.subject() {
        Some(RawValue::String(star)) => star == "*",
        Some(RawValue::Document(options)) => options.get_bool("allParameters") == Some(true),
        _ => false,
    };
    if wants_all {
        parameters.append_all(reply);
        return Ok(());
    }
    let mut found = false;
    for element in invocation.body.iter().skip(1) {
        found |= parameters.append(&element.name().to_string_lossy(), reply);
    }
    if found {
        return Ok(());
    }
    Err(CommandError::new(
        ErrorCode::INVALID_OPTIONS,
        "no option found to get",
    ))
}
