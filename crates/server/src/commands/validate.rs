//! `validate`: checks a collection: every document, and with `full` every index in both directions.

use quarry_bson::{Document, DocumentBuilder, Value};
use quarry_database::{Findings, Namespace, ValidateReport};
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, flag};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        flag("full"),
        flag("background").ignored(),
        flag("repair").not_served(),
        flag("metadata").not_served(),
        flag("checkBSONConformance").ignored(),
        flag("scandata").ignored(),
    ]),
    ..Command::new(
        "validate",
        "checks a collection and its indexes",
        Requires::Each(&[need(Action::Validate, On::Collection)]),
        run,
    )
};

const UUID_SUBTYPE: u8 = 4;

const NONCOMPLIANT: &str =
    "Detected one or more documents not compliant with the collection's schema.";

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let full = invocation.boolean("full")?;
    // A collection is never held up for it, so that `background` alone changes nothing.
    if full && invocation.boolean("background")? {
        let message = "Running the validate command with both { background: true } and { full: true } is not supported.";
        return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
    }
    let catalog = invocation.server.catalog();
    let report = match catalog.validate(&namespace, full, invocation.operation) {
        Err(error) if error.is_corruption() => {
            let error = CommandError::from(error);
            (invocation.server.errors).note(&error, || namespace.to_string());
            append_damage(&namespace, &error, reply);
            return Ok(());
        }
        report => report?,
    };
    reply.append("ns", namespace.as_str());
    if let Some(collection) = invocation.server.catalog().collection(&namespace)? {
        let uuid = Value::binary(UUID_SUBTYPE, &collection.uuid);
        reply.append("uuid", uuid.as_raw());
    }
    reply.append(
        "nInvalidDocuments",
        i64::try_from(report.invalid_documents).unwrap_or(i64::MAX),
    );
    reply.append(
        "nNonCompliantDocuments",
        i64::try_from(report.noncompliant_documents).unwrap_or(i64::MAX),
    );
    reply.append(
        "nrecords",
        i64::try_from(report.documents).unwrap_or(i64::MAX),
    );
    reply.append(
        "nIndexes",
        i32::try_from(report.indexes.len()).unwrap_or(i32::MAX),
    );
    let mut keys = reply.document("keysPerIndex");
    for index in &report.indexes {
        keys.append(&index.name, i64::try_from(index.keys).unwrap_or(i64::MAX));
    }
    keys.finish();
    // One that is dropped meanwhile has none any more.
    let specs = catalog.list_indexes(&namespace).unwrap_or_default();
    let mut details = reply.document("indexDetails");
    for index in &report.indexes {
        let mut entry = details.document(&index.name);
        entry.append("valid", index.valid);
        let named = |spec: &&Document| spec.get_str("name") == Some(&*index.name);
        if let Some(spec) = specs.iter().find(named) {
            entry.append("spec", spec);
        }
        entry.finish();
    }
    details.finish();
    reply.append("valid", report.errors.is_empty());
    reply.append("repaired", false);
    append_findings(&report, reply);
    Ok(())
}

/// Appends the warnings, the errors, and the entries and records that they are about.
fn append_findings(report: &ValidateReport, reply: &mut DocumentBuilder<'_>) {
    let entries = [
        ("missing", &report.missing_entries),
        ("extra", &report.extra_entries),
    ];
    let mut warnings = reply.array("warnings");
    if report.noncompliant_documents > 0 {
        warnings.push(NONCOMPLIANT);
    }
    for (kind, found) in entries.iter().filter(|(_, found)| found.count > 0) {
        let count = found.count;
        warnings.push(format!("Detected {count} {kind} index entries.").as_str());
    }
    warnings.finish();
    let mut errors = reply.array("errors");
    for error in &report.errors {
        errors.push(error.as_str());
    }
    for (kind, _) in entries.iter().filter(|(_, found)| found.is_cut()) {
        let message = format!(
            "Not all {kind} index entry inconsistencies are listed due to size limitations."
        );
        errors.push(message.as_str());
    }
    errors.finish();
    append_list("extraIndexEntries", &report.extra_entries, reply);
    append_list("missingIndexEntries", &report.missing_entries, reply);
    let mut records = reply.array("corruptRecords");
    for found in &report.corrupt_records.listed {
        for element in found {
            records.push(element.value());
        }
    }
    records.finish();
}

fn append_list(name: &str, findings: &Findings, reply: &mut DocumentBuilder<'_>) {
    let mut list = reply.array(name);
    for found in &findings.listed {
        list.push(found);
    }
    list.finish();
}

/// Appends the report about a collection that cannot be read to its end: it is not valid, and this is why.
fn append_damage(namespace: &Namespace, error: &CommandError, reply: &mut DocumentBuilder<'_>) {
    reply.append("ns", namespace.as_str());
    reply.append("valid", false);
    reply.append("repaired", false);
    reply.array("warnings").finish();
    let mut errors = reply.array("errors");
    errors.push(error.message.as_str());
    errors.finish();
    for unknown in ["extraIndexEntries", "missingIndexEntries", "corruptRecords"] {
        reply.array(unknown).finish();
    }
}
