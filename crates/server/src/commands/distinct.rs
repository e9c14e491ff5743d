//! `distinct`: the different values of one field.

use quarry_bson::DocumentBuilder;
use quarry_database::Namespace;
use quarry_query::exec::DistinctRequest;
use quarry_query::expression::ExpressionContext;
use quarry_timing::OperationKind;

use super::find::some_hint;
use super::query_shape::ShapedQuery;
use super::{query_settings, writes};
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, Present, any, object, text};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::dispatch::transaction_arguments::SessionUse;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        text("key").required(),
        object("query"),
        object("collation"),
        any("hint"),
    ]),
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
    let mut context = writes::context(invocation)?;
    query_settings::apply(invocation, ShapedQuery::of(invocation), &mut context)?;
    let request = parse(&namespace, &context, invocation.arguments())?;
    let values = invocation.data().distinct(invocation.operation, request)?;
    let mut list = reply.array("values");
    for value in &values {
        list.push(value);
    }
    list.finish();
    invocation.append_at_cluster_time(reply);
    Ok(())
}

/// Reads the command; `explain` shares it.
pub fn parse<'a>(
    namespace: &'a Namespace,
    context: &'a ExpressionContext,
    arguments: Present<'a>,
) -> Result<DistinctRequest<'a>> {
    let (mut key, mut filter, mut hint) = (None, None, None);
    for argument in arguments {
        match argument.name().as_bytes() {
            b"key" => key = Some(argument.text()?),
            b"query" => filter = Some(argument.document()?),
            b"hint" => hint = some_hint(argument.value())?,
            _ => {}
        }
    }
    let key = key.ok_or_else(|| CommandError::missing_field(COMMAND.name, "key"))?;
    let mut request = DistinctRequest::new(namespace, key);
    request.filter = filter.unwrap_or(request.filter);
    request.hint = hint;
    request.context = Some(context);
    Ok(request)
}
