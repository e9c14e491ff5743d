//! Runs the scripts in `tests/find_scripts/` against a database in memory: what finds, counts, distincts and changes
//! answer with their options, and which indexes may be made. `cargo test -p quarry-query --test find_scripts --
//! --nocapture` counts the cases, and with `UPDATE=1` writes the results anew.
//!
//! ```text
//! documents [..]   a new collection with these documents; what it says is a refused document
//! indexes          each specification: the name of the index that is made, or why none is
//! find             each {filter, projection, sort, skip, limit, hint, min, max, returnKey, collation, let}: the documents
//! plan             each of these: the stages of the plan, the outermost first, with the indexes that are read
//! count            each {filter, skip, limit, hint, collation}: how many documents
//! distinct         each {key, filter, hint, collation}: the values
//! write            each {filter, update or delete, multi, upsert, sort, arrayFilters, c}: what was done, and what is there
//! modify           each {filter, update or remove, sort, fields, new, upsert, arrayFilters}: the document, and what is there
//! ```
//! Text is read as in the scripts of the language. A find without a hint is asked of the whole collection, too, and must
//! find the same documents.

mod script;

use std::sync::Arc;

use quarry_bson::{Document, RawArray, RawDocument, RawValue, extjson};
use quarry_database::{Database, Level, Namespace, Operation, Options, parse_collation};
use quarry_query::exec::{self, *};
use quarry_query::expression::ExpressionContext;
use quarry_query::{Error, Result};
use script::Language;

/// 2024-01-02T03:04:05.678Z.
const NOW_MS: i64 = 1_704_164_645_678;

/// The scripts have no fewer cases than this.
const CASES_MIN: usize = 320;

#[test]
fn scripts() {
    script::run_all("find_scripts", CASES_MIN, Requests::new);
}

/// A collection, and the request that was read last.
struct Requests {
    database: Database,
    operation: Operation,
    namespace: Namespace,
    verb: String,
}

impl Language for Requests {
    fn request(&mut self, line: &str) -> Option<String> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        self.verb = verb.to_owned();
        if verb != "documents" {
            return None;
        }
        self.database = open_in_memory();
        let list = document(&format!("{{\"list\": {rest}}}"));
        let refused = self.insert(list.get_array("list").unwrap());
        refused.err().map(|error| shown(&error))
    }

    fn answer(&mut self, input: &str) -> String {
        let asked = document(input);
        let asked = asked.as_raw();
        let answered = match self.verb.as_str() {
            "indexes" => self.create_index(asked),
            "find" => self.find(asked),
            "plan" => self.plan(asked),
            "count" => self.count(asked),
            "distinct" => self.distinct(asked),
            "write" => self.write(asked),
            "modify" => self.modify(asked),
            other => panic!("unknown request {other}"),
        };
        answered.unwrap_or_else(|error| shown(&error))
    }
}

impl Requests {
    fn new() -> Requests {
        Requests {
            database: open_in_memory(),
            operation: Operation::new(None),
            namespace: Namespace::parse("db.c").unwrap(),
            verb: String::new(),
        }
    }

