//! The trial of an index: a database in memory with a sample of the collection and its indexes, and the query explained in it without
//! the index and with it.

use quarry_bson::{Document, RawDocument};
use quarry_database::{Database, Namespace, Operation, Scope};
use quarry_journal::Level;
use quarry_query::exec::{Explained, InsertRequest, Verbosity};

use super::proposal::Question;
use crate::commands::explained_find;
use crate::data::Data;
use crate::dispatch::error::Result;

/// The name of the index that is tried.
const TRIED: &str = "tried";
/// The database and the collection of the sample; nobody else sees them.
const NAMESPACE: (&str, &str) = ("trial", "sample");

/// The outcome of one explained run.
#[derive(Debug)]
pub struct Ran {
    /// The stages that read, as `IXSCAN { a: 1 }`.
    pub plan: String,
    /// The plan reads the index that is tried.
    pub uses_tried: bool,
    pub docs_examined: i64,
    pub keys_examined: i64,
    pub returned: i64,
}

/// The outcome of a trial.
#[derive(Debug)]
pub struct Trial {
    pub without: Ran,
    pub with_index: Ran,
    /// Entries of the index over the sample.
    pub entries: i64,
    /// Their bytes, roughly.
    pub index_bytes: u64,
}

/// Tries an index over the sample, beside the indexes that there are.
pub fn try_index(
    operation: &Operation,
    question: &Question,
    key: &Document,
    sample: &[RawDocument<'_>],
    indexes: &[Document],
) -> Result<Trial> {
    let database = scratch()?;
    let scope = Scope::from(&database);
    let namespace = Namespace::new(NAMESPACE.0, NAMESPACE.1)?;
    scope.create_collection(&namespace, RawDocument::EMPTY, operation, Level::Written)?;
    let insert = InsertRequest {
        is_ordered: true,
        keeps_empty_timestamps: true,
        ..InsertRequest::new(&namespace, sample)
    };
    scope.insert(operation, insert, Level::Written)?;
    for index in indexes {
        // A sample suits all indexes but those that this version cannot make, which serve the query no more here than there.
        let _ = scope.create_indexes(
            &namespace,
            std::slice::from_ref(index),
            operation,
            Level::Written,
        );
    }
    let without = run(&scope, operation, &namespace, &question.find)?;
    let tried = Document::build(|index| {
        index.append("v", 2);
        index.append("key", key);
        index.append("name", TRIED);
        if let Some(collation) = question.find.get_document("collation") {
            index.append("collation", collation);
        }
    });
    scope.create_indexes(&namespace, &[tried], operation, Level::Written)?;
    let with_index = run(&scope, operation, &namespace, &question.find)?;
    let all = Document::build(|find| {
        find.append("find", NAMESPACE.1);
        find.append("hint", TRIED);
    });
    let entries = run(&scope, operation, &namespace, &all)?.keys_examined;
    let stats = database.coll_stats(&namespace)?;
    let sizes = stats.iter().flat_map(|stats| &stats.indexes);
    let size = sizes
        .filter(|index| index.name == TRIED)
        .map(|index| index.bytes)
        .sum();
    Ok(Trial {
        without,
        with_index,
        entries,
        index_bytes: size,
    })
}

/// An empty database that speaks the whole language.
fn scratch() -> Result<Database> {
    let options = quarry_database::Options {
        filter_language: quarry_query::filter_language(),
        index_kinds: quarry_query::index_kinds(),
        ..quarry_database::Options::default()
    };
    let engine = std::sync::Arc::new(quarry_storage::Memory::new());
    Ok(Database::open(engine, options)?)
}

fn run(
    scope: &Scope<'_>,
    operation: &Operation,
    namespace: &Namespace,
    find: &Document,
) -> Result<Ran> {
    let mut reply = Vec::new();
    explained_find(namespace, find.as_raw(), |request| {
        let mut out = quarry_bson::DocumentBuilder::new(&mut reply);
        let verbosity = Verbosity::ExecutionStats;
        scope.explain(operation, Explained::Find(request), verbosity, &mut out)?;
        out.finish();
        Ok(())
    })?;
    let reply = RawDocument::new(&reply)?;
    let stats = |name: &str| {
        let found = reply.get_path(format!("executionStats.{name}"));
        found.and_then(|value| value.as_i64_exact()).unwrap_or(0)
    };
    let mut plan = Plan::default();
    if let Some(root) = reply
        .get_path("queryPlanner.winningPlan")
        .and_then(|root| root.as_document())
    {
        plan.read(root, 0);
    }
    Ok(Ran {
        plan: plan.leaves.join(", "),
        uses_tried: plan.uses_tried,
        docs_examined: stats("totalDocsExamined"),
        keys_examined: stats("totalKeysExamined"),
        returned: stats("nReturned"),
    })
}

/// The parts of a plan that read.
#[derive(Default)]
struct Plan {
    leaves: Vec<String>,
    uses_tried: bool,
}

/// No plan is deeper.
const PLAN_DEPTH_MAX: usize = 32;

impl Plan {
    fn read(&mut self, stage: RawDocument<'_>, depth: usize) {
        let below = stage.get_document("inputStage").into_iter();
        let many = stage.get_array("inputStages").into_iter().flatten();
        let below: Vec<RawDocument<'_>> = below
            .chain(many.filter_map(|one| one.as_document()))
            .collect();
        if below.is_empty() || depth > PLAN_DEPTH_MAX {
            let name = stage.get_str("stage").unwrap_or("?");
            let key = stage
                .get_document("keyPattern")
                .map(|key| format!(" {key}"));
            self.leaves
                .push(format!("{name}{}", key.unwrap_or_default()));
            self.uses_tried |= stage.get_str("indexName") == Some(TRIED);
        } else {
            below.into_iter().for_each(|one| self.read(one, depth + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{doc, extjson};

    use super::super::propose;
    use super::*;

    fn tried(find: &str, indexes: &[Document]) -> Trial {
        let command = extjson::parse_legacy(find).unwrap();
        let question = Question::of(command.as_raw()).unwrap();
        let key = propose(&question).unwrap();
        let documents: Vec<Document> = (0..500)
            .map(|n| doc! { "_id": n, "a": (n % 50), "b": n, "list": [n, (n + 1)] })
            .collect();
        let sample: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        try_index(&Operation::default(), &question, &key, &sample, indexes).unwrap()
    }

    #[test]
    fn an_index_that_helps_is_chosen_and_examines_less() {
        let trial = tried(
            "{find: 'c', filter: {a: 7, b: {$gt: 100}}, sort: {b: -1}}",
            &[],
        );
        assert_eq!(trial.without.plan, "COLLSCAN");
        assert_eq!(trial.without.docs_examined, 500);
        assert!(trial.with_index.uses_tried, "{trial:?}");
        assert_eq!(trial.with_index.docs_examined, trial.with_index.returned);
        assert_eq!(trial.with_index.returned, trial.without.returned);
        assert_eq!(trial.entries, 500);
        assert!(trial.index_bytes > 0);
        assert_eq!(tried("{find: 'c', filter: {list: 7}}", &[]).entries, 1_000);
    }

    #[test]
    fn an_index_that_is_there_makes_another_one_worthless() {
        let there = doc! { "v": 2, "key": { "a": 1, "c": 1 }, "name": "a_c" };
        let trial = tried("{find: 'c', filter: {a: 7}}", &[there]);
        assert_eq!(trial.without.docs_examined, trial.with_index.docs_examined);
        assert!(trial.without.plan.starts_with("IXSCAN"), "{trial:?}");
    }
}
