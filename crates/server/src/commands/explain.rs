//! `explain`: how a command is planned, and with `executionStats` what running it examined. Writes are planned and
//! run without their effect.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_database::Namespace;
use quarry_query::exec::{Explained, FindRequest, Verbosity};

use super::explained_aggregate::{self, append_command};
use super::query_settings;
use super::query_shape::ShapedQuery;
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::expression_context::context_of;
use crate::dispatch::fields::{Fields, text};
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[text("verbosity")]),
    is_in_api_1: true,
    ..Command::new(
        "explain",
        "shows how a command is planned",
        Requires::WhatItExplains,
        run,
    )
};

/// The commands that can be explained, beside an aggregate.
static EXPLAINED: [&Command; 6] = [
    &super::find::COMMAND,
    &super::count::COMMAND,
    &super::distinct::COMMAND,
    &super::update::COMMAND,
    &super::delete::COMMAND,
    &super::find_and_modify::COMMAND,
];

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let Some(RawValue::Document(body)) = invocation.subject() else {
        return Err(CommandError::type_mismatch(
            "explain command requires a nested object",
        ));
    };
    let verbosity = match invocation.text("verbosity")? {
        None | Some("allPlansExecution") => Verbosity::AllPlansExecution,
        Some("queryPlanner") => Verbosity::QueryPlanner,
        Some("executionStats") => Verbosity::ExecutionStats,
        Some(_) => {
            return Err(CommandError::failed_to_parse(
                "verbosity string must be one of {'queryPlanner', 'executionStats', 'allPlansExecution'}",
            ));
        }
    };
    let first = body
        .first()
        .ok_or_else(|| CommandError::failed_to_parse("explain of an empty command"))?;
    let database = invocation.generic.database;
    if let Some(named) = body.get_str("$db").filter(|&named| named != database) {
        let message =
            format!("Mismatched $db in explain command. Expected {database} but got {named}");
        return Err(CommandError::new(
            quarry_query::ErrorCode::INVALID_NAMESPACE,
            message,
        ));
    }
    let name = first.name().as_str()?;
    // An aggregate may be over no collection.
    if name == super::aggregate::COMMAND.name {
        super::aggregate::COMMAND.check(body)?;
        return explained_aggregate::explain(invocation, body, verbosity, reply);
    }
    let collection = first.value().as_str().ok_or_else(|| {
        CommandError::new(
            quarry_query::ErrorCode::INVALID_NAMESPACE,
            "the explained command names no collection",
        )
    })?;
    let namespace = Namespace::new(invocation.generic.database, collection)?;
    let command = EXPLAINED
        .into_iter()
        .find(|command| command.is_called(name));
    let command = command.ok_or_else(|| not_explained(name))?;
    command.check(body)?;
    let mut context = context_of(command.parser, body)?;
    if let Some(query) = ShapedQuery::in_body(database, body) {
        query_settings::apply_to_explained(invocation, query, &mut context)?;
    }
    let context = &context;
    let explained = match command.name {
        "find" => {
            let mut request = FindRequest::new(&namespace);
            super::find::parse(super::find::COMMAND.arguments(body), context, &mut request)?;
            Explained::Find(request)
        }
        "count" => Explained::Count(super::count::parse(
            &namespace,
            context,
            super::count::COMMAND.arguments(body),
        )?),
        "distinct" => Explained::Distinct(super::distinct::parse(
            &namespace,
            context,
            super::distinct::COMMAND.arguments(body),
        )?),
        "update" => Explained::Update(super::update::parse(
            &namespace,
            context,
            only_statement(body, "updates")?,
        )?),
        "delete" => Explained::Delete(super::delete::parse(
            &namespace,
            context,
            only_statement(body, "deletes")?,
        )?),
        _ => Explained::FindAndModify(super::find_and_modify::parse(
            &namespace,
            context,
            super::find_and_modify::COMMAND.arguments(body),
        )?),
    };
    invocation
        .server
        .data()
        .explain(invocation.operation, explained, verbosity, reply)?;
    append_command(invocation, body, reply)
}

/// A command that has no plan, or that there is not.
fn not_explained(name: &str) -> CommandError {
    let (code, message) = match super::find(name) {
        Some(command) => (
            quarry_query::ErrorCode::ILLEGAL_OPERATION,
            format!("Cannot explain cmd: {}", command.name),
        ),
        None => (
            quarry_query::ErrorCode::COMMAND_NOT_FOUND,
            format!("Explain failed due to unknown command: {name}"),
        ),
    };
    CommandError::new(code, message)
}

