//! `listDatabases`: the databases that have a collection.

use quarry_bson::{Document, DocumentBuilder};
use quarry_query::matcher::Matcher;

use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    aliases: &["listdatabases"],
    fields: Fields::Named(&["filter", "nameOnly", "authorizedDatabases"]),
    is_admin_only: true,
    is_in_api_1: true,
    ..Command::new(
        "listDatabases",
        "lists the databases",
        Requires::Each(&[need(Action::ListDatabases, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let database = &invocation.server.database;
    let is_name_only = invocation.boolean("nameOnly")?;
    let filter = invocation
        .document("filter")?
        .map(Matcher::parse)
        .transpose()?;
    let mut total_bytes = 0;
    let mut list = reply.array("databases");
    for name in database.list_databases()? {
        invocation.operation.check()?;
        let mut entry = Document::new();
        entry.append("name", name.as_str());
        let mut bytes = 0;
        if !is_name_only {
            bytes = database.database_size_bytes(&name, invocation.operation)?;
            entry.append("sizeOnDisk", i64::try_from(bytes).unwrap_or(i64::MAX));
            // A database exists because it has a collection.
            entry.append("empty", false);
        }
        if filter
            .as_ref()
            .is_none_or(|filter| filter.matches(entry.as_raw()))
        {
            list.push(&entry);
            total_bytes += bytes;
        }
    }
    list.finish();
    if !is_name_only {
        reply.append("totalSize", i64::try_from(total_bytes).unwrap_or(i64::MAX));
        reply.append(
            "totalSizeMb",
            i64::try_from(total_bytes >> 20).unwrap_or(i64::MAX),
        );
    }
    Ok(())
}
