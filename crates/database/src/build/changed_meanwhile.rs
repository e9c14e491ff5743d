//! Tests: what is changed between the snapshot of a piece and the locks of its records is indexed as it is then.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use quarry_bson::{Document, RawDocument, Value, doc};
use quarry_journal::Level;

use crate::database::Database;
use crate::definitions::known_index::IndexesCreated;
use crate::error::Result;
use crate::keyspace::namespace::Namespace;
use crate::locks::mutant::Mutant;
use crate::operation::Operation;
use crate::write::{Change, NewDocument, UnitReads, WriteUnit};

/// More than a piece.
const DOCUMENTS: i32 = 700;

fn namespace() -> Namespace {
    Namespace::parse("db.c").unwrap()
}

fn filled(documents: i32) -> Arc<Database> {
    let database = Database::open_in_memory().unwrap();
    let documents: Vec<Document> = (0..documents).map(|i| doc! { "_id": i, "a": i }).collect();
    let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
    for piece in raw.chunks(500) {
        let operation = Operation::default();
        let done = database.insert_piece(&operation, &namespace(), piece, true, Level::Written);
        assert!(done.unwrap().errors.is_empty());
    }
    Arc::new(database)
}

/// Sets `a` of a document in a unit, or deletes the document. False if it is not there.
fn change_in(database: &Database, unit: &mut WriteUnit, id: i32, a: Option<Value>) -> bool {
    let collection = database.collection(&namespace()).unwrap().unwrap();
    let keys = [Database::record_key(&collection, id.into())];
    let mut change = |_: usize, _: RawDocument<'_>, out: &mut NewDocument| match &a {
        None => Ok(Change::Delete),
        Some(a) => {
            out.extend_from_slice(doc! { "_id": id, "a": (a.clone()) }.as_bytes());
            Ok(Change::Replace)
        }
    };
    let (operation, ident) = (Operation::default(), collection.ident);
    let done = database.modify_in(unit, &operation, &namespace(), ident, &keys, &mut change);
    let done = done.unwrap();
    assert!(done.error.is_none(), "{done:?}");
    done.matched == 1
}

/// Stages changes of documents of the first piece: keys go, come, and pass from one to the other.
fn staged(database: &Database) -> WriteUnit {
    let operation = Operation::default();
    let mut unit = database.begin(&operation, UnitReads::Latest).unwrap();
    assert!(change_in(database, &mut unit, 5, Some(Value::from(10_005))));
    assert!(change_in(database, &mut unit, 6, None));
    assert!(change_in(database, &mut unit, 7, None));
    let again = [doc! { "_id": 7, "a": 6 }];
    let raw = [again[0].as_raw()];
    let inserted = database.insert_in(&mut unit, &operation, &namespace(), &raw, true);
    assert_eq!(inserted.unwrap().inserted, 1);
    let several = vec![Value::from(5), Value::from(10_008)];
    assert!(change_in(database, &mut unit, 8, Some(several.into())));
    unit
}

/// Builds indexes over documents that a unit has locked and changed before the first piece's snapshot, and commits while the
/// piece waits for its locks.
fn build_beside(
    database: &Arc<Database>,
    stage: fn(&Database) -> WriteUnit,
    specs: &[Document],
) -> Result<IndexesCreated> {
    let (commit, to_commit) = mpsc::channel::<WriteUnit>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The builder has a shard of the lock table while it looks at its operation: it cannot commit by itself.
            for unit in to_commit {
                let committed = database.commit(unit, &Operation::default(), Level::Written);
                assert!(committed.unwrap().is_some());
            }
        });
        let (looks, open) = (AtomicUsize::new(0), Mutex::new(None));
        let (owner, commit) = (Arc::clone(database), Mutex::new(commit));
        let look = move || {
            match looks.fetch_add(1, Ordering::SeqCst) {
                // Nothing is held before the first piece.
                0 => *open.lock().unwrap() = Some(stage(&owner)),
                1 => {
                    let unit = open.lock().unwrap().take().unwrap();
                    commit.lock().unwrap().send(unit).unwrap();
                }
                _ => {}
            }
            false
        };
        let operation = Operation::default().with_disconnect(Box::new(look));
        database.create_indexes(&namespace(), specs, &operation, Level::Written)
    })
}

