//! `listDatabases`: the databases that have a collection.

use quarry_bson::{Document, DocumentBuilder};
use quarry_query::matcher::Matcher;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, flag, object};
use crate::dispatch::privilege::{Action, On, Requires, Resource, When, need_when};

pub static COMMAND: Command = Command {
    aliases: &["listdatabases"],
    fields: Fields::named(&[
        object("filter"),
        flag("nameOnly"),
        flag("authorizedDatabases"),
    ]),
    is_admin_only: true,
    is_in_api_1: true,
    ..Command::new(
        "listDatabases",
        "lists the databases",
        Requires::Each(&[need_when(
            Action::ListDatabases,
            On::Cluster,
            When::Denied("authorizedDatabases"),
        )]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let catalog = invocation.server.catalog();
    let is_name_only = invocation.boolean("nameOnly")?;
    let filter = invocation
        .document("filter")?
        .map(Matcher::parse)
        .transpose()?;
    // Who may not list all of them, or does not want to, sees those that a privilege of its own is on.
    let is_restricted = invocation.boolean("authorizedDatabases")?
        || !invocation.may(Action::ListDatabases, Resource::Cluster);
    let user = invocation.user.filter(|_| is_restricted);
    let mut total_bytes = 0;
    let mut list = reply.array("databases");
    for name in catalog.list_databases()? {
        invocation.operation.check()?;
        if user.is_some_and(|user| !user.sees_database(&name)) {
            continue;
        }
        let mut entry = Document::new();
        entry.append("name", name.as_str());
        let mut bytes = 0;
        if !is_name_only {
            bytes = catalog.database_size_bytes(&name, invocation.operation)?;
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
