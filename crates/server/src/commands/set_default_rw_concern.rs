//! `setDefaultRWConcern`: the read and write concern of commands that name none, from now on and after a restart.

use quarry_bson::{DocumentBuilder, Timestamp};
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, object};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::replication::default_concerns::DefaultConcerns;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[object("defaultReadConcern"), object("defaultWriteConcern")]),
    is_admin_only: true,
    takes_write_concern: true,
    ..Command::new(
        "setDefaultRWConcern",
        "sets the read and write concern of commands that name none",
        Requires::Each(&[need(Action::SetDefaultRwConcern, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let defaults = defaults_of(invocation)?;
    let read = invocation.document("defaultReadConcern")?;
    let write = invocation.document("defaultWriteConcern")?;
    if read.is_none() && write.is_none() {
        let message = "At least one of the \"defaultReadConcern\" or \"defaultWriteConcern\" fields must be present";
        return Err(CommandError::bad_value(message));
    }
    let database = &invocation.server.database;
    let time = Timestamp::from_u64(database.cluster_time());
    defaults.change(database, read, write, time)?;
    defaults.append(reply);
    Ok(())
}

/// The defaults of the set; a standalone has none.
pub fn defaults_of(invocation: &Invocation<'_>) -> Result<&'static DefaultConcerns> {
    let set = invocation.server.replica_set.as_ref();
    set.map(|set| &set.default_concerns).ok_or_else(|| {
        let message = format!(
            "'{}' is not supported on standalone nodes.",
            invocation.command.name
        );
        CommandError::new(ErrorCode(51_300), message)
    })
}
