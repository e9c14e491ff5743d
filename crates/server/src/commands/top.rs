//! `top`: how often and how long each collection was used since it was first used, in MongoDB's shape.
//!
//! Times are whole operations, from the first byte of the request to the last byte of the reply. `readLock` and
//! `writeLock` hold the operations that read and those that write, because no lock is held for a whole operation.

use quarry_bson::DocumentBuilder;
use quarry_timing::{OperationClass, OperationKind, Use};

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::observe::timing_document::signed;

pub static COMMAND: Command = Command {
    is_admin_only: true,
    ..Command::new(
        "top",
        "shows the use of each collection",
        Requires::Each(&[need(Action::Top, On::Cluster)]),
        run,
    )
};

fn run(_: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let mut totals = reply.document("totals");
    totals.append("note", "all times in microseconds");
    for (namespace, uses) in quarry_timing::uses() {
        let mut entry = totals.document(&namespace);
        let reads = uses.of_class(OperationClass::Reads);
        append(&mut entry, "total", uses.sum(|_| true));
        append(&mut entry, "readLock", reads);
        append(
            &mut entry,
            "writeLock",
            uses.sum(|kind| OperationClass::of(kind) != OperationClass::Reads),
        );
        append(&mut entry, "queries", uses.of(OperationKind::Find));
        append(&mut entry, "getmore", uses.of(OperationKind::GetMore));
        append(&mut entry, "insert", uses.of(OperationKind::Insert));
        append(&mut entry, "update", uses.of(OperationKind::Update));
        append(&mut entry, "remove", uses.of(OperationKind::Delete));
        append(&mut entry, "commands", uses.sum(is_command));
        entry.finish();
    }
    totals.finish();
    Ok(())
}

/// Whether operations of the kind have no line of their own.
fn is_command(kind: OperationKind) -> bool {
    !matches!(
        kind,
        OperationKind::Find
            | OperationKind::GetMore
            | OperationKind::Insert
            | OperationKind::Update
            | OperationKind::Delete
    )
}

fn append(entry: &mut DocumentBuilder<'_>, name: &str, measured: Use) {
    let mut part = entry.document(name);
    part.append("time", signed(measured.ns / 1000));
    part.append("count", signed(measured.count));
    part.finish();
}
