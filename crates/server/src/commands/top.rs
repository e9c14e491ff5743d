//! `top`: how often and how long each collection was used since the start. Lock times are not measured, so they are
//! not shown.

use quarry_bson::DocumentBuilder;

use crate::command::{Command, Invocation};
use crate::error::Result;
use crate::usage::Use;

pub static COMMAND: Command = Command {
    is_admin_only: true,
    ..Command::new("top", "shows the use of each collection", run)
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let mut totals = reply.document("totals");
    totals.append("note", "all times in microseconds");
    for (namespace, uses) in invocation.server.usage.list() {
        let mut entry = totals.document(&namespace);
        append(&mut entry, "total", uses.total());
        append(&mut entry, "queries", uses.queries);
        append(&mut entry, "getmore", uses.getmore);
        append(&mut entry, "insert", uses.insert);
        append(&mut entry, "update", uses.update);
        append(&mut entry, "remove", uses.remove);
        append(&mut entry, "commands", uses.commands);
        entry.finish();
    }
    totals.finish();
    Ok(())
}

fn append(entry: &mut DocumentBuilder<'_>, name: &str, measured: Use) {
    let mut part = entry.document(name);
    part.append(
        "time",
        i64::try_from(measured.time.as_micros()).unwrap_or(i64::MAX),
    );
    part.append("count", i64::try_from(measured.count).unwrap_or(i64::MAX));
    part.finish();
}
