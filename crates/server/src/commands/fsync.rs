//! `fsync`: makes everything written so far durable. With `lock: true` it also locks the files for somebody who copies them: writes
//! wait until `fsyncUnlock` has given up each lock that was taken, whoever took it. A lock that cannot be had within
//! `fsyncLockAcquisitionTimeoutMillis` fails with LockTimeout, and leaves nothing locked.

use std::time::{Duration, Instant};

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, flag, number};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::observe::log;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        flag("lock"),
        flag("async").ignored(),
        number("fsyncLockAcquisitionTimeoutMillis"),
    ]),
    is_admin_only: true,
    ..Command::new(
        "fsync",
        "makes all writes durable, and locks them out if asked to",
        Requires::Each(&[need(Action::Fsync, On::Cluster)]),
        run,
    )
};

/// MongoDB's default of `fsyncLockAcquisitionTimeoutMillis`.
const LOCK_TIME_MS: u64 = 90_000;
/// Where MongoDB's tools send people to read about the lock.
const SEE_ALSO: &str = "http://dochub.mongodb.org/core/fsynccommand";

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let server = invocation.server;
    if !server.config.can_promise_durability() {
        return Err(CommandError::bad_value(
            "fsync promises nothing under --mdbx-sync utterly-no-sync",
        ));
    }
    if !invocation.boolean("lock")? {
        // While files are locked everything is durable already, so that this waits for nobody.
        server.catalog().sync()?;
        reply.append("numFiles", 1);
        return Ok(());
    }
    let timeout_ms = match invocation.argument("fsyncLockAcquisitionTimeoutMillis") {
        Some(argument) => argument.count()?,
        None => LOCK_TIME_MS,
    };
    // One that is too far away is none.
    let deadline = Instant::now().checked_add(Duration::from_millis(timeout_ms));
    let is_connected = |connection| server.connections.is_open(connection);
    let backups = &server.backups;
    let locks = backups.lock_files(&server.database, &is_connected, deadline)?;
    log::warning(
        "storage",
        "locked by fsync: writes wait for fsyncUnlock",
        &[("lockCount", locks.into())],
    );
    reply.append(
        "info",
        "now locked against writes, use db.fsyncUnlock() to unlock",
    );
    reply.append("lockCount", i64::try_from(locks).unwrap_or(i64::MAX));
    reply.append("seeAlso", SEE_ALSO);
    Ok(())
}
