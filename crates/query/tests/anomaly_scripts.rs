//! Runs the scripts in `tests/anomaly_scripts/`, one for each anomaly that isolation rules out or allows: clients that take
//! turns, and behind `=>` what each of them is told. `UPDATE=1 cargo test -p quarry-query --test anomaly_scripts` writes
//! the results anew.
//!
//! ```text
//! data DOCUMENT ..             a new database, whose collection has these documents
//! index KEYS [unique]          an index on the collection
//! CLIENT begin                 the client is in a transaction until it commits or aborts
//! CLIENT find FILTER           the documents, by `_id`
//! CLIENT count FILTER
//! CLIENT insert DOCUMENT
//! CLIENT update FILTER CHANGE  all that match
//! CLIENT upsert FILTER CHANGE
//! CLIENT delete FILTER         all that match
//! CLIENT commit | CLIENT abort
//! ```
//! A client that is in no transaction reads the latest and commits each statement by itself. Where it would wait for
//! another one it gives up after a moment: `waits`.

mod script;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, RawValue, extjson};
use quarry_database::{Database, Level, Namespace, Operation, Scope, Transaction};
use quarry_query::exec::{self, *};
use quarry_storage::WriteBatch;
use script::Language;

/// So long a client waits for another one.
const PATIENCE: Duration = Duration::from_millis(20);

/// The scripts have no fewer cases than this.
const CASES_MIN: usize = 120;

#[test]
fn scripts() {
    script::run_all("anomaly_scripts", CASES_MIN, Clients::new);
}

#[test]
fn the_page_about_transactions_shows_the_example_as_it_runs() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let page = format!("{root}../../docs/transactions.md");
    let page = std::fs::read_to_string(page).unwrap();
    let script = format!("{root}tests/anomaly_scripts/worked_example.txt");
    let script = std::fs::read_to_string(script).unwrap();
    let (_, example) = script.split_once("\n\n").unwrap();
    assert!(
        page.contains(example.trim()),
        "the page shows another example"
    );
}

struct Clients {
    database: Database,
    namespace: Namespace,
    transactions: BTreeMap<String, Arc<Transaction>>,
}

impl Clients {
    fn new() -> Clients {
        Clients {
            database: Database::open_in_memory().unwrap(),
            namespace: Namespace::parse("db.c").unwrap(),
            transactions: BTreeMap::new(),
        }
    }

    fn define(&mut self, word: &str, documents: &[Document], is_unique: bool) {
        let operation = Operation::default();
        match word {
            "data" => {
                *self = Clients::new();
                let scope = Scope::from(&self.database);
                insert(scope, &self.namespace, &operation, documents).unwrap();
            }
            "index" => {
                let mut spec = Document::new();
                spec.append("key", documents[0].as_raw());
                spec.append("unique", is_unique);
                (self.database)
                    .create_indexes(&self.namespace, &[spec], &operation, Level::Written)
                    .unwrap();
            }
            other => panic!("a script says `{other}`"),
        }
    }

    fn run(&mut self, client: &str, word: &str, documents: &[Document]) -> Option<String> {
        let operation = Operation::new(Some(Instant::now() + PATIENCE));
        let said = match word {
            "begin" => {
                let transaction = self.database.begin_transaction(&operation).unwrap();
                self.transactions.insert(client.to_owned(), transaction);
                return None;
            }
            "commit" | "abort" => {
                let transaction = self.transactions.remove(client).unwrap();
                if word == "abort" {
                    transaction.end();
                    return None;
                }
                let (free, session) = (Operation::default(), WriteBatch::new());
                let committed = (self.database).commit_transaction(
                    &transaction,
                    &free,
                    Level::Written,
                    &session,
                );
                committed
                    .map(|_| "committed".to_owned())
                    .map_err(quarry_query::Error::from)
            }
            _ => {
                let transaction = self.transactions.get(client);
                let scope = match transaction {
                    Some(transaction) => Scope::in_transaction(&self.database, transaction),
                    None => Scope::from(&self.database),
                };
                statement(scope, &self.namespace, &operation, word, documents)
            }
        };
        Some(said.unwrap_or_else(|error| match error.code() {
            50 => "waits".to_owned(),
            112 => "WriteConflict".to_owned(),
            11_000 => "DuplicateKey".to_owned(),
            code => format!("error {code}"),
        }))
    }
}

