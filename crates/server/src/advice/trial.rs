//! The trial of indexes: a database in memory with a sample of the collection and its indexes, and the query explained in it without
//! the proposed indexes and with them.

use quarry_bson::{Document, RawDocument};
use quarry_database::{Database, Namespace, Operation, Scope};
use quarry_journal::Level;
use quarry_query::exec::{Explained, InsertRequest, Verbosity};

use super::proposal::Question;
use crate::commands::explained_find;
use crate::data::Data;
use crate::dispatch::error::Result;

/// The names of the indexes that are tried begin so.
const TRIED: &str = "tried_";
/// The database and the collection of the sample; nobody else sees them.
const NAMESPACE: (&str, &str) = ("trial", "sample");

/// The outcome of one explained run.
#[derive(Debug)]
pub struct Ran {
    /// The stages that read, as `IXSCAN { a: 1 }`.
    pub plan: String,
    /// The names of the indexes that the plan reads.
    used: Vec<String>,
    pub docs_examined: i64,
    pub keys_examined: i64,
    pub returned: i64,
}

/// An index that was tried.
#[derive(Debug)]
pub struct Tried {
    pub key: Document,
    /// Its entries over the sample.
    pub entries: i64,
    /// Their bytes, roughly.
    pub bytes: u64,
}

/// The outcome of a trial.
#[derive(Debug)]
pub struct Trial {
    pub without: Ran,
    pub with_indexes: Ran,
    pub indexes: Vec<Tried>,
}

impl Trial {
    /// Whether the plan reads all the indexes, and finds as much by examining less.
    pub fn holds(&self) -> bool {
        let (without, with) = (&self.without, &self.with_indexes);
        (0..self.indexes.len()).all(|place| with.used.contains(&name_of(place)))
            && with.returned == without.returned
            && with.docs_examined < without.docs_examined
    }

    /// Whether it does better than another one that holds as well. More indexes have to halve at least what is examined: each is
    /// written by every insert.
    pub fn is_better_than(&self, other: &Trial) -> bool {
        let (own, others) = (
            self.with_indexes.docs_examined,
            other.with_indexes.docs_examined,
        );
        match self.indexes.len() > other.indexes.len() {
            true => own <= others / 2,
            false => own < others,
        }
    }
}

fn name_of(place: usize) -> String {
    format!("{TRIED}{place}")
}

/// Tries indexes together over the sample, beside the indexes that there are.
pub fn try_indexes(
    operation: &Operation,
    question: &Question,
    keys: &[Document],
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
    let collation = question.find.get_document("collation");
    let definitions = keys.iter().enumerate().map(|(place, key)| {
        Document::build(|index| {
            index.append("v", 2);
            index.append("key", key);
            index.append("name", name_of(place).as_str());
            if let Some(collation) = collation {
                index.append("collation", collation);
            }
        })
    });
    let definitions: Vec<Document> = definitions.collect();
    scope.create_indexes(&namespace, &definitions, operation, Level::Written)?;
    Ok(Trial {
        without,
        with_indexes: run(&scope, operation, &namespace, &question.find)?,
        indexes: measured(&database, operation, &namespace, keys)?,
    })
}

/// The indexes that were tried, with what they take.
fn measured(
    database: &Database,
    operation: &Operation,
    namespace: &Namespace,
    keys: &[Document],
) -> Result<Vec<Tried>> {
    let stats = database.coll_stats(namespace)?;
    let measure = |(place, key): (usize, &Document)| {
        let name = name_of(place);
        let all = Document::build(|find| {
            find.append("find", NAMESPACE.1);
            find.append("hint", name.as_str());
        });
        let sizes = stats.iter().flat_map(|stats| &stats.indexes);
        let scope = Scope::from(database);
        Ok(Tried {
            key: key.clone(),
            entries: run(&scope, operation, namespace, &all)?.keys_examined,
            bytes: sizes
                .filter(|index| index.name == name)
                .map(|index| index.bytes)
                .sum(),
        })
    };
    keys.iter().enumerate().map(measure).collect()
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
        used: plan.used,
        docs_examined: stats("totalDocsExamined"),
        keys_examined: stats("totalKeysExamined"),
        returned: stats("nReturned"),
    })
}

