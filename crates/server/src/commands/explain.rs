//! `explain`: how a command is planned, and with `executionStats` what running it examined. Writes are planned and
//! run without their effect.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_database::Namespace;
use quarry_query::exec::{self, Explained, Verbosity};

use super::find::some_hint;
use crate::commands::writes;
use crate::dispatch::command::{Command, Fields, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::Requires;

pub static COMMAND: Command = Command {
    fields: Fields::Named(&["verbosity"]),
    is_in_api_1: true,
    ..Command::new(
        "explain",
        "shows how a command is planned",
        Requires::WhatItExplains,
        run,
    )
};

/// The commands beside an aggregate that take `let`, as errors name them.
const WITH_LET: [&str; 4] = ["find", "update", "delete", "findAndModify"];

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
    let (name, collection) = target(body)?;
    if name == "aggregate" {
        return explain(invocation, body, verbosity, reply);
    }
    let namespace = Namespace::new(invocation.generic.database, collection)?;
    let reader = WITH_LET.into_iter().find(|command| *command == name);
    let context = &writes::context_of(reader.unwrap_or(COMMAND.name), body)?;
    let explained = match name {
        "find" => Explained::Find(super::find::parse(&namespace, context, body)?.0),
        "count" => Explained::Count(super::count::parse(&namespace, body)?),
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
        "findAndModify" | "findandmodify" => {
            Explained::FindAndModify(super::find_and_modify::parse(&namespace, context, body)?)
        }
        _ => {
            return Err(CommandError::new(
                quarry_query::ErrorCode::COMMAND_NOT_FOUND,
                format!("Explain failed due to unknown command: {name}"),
            ));
        }
    };
    invocation
        .server
        .data()
        .explain(invocation.operation, explained, verbosity, reply)?;
    append_command(invocation, body, reply);
    Ok(())
}

/// `aggregate` with `explain: true`.
pub fn explain_aggregate(
    invocation: &mut Invocation<'_>,
    body: RawDocument<'_>,
    reply: &mut DocumentBuilder<'_>,
) -> Result<()> {
    explain(invocation, body, Verbosity::QueryPlanner, reply)
}

fn explain(
    invocation: &mut Invocation<'_>,
    body: RawDocument<'_>,
    verbosity: Verbosity,
    reply: &mut DocumentBuilder<'_>,
) -> Result<()> {
    let (_, collection) = target(body)?;
    let namespace = Namespace::new(invocation.generic.database, collection)?;
    let pipeline = body.get_array("pipeline").ok_or_else(|| {
        CommandError::type_mismatch("'pipeline' option must be specified as an array")
    })?;
    let context = writes::context_of("aggregate", body)?;
    let over = exec::Over::Collection(&namespace);
    let mut request = exec::AggregateRequest::new(over, pipeline);
    request.context = Some(&context);
    request.hint = body.get("hint").map(some_hint).transpose()?.flatten();
    invocation.server.data().explain(
        invocation.operation,
        Explained::Aggregate(request),
        verbosity,
        reply,
    )?;
    append_command(invocation, body, reply);
    Ok(())
}

fn target(body: RawDocument<'_>) -> Result<(&str, &str)> {
    let first = body
        .first()
        .ok_or_else(|| CommandError::failed_to_parse("explain of an empty command"))?;
    let collection = first.value().as_str().ok_or_else(|| {
        CommandError::new(
            quarry_query::ErrorCode::INVALID_NAMESPACE,
            "the explained command names no collection",
        )
    })?;
    Ok((first.name().as_str()?, collection))
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

fn append_command(
    invocation: &Invocation<'_>,
    body: RawDocument<'_>,
    reply: &mut DocumentBuilder<'_>,
) {
    reply.append("command", body);
    let mut info = reply.document("serverInfo");
    info.append(
        "host",
        &*rustix::system::uname().nodename().to_string_lossy(),
    );
    info.append("port", i32::from(invocation.server.port()));
    info.append("version", super::build_info::MONGODB_VERSION);
    info.finish();
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

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
}
