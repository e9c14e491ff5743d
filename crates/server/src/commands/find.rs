//! `find`: the documents of a collection that match a filter.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_query::exec::FindRequest;
use quarry_query::expression::ExpressionContext;
use quarry_timing::OperationKind;

use crate::commands::first_batch::{FirstBatch, answer};
use crate::commands::query_shape::ShapedQuery;
use crate::commands::{own_views, query_settings, query_stats, writes};
use crate::data::Data;
use crate::dispatch::argument::Argument;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, Present, any, flag, number, object};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::dispatch::transaction_arguments::SessionUse;
use crate::sessions::client_cursor::ClientCursor;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        any("filter"),
        any("projection"),
        any("sort"),
        any("hint"),
        number("skip"),
        number("limit"),
        number("batchSize"),
        flag("singleBatch"),
        flag("tailable"),
        flag("awaitData"),
        flag("noCursorTimeout"),
        flag("allowPartialResults").ignored(),
        flag("oplogReplay").ignored(),
        flag("readOnce").ignored(),
        flag("allowDiskUse"),
        object("collation"),
        object("let"),
        object("min"),
        object("max"),
        flag("returnKey"),
        flag("showRecordId"),
        number("ntoreturn").not_served(),
        object("resumeAfter").not_served_unless_empty(),
        flag("requestResumeToken").not_served(),
        object("encryptionInformation").not_served(),
    ]),
    kind: OperationKind::Find,
    takes_read_concern: true,
    takes_snapshot: true,
    is_in_api_1: true,
    session_use: SessionUse::InTransactions,
    parser: "FindCommandRequest",
    ..Command::new(
        "find",
        "finds documents",
        Requires::Each(&[need(Action::Find, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let counted = query_stats::begin(invocation);
    let namespace = invocation.namespace()?;
    let mut context = writes::context(invocation)?;
    query_settings::apply(invocation, ShapedQuery::of(invocation), &mut context)?;
    let mut request = FindRequest::new(&namespace);
    let options = parse(invocation.arguments(), &context, &mut request)?;
    let source = match own_views::view_of(invocation, namespace.collection()) {
        Some(view) => own_views::find(invocation, view, &request)?,
        None => invocation.data().find(invocation.operation, request)?,
    };
    let mut cursor = ClientCursor::new(namespace.into_string(), invocation.generic.session, source);
    cursor.query_stats = counted;
    cursor.is_tailable = options.is_tailable;
    cursor.is_await_data = options.is_await_data;
    cursor.has_no_timeout = options.has_no_timeout;
    answer(cursor, invocation, options.first_batch, reply)
}

/// The options of a find that concern its cursor.
#[derive(Default)]
pub struct CursorOptions {
    pub is_tailable: bool,
    pub is_await_data: bool,
    pub has_no_timeout: bool,
    pub first_batch: FirstBatch,
}

/// Reads the fields of a find into a request that has the namespace alone; `explain` shares it.
pub fn parse<'a>(
    arguments: Present<'a>,
    context: &'a ExpressionContext,
    request: &mut FindRequest<'a>,
) -> Result<CursorOptions> {
    request.context = Some(context);
    let mut options = CursorOptions::default();
    for argument in arguments {
        match argument.name().as_bytes() {
            b"filter" => request.filter = argument.document()?,
            b"projection" => request.projection = some_document(argument)?,
            b"sort" => request.sort = some_document(argument)?,
            b"hint" => request.hint = some_hint(argument.value())?,
            b"skip" => request.skip = argument.count()?,
            b"limit" => request.limit = Some(argument.count()?).filter(|&limit| limit != 0),
            b"batchSize" => options.first_batch.documents_max = argument.count()?,
            b"singleBatch" => options.first_batch.is_only = argument.flag()?,
            b"tailable" => options.is_tailable = argument.flag()?,
            b"awaitData" => options.is_await_data = argument.flag()?,
            b"allowDiskUse" => context.set_disk_use(argument.flag()?),
            b"min" => set_min(request, some_document(argument)?),
            b"max" => set_max(request, some_document(argument)?),
            b"returnKey" if argument.flag()? => request.key_options().returns_key = true,
            b"showRecordId" if argument.flag()? => request.key_options().shows_record_id = true,
            b"noCursorTimeout" => options.has_no_timeout = argument.flag()?,
            _ => {}
        }
    }
    if options.is_await_data && !options.is_tailable {
        return Err(CommandError::failed_to_parse(
            "Cannot set 'awaitData' without also setting 'tailable'",
        ));
    }
    request.is_tailable = options.is_tailable;
    options.first_batch.limit = request.limit;
    Ok(options)
}

/// A document that says something. MongoDB's generated parser leaves its type to other code, which refuses Null.
fn some_document(argument: Argument<'_>) -> Result<Option<RawDocument<'_>>> {
    Ok(Some(argument.document()?).filter(|document| !document.is_empty()))
}

/// An empty bound is none.
fn set_min<'a>(request: &mut FindRequest<'a>, bound: Option<RawDocument<'a>>) {
    if bound.is_some() {
        request.key_options().min = bound;
    }
}

/// Like `set_min`, for the upper one.
fn set_max<'a>(request: &mut FindRequest<'a>, bound: Option<RawDocument<'a>>) {
    if bound.is_some() {
        request.key_options().max = bound;
    }
}

/// A hint is the name of an index or its key pattern; an empty one is none.
pub fn some_hint(value: RawValue<'_>) -> Result<Option<RawValue<'_>>> {
    match value {
        RawValue::Document(pattern) if pattern.is_empty() => Ok(None),
        RawValue::String(name) if name.is_empty() => Ok(None),
        RawValue::Document(_) | RawValue::String(_) => Ok(Some(value)),
        _ => Err(CommandError::failed_to_parse(
            "Hint must be a string or an object",
        )),
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, RawValue, doc};

    use crate::dispatch::dispatcher::answer;
    use crate::server::Server;

    fn server() -> &'static Server {
        Box::leak(Box::new(Server::in_memory()))
    }

    /// The reply, or the code of the error.
    fn reply(server: &'static Server, mut command: Document) -> Result<Document, i32> {
        command.append("$db", "db");
        let reply = answer(server, &command);
        reply.get_i32("code").map_or(Ok(reply.clone()), Err)
    }

    #[test]
    fn a_null_is_a_field_that_is_not_there_where_mongodbs_parsers_say_so() {
        let (server, null) = (server(), || RawValue::Null);
        let insert =
            doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }], "ordered": (null()) };
        assert!(reply(server, insert).is_ok());
        let found = reply(
            server,
            doc! {
                "find": "c", "skip": (null()), "limit": (null()), "batchSize": (null()),
                "singleBatch": (null()), "let": (null()),
            },
        );
        let found = found.unwrap();
        let batch = found.as_raw().get_path("cursor.firstBatch").unwrap();
        assert_eq!(batch.as_array().unwrap().len(), 2);
        let count = doc! { "count": "c", "query": (null()), "skip": (null()), "limit": (null()) };
        assert_eq!(reply(server, count).unwrap().get_i32("n"), Some(2));
        let cursor = doc! { "batchSize": (null()) };
        let aggregate = doc! { "aggregate": "c", "pipeline": [], "cursor": cursor };
        assert!(reply(server, aggregate).is_ok());
    }

    #[test]
    fn a_null_is_refused_where_it_is_required_or_of_a_type_that_other_code_checks() {
        let (server, null) = (server(), || RawValue::Null);
        let update = doc! { "q": (null()), "u": {} };
        let delete = doc! { "q": (null()), "limit": 1 };
        for command in [
            doc! { "update": "c", "updates": [update] },
            doc! { "delete": "c", "deletes": [delete] },
            doc! { "distinct": "c", "key": (null()) },
            doc! { "insert": "c", "documents": (null()) },
        ] {
            assert_eq!(
                reply(server, command.clone()).err(),
                Some(40_414),
                "{command}"
            );
        }
        // MongoDB's generated parsers leave the types of these to other code.
        for field in ["filter", "sort", "projection"] {
            let mut find = doc! { "find": "c" };
            find.append(field, null());
            assert_eq!(reply(server, find).err(), Some(14), "{field}");
        }
        let hint = doc! { "find": "c", "hint": (null()) };
        assert_eq!(reply(server, hint).err(), Some(9));
    }

    #[test]
    fn fields_that_every_command_takes_may_stand_anywhere() {
        let server = server();
        let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }] };
        assert!(reply(server, insert).is_ok());
        let orders = [
            ["limit", "filter", "maxTimeMS", "comment"],
            ["maxTimeMS", "limit", "comment", "filter"],
            ["comment", "filter", "maxTimeMS", "limit"],
        ];
        for order in orders {
            let mut find = doc! { "find": "c" };
            for field in order {
                match field {
                    "filter" => find.append(field, doc! { "_id": { "$gt": 0 } }),
                    _ => find.append(field, 1),
                };
            }
            let found = reply(server, find).unwrap();
            let batch = found.as_raw().get_path("cursor.firstBatch").unwrap();
            assert_eq!(batch.as_array().unwrap().len(), 1, "{order:?}");
        }
        // A command without a field of its own, and one that is nothing but its name.
        let found = reply(server, doc! { "find": "c", "comment": 1 }).unwrap();
        let batch = found.as_raw().get_path("cursor.firstBatch").unwrap();
        assert_eq!(batch.as_array().unwrap().len(), 2);
        assert_eq!(
            reply(server, doc! { "count": "c" }).unwrap().get_i32("n"),
            Some(2)
        );
    }
}
