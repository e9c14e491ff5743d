//! `setClusterParameter`: sets a parameter of the whole set, durably.

use quarry_bson::{DocumentBuilder, RawValue, Timestamp};
use quarry_query::ErrorCode;

use crate::commands::get_cluster_parameter::unknown;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::replication::pre_image_expiry;

pub static COMMAND: Command = Command {
    is_admin_only: true,
    takes_write_concern: true,
    ..Command::new(
        "setClusterParameter",
        "sets a parameter of the whole set",
        Requires::Each(&[need(Action::SetClusterParameter, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, _: &mut DocumentBuilder<'_>) -> Result<()> {
    let Some(RawValue::Document(parameters)) = invocation.subject() else {
        return Err(CommandError::type_mismatch(
            "BSON field 'setClusterParameter.setClusterParameter' is not an object",
        ));
    };
    let (Some(parameter), 1) = (parameters.first(), parameters.len()) else {
        let message = "setClusterParameter only supports setting exactly one parameter";
        return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
    };
    let name = parameter.name().to_string_lossy();
    if name != pre_image_expiry::NAME {
        return Err(unknown(&name));
    }
    let RawValue::Document(value) = parameter.value() else {
        let message = format!(
            "Cluster parameter value must be an object, found {}",
            parameter.value()
        );
        return Err(CommandError::type_mismatch(message));
    };
    let database = &invocation.server.database;
    let time = Timestamp::from_u64(database.cluster_time());
    pre_image_expiry::set(database, value, time)
}