    fn insert(&self, documents: RawArray<'_>) -> Result<()> {
        let documents: Vec<RawDocument<'_>> = documents
            .iter()
            .filter_map(|value| value.as_document())
            .collect();
        let request = InsertRequest::new(&self.namespace, &documents);
        let level = Level::Written;
        let outcome = exec::insert((&self.database).into(), &self.operation, request, level)?;
        match outcome.errors.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    fn create_index(&self, spec: RawDocument<'_>) -> Result<String> {
        let specs = [spec.to_owned_document()];
        let level = Level::Written;
        let namespace = &self.namespace;
        let before = self.database.list_indexes(namespace).unwrap_or_default();
        self.database
            .create_indexes(namespace, &specs, &self.operation, level)?;
        let after = self.database.list_indexes(namespace)?;
        if after.len() == before.len() {
            return Ok("there already".to_owned());
        }
        Ok(after.last().unwrap().get_str("name").unwrap().to_owned())
    }

    fn find(&self, asked: RawDocument<'_>) -> Result<String> {
        let context = context_of(asked)?;
        let request = find_request(&self.namespace, asked, &context);
        let found = self.found(request)?;
        let is_whole = request.limit.is_none() && request.skip == 0;
        let is_natural = request
            .sort
            .is_some_and(|sort| sort.get("$natural").is_some());
        let is_plain = request.hint.is_none() && request.key_options.is_none() && !is_natural;
        if is_plain && is_whole {
            let natural = document("{\"$natural\": 1}");
            let hint = Some(RawValue::Document(natural.as_raw()));
            let mut scanned = self.found(FindRequest { hint, ..request })?;
            let mut sorted = found.clone();
            scanned.sort_unstable();
            sorted.sort_unstable();
            assert_eq!(sorted, scanned, "an index changes what is found");
        }
        Ok(format!("[{}]", found.join(", ")))
    }

    fn found(&self, request: FindRequest<'_>) -> Result<Vec<String>> {
        let executor = exec::find((&self.database).into(), &self.operation, request)?;
        self.drained(executor)
    }

    fn drained(&self, mut executor: Executor) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut bytes = Vec::new();
        while executor.next(&self.operation, &mut bytes)? {
            found.push(extjson::relaxed(RawDocument::new(&bytes).unwrap()));
            bytes.clear();
        }
        Ok(found)
    }

    fn plan(&self, asked: RawDocument<'_>) -> Result<String> {
        let context = context_of(asked)?;
        let request = find_request(&self.namespace, asked, &context);
        let mut failure = Ok(());
        let explained = Document::build(|reply| {
            failure = exec::explain(
                (&self.database).into(),
                &self.operation,
                Explained::Find(request),
                Verbosity::QueryPlanner,
                reply,
            );
        });
        failure?;
        let plan = explained.as_raw().get_path("queryPlanner.winningPlan");
        Ok(stages(plan.unwrap().as_document().unwrap()))
    }

    fn count(&self, asked: RawDocument<'_>) -> Result<String> {
        let context = context_of(asked)?;
        let mut request = CountRequest::new(&self.namespace);
        request.context = Some(&context);
        request.filter = filter_of(asked);
        request.skip = number(asked, "skip").unwrap_or(0);
        request.limit = number(asked, "limit");
        request.hint = asked.get("hint");
        let counted = exec::count((&self.database).into(), &self.operation, request)?;
        Ok(counted.to_string())
    }

    fn distinct(&self, asked: RawDocument<'_>) -> Result<String> {
        let context = context_of(asked)?;
        let mut request = DistinctRequest::new(&self.namespace, asked.get_str("key").unwrap());
        request.context = Some(&context);
        request.filter = filter_of(asked);
        request.hint = asked.get("hint");
        let values = exec::distinct((&self.database).into(), &self.operation, request)?;
        let values: Vec<String> = values.iter().map(|v| v.as_raw().to_string()).collect();
        Ok(format!("[{}]", values.join(", ")))
    }

    fn write(&self, asked: RawDocument<'_>) -> Result<String> {
        let context = context_of(asked)?;
        let (database, operation, level) = (&self.database, &self.operation, Level::Written);
        let is_multi = asked.get_bool("multi") == Some(true);
        let done = match asked.get("update") {
            None => {
                let request = DeleteRequest {
                    namespace: &self.namespace,
                    context: Some(&context),
                    collation: None,
                    filter: filter_of(asked),
                    is_multi,
                    hint: asked.get("hint"),
                };
                let deleted = exec::delete(database.into(), operation, request, level)?;
                format!("deleted {deleted}")
            }
            Some(update) => {
                let request = UpdateRequest {
                    namespace: &self.namespace,
                    context: Some(&context),
                    collation: None,
                    filter: filter_of(asked),
                    update,
                    is_upsert: asked.get_bool("upsert") == Some(true),
                    is_multi,
                    hint: asked.get("hint"),
                    sort: asked.get_document("sort"),
                    array_filters: asked.get_array("arrayFilters"),
                    constants: asked.get_document("c"),
                    keeps_empty_timestamps: false,
                };
                let outcome = exec::update(database.into(), operation, request, level)?;
                let upserted = outcome
                    .upserted
                    .map(|id| format!(", upserted {}", id.as_raw()));
                let upserted = upserted.unwrap_or_default();
                let (matched, modified) = (outcome.matched, outcome.modified);
                format!("matched {matched}, modified {modified}{upserted}")
            }
        };
        let all = self.found(FindRequest::new(&self.namespace))?;
        Ok(format!("{done} of [{}]", all.join(", ")))
    }