fn is_valid(database: &Database) -> bool {
    let report = database.validate(&namespace(), true, &Operation::default());
    report.unwrap().errors.is_empty()
}

#[test]
fn what_is_committed_while_a_piece_waits_for_its_locks_is_indexed() {
    let is_built_right = |mutant, specs: &[Document]| {
        let database = filled(DOCUMENTS);
        database.write_locks().set_mutant(mutant);
        build_beside(&database, staged, specs).is_ok() && is_valid(&database)
    };
    for specs in [
        vec![doc! { "key": { "a": 1 } }],
        vec![doc! { "key": { "a": 1 }, "unique": true }],
        vec![
            doc! { "key": { "a": 1, "_id": 1 } },
            doc! { "key": { "a": -1 }, "unique": true },
        ],
    ] {
        assert!(is_built_right(Mutant::None, &specs), "{specs:?}");
        let is_right = is_built_right(Mutant::IgnoresChanges, &specs);
        assert!(
            !is_right,
            "a build that takes what it saw is found out: {specs:?}"
        );
    }
}

/// Changes a document beside the one that has no entries.
fn beside_refused(database: &Database) -> WriteUnit {
    let mut unit = (database.begin(&Operation::default(), UnitReads::Latest)).unwrap();
    assert!(change_in(database, &mut unit, 1, Some(Value::from(7))));
    unit
}

/// The build meets it, first in its piece or behind others.
#[test]
fn a_document_that_can_have_no_entries_fails_the_build() {
    let specs = [doc! { "key": { "a": 1, "b": 1 } }];
    for refused in [0, 2] {
        let database = Arc::new(Database::open_in_memory().unwrap());
        let documents = [0, 1, 2].map(|id| match id == refused {
            true => doc! { "_id": id, "a": [1, 2], "b": [1, 2] },
            false => doc! { "_id": id, "a": [1, 2], "b": 1 },
        });
        let raw = documents.each_ref().map(Document::as_raw);
        let operation = Operation::default();
        let done = database.insert_piece(&operation, &namespace(), &raw, true, Level::Written);
        assert_eq!(done.unwrap().inserted, 3);
        let built = build_beside(&database, beside_refused, &specs);
        assert_eq!(built.unwrap_err().code(), 171);
        assert!(is_valid(&database));
        let listed = database.list_indexes(&namespace()).unwrap();
        assert_eq!(listed.len(), 1);
    }
}

#[test]
fn what_is_changed_in_a_piece_that_was_read_ahead_is_indexed() {
    const MANY: i32 = 12_000;
    let database = filled(MANY);
    let (done, changed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let look = {
        let (database, done, changed) = (database.clone(), done.clone(), changed.clone());
        move || {
            // The last piece has been committed and is gone: a snapshot that is open is of the next one.
            if database.write_locks().recent_changes.are_noted() {
                let next = done.load(Ordering::SeqCst) as i32;
                change_some(&database, next..(next + 2048).min(MANY));
                changed.fetch_add(1, Ordering::SeqCst);
            }
            false
        }
    };
    let operation = Operation::default().with_disconnect(Box::new(look));
    operation.on_progress(Box::new(move |progress| {
        done.store(progress.done() as usize, Ordering::SeqCst);
    }));
    let specs = [doc! { "key": { "a": 1 } }];
    let built = database.create_indexes(&namespace(), &specs, &operation, Level::Written);
    built.unwrap();
    assert!(is_valid(&database));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(processors < 2 || changed.load(Ordering::SeqCst) > 0);
}

/// Changes and deletes a few documents, not so many that all count as changed.
fn change_some(database: &Database, ids: std::ops::Range<i32>) {
    let mut unit = (database.begin(&Operation::default(), UnitReads::Latest)).unwrap();
    let begin = ids.start;
    for id in ids.step_by(128) {
        let is_gone = (id - begin) % 256 == 0;
        let a = (!is_gone).then(|| Value::from(id + 50_000));
        // It may be gone already: pieces are shorter than what is changed for one.
        change_in(database, &mut unit, id, a);
    }
    let committed = database.commit(unit, &Operation::default(), Level::Written);
    committed.unwrap();
}
