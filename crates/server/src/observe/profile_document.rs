//! The document that an operation leaves in `system.profile`: MongoDB's fields, the phases, the work and the waits.

use quarry_bson::{DateTime, Document, DocumentBuilder, RawDocument};

use crate::observe::ended::Ended;
use crate::observe::slow_log::{WRITTEN, written};
use crate::observe::timing_document::{append_phases, append_waits, append_work, micros, signed};

/// A longer command is stored as the beginning of its text, and so is one that nests too deep.
const COMMAND_BYTES_MAX: usize = 50 << 10;

pub fn build(ended: &Ended<'_>) -> Document {
    let shows_text = ended.call.body.as_bytes().len() > COMMAND_BYTES_MAX;
    let built = Document::build(|document| append(ended, shows_text, document));
    // A command may nest deeper than what is stored, and here it stands in another document.
    if shows_text || RawDocument::validated_storable(built.as_bytes()).is_some() {
        return built;
    }
    Document::build(|document| append(ended, true, document))
}

fn append(ended: &Ended<'_>, shows_text: bool, document: &mut DocumentBuilder<'_>) {
    let outcome = ended.outcome;
    document.append("op", operation_of(outcome.command_name));
    document.append("ns", ended.namespace().as_str());
    append_command("command", document, ended.call.body, shows_text);
    if let Some(command) = ended.originating_command() {
        append_command("originatingCommand", document, command.as_raw(), shows_text);
    }
    if let Some(id) = outcome.cursor.id {
        document.append("cursorid", id);
    }
    document.append("opid", i64::from(outcome.opid));
    if let Some((lsid, txn_number)) = ended.session() {
        lsid.append("lsid", document);
        if let Some(txn_number) = txn_number {
            document.append("txnNumber", txn_number);
        }
    }
    document.append("keysExamined", signed(outcome.keys_examined));
    document.append("docsExamined", signed(outcome.docs_examined));
    for (field, name) in WRITTEN {
        if let Some(number) = written(ended, field) {
            document.append(name, number);
        }
    }
    if outcome.cursor.is_exhausted {
        document.append("cursorExhausted", true);
    }
    document.append("numYield", 0);
    document.append("nreturned", signed(outcome.returned));
    if let Some(hashes) = ended.hashes() {
        document.append("planCacheShapeHash", hashes.shape.as_str());
        document.append("queryHash", hashes.shape.as_str());
        document.append("planCacheKey", hashes.key.as_str());
    }
    document.document("locks").finish();
    document.append("responseLength", signed(ended.reply_bytes as u64));
    document.append("protocol", "op_msg");
    document.append("millis", signed(ended.millis()));
    if let Some(plan) = ended.plan() {
        document.append("planSummary", plan.to_string().as_str());
    }
    if let Some(error) = &outcome.error {
        document.append("ok", 0.0);
        document.append("errMsg", error.message.as_str());
        document.append("errName", &*error.code_name());
        document.append("errCode", error.code);
    }
    document.append("ts", DateTime::now());
    document.append("client", ended.connection.peer.host().as_str());
    let metadata = ended.connection.metadata.lock();
    if let Some(name) = metadata
        .as_ref()
        .and_then(|metadata| metadata.get_path("application.name"))
        .and_then(|name| name.as_str())
    {
        document.append("appName", name);
    }
    document.array("allUsers").finish();
    document.append("user", "");
    document.append("micros", micros(ended.breakdown.wall_ns));
    append_phases(document, ended.breakdown);
    document.append(
        "unattributedMicros",
        micros(ended.breakdown.unattributed_ns),
    );
    append_work(document, ended.breakdown);
    append_waits(document, ended.breakdown);
}

fn append_command(
    name: &str,
    document: &mut DocumentBuilder<'_>,
    body: RawDocument<'_>,
    shows_text: bool,
) {
    if !shows_text {
        document.append(name, body);
        return;
    }
    let mut text = Document::from_raw(body).to_string();
    text.truncate(text.floor_char_boundary(COMMAND_BYTES_MAX));
    let mut command = document.document(name);
    command.append("$truncated", text.as_str());
    command.finish();
}

/// MongoDB's older word for the kind of an operation; currentOp shows it too.
pub fn operation_of(command: &str) -> &'static str {
    match command {
        "find" => "query",
        "getMore" => "getmore",
        "insert" => "insert",
        "update" => "update",
        "delete" => "remove",
        _ => "command",
    }
}