/// Reads the fields of a find and hands its request to `take`: for who explains one that no client has sent.
pub fn explained_find<T>(
    namespace: &Namespace,
    body: RawDocument<'_>,
    take: impl FnOnce(FindRequest<'_>) -> Result<T>,
) -> Result<T> {
    let command = &super::find::COMMAND;
    command.check(body)?;
    let context = context_of(command.parser, body)?;
    let mut request = FindRequest::new(namespace);
    super::find::parse(command.arguments(body), &context, &mut request)?;
    take(request)
}

fn only_statement<'a>(body: RawDocument<'a>, field: &str) -> Result<RawDocument<'a>> {
    let statements = body.get_array(field);
    match statements.map(|statements| (statements.len(), statements.get(0))) {
        Some((1, Some(RawValue::Document(statement)))) => Ok(statement),
        _ => Err(CommandError::new(
            quarry_query::ErrorCode::INVALID_LENGTH,
            "explained write batches must be of size 1",
        )),
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, Value, doc};

    use crate::dispatch::dispatcher::answer;
    use crate::server::Server;

    fn explained(server: &'static Server, command: &Document) -> Document {
        let explain =
            doc! { "explain": (command.clone()), "verbosity": "queryPlanner", "$db": "db" };
        answer(server, &explain)
    }

    #[test]
    fn an_explained_command_is_read_as_it_is_when_it_runs() {
        let server: &'static Server = Box::leak(Box::new(Server::in_memory()));
        let documents = doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1 }], "$db": "db" };
        answer(server, &documents);
        let index = doc! {
            "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a_1" }], "$db": "db",
        };
        answer(server, &index);
        for command in [
            doc! { "find": "c", "let": 5 },
            doc! { "aggregate": "c", "pipeline": [], "cursor": {}, "let": "x" },
        ] {
            let mut run = command.clone();
            run.append("$db", "db");
            let code = |reply: Document| {
                (
                    reply.get_i32("code"),
                    reply.get_str("errmsg").map(str::to_owned),
                )
            };
            let wanted = code(answer(server, &run));
            assert_eq!(wanted.0, Some(14), "{command}");
            assert_eq!(code(explained(server, &command)), wanted, "{command}");
        }
        for (hint, index) in [("a_1", Some("a_1")), ("none", None)] {
            let command = doc! { "aggregate": "c", "pipeline": [], "cursor": {}, "hint": hint };
            let reply = explained(server, &command);
            let found = reply
                .as_raw()
                .get_path("queryPlanner.winningPlan.inputStage.indexName");
            assert_eq!(found.and_then(|name| name.as_str()), index, "{reply}");
            assert_eq!(
                reply.get_i32("code"),
                index.is_none().then_some(2),
                "{reply}"
            );
        }
    }

    #[test]
    fn an_aggregate_that_runs_can_be_explained() {
        let server: &'static Server = Box::leak(Box::new(Server::in_memory()));
        for (database, over, stage) in [
            (
                "db",
                Value::from("c"),
                doc! { "$collStats": { "count": {} } },
            ),
            ("db", Value::from(1), doc! { "$documents": [{ "a": 1 }] }),
            ("admin", Value::from(1), doc! { "$currentOp": {} }),
        ] {
            let behind = doc! { "$limit": 5 };
            let aggregate =
                doc! { "aggregate": over, "pipeline": [(stage.clone()), behind], "cursor": {} };
            let mut run = aggregate.clone();
            run.append("$db", database);
            assert_eq!(answer(server, &run).get_f64("ok"), Some(1.0), "{run}");
            let mut short = run.clone();
            short.append("explain", true);
            let explain = doc! { "explain": aggregate, "$db": database };
            for command in [short, explain] {
                let reply = answer(server, &command);
                let stages = reply.get_array("stages");
                let first = stages.and_then(|stages| stages.get(0));
                let first = first.and_then(|first| first.as_document());
                assert_eq!(first, Some(stage.as_raw()), "{reply}");
            }
        }
    }

    #[test]
    fn an_aggregate_that_does_not_run_is_not_explained() {
        let server: &'static Server = Box::leak(Box::new(Server::in_memory()));
        for aggregate in [
            doc! { "aggregate": 1, "pipeline": [{ "$match": {} }], "cursor": {} },
            doc! { "aggregate": 2, "pipeline": [], "cursor": {} },
            doc! { "aggregate": "c", "pipeline": [{ "$currentOp": {} }], "cursor": {} },
            doc! { "aggregate": "c", "pipeline": {}, "cursor": {} },
        ] {
            let mut run = aggregate.clone();
            run.append("$db", "db");
            let wanted = answer(server, &run);
            assert_eq!(wanted.get_f64("ok"), Some(0.0), "{run}");
            assert_eq!(explained(server, &aggregate), wanted, "{run}");
        }
    }
}
