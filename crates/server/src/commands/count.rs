//! `count`: how many documents match.

use quarry_bson::{DocumentBuilder, RawDocument};
use quarry_database::Namespace;
use quarry_query::exec::{self, CountRequest};
use quarry_timing::OperationKind;

use super::find::some_hint;
use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::Named(&[
        "query",
        "limit",
        "skip",
        "hint",
        "collation",
        "fields",
        "maxTimeMS",
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
    let request = parse(&namespace, invocation.body)?;
    let count = exec::count(&invocation.server.database, invocation.operation, request)?;
    match i32::try_from(count) {
        Ok(count) => reply.append("n", count),
        Err(_) => reply.append("n", i64::try_from(count).unwrap_or(i64::MAX)),
    };
    Ok(())
}

/// Reads the command; `explain` shares it.
pub fn parse<'a>(namespace: &'a Namespace, body: RawDocument<'a>) -> Result<CountRequest<'a>> {
    let mut request = CountRequest::new(namespace);
    for element in body.iter().skip(1) {
        let value = element.value();
        let name = element.name();
        let number = || {
            value.as_i64_exact().ok_or_else(|| {
                CommandError::field_type(
                    "count",
                    &name.to_string_lossy(),
                    value.element_type().alias(),
                    "long",
                )
            })
        };
        match name.as_bytes() {
            b"query" if !value.is_nullish() => {
                request.filter = value.as_document().ok_or_else(|| {
                    CommandError::field_type(
                        "count",
                        "query",
                        value.element_type().alias(),
                        "object",
                    )
                })?;
            }
            b"limit" => request.limit = Some(number()?.unsigned_abs()).filter(|&limit| limit > 0),
            b"skip" => {
                request.skip = u64::try_from(number()?)
                    .map_err(|_| CommandError::bad_value("BSON field 'skip' value must be >= 0"))?;
            }
            b"hint" => request.hint = some_hint(value)?,
            _ => {}
        }
    }
    Ok(request)
}
