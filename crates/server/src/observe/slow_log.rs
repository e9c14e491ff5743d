//! The line of a slow operation: MongoDB's fields, the phases, and whom it waited for.

use std::fmt::Write as _;

use quarry_bson::{Document, RawDocument, extjson};

use crate::observe::ended::Ended;
use crate::observe::log::{self, Attribute};
use crate::observe::timing_document;

/// A longer command is shown as the beginning of its text.
const COMMAND_BYTES_MAX: usize = 4 << 10;

/// Writes the line. Its message is MongoDB's, so that tools which look for slow queries find it.
pub fn write(ended: &Ended<'_>) {
    let outcome = ended.outcome;
    let application = ended.connection.metadata.lock();
    let application = application
        .as_ref()
        .and_then(|metadata| metadata.get_path("application.name"))
        .and_then(|name| name.as_str());
    let mut line: Vec<(&str, Attribute<'_>)> =
        vec![("type", "command".into()), ("ns", ended.namespace().into())];
    if let Some(application) = application {
        line.push(("appName", application.into()));
    }
    line.push(("opid", i64::from(outcome.opid).into()));
    line.push(("command", Attribute::Json(command_json(ended.call.body))));
    if let Some(command) = ended.originating_command() {
        let json = command_json(command.as_raw());
        line.push(("originatingCommand", Attribute::Json(json)));
    }
    if let Some((lsid, txn_number)) = ended.session() {
        let shown = Document::build(|shown| lsid.append("lsid", shown));
        if let Some(lsid) = shown.get_document("lsid") {
            line.push(("lsid", Attribute::Json(extjson::relaxed(lsid))));
        }
        line.extend(txn_number.map(|number| ("txnNumber", number.into())));
    }
    if let Some(plan) = ended.plan() {
        line.push(("planSummary", plan.to_string().into()));
    }
    if let Some(id) = outcome.cursor.id {
        line.push(("cursorid", id.into()));
    }
    line.push(("keysExamined", outcome.keys_examined.into()));
    line.push(("docsExamined", outcome.docs_examined.into()));
    for (field, name) in WRITTEN {
        if let Some(number) = written(ended, field) {
            line.push((name, number.into()));
        }
    }
    if outcome.cursor.is_exhausted {
        line.push(("cursorExhausted", Attribute::Json("true".to_owned())));
    }
    line.push(("nreturned", outcome.returned.into()));
    if let Some(hashes) = ended.hashes() {
        line.push(("planCacheShapeHash", (&hashes.shape).into()));
        line.push(("queryHash", (&hashes.shape).into()));
        line.push(("planCacheKey", (&hashes.key).into()));
    }
    line.push(("reslen", (ended.reply_bytes as u64).into()));
    if let Some(error) = &outcome.error {
        line.push(("errMsg", (&error.message).into()));
        line.push(("errName", error.code_name().into_owned().into()));
        line.push(("errCode", i64::from(error.code).into()));
    }
    line.push(("remote", ended.connection.peer.to_string().into()));
    line.push(("protocol", "op_msg".into()));
    line.push(("phasesMicros", Attribute::Json(phases_json(ended))));
    let details = Document::build(|details| {
        timing_document::append_work(details, ended.breakdown);
        timing_document::append_waits(details, ended.breakdown);
    });
    for detail in &details {
        if let Some(part) = detail.value().as_document() {
            let name = if detail.name() == "work" {
                "work"
            } else {
                "waits"
            };
            line.push((name, Attribute::Json(extjson::relaxed(part))));
        }
    }
    line.push(("durationMillis", ended.millis().into()));
    log::info("command", "Slow query", &line);
}

/// Fields of a write's reply, and the names that they have in the line and in the profiler's documents.
pub const WRITTEN: [(&str, &str); 4] = [
    ("insert", "ninserted"),
    ("update", "nMatched"),
    ("nModified", "nModified"),
    ("delete", "ndeleted"),
];

/// The number in the reply of a write that `field` of `WRITTEN` stands for.
pub fn written(ended: &Ended<'_>, field: &str) -> Option<i64> {
    let name = match field {
        "nModified" => "nModified",
        command if command == ended.outcome.command_name => "n",
        _ => return None,
    };
    ended.reply?.get(name)?.as_i64_exact()
}

fn phases_json(ended: &Ended<'_>) -> String {
    let mut json = String::from("{");
    for (phase, ns) in ended.breakdown.entered() {
        let _ = write!(json, "\"{}\":{:.1},", phase.name(), ns as f64 / 1e3);
    }
    let unattributed = ended.breakdown.unattributed_ns as f64 / 1e3;
    let _ = write!(json, "\"unattributed\":{unattributed:.1}}}");
    json
}

fn command_json(body: RawDocument<'_>) -> String {
    if body.as_bytes().len() <= COMMAND_BYTES_MAX {
        let json = extjson::relaxed(body);
        if json.len() <= COMMAND_BYTES_MAX {
            return json;
        }
    }
    let mut text = Document::from_raw(body).to_string();
    text.truncate(text.floor_char_boundary(COMMAND_BYTES_MAX));
    format!("{{\"$truncated\":{}}}", log::json_text(&text))
}
