//! The views of what the server knows by itself, to which nobody writes: a set's log, which is the journal, and the sessions.

use quarry_database::Namespace;
use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};
use crate::replication::oplog_view;

/// The database and the collection that show the sessions which are open.
pub const SESSIONS: (&str, &str) = ("config", "system.sessions");

/// The database and the collection that hold the configuration of a set.
const CONFIGURATION: (&str, &str) = ("local", "system.replset");

/// Refuses to drop a view or the configuration of the set, or to rename it or another collection over it.
pub fn refuse_removal(is_set: bool, namespace: &Namespace) -> Result<()> {
    let (database, collection) = (namespace.database(), namespace.collection());
    refuse_write(is_set, database, collection)?;
    if is_set && (database, collection) == CONFIGURATION {
        let message =
            format!("cannot drop or rename {namespace}: it is the configuration of the set");
        return Err(CommandError::new(ErrorCode::ILLEGAL_OPERATION, message));
    }
    Ok(())
}

/// Refuses to write to a view. Only a set shows its log.
pub fn refuse_write(is_set: bool, database: &str, collection: &str) -> Result<()> {
    let what = if (database, collection) == SESSIONS {
        "the sessions"
    } else if is_set && oplog_view::is_view(database, collection) {
        "the journal"
    } else {
        return Ok(());
    };
    let message = format!("cannot write to {database}.{collection}: it is a view of {what}");
    Err(CommandError::new(ErrorCode::ILLEGAL_OPERATION, message))
}
