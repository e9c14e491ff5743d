//! `distinct`: the different values of one field.

use quarry_bson::DocumentBuilder;
use quarry_query::exec::DistinctRequest;
use quarry_timing::OperationKind;

use super::find::some_hint;
use crate::data::Data;
use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::dispatch::transaction_arguments::SessionUse;

pub static COMMAND: Command = Command {
    fields: Fields::Named(&["key", "query", "collation", "hint"]),
    kind: OperationKind::Distinct,
    takes_read_concern: true,
    takes_snapshot: true,
    is_in_api_1: false,
    session_use: SessionUse::InTransactions,
    ..Command::new(
        "distinct",
        "lists the different values of a field",
        Requires::Each(&[need(Action::Find, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let key = invocation.required("key")?.text()?;
    let mut request = DistinctRequest::new(&namespace, key);
    if let Some(filter) = invocation.document("query")? {
        request.filter = filter;
    }
    request.hint = invocation.get("hint").map(some_hint).transpose()?.flatten();
    let values = invocation.data().distinct(invocation.operation, request)?;
    let mut list = reply.array("values");
    for value in &values {
        list.push(value);
    }
    list.finish();
    invocation.append_at_cluster_time(reply);
    Ok(())
}