fn statement(
    scope: Scope<'_>,
    namespace: &Namespace,
    operation: &Operation,
    word: &str,
    documents: &[Document],
) -> Result<String> {
    let level = Level::Written;
    let first = documents[0].as_raw();
    match word {
        "find" => {
            let sort = quarry_bson::doc! { "_id": 1 };
            let mut request = FindRequest::new(namespace);
            (request.filter, request.sort) = (first, Some(sort.as_raw()));
            let mut executor = exec::find(scope, operation, request)?;
            let (mut found, mut document) = (Vec::new(), Vec::new());
            while executor.next(operation, &mut document)? {
                found.push(extjson::relaxed(RawDocument::new(&document).unwrap()));
                document.clear();
            }
            Ok(match found.is_empty() {
                true => "nothing".to_owned(),
                false => found.join(" "),
            })
        }
        "count" => {
            let mut request = CountRequest::new(namespace);
            request.filter = first;
            Ok(exec::count(scope, operation, request)?.to_string())
        }
        "insert" => insert(scope, namespace, operation, documents),
        "update" | "upsert" => {
            let request = UpdateRequest {
                array_filters: None,
                constants: None,
                sort: None,
                namespace,
                context: None,
                collation: None,
                filter: first,
                update: RawValue::Document(documents[1].as_raw()),
                is_upsert: word == "upsert",
                is_multi: word == "update",
                hint: None,
                keeps_empty_timestamps: false,
            };
            let outcome = exec::update(scope, operation, request, level)?;
            Ok(match outcome.upserted {
                Some(id) => format!("upserted {id:?}"),
                None => format!("updated {}", outcome.modified),
            })
        }
        "delete" => {
            let request = DeleteRequest {
                namespace,
                context: None,
                collation: None,
                filter: first,
                is_multi: true,
                hint: None,
            };
            let deleted = exec::delete(scope, operation, request, level)?;
            Ok(format!("deleted {deleted}"))
        }
        other => panic!("a script says `{other}`"),
    }
}

fn insert(
    scope: Scope<'_>,
    namespace: &Namespace,
    operation: &Operation,
    documents: &[Document],
) -> Result<String> {
    let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
    let request = InsertRequest::new(namespace, &raw);
    let outcome = exec::insert(scope, operation, request, Level::Written)?;
    match outcome.errors.into_iter().next() {
        Some((_, error)) => Err(error),
        None => Ok(format!("inserted {}", outcome.inserted)),
    }
}

/// The documents that stand one behind the other in a line, and whether a word stands behind them.
fn documents(line: &str) -> (Vec<Document>, bool) {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0, 0);
    let mut end = 0;
    for (at, character) in line.char_indices() {
        match character {
            '{' => {
                if depth == 0 {
                    begin = at;
                }
                depth += 1;
            }
            '}' => {
                depth -= 1;
                if depth == 0 {
                    end = at + 1;
                    found.push(extjson::parse(&line[begin..end]).unwrap());
                }
            }
            _ => {}
        }
    }
    (found, line[end..].contains("unique"))
}

impl Language for Clients {
    fn request(&mut self, line: &str) -> Option<String> {
        let (documents, is_unique) = documents(line);
        let mut words = line
            .split('{')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let first = words.next().unwrap();
        match words.next() {
            Some(word) => self.run(first, word, &documents),
            None => {
                self.define(first, &documents, is_unique);
                None
            }
        }
    }

    fn answer(&mut self, input: &str) -> String {
        panic!("a script has the input {input}")
    }
}
