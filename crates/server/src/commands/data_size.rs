//! `dataSize`: the bytes and the number of documents of a collection.

use quarry_bson::DocumentBuilder;
use quarry_database::Namespace;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, flag, object};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        object("keyPattern").not_served(),
        object("min").not_served(),
        object("max").not_served(),
        flag("estimate").ignored(),
    ]),
    ..Command::new(
        "dataSize",
        "shows the size of a collection's documents",
        Requires::Each(&[need(Action::Find, On::CollectionIn("dataSize"))]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let name = invocation.subject().and_then(|name| name.as_str());
    let namespace = Namespace::parse(name.unwrap_or_default())?;
    let stats = invocation.server.catalog().coll_stats(&namespace)?;
    let (bytes, documents) = stats.map_or((0, 0), |stats| (stats.data_bytes, stats.documents));
    reply.append("estimate", false);
    reply.append("size", i64::try_from(bytes).unwrap_or(i64::MAX));
    reply.append("numObjects", i64::try_from(documents).unwrap_or(i64::MAX));
    reply.append("millis", 0);
    Ok(())
}
