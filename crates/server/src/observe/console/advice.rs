//! The answer to `POST /advice`: the index that would serve the command of the request, as it was tried over a sample
//! (`crate::advice`).
//!
//! `{index: {...}, documents, sampled, without: {plan, docsExamined, keysExamined, returned}, withIndex: {...}, docsSaved, indexBytes,
//! keysADocument}`, or `{reason}` where there is nothing to advise. The sample is read by commands that run as the user who asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use parking_lot::Mutex;
use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, doc, extjson};
use quarry_database::{ID_INDEX_NAME, Operation};
use quarry_query::interrupts;

use super::commands::{Asked, Refusal, Runner};
use crate::advice::{Question, Ran, Trial, propose, try_index};

/// Documents of a sample; fewer where they are large.
const SAMPLE_MAX: i32 = 2_000;
/// Reading the sample, and the trial, take no longer.
const TIME_MAX: Duration = Duration::from_secs(10);

/// One trial at a time: each holds a sample in memory.
static TRIALS: Mutex<()> = Mutex::new(());

/// Gives the advice as text.
pub fn advise(runner: &Runner, asked: &Asked) -> Result<String, Refusal> {
    if !asked.is_of_data() {
        let why = "there is advice for queries alone\n";
        return Err(Refusal(StatusCode::BAD_REQUEST, why.into()));
    }
    let Some(question) = Question::of(asked.body.as_raw()) else {
        return Ok(reason(
            "it has no condition and no order that an index could serve",
        ));
    };
    let key = match propose(&question) {
        Ok(key) => key,
        Err(why) => return Ok(reason(why)),
    };
    let _one = TRIALS.lock();
    let database = asked.body.get_str("$db").unwrap_or_default();
    let collection = question.collection.as_str();
    let time = i64::try_from(TIME_MAX.as_millis()).unwrap_or(i64::MAX);
    let counted = ask(
        runner,
        doc! { "count": collection, "maxTimeMS": time, "$db": database },
    )?;
    let documents = counted.get("n").and_then(|n| n.as_i64_exact()).unwrap_or(0);
    let listed = ask(
        runner,
        doc! { "listIndexes": collection, "cursor": { "batchSize": 1_000 }, "$db": database },
    )?;
    let indexes: Vec<Document> = batch(&listed)
        .filter(|index| {
            index.get_str("name") != Some(ID_INDEX_NAME) && !index.contains("clustered")
        })
        .map(Document::from_raw)
        .collect();
    let is_there = |index: &Document| index.get_document("key") == Some(key.as_raw());
    if indexes.iter().any(is_there) {
        return Ok(reason(&format!(
            "an index {key} is there already, and serves it no better"
        )));
    }
    let sampled = ask(
        runner,
        doc! {
            "aggregate": collection, "pipeline": [{ "$sample": { "size": SAMPLE_MAX } }],
            "cursor": { "batchSize": SAMPLE_MAX }, "maxTimeMS": time, "$db": database,
        },
    )?;
    close(runner, &sampled, collection, database)?;
    let sample: Vec<RawDocument<'_>> = batch(&sampled).collect();
    if sample.is_empty() {
        return Ok(reason("the collection is empty"));
    }
    let tried = trial(runner, &question, &key, &sample, &indexes)?;
    Ok(verdict(&tried, &key, documents, sample.len()))
}

/// Runs the trial for as long as it may take and whoever asks is there.
fn trial(
    runner: &Runner,
    question: &Question,
    key: &Document,
    sample: &[RawDocument<'_>],
    indexes: &[Document],
) -> Result<Trial, Refusal> {
    if runner.is_gone() {
        return Err(Refusal(
            StatusCode::REQUEST_TIMEOUT,
            "nobody waits for it\n".into(),
        ));
    }
    let operation = Arc::new(Operation::new(Some(Instant::now() + TIME_MAX)));
    let _interrupts = interrupts::run_as(Arc::clone(&operation));
    try_index(&operation, question, key, sample, indexes).map_err(|error| {
        Refusal(
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("{}\n", error.message),
        )
    })
}

/// Runs a command that has to succeed.
fn ask(runner: &Runner, command: Document) -> Result<Document, Refusal> {
    let reply = runner.run(&command, false)?;
    if reply.get_f64("ok") == Some(1.0) {
        return Ok(reply);
    }
    let why = reply.get_str("errmsg").unwrap_or("the command failed");
    Err(Refusal(
        StatusCode::UNPROCESSABLE_ENTITY,
        format!("{why}\n"),
    ))
}

/// A sample of large documents does not fit one batch: the first one is enough.
fn close(
    runner: &Runner,
    reply: &Document,
    collection: &str,
    database: &str,
) -> Result<(), Refusal> {
    let id = reply.get_path("cursor.id").and_then(|id| id.as_i64_exact());
    match id.filter(|id| *id != 0) {
        None => Ok(()),
        Some(id) => ask(
            runner,
            doc! { "killCursors": collection, "cursors": [id], "$db": database },
        )
        .map(drop),
    }
}

fn batch(reply: &Document) -> impl Iterator<Item = RawDocument<'_>> {
    let batch = reply
        .get_path("cursor.firstBatch")
        .and_then(|batch| batch.as_array());
    batch
        .unwrap_or(RawArray::EMPTY)
        .iter()
        .filter_map(|one| one.as_document())
}

fn reason(why: &str) -> String {
    extjson::relaxed(doc! { "reason": why }.as_raw())
}

fn verdict(tried: &Trial, key: &Document, documents: i64, sampled: usize) -> String {
    let (without, with_index) = (&tried.without, &tried.with_index);
    let is_same = with_index.returned == without.returned;
    if !with_index.uses_tried || !is_same || with_index.docs_examined >= without.docs_examined {
        return reason(&format!(
            "{key} was tried on {sampled} documents, and the planner took {} all the same: no index over values is known that would help",
            with_index.plan
        ));
    }
    let share = documents as f64 / sampled as f64;
    let saved = (without.docs_examined - with_index.docs_examined) as f64 * share;
    let answer = Document::build(|out| {
        out.append("index", key);
        out.append("documents", documents);
        out.append("sampled", i64::try_from(sampled).unwrap_or(i64::MAX));
        append_ran(out, "without", without);
        append_ran(out, "withIndex", with_index);
        out.append("docsSaved", saved);
        out.append("indexBytes", tried.index_bytes as f64 * share);
        out.append("keysADocument", tried.entries as f64 / sampled as f64);
    });
    extjson::relaxed(answer.as_raw())
}

fn append_ran(out: &mut DocumentBuilder<'_>, name: &str, ran: &Ran) {
    let mut shown = out.document(name);
    shown.append("plan", ran.plan.as_str());
    shown.append("docsExamined", ran.docs_examined);
    shown.append("keysExamined", ran.keys_examined);
    shown.append("returned", ran.returned);
    shown.finish();
}