    fn modify(&self, asked: RawDocument<'_>) -> Result<String> {
        let context = context_of(asked)?;
        let mut request = FindAndModifyRequest::new(&self.namespace);
        request.context = Some(&context);
        request.filter = filter_of(asked);
        request.sort = asked.get_document("sort");
        request.projection = asked.get_document("fields");
        request.update = asked.get("update");
        request.returns_new = asked.get_bool("new") == Some(true);
        request.is_upsert = asked.get_bool("upsert") == Some(true);
        request.hint = asked.get("hint");
        request.array_filters = asked.get_array("arrayFilters");
        let level = Level::Written;
        let outcome =
            exec::find_and_modify((&self.database).into(), &self.operation, request, level)?;
        let value = outcome.value.as_ref();
        let value = value.map_or("nothing".to_owned(), |d| extjson::relaxed(d.as_raw()));
        let all = self.found(FindRequest::new(&self.namespace))?;
        Ok(format!("{value} of [{}]", all.join(", ")))
    }
}

fn open_in_memory() -> Database {
    let options = Options {
        commit_interval_ms: 0,
        filter_language: quarry_query::filter_language(),
        index_kinds: quarry_query::index_kinds(),
        ..Options::default()
    };
    Database::open(Arc::new(quarry_storage::Memory::new()), options).unwrap()
}

/// The collation and the variables of a request.
fn context_of(asked: RawDocument<'_>) -> Result<ExpressionContext> {
    let mut context = ExpressionContext::at(NOW_MS);
    if let Some(specification) = asked.get_document("collation") {
        context.set_collation(parse_collation(specification)?);
    }
    if let Some(variables) = asked.get_document("let") {
        context.bind_let(variables)?;
    }
    Ok(context)
}

fn find_request<'a>(
    namespace: &'a Namespace,
    asked: RawDocument<'a>,
    context: &'a ExpressionContext,
) -> FindRequest<'a> {
    let mut request = FindRequest::new(namespace);
    request.context = Some(context);
    request.filter = filter_of(asked);
    request.projection = asked.get_document("projection");
    request.sort = asked.get_document("sort");
    request.hint = asked.get("hint");
    request.skip = number(asked, "skip").unwrap_or(0);
    request.limit = number(asked, "limit");
    if let Some(bound) = asked.get_document("min") {
        request.key_options().min = Some(bound);
    }
    if let Some(bound) = asked.get_document("max") {
        request.key_options().max = Some(bound);
    }
    if asked.get_bool("returnKey") == Some(true) {
        request.key_options().returns_key = true;
    }
    request
}

fn filter_of(asked: RawDocument<'_>) -> RawDocument<'_> {
    asked.get_document("filter").unwrap_or(RawDocument::EMPTY)
}

fn number(asked: RawDocument<'_>, field: &str) -> Option<u64> {
    let number = asked.get(field)?.as_i64_exact();
    Some(u64::try_from(number.unwrap()).unwrap())
}

/// The stages from the outermost in; those that stand beside each other in brackets.
fn stages(plan: RawDocument<'_>) -> String {
    let mut text = plan.get_str("stage").unwrap().to_owned();
    if let Some(index) = plan.get_str("indexName") {
        text = format!("{text} {index}");
    }
    if let Some(inputs) = plan.get_array("inputStages") {
        let inputs = inputs.iter().filter_map(|input| input.as_document());
        let inputs: Vec<String> = inputs.map(stages).collect();
        text = format!("{text} [{}]", inputs.join(", "));
    }
    match plan.get_document("inputStage") {
        Some(input) => format!("{text} < {}", stages(input)),
        None => text,
    }
}

/// Strict Extended JSON where it can be read so, the shell's notation otherwise.
fn document(text: &str) -> Document {
    let read = extjson::parse(text).or_else(|_| extjson::parse_legacy(text));
    read.unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn shown(error: &Error) -> String {
    format!("error {} {}", error.code(), error.message)
}
