//! `killCursors`: ends cursors of one collection.

use quarry_bson::{DocumentBuilder, RawValue};

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, array};
use crate::dispatch::privilege::{Action, Requires, Resource};
use crate::dispatch::transaction_arguments::SessionUse;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[array("cursors").required()]),
    is_in_api_1: true,
    session_use: SessionUse::InTransactions,
    ..Command::new("killCursors", "ends cursors", Requires::Login, run)
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = format!(
        "{}.{}",
        invocation.generic.database,
        invocation.collection()?
    );
    let Some(RawValue::Array(listed)) = invocation.get("cursors") else {
        return Err(CommandError::missing_field("killCursors", "cursors"));
    };
    let mut ids = Vec::new();
    for value in listed {
        let RawValue::Int64(id) = value else {
            return Err(CommandError::field_type(
                "killCursors",
                "cursors",
                value.element_type().alias(),
                "long",
            ));
        };
        ids.push(id);
    }
    let resource = Resource::Collection(invocation.generic.database, invocation.collection()?);
    if !invocation.may(Action::KillCursors, resource)
        && !invocation.may(Action::KillAnyCursor, Resource::Cluster)
        && let Some(user) = invocation.user
    {
        // Everybody may end its own. Of one that is not there nobody learns that it is not.
        let cursors = &invocation.server.cursors;
        if !ids.iter().all(|id| cursors.is_owned(*id, user)) {
            invocation.require(Action::KillCursors, resource)?;
        }
    }
    let (mut killed, mut not_found) = (Vec::new(), Vec::new());
    for id in ids {
        let was_there = invocation.server.cursors.kill(id, &namespace)?;
        if was_there {
            killed.push(id);
        } else {
            not_found.push(id);
        }
    }
    for (name, ids) in [("cursorsKilled", killed), ("cursorsNotFound", not_found)] {
        let mut list = reply.array(name);
        for id in ids {
            list.push(id);
        }
        list.finish();
    }
    reply.array("cursorsAlive").finish();
    reply.array("cursorsUnknown").finish();
    Ok(())
}
