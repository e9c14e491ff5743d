//! `count`: how many documents match.

use quarry_bson::DocumentBuilder;
use quarry_database::Namespace;
use quarry_query::exec::{CountRequest, FindRequest};
use quarry_query::expression::ExpressionContext;
use quarry_timing::OperationKind;

use super::find::some_hint;
use super::own_views::{self, OwnView};
use super::writes;
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::{Fields, Present, any, number, object};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::sessions::client_cursor::ClientCursor;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        object("query"),
        number("limit"),
        number("skip"),
        any("hint"),
        object("collation"),
        any("fields").ignored(),
        object("encryptionInformation").not_served(),
    ]),
    kind: OperationKind::Count,
    takes_read_concern: true,
    is_in_api_1: true,
    ..Command::new(
        "count",
        "counts documents",
        Requires::Each(&[need(Action::Find, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let context = writes::context(invocation)?;
    let request = parse(&namespace, &context, invocation.arguments())?;
    let count = match own_views::view_of(invocation, namespace.collection()) {
        Some(view) => count_of_view(invocation, view, request)?,
        None => (invocation.data()).count(invocation.operation, request)?,
    };
    match i32::try_from(count) {
        Ok(count) => reply.append("n", count),
        Err(_) => reply.append("n", i64::try_from(count).unwrap_or(i64::MAX)),
    };
    Ok(())
}

/// The documents that match of a view of what the server knows by itself, of which there are few.
fn count_of_view(
    invocation: &Invocation<'_>,
    view: OwnView,
    request: CountRequest<'_>,
) -> Result<u64> {
    let mut found = FindRequest::new(request.namespace);
    found.context = request.context;
    (found.filter, found.hint) = (request.filter, request.hint);
    (found.skip, found.limit) = (request.skip, request.limit);
    let source = own_views::find(invocation, view, &found)?;
    let name = request.namespace.to_string();
    let mut cursor = ClientCursor::new(name, invocation.generic.session, source);
    let (mut count, mut document) = (0, Vec::new());
    while cursor.next(invocation.operation, &mut document)? {
        count += 1;
        document.clear();
    }
    Ok(count)
}

/// Reads the command; `explain` shares it.
pub fn parse<'a>(
    namespace: &'a Namespace,
    context: &'a ExpressionContext,
    arguments: Present<'a>,
) -> Result<CountRequest<'a>> {
    let mut request = CountRequest {
        context: Some(context),
        ..CountRequest::new(namespace)
    };
    for argument in arguments {
        match argument.name().as_bytes() {
            b"query" => request.filter = argument.document()?,
            b"limit" => {
                let limit = argument.whole()?.unsigned_abs();
                request.limit = Some(limit).filter(|&limit| limit > 0);
            }
            b"skip" => request.skip = argument.count()?,
            b"hint" => request.hint = some_hint(argument.value())?,
            _ => {}
        }
    }
    Ok(request)
}
