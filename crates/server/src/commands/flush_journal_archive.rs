//! `flushJournalArchive`: brings the archive of the journal up to everything that was acknowledged before. killOp and maxTimeMS end it;
//! what was copied by then stays.

use quarry_bson::{DocumentBuilder, Timestamp};
use quarry_query::ErrorCode;

use crate::backup::journal_archive::RoundError;
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
    let operation = invocation.operation;
    let archived = match archive.flush(&server.database, &|| operation.check().is_err()) {
        Ok(archived) => archived,
        Err(RoundError::GivenUp) => {
            operation.check()?;
            return Err(quarry_database::Error::Interrupted.into());
        }
        Err(RoundError::Failed(why)) => {
            return Err(CommandError::new(
                ErrorCode::OPERATION_FAILED,
                format!("the journal is not archived: {why}"),
            ));
        }
    };
    reply.append("lsn", i64::try_from(archived.lsn).unwrap_or(i64::MAX));
    reply.append("archivedTime", Timestamp::from_u64(time));
    Ok(())
}
