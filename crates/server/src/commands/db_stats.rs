//! `dbStats`: the sizes of a database, summed over its collections, and of the file system that it stands on.

use std::path::Path;

use quarry_bson::DocumentBuilder;

use super::coll_stats::scale;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, any};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    aliases: &["dbstats"],
    fields: Fields::named(&[any("scale"), any("freeStorage").ignored()]),
    ..Command::new(
        "dbStats",
        "shows the size of a database",
        Requires::Each(&[need(Action::DbStats, On::Database)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let scale = scale(invocation.get("scale"))?;
    let name = invocation.generic.database;
    let stats = invocation
        .server
        .catalog()
        .db_stats(name, invocation.operation)?;
    // Doubles, as MongoDB scales them.
    let scaled = |bytes: u64| bytes as f64 / scale as f64;
    reply.append("db", name);
    reply.append("collections", signed(stats.collections));
    reply.append("views", signed(stats.views));
    reply.append("objects", signed(stats.documents));
    let average = if stats.documents == 0 {
        0.0
    } else {
        stats.data_bytes as f64 / stats.documents as f64
    };
    reply.append("avgObjSize", average);
    reply.append("dataSize", scaled(stats.data_bytes));
    reply.append("storageSize", scaled(stats.storage_bytes));
    reply.append("indexes", signed(stats.indexes));
    reply.append("indexSize", scaled(stats.index_bytes));
    reply.append("totalSize", scaled(stats.storage_bytes + stats.index_bytes));
    reply.append("scaleFactor", signed(scale));
    if let Some((used, total)) = file_system(&invocation.server.config.data_directory) {
        reply.append("fsUsedSize", scaled(used));
        reply.append("fsTotalSize", scaled(total));
    }
    Ok(())
}

/// Bytes used and bytes in all; none where the kernel does not tell.
fn file_system(directory: &Path) -> Option<(u64, u64)> {
    let space = rustix::fs::statvfs(directory).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    let used = space.f_blocks.saturating_sub(space.f_bavail);
    Some((bytes(used), bytes(space.f_blocks)))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
