//! `createIndexes`: makes indexes, on what is there and while writes go on.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quarry_bson::{Document, DocumentBuilder, RawDocument};
use quarry_database::{Namespace, OnProgress, Progress};
use quarry_timing::OperationKind;

use crate::commands::writes;
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any, array, flag, number};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::dispatch::transaction_arguments::SessionUse;
use crate::observe::log;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        array("indexes"),
        any("commitQuorum").ignored(),
        flag("ignoreUnknownIndexOptions"),
        number("v").ignored(),
    ]),
    kind: OperationKind::Catalog,
    takes_write_concern: true,
    is_in_api_1: true,
    session_use: SessionUse::InTransactions,
    ..Command::new(
        "createIndexes",
        "creates indexes",
        Requires::Each(&[need(Action::CreateIndex, On::Collection)]),
        run,
    )
};

/// The time between two lines of a build's progress.
const BETWEEN_LINES: Duration = Duration::from_secs(3);

/// The fields that an index specification may have; with `ignoreUnknownIndexOptions` any other is dropped.
const KNOWN: [&str; 24] = [
    "key",
    "name",
    "ns",
    "v",
    "background",
    "unique",
    "sparse",
    "hidden",
    "collation",
    "comment",
    "expireAfterSeconds",
    "partialFilterExpression",
    "weights",
    "default_language",
    "language_override",
    "textIndexVersion",
    "2dsphereIndexVersion",
    "bits",
    "min",
    "max",
    "wildcardProjection",
    "storageEngine",
    "prepareUnique",
    "clustered",
];

/// A field that MongoDB takes and no longer does anything for: a unique index drops no documents.
const DROP_DUPS: &str = "dropDups";

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    if let Some(session) = &invocation.checked_out {
        session.check_definition(invocation.command.name)?;
    }
    let namespace = invocation.namespace()?;
    let mut specs: Vec<Document> = invocation
        .documents("indexes")?
        .into_iter()
        .map(Document::from_raw)
        .collect();
    if specs.is_empty() {
        return Err(CommandError::bad_value(
            "Must specify at least one index to create",
        ));
    }
    if invocation.boolean("ignoreUnknownIndexOptions")? {
        specs = specs
            .iter()
            .map(|spec| with_fields(spec.as_raw(), |name| KNOWN.contains(&name)))
            .collect();
    }
    for spec in specs.iter_mut().filter(|spec| spec.contains(DROP_DUPS)) {
        *spec = with_fields(spec.as_raw(), |name| name != DROP_DUPS);
    }
    for spec in &specs {
        if !spec.contains("name") {
            let message = format!(
                "Error in specification {spec} :: caused by :: The 'name' field is a required property of an index specification"
            );
            return Err(CommandError::failed_to_parse(message));
        }
    }
    let level = writes::level(invocation);
    let operation = invocation.operation;
    operation.on_progress(logs_progress(&namespace));
    let began = Instant::now();
    let outcome = (invocation.data()).create_indexes(operation, &namespace, &specs, level)?;
    if let Some(scanned) = operation.progress() {
        log_scan(&namespace, scanned, began.elapsed());
    }
    reply.append(
        "numIndexesBefore",
        i32::try_from(outcome.before).unwrap_or(i32::MAX),
    );
    reply.append(
        "numIndexesAfter",
        i32::try_from(outcome.after).unwrap_or(i32::MAX),
    );
    reply.append("createdCollectionAutomatically", outcome.created_collection);
    if outcome.before == outcome.after {
        reply.append("note", "all indexes already exist");
    }
    Ok(())
}

/// Logs every few seconds how far a build has come.
fn logs_progress(namespace: &Namespace) -> OnProgress {
    let namespace = namespace.to_string();
    let logged = Mutex::new(Instant::now());
    Box::new(move |progress| {
        let mut logged = logged.lock();
        if logged.elapsed() < BETWEEN_LINES {
            return;
        }
        *logged = Instant::now();
        log::info(
            "index",
            "progress meter",
            &[
                ("namespace", namespace.as_str().into()),
                ("name", progress.name.into()),
                ("done", progress.done().into()),
                ("total", progress.total().into()),
            ],
        );
    })
}

fn log_scan(namespace: &Namespace, scanned: &Progress, took: Duration) {
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    log::info(
        "index",
        "Index build: collection scan done",
        &[
            ("namespace", namespace.as_str().into()),
            ("totalRecords", scanned.done().into()),
            ("durationMillis", millis.into()),
        ],
    );
}

fn with_fields(spec: RawDocument<'_>, is_kept: impl Fn(&str) -> bool) -> Document {
    Document::build(|kept| {
        for element in spec {
            if element.name().as_str().is_ok_and(&is_kept) {
                kept.append_element(element);
            }
        }
    })
}
