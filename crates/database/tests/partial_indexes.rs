//! A partial index after a reopening: the filter is compiled again in the language that the database is given, and without one
//! nothing is written that the index could miss.

use std::sync::Arc;

use quarry_bson::{Document, RawDocument, doc};
use quarry_database::{
    Collation, Database, DocumentFilter, FilterLanguage, Level, Namespace, Operation, Options,
    Result,
};
use quarry_journal::SimulatedFiles;
use quarry_storage::Memory;

/// Filters of one word: the documents that have all the fields of the expression match.
#[derive(Debug)]
struct HasFields;

#[derive(Debug)]
struct Fields(Vec<String>);

impl FilterLanguage for HasFields {
    fn compile(
        &self,
        expression: RawDocument<'_>,
        _: &Collation,
    ) -> Result<Arc<dyn DocumentFilter>> {
        let names = expression.iter().map(|field| field.name().to_string());
        Ok(Arc::new(Fields(names.collect())))
    }
}

impl DocumentFilter for Fields {
    fn matches(&self, document: RawDocument<'_>) -> Result<bool> {
        Ok(self
            .0
            .iter()
            .all(|name| document.get(name.as_str()).is_some()))
    }

    fn top_level_fields(&self) -> &[String] {
        &self.0
    }
}

fn insert(database: &Database, document: &Document) -> Result<u64> {
    let namespace = Namespace::parse("db.c").unwrap();
    let documents = [document.as_raw()];
    let operation = Operation::default();
    let outcome =
        database.insert_piece(&operation, &namespace, &documents, true, Level::Written)?;
    Ok(outcome.inserted)
}

#[test]
fn a_partial_index_is_the_same_after_a_reopening() {
    let engine = Arc::new(Memory::new());
    let files = SimulatedFiles::new();
    let open = |options: Options| {
        let options = Options {
            commit_interval_ms: 0,
            ..options
        };
        Database::open_on(Arc::clone(&engine) as _, Arc::new(files.clone()), options).unwrap()
    };
    let with_language = || {
        open(Options {
            filter_language: Arc::new(HasFields),
            ..Options::default()
        })
    };
    let (namespace, operation) = (Namespace::parse("db.c").unwrap(), Operation::default());
    let database = with_language();
    let specs = [doc! { "key": { "a": 1 }, "partialFilterExpression": { "kept": 1 } }];
    database
        .create_indexes(&namespace, &specs, &operation, Level::Written)
        .unwrap();
    let before = database.list_indexes(&namespace).unwrap();
    drop(database);

    let database = with_language();
    assert_eq!(database.list_indexes(&namespace).unwrap(), before);
    insert(&database, &doc! { "_id": 1, "a": 1, "kept": true }).unwrap();
    insert(&database, &doc! { "_id": 2, "a": 1 }).unwrap();
    let report = database.validate(&namespace, true, &operation).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    assert_eq!(report.indexes[1].keys, 1);
    drop(database);

    let database = open(Options::default());
    assert!(insert(&database, &doc! { "_id": 3, "kept": true }).is_err());
}
