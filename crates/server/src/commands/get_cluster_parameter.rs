//! `getClusterParameter`: the parameters of the whole set. There is one, `changeStreamOptions`.

use quarry_bson::{DocumentBuilder, RawValue};
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::replication::pre_image_expiry;

pub static COMMAND: Command = Command {
    is_admin_only: true,
    ..Command::new(
        "getClusterParameter",
        "shows parameters of the whole set",
        Requires::Each(&[need(Action::GetClusterParameter, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let mut names = Vec::new();
    match invocation.subject() {
        Some(RawValue::String(name)) => names.push(name.as_str()?),
        Some(RawValue::Array(several)) => {
            names.extend(several.iter().filter_map(|name| name.as_str()));
        }
        _ => {
            return Err(CommandError::type_mismatch(
                "BSON field 'getClusterParameter.getClusterParameter' is neither a string nor an array",
            ));
        }
    }
    if names.is_empty() {
        return Err(CommandError::bad_value(
            "Must supply at least one cluster server parameter name",
        ));
    }
    let mut shown = reply.array("clusterParameters");
    for name in names {
        if name != "*" && name != pre_image_expiry::NAME {
            return Err(unknown(name));
        }
        shown.push(&pre_image_expiry::read(&invocation.server.database)?);
    }
    shown.finish();
    Ok(())
}

/// The error of a parameter that there is not.
pub fn unknown(name: &str) -> CommandError {
    let message = format!("Unknown server parameter: {name}");
    CommandError::new(ErrorCode::NO_SUCH_KEY, message)
}
