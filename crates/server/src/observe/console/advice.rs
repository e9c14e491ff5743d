//! The answer to `POST /advice`: the indexes that would serve the command of the request, as they were tried over a sample
//! (`crate::advice`).
//!
//! `{advice: [...], left?}`: an element for each shape among the statements of the command, which is one but for updates and deletes:
//! `{asked: {filter, sort}, statements, indexes: [{key, bytes, keysADocument}], documents, sampled, without: {plan, docsExamined, keysExamined, returned},
//! withIndexes: {...}, docsSaved}`, or `{asked?, statements, reason}` where there is nothing to advise. `left` counts statements that were not looked
//! at. Nothing of the command is run: the sample is read by commands that run as the user who asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use parking_lot::Mutex;
use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, doc, extjson};
use quarry_database::{ID_INDEX_NAME, Operation};
use quarry_query::interrupts;

use super::commands::{Asked, Refusal, Runner};
use crate::advice::{Proposal, Question, Ran, Trial, propose, questions_of, try_indexes};

/// Documents of a sample; fewer where they are large.
const SAMPLE_MAX: i32 = 2_000;
/// Reading the sample, and all trials together, take no longer.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Shapes of one command that are tried.
const SHAPES_MAX: usize = 5;

/// One command's trials at a time: each holds a sample in memory.
static TRIALS: Mutex<()> = Mutex::new(());

/// Statements of one command that ask for the same indexes; the first stands for all.
struct Shape {
    question: Question,
    proposals: Result<Vec<Proposal>, &'static str>,
    statements: i64,
}

/// The collection as the trials see it.
struct Sampled {
    documents: i64,
    indexes: Vec<Document>,
    /// The reply that holds the sample.
    reply: Document,
}

/// Gives the advice as text.
pub fn advise(runner: &Runner, asked: &Asked) -> Result<String, Refusal> {
    let questions = match questions_of(asked.body.as_raw()) {
        Ok(questions) => questions,
        Err(why) => return Ok(answer(vec![doc! { "reason": (why) }], 0)),
    };
    let mut shapes = shapes_of(questions);
    let left = shapes.split_off(shapes.len().min(SHAPES_MAX));
    let left: i64 = left.iter().map(|shape| shape.statements).sum();
    if shapes.iter().all(|shape| shape.proposals.is_err()) {
        let reason = |shape: &Shape| {
            let why = shape.proposals.as_ref().err()?;
            Some(told(shape, doc! { "reason": (*why) }))
        };
        return Ok(answer(shapes.iter().filter_map(reason).collect(), left));
    }
    let _one = TRIALS.lock();
    let sampled = sampled(runner, &asked.body)?;
    if runner.is_gone() {
        return Err(Refusal(
            StatusCode::REQUEST_TIMEOUT,
            "nobody waits for it\n".into(),
        ));
    }
    let operation = Arc::new(Operation::new(Some(Instant::now() + TIME_MAX)));
    let _interrupts = interrupts::run_as(Arc::clone(&operation));
    let advice = shapes.iter().map(|shape| match &shape.proposals {
        Err(why) => told(shape, doc! { "reason": (*why) }),
        Ok(proposals) => told(shape, advised(&operation, shape, proposals, &sampled)),
    });
    Ok(answer(advice.collect(), left))
}

/// Groups the questions of a command by what is proposed for them, in the order in which they stand.
fn shapes_of(questions: Vec<Question>) -> Vec<Shape> {
    let mut shapes: Vec<Shape> = Vec::new();
    for question in questions {
        let proposals = propose(&question);
        let is_alike = |shape: &&mut Shape| {
            let parts = ["sort", "limit", "collation"];
            shape.proposals == proposals
                && parts
                    .iter()
                    .all(|part| shape.question.find.get(*part) == question.find.get(*part))
        };
        match shapes.iter_mut().find(is_alike) {
            Some(shape) => shape.statements += 1,
            None => shapes.push(Shape {
                question,
                proposals,
                statements: 1,
            }),
        }
    }
    shapes
}

/// Reads a sample of the command's collection, and what the trials have to know of it.
fn sampled(runner: &Runner, command: &Document) -> Result<Sampled, Refusal> {
    let database = command.get_str("$db").unwrap_or_default();
    let collection = command
        .as_raw()
        .first()
        .and_then(|first| first.value().as_str());
    let collection = collection.unwrap_or_default();
    let time = i64::try_from(TIME_MAX.as_millis()).unwrap_or(i64::MAX);
    let counted = ask(
        runner,
        doc! { "count": collection, "maxTimeMS": time, "$db": database },
    )?;
    let listed = ask(
        runner,
        doc! { "listIndexes": collection, "cursor": { "batchSize": 1_000 }, "$db": database },
    )?;
    let has_a_use = |index: &RawDocument<'_>| {
        index.get_str("name") != Some(ID_INDEX_NAME) && !index.contains("clustered")
    };
    let indexes = batch(&listed).filter(has_a_use).map(Document::from_raw);
    let indexes = indexes.collect();
    let reply = ask(
        runner,
        doc! {
            "aggregate": collection, "pipeline": [{ "$sample": { "size": SAMPLE_MAX } }],
            "cursor": { "batchSize": SAMPLE_MAX }, "maxTimeMS": time, "$db": database,
        },
    )?;
    close(runner, &reply, collection, database)?;
    Ok(Sampled {
        documents: counted.get("n").and_then(|n| n.as_i64_exact()).unwrap_or(0),
        indexes,
        reply,
    })
}

