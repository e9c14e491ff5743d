//! `listIndexes`: the indexes of a collection, the one on `_id` first.

use quarry_bson::DocumentBuilder;

use crate::commands::first_batch::{FirstBatch, answer};
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, flag, object};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::sessions::client_cursor::{ClientCursor, Source};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        object("cursor"),
        flag("includeBuildUUIDs").ignored(),
        flag("includeIndexBuildInfo").ignored(),
    ]),
    is_in_api_1: true,
    ..Command::new(
        "listIndexes",
        "lists the indexes of a collection",
        Requires::Each(&[need(Action::ListIndexes, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let batch = FirstBatch::parse(invocation)?;
    let indexes = invocation.server.catalog().list_indexes(&namespace)?;
    let source = Source::Documents(indexes.into());
    let shown = namespace.as_str().to_owned();
    answer(
        ClientCursor::new(shown, invocation.generic.session, source),
        invocation,
        batch,
        reply,
    )
}
