//! `reIndex`: builds the indexes of a collection anew, on a server alone.

use quarry_bson::{Document, DocumentBuilder};
use quarry_query::ErrorCode;
use quarry_timing::OperationKind;

use crate::commands::writes;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    kind: OperationKind::Catalog,
    ..Command::new(
        "reIndex",
        "builds the indexes of a collection anew",
        Requires::Each(&[need(Action::ReIndex, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    if invocation.server.replica_set.is_some() {
        let message = format!(
            "reIndex is only allowed on a standalone mongod instance. Cannot reIndex '{namespace}' while replication is active"
        );
        return Err(CommandError::new(ErrorCode::ILLEGAL_OPERATION, message));
    }
    let (catalog, operation) = (invocation.server.catalog(), invocation.operation);
    let level = writes::level(invocation);
    let count = |specs: &[Document]| i32::try_from(specs.len()).unwrap_or(i32::MAX);
    let before = count(&catalog.list_indexes(&namespace)?);
    catalog.rebuild_indexes(&namespace, operation, level)?;
    let specs = catalog.list_indexes(&namespace)?;
    reply.append("nIndexesWas", before);
    reply.append("nIndexes", count(&specs));
    let mut indexes = reply.array("indexes");
    for spec in &specs {
        indexes.push(spec);
    }
    indexes.finish();
    Ok(())
}
