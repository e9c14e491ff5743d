//! `listCollections`: the collections of a database.

use std::collections::VecDeque;

use quarry_bson::{Document, DocumentBuilder, Value, doc};
use quarry_query::matcher::Matcher;

use crate::client_cursor::{ClientCursor, FirstBatch, Source};
use crate::command::{Command, Fields, Invocation};
use crate::error::Result;

/// The collection that the cursor is said to be over.
const NAMESPACE: &str = "$cmd.listCollections";
const UUID_SUBTYPE: u8 = 4;

pub static COMMAND: Command = Command {
    fields: Fields::Named(&[
        "filter",
        "nameOnly",
        "authorizedCollections",
        "cursor",
        "includePendingDrops",
    ]),
    is_in_api_1: true,
    ..Command::new(
        "listCollections",
        "lists the collections of a database",
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let name = invocation.generic.database;
    quarry_database::check_database(name)?;
    let batch = FirstBatch::parse(invocation)?;
    let is_name_only = invocation.boolean("nameOnly")?;
    let filter = invocation
        .document("filter")?
        .map(Matcher::parse)
        .transpose()?;
    let mut documents = VecDeque::new();
    for collection in invocation.server.database.list_collections(name)? {
        invocation.operation.check()?;
        let mut entry = doc! { "name": collection.namespace.collection(), "type": "collection" };
        if !is_name_only {
            entry.append("options", collection.options());
            entry.append(
                "info",
                doc! { "readOnly": false, "uuid": (Value::binary(UUID_SUBTYPE, &collection.uuid)) },
            );
            entry.append("idIndex", id_index());
        }
        if filter
            .as_ref()
            .is_none_or(|filter| filter.matches(entry.as_raw()))
        {
            documents.push_back(entry);
        }
    }
    let shown = format!("{name}.{NAMESPACE}");
    let source = Source::Documents(documents);
    ClientCursor::new(shown, invocation.generic.session, source).answer(invocation, batch, reply)
}

fn id_index() -> Document {
    doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" }
}