/// Tries what is proposed for a shape, and tells of the best of it.
fn advised(
    operation: &Operation,
    shape: &Shape,
    proposals: &[Proposal],
    sampled: &Sampled,
) -> Document {
    let sample: Vec<RawDocument<'_>> = batch(&sampled.reply).collect();
    if sample.is_empty() {
        return doc! { "reason": "the collection is empty" };
    }
    let (mut best, mut why) = (None::<Trial>, String::new());
    for proposal in proposals {
        let is_there = |key: &&Document| {
            let mut known = sampled.indexes.iter();
            known.any(|index| index.get_document("key") == Some(key.as_raw()))
        };
        let keys: Vec<Document> = proposal
            .iter()
            .filter(|key| !is_there(key))
            .cloned()
            .collect();
        if keys.is_empty() {
            why = format!(
                "{} there already, and serves it no better",
                words(proposal, "is", "are")
            );
            continue;
        }
        match try_indexes(operation, &shape.question, &keys, &sample, &sampled.indexes) {
            Err(error) => why = format!("it was not tried: {}", error.message),
            Ok(trial) if !trial.holds() => {
                why = format!(
                    "{} tried on {} documents, and the planner took {} all the same: no index over values is known that would help",
                    words(&keys, "was", "were"),
                    sample.len(),
                    trial.with_indexes.plan
                );
            }
            Ok(trial) => {
                if best.as_ref().is_none_or(|best| trial.is_better_than(best)) {
                    best = Some(trial);
                }
            }
        }
    }
    match best {
        Some(trial) => verdict(&trial, sampled.documents, sample.len()),
        None => doc! { "reason": (why.as_str()) },
    }
}

/// The keys and the verb that goes with their number.
fn words(keys: &[Document], one: &str, many: &str) -> String {
    let told: Vec<String> = keys.iter().map(|key| format!("an index {key}")).collect();
    let verb = if keys.len() == 1 { one } else { many };
    format!("{} {verb}", told.join(" and "))
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

/// The whole answer.
fn answer(advice: Vec<Document>, left: i64) -> String {
    let answer = Document::build(|out| {
        let mut list = out.array("advice");
        for one in &advice {
            list.push(one);
        }
        list.finish();
        if left > 0 {
            out.append("left", left);
        }
    });
    extjson::relaxed(answer.as_raw())
}

/// One element of the answer: the question of a shape, and what is said of it.
fn told(shape: &Shape, said: Document) -> Document {
    Document::build(|out| {
        let mut asked = out.document("asked");
        for name in ["filter", "sort", "collation"] {
            if let Some(part) = shape.question.find.get(name) {
                asked.append(name, part);
            }
        }
        asked.finish();
        out.append("statements", shape.statements);
        for element in said.as_raw() {
            out.append_element(element);
        }
    })
}

fn verdict(tried: &Trial, documents: i64, sampled: usize) -> Document {
    let (without, with_indexes) = (&tried.without, &tried.with_indexes);
    let share = documents as f64 / sampled as f64;
    let saved = (without.docs_examined - with_indexes.docs_examined) as f64 * share;
    Document::build(|out| {
        let mut indexes = out.array("indexes");
        for index in &tried.indexes {
            let mut shown = indexes.document();
            shown.append("key", &index.key);
            shown.append("bytes", index.bytes as f64 * share);
            shown.append("keysADocument", index.entries as f64 / sampled as f64);
            shown.finish();
        }
        indexes.finish();
        out.append("documents", documents);
        out.append("sampled", i64::try_from(sampled).unwrap_or(i64::MAX));
        append_ran(out, "without", without);
        append_ran(out, "withIndexes", with_indexes);
        out.append("docsSaved", saved);
    })
}

fn append_ran(out: &mut DocumentBuilder<'_>, name: &str, ran: &Ran) {
    let mut shown = out.document(name);
    shown.append("plan", ran.plan.as_str());
    shown.append("docsExamined", ran.docs_examined);
    shown.append("keysExamined", ran.keys_examined);
    shown.append("returned", ran.returned);
    shown.finish();
}
