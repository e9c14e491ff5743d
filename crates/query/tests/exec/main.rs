//! Reads and writes through the executor, on the memory engine: an index changes how documents are found and never
//! which; writes change what matches and nothing else; cursors go on where they were saved.

mod accesses;
mod agreement;
mod bounds;
mod branch_plans;
mod collations;
mod covered_plans;
mod expiry;
mod geo;
mod hashed;
mod key_options;
mod levels;
mod memory;
mod merged_plans;
mod multikey_orders;
mod partial_indexes;
mod pipelines;
mod plans;
#[path = "../random_pipeline/mod.rs"]
mod random_pipeline;
mod reads;
mod sub_pipelines;
mod text;
mod transactions;
mod trials;
mod validators;
mod views;
mod wildcards;
mod writes;
mod written;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use quarry_bson::{DOCUMENT_BYTES_MAX, Document, RawDocument, RawValue, Value, doc, extjson};
use quarry_database::{Database, Level, Namespace, Operation, Options};
use quarry_query::exec::{self, *};

struct Fixture {
    database: Database,
    operation: Operation,
    namespace: Namespace,
}

fn json(text: &str) -> Document {
    extjson::parse(text).unwrap()
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

fn with(documents: &[&str]) -> Fixture {
    let documents: Vec<Document> = documents.iter().map(|text| json(text)).collect();
    with_documents(&documents)
}

fn with_documents(documents: &[Document]) -> Fixture {
    let fixture = Fixture {
        database: open_in_memory(),
        operation: Operation::new(None),
        namespace: Namespace::parse("db.c").unwrap(),
    };
    if !documents.is_empty() {
        let outcome = fixture.insert(documents, true);
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    }
    fixture
}

/// The results of a pipeline over the fixture's collection.
fn aggregated(fixture: &Fixture, pipeline: &str) -> Result<Vec<String>> {
    Ok(fixture.drain(aggregate(fixture, pipeline)?))
}

fn aggregate(fixture: &Fixture, pipeline: &str) -> Result<Executor> {
    let pipeline = json(&format!(r#"{{"p": {pipeline}}}"#));
    let over = Over::Collection(&fixture.namespace);
    let request = AggregateRequest::new(over, pipeline.get_array("p").unwrap());
    exec::aggregate((&fixture.database).into(), &fixture.operation, request)
}

impl Fixture {
    fn insert(&self, documents: &[Document], is_ordered: bool) -> InsertOutcome {
        self.insert_at(Level::Written, documents, is_ordered)
    }

    fn insert_at(&self, level: Level, documents: &[Document], is_ordered: bool) -> InsertOutcome {
        let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let request = InsertRequest {
            is_ordered,
            ..InsertRequest::new(&self.namespace, &raw)
        };
        exec::insert((&self.database).into(), &self.operation, request, level).unwrap()
    }

    fn index(&self, spec: &str) {
        self.database
            .create_indexes(
                &self.namespace,
                &[json(spec)],
                &self.operation,
                Level::Written,
            )
            .unwrap();
    }

    fn drain(&self, executor: Executor) -> Vec<String> {
        let found = self.documents(executor).unwrap();
        let shown = found.iter().map(|one| extjson::relaxed(one.as_raw()));
        shown.collect()
    }

    fn documents(&self, mut executor: Executor) -> Result<Vec<Document>> {
        let (mut found, mut document) = (Vec::new(), Vec::new());
        while executor.next(&self.operation, &mut document)? {
            found.push(RawDocument::new(&document).unwrap().to_owned_document());
            document.clear();
        }
        Ok(found)
    }

    fn find_with(
        &self,
        filter: &str,
        adjust: impl FnOnce(&mut FindRequest<'_>),
    ) -> Result<Vec<String>> {
        let filter = json(filter);
        let mut request = FindRequest::new(&self.namespace);
        request.filter = shorten(&filter);
        adjust(&mut request);
        let executor = exec::find((&self.database).into(), &self.operation, request)?;
        Ok(self.drain(executor))
    }

    fn find(&self, filter: &str) -> Vec<String> {
        self.find_with(filter, |_| {}).unwrap()
    }

    fn sorted(&self, filter: &str, sort: &str, skip: u64, limit: Option<u64>) -> Vec<String> {
        let (filter, sort) = (json(filter), json(sort));
        let mut request = FindRequest::new(&self.namespace);
        request.filter = filter.as_raw();
        request.sort = Some(sort.as_raw());
        (request.skip, request.limit) = (skip, limit);
        self.drain(exec::find((&self.database).into(), &self.operation, request).unwrap())
    }

    fn update(&self, filter: &str, update: &str, is_multi: bool, is_upsert: bool) -> UpdateOutcome {
        self.update_at(Level::Written, filter, update, is_multi, is_upsert)
    }

    fn update_at(
        &self,
        level: Level,
        filter: &str,
        update: &str,
        is_multi: bool,
        is_upsert: bool,
    ) -> UpdateOutcome {
        self.try_update_at(level, filter, update, is_multi, is_upsert)
            .unwrap()
    }

    fn try_update(&self, filter: &str, update: &str) -> Result<UpdateOutcome> {
        self.try_update_at(Level::Written, filter, update, false, false)
    }

    fn try_update_at(
        &self,
        level: Level,
        filter: &str,
        update: &str,
        is_multi: bool,
        is_upsert: bool,
    ) -> Result<UpdateOutcome> {
        let (filter, update) = (json(filter), json(update));
        let request = UpdateRequest {
            array_filters: None,
            constants: None,
            sort: None,
            namespace: &self.namespace,
            context: None,
            collation: None,
            filter: filter.as_raw(),
            update: RawValue::Document(update.as_raw()),
            is_upsert,
            is_multi,
            hint: None,
            keeps_empty_timestamps: false,
        };
        exec::update((&self.database).into(), &self.operation, request, level)
    }

    fn delete(&self, filter: &str, is_multi: bool) -> u64 {
        self.delete_at(Level::Written, filter, is_multi)
    }

    fn delete_at(&self, level: Level, filter: &str, is_multi: bool) -> u64 {
        let filter = json(filter);
        let request = DeleteRequest {
            namespace: &self.namespace,
            context: None,
            collation: None,
            filter: filter.as_raw(),
            is_multi,
            hint: None,
        };
        exec::delete((&self.database).into(), &self.operation, request, level).unwrap()
    }

    fn explain(&self, filter: &str, sort: Option<&str>) -> Document {
        let (filter, sort) = (json(filter), sort.map(json));
        let mut request = FindRequest::new(&self.namespace);
        request.filter = filter.as_raw();
        request.sort = sort.as_ref().map(Document::as_raw);
        self.explained(Explained::Find(request))
    }

    fn explained(&self, explained: Explained<'_>) -> Document {
        self.explained_with(explained, Verbosity::ExecutionStats)
    }

    fn explained_with(&self, explained: Explained<'_>, verbosity: Verbosity) -> Document {
        let mut failure = Ok(());
        let shown = Document::build(|reply| {
            failure = exec::explain(
                (&self.database).into(),
                &self.operation,
                explained,
                verbosity,
                reply,
            );
        });
        failure.unwrap();
        shown
    }

    fn plan(&self, filter: &str, sort: Option<&str>) -> String {
        stages(&self.explain(filter, sort))
    }

    fn count(&self, filter: &str, hint: Option<&str>) -> u64 {
        let filter = json(filter);
        let mut request = CountRequest::new(&self.namespace);
        request.filter = filter.as_raw();
        let hint = hint.map(Value::from);
        request.hint = hint.as_ref().map(Value::as_raw);
        exec::count((&self.database).into(), &self.operation, request).unwrap()
    }
}

/// The stages of the winning plan from the outermost in, and the index.
fn stages(explained: &Document) -> String {
    let plan = ["", "stages.0.$cursor."].iter().find_map(|before| {
        let path = format!("{before}queryPlanner.winningPlan");
        explained.as_raw().get_path(path)
    });
    let mut stage = plan;
    let mut names = Vec::new();
    while let Some(RawValue::Document(document)) = stage {
        names.push(document.get_str("stage").unwrap().to_owned());
        names.extend(document.get_str("indexName").map(str::to_owned));
        if let Some(branches) = document.get_array("inputStages") {
            let branches = branches.iter().map(|branch| {
                let branch = branch.as_document().unwrap();
                let text = |field| branch.get_str(field).unwrap();
                format!("{} {}", text("stage"), text("indexName"))
            });
            names.push(format!("[{}]", branches.collect::<Vec<_>>().join(", ")));
        }
        stage = document.get("inputStage");
    }
    names.join(" ")
}

/// Returns the numbers that explain measured of a run: rows, keys and documents.
fn examined(explained: &Document) -> [i64; 3] {
    ["nReturned", "totalKeysExamined", "totalDocsExamined"].map(|field| {
        let plain = explained
            .as_raw()
            .get_path(format!("executionStats.{field}"));
        let within = format!("stages.0.$cursor.executionStats.{field}");
        let value = plain.or_else(|| explained.as_raw().get_path(within));
        value.unwrap().as_i64_exact().unwrap()
    })
}

/// A hundred documents: ten of each `a`, of which every fourth has no `b`; three tags each, of which the first are shared.
fn of_all_kinds() -> Fixture {
    let documents: Vec<Document> = (0..100)
        .map(|n| {
            let mut document = doc! {"_id": n, "a": (n % 10), "u": (n * 2), "tags": ["t", (n % 3), n], "n": {"x": (n % 5)}};
            if n % 4 != 0 {
                document.append("b", n);
            }
            document
        })
        .collect();
    let fixture = with_documents(&documents);
    for index in [
        r#"{"key": {"a": 1, "b": -1}}"#,
        r#"{"key": {"tags": 1}}"#,
        r#"{"key": {"u": 1}, "unique": true}"#,
        r#"{"key": {"n.x": 1, "a": 1}}"#,
        r#"{"key": {"s": 1}, "sparse": true}"#,
    ] {
        fixture.index(index);
    }
    fixture
}

/// Keeps the borrow of a request apart from its maker.
fn shorten(document: &Document) -> RawDocument<'_> {
    document.as_raw()
}
