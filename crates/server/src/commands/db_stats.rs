//! `dbStats`: the sizes of a database, summed over its collections.

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
    reply.append(
        "collections",
        i64::try_from(stats.collections).unwrap_or(i64::MAX),
    );
    reply.append("views", 0i64);
    reply.append(
        "objects",
        i64::try_from(stats.documents).unwrap_or(i64::MAX),
    );
    let average = if stats.documents == 0 {
        0.0
    } else {
        stats.data_bytes as f64 / stats.documents as f64
    };
    reply.append("avgObjSize", average);
    reply.append("dataSize", scaled(stats.data_bytes));
    reply.append("storageSize", scaled(stats.storage_bytes));
    reply.append("indexes", i64::try_from(stats.indexes).unwrap_or(i64::MAX));
    reply.append("indexSize", scaled(stats.index_bytes));
    reply.append("totalSize", scaled(stats.storage_bytes + stats.index_bytes));
    reply.append("scaleFactor", i64::try_from(scale).unwrap_or(i64::MAX));
    Ok(())
}