/// The parts of a plan that read.
#[derive(Default)]
struct Plan {
    leaves: Vec<String>,
    used: Vec<String>,
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
            self.used
                .extend(stage.get_str("indexName").map(str::to_owned));
        } else {
            below.into_iter().for_each(|one| self.read(one, depth + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{doc, extjson};

    use super::super::{propose, questions_of};
    use super::*;

    /// The only question of a command.
    fn question(command: &str) -> Question {
        let command = extjson::parse_legacy(command).unwrap();
        questions_of(command.as_raw()).unwrap().swap_remove(0)
    }

    fn keys_tried(question: &Question, keys: &[Document], indexes: &[Document]) -> Trial {
        let documents: Vec<Document> = (0..500)
            .map(|n| doc! { "_id": n, "a": (n % 50), "b": n, "list": [n, (n + 1)] })
            .collect();
        let sample: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        try_indexes(&Operation::default(), question, keys, &sample, indexes).unwrap()
    }

    /// The trials of all that is proposed.
    fn all_tried(command: &str, indexes: &[Document]) -> Vec<Trial> {
        let question = question(command);
        let proposals = propose(&question).unwrap();
        let tried = proposals
            .iter()
            .map(|keys| keys_tried(&question, keys, indexes));
        tried.collect()
    }

    fn tried(command: &str, indexes: &[Document]) -> Trial {
        all_tried(command, indexes).swap_remove(0)
    }

    #[test]
    fn an_index_that_helps_is_chosen_and_examines_less() {
        let trial = tried(
            "{find: 'c', filter: {a: 7, b: {$gt: 100}}, sort: {b: -1}}",
            &[],
        );
        assert_eq!(trial.without.plan, "COLLSCAN");
        assert_eq!(trial.without.docs_examined, 500);
        assert!(trial.holds(), "{trial:?}");
        assert_eq!(
            trial.with_indexes.docs_examined,
            trial.with_indexes.returned
        );
        assert_eq!(trial.indexes[0].entries, 500);
        assert!(trial.indexes[0].bytes > 0);
        let of_list = tried("{find: 'c', filter: {list: 7}}", &[]);
        assert_eq!(of_list.indexes[0].entries, 1_000);
    }

    #[test]
    fn an_index_that_is_there_makes_another_one_worthless() {
        let there = doc! { "v": 2, "key": { "a": 1, "c": 1 }, "name": "a_c" };
        let trial = tried("{find: 'c', filter: {a: 7}}", &[there]);
        assert_eq!(
            trial.without.docs_examined,
            trial.with_indexes.docs_examined
        );
        assert!(trial.without.plan.starts_with("IXSCAN"), "{trial:?}");
        assert!(!trial.holds());
    }

    #[test]
    fn branches_of_an_or_are_served_together() {
        let or = "{find: 'c', filter: {$or: [{a: 7}, {b: {$gt: 490}}]}}";
        let trial = tried(or, &[]);
        assert!(trial.holds() && trial.indexes.len() == 2, "{trial:?}");
        assert_eq!(trial.without.plan, "COLLSCAN");
        assert_eq!(trial.with_indexes.returned, 19);
        assert!(trial.with_indexes.docs_examined < 25, "{trial:?}");
        // One of them alone serves nothing, unless the other one is there.
        let (question, of_b) = (question(or), doc! { "b": 1 });
        let of_a = doc! { "v": 2, "key": { "a": 1 }, "name": "a_1" };
        assert!(!keys_tried(&question, std::slice::from_ref(&of_b), &[]).holds());
        assert!(keys_tried(&question, &[of_b], &[of_a]).holds());
    }

    #[test]
    fn more_indexes_have_to_halve_the_work() {
        let both = all_tried("{find: 'c', filter: {a: 7, $or: [{b: 7}, {b: 57}]}}", &[]);
        assert!(both.iter().all(Trial::holds), "{both:?}");
        // One index over both fields in place of one over the first.
        assert!(both[1].is_better_than(&both[0]));
        let two = all_tried(
            "{find: 'c', filter: {a: 7, $or: [{b: {$gt: 0}}, {list: 8}]}}",
            &[],
        );
        assert!(two[0].holds() && !two[1].is_better_than(&two[0]), "{two:?}");
    }

    #[test]
    fn the_query_of_a_write_is_tried_and_nothing_else() {
        for command in [
            "{update: 'c', updates: [{q: {a: 7}, u: {$set: {a: 8}}, multi: true}]}",
            "{delete: 'c', deletes: [{q: {a: 7}, limit: 0}]}",
        ] {
            let trial = tried(command, &[]);
            assert!(trial.holds(), "{trial:?}");
            assert_eq!(
                (
                    trial.without.docs_examined,
                    trial.with_indexes.docs_examined
                ),
                (500, 10)
            );
        }
        let taken = tried(
            "{findAndModify: 'c', query: {a: 7}, sort: {b: -1}, remove: true}",
            &[],
        );
        assert!(taken.holds(), "{taken:?}");
        assert_eq!(
            (
                taken.with_indexes.docs_examined,
                taken.with_indexes.returned
            ),
            (1, 1)
        );
    }
}
