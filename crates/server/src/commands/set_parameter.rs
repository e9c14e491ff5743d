//! `setParameter`: changes one server parameter while the server runs.

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::Fields;
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::observe::log;

/// Fields that any command carries and that name no parameter.
const GENERIC: [&str; 8] = [
    "$db",
    "lsid",
    "comment",
    "maxTimeMS",
    "$clusterTime",
    "$readPreference",
    "apiVersion",
    "apiStrict",
];

pub static COMMAND: Command = Command {
    aliases: &["setparameter"],
    fields: Fields::ANY,
    is_admin_only: true,
    ..Command::new(
        "setParameter",
        "changes a server parameter",
        Requires::Each(&[need(Action::SetParameter, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let mut changed = false;
    for element in invocation.body.iter().skip(1) {
        let name = element.name().to_string_lossy();
        if !GENERIC.contains(&&*name) {
            let parameters = &invocation.server.parameters;
            parameters.change(&name, element.value(), reply)?;
            let value = element.value().to_string();
            log::info(
                "control",
                "Successfully set parameter to new value",
                &[
                    ("parameterName", (&*name).into()),
                    ("newValue", value.into()),
                ],
            );
            changed = true;
        }
    }
    if changed {
        invocation.server.follow_parameters();
        return Ok(());
    }
    Err(CommandError::new(
        ErrorCode::INVALID_OPTIONS,
        "no option found to set, use help:true to see options ",
    ))
}
