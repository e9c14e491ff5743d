//! `flushJournalArchive`: brings the archive of the journal up to everything that was acknowledged before.

use quarry_bson::{DocumentBuilder, Timestamp};
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    is_admin_only: true,
    ..Command::new(
        "flushJournalArchive",
        "brings the archive of the journal up to date",
        Requires::Each(&[need(Action::Fsync, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let server = invocation.server;
    let Some(archive) = &server.journal_archive else {
        return Err(CommandError::new(
            ErrorCode::ILLEGAL_OPERATION,
            "the server keeps no archive of its journal: give --journalArchive",
        ));
    };
    let time = server.database.cluster_time();
    let archived = archive.flush(&server.database);
    let archived = archived.map_err(|why| {
        CommandError::new(
            ErrorCode::OPERATION_FAILED,
            format!("the journal is not archived: {why}"),
        )
    })?;
    reply.append("lsn", i64::try_from(archived.lsn).unwrap_or(i64::MAX));
    reply.append("archivedTime", Timestamp::from_u64(time));
    Ok(())
}
