//! An index that refuses shared keys, and is made unique: whoever writes, whatever was shared before, and after a reopening.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use quarry_bson::{Document, RawDocument, RawValue, Value, doc};
use quarry_database::{
    Change, Database, Error, IndexChange, Level, Namespace, Operation, Options, UnitReads, run_as,
};
use quarry_journal::SimulatedFiles;
use quarry_storage::Memory;

struct Setup {
    engine: Arc<Memory>,
    files: Arc<SimulatedFiles>,
    database: Option<Database>,
    operation: Operation,
}

const DUPLICATE: i32 = 11_000;
const CONFLICT: i32 = 112;

fn namespace() -> Namespace {
    Namespace::parse("db.c").unwrap()
}

impl Setup {
    /// A collection with an index on `a`.
    fn new(options: &Document) -> Setup {
        let mut setup = Setup {
            engine: Arc::new(Memory::new()),
            files: Arc::new(SimulatedFiles::new()),
            database: None,
            operation: Operation::default(),
        };
        setup.restart();
        setup
            .database()
            .create_collection(
                &namespace(),
                options.as_raw(),
                &setup.operation,
                Level::Written,
            )
            .unwrap();
        let spec = [doc! { "key": { "a": 1 }, "name": "a" }];
        setup
            .database()
            .create_indexes(&namespace(), &spec, &setup.operation, Level::Written)
            .unwrap();
        setup
    }

    fn restart(&mut self) {
        self.database = None;
        let options = Options {
            commit_interval_ms: 0,
            ..Options::default()
        };
        let (engine, files) = (Arc::clone(&self.engine), Arc::clone(&self.files));
        self.database = Some(Database::open_on(engine, files, options).unwrap());
    }

    fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    /// The codes of the documents that were refused, by their positions.
    fn insert(&self, documents: &[Document]) -> Vec<(usize, i32)> {
        let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let (operation, level) = (&self.operation, Level::Written);
        let inserted = self
            .database()
            .insert_piece(operation, &namespace(), &raw, false, level)
            .unwrap();
        let errors = inserted.errors.iter();
        errors.map(|(at, error)| (*at, error.code())).collect()
    }

    /// Gives documents, by `_id`, another `a` in one piece; the code of the refusal.
    fn change(&self, changes: &[(i32, Value)]) -> Option<i32> {
        let collection = self.database().collection(&namespace()).unwrap().unwrap();
        let keys = changes.iter().map(|(id, _)| RawValue::Int32(*id));
        let keys: Vec<Vec<u8>> = keys.map(|id| collection.record_key(id)).collect();
        let modified = self
            .database()
            .modify_piece(
                &self.operation,
                &namespace(),
                collection.ident,
                &keys,
                Level::Written,
                &mut |at, _, new| {
                    let (id, value) = &changes[at];
                    let changed = doc! { "_id": *id, "a": value.clone(), "n": 1 };
                    new.document.extend_from_slice(changed.as_bytes());
                    Ok(Change::Replace)
                },
            )
            .unwrap();
        modified.error.map(|error| error.code())
    }

    fn remove(&self, id: i32) {
        let collection = self.database().collection(&namespace()).unwrap().unwrap();
        let keys = [collection.record_key(RawValue::Int32(id))];
        let (operation, level) = (&self.operation, Level::Written);
        let ident = collection.ident;
        let removed = self
            .database()
            .modify_piece(
                operation,
                &namespace(),
                ident,
                &keys,
                level,
                &mut |_, _, _| Ok(Change::Delete),
            )
            .unwrap();
        assert_eq!(removed.deleted, 1);
    }

    fn prepare(&self, prepare: bool) {
        let change = IndexChange {
            prepare_unique: Some(prepare),
            ..IndexChange::default()
        };
        self.modify(change).unwrap();
    }

    fn modify(&self, change: IndexChange) -> Result<IndexChange, Error> {
        let (operation, level) = (&self.operation, Level::Written);
        let which = RawValue::from("a");
        self.database()
            .modify_index(&namespace(), which, change, operation, level)
    }

    fn convert(&self) -> Result<IndexChange, Error> {
        self.modify(IndexChange {
            unique: true,
            ..IndexChange::default()
        })
    }

    /// The `_id`s that keep the index from becoming unique.
    fn violations(&self) -> Vec<Vec<i32>> {
        let Err(Error::SharedKeys(keys)) = self.convert() else {
            panic!("no document shares a key");
        };
        assert!(!keys.is_cut);
        let ids = |violation: &Value| -> Vec<i32> {
            let violation = violation.as_raw().as_document().unwrap();
            let ids = violation.get_array("ids").unwrap();
            ids.iter()
                .map(|id| id.as_i64_exact().unwrap() as i32)
                .collect()
        };
        keys.violations.iter().map(ids).collect()
    }

    fn spec(&self) -> Document {
        let specs = self.database().list_indexes(&namespace()).unwrap();
        specs
            .into_iter()
            .find(|it| it.get_str("name") == Some("a"))
            .unwrap()
    }

    fn assert_valid(&self) {
        let report = self
            .database()
            .validate(&namespace(), true, &self.operation)
            .unwrap();
        assert_eq!(report.errors, Vec::<String>::new());
    }
}

fn document(id: i32, a: impl Into<Value>) -> Document {
    doc! { "_id": id, "a": a.into() }
}

#[test]
fn a_prepared_index_refuses_what_is_new_and_lets_stay_what_was_shared() {
    let mut setup = Setup::new(&doc! {});
    assert_eq!(setup.insert(&[document(1, 7), document(2, 7)]), []);
    setup.prepare(true);
    for _ in 0..2 {
        // The third document of the piece shares its key with the second alone.
        let piece = [document(3, 7), document(4, 8), document(5, 8)];
        assert_eq!(setup.insert(&piece), [(0, DUPLICATE), (2, DUPLICATE)]);
        assert_eq!(setup.change(&[(4, 7.into())]), Some(DUPLICATE));
        // What was shared stays so when another field of the document changes, or its array.
        assert_eq!(setup.change(&[(2, 7.into())]), None);
        let array = Value::from(vec![Value::from(7), Value::from(9)]);
        assert_eq!(setup.change(&[(2, array)]), None);
        assert_eq!(setup.insert(&[document(6, 9)]), [(0, DUPLICATE)]);
        // In one piece a document may take what one before it gives up, if nobody else has it.
        let pair = [(4, 100.into()), (2, 8.into())];
        assert_eq!(setup.change(&pair), None);
        let pair = [(2, 7.into()), (4, 7.into())];
        assert_eq!(setup.change(&pair), Some(DUPLICATE));
        setup.assert_valid();
        assert_eq!(setup.spec().get_bool("prepareUnique"), Some(true));
        // Back to the beginning, on what a reopened database has.
        setup.remove(4);
        setup.remove(2);
        setup.prepare(false);
        assert_eq!(setup.insert(&[document(2, 7)]), []);
        setup.prepare(true);
        setup.restart();
    }
}

#[test]
fn an_index_becomes_unique_once_no_document_shares_a_key() {
    let mut setup = Setup::new(&doc! {});
    let long = "x".repeat(5000);
    let longer = format!("{long}y");
    let texts = [(10, &long), (11, &long), (12, &longer)];
    let texts = texts.map(|(id, text)| document(id, text.as_str()));
    assert_eq!(setup.insert(&texts), []);
    let numbers = [(1, 1), (2, 2), (3, 1), (4, 1)].map(|(id, a)| document(id, a));
    assert_eq!(setup.insert(&numbers), []);
    // Without the field there is one key, too.
    assert_eq!(setup.insert(&[doc! { "_id": 20 }, doc! { "_id": 21 }]), []);
    assert_eq!(setup.convert().unwrap_err().code(), 72);
    setup.prepare(true);
    assert_eq!(
        setup.violations(),
        [vec![20, 21], vec![1, 3, 4], vec![10, 11]]
    );
    assert_eq!(
        setup.insert(&[document(13, long.as_str())]),
        [(0, DUPLICATE)]
    );
    for id in [21, 3, 4, 11] {
        setup.remove(id);
    }
    let was = setup.convert().unwrap();
    assert!(!was.unique && was.prepare_unique == Some(true));
    for _ in 0..2 {
        assert_eq!(setup.spec().get_bool("unique"), Some(true));
        assert_eq!(setup.spec().get("prepareUnique"), None);
        let piece = [
            document(30, 1),
            document(31, longer.as_str()),
            document(32, 2.0),
        ];
        let all = [(0, DUPLICATE), (1, DUPLICATE), (2, DUPLICATE)];
        assert_eq!(setup.insert(&piece), all);
        assert_eq!(setup.change(&[(1, 2.into())]), Some(DUPLICATE));
        setup.assert_valid();
        // Nothing more to do, and no way back.
        assert!(setup.convert().unwrap().unique);
        setup.prepare(false);
        assert_eq!(setup.spec().get_bool("unique"), Some(true));
        setup.restart();
    }
}

#[test]
fn an_index_that_is_built_prepared_says_nothing_of_what_was_there() {
    let setup = Setup::new(&doc! {});
    assert_eq!(setup.insert(&[document(1, 7), document(2, 7)]), []);
    let spec = [doc! { "key": { "a": -1 }, "name": "b", "prepareUnique": true }];
    let (operation, level) = (&setup.operation, Level::Written);
    setup
        .database()
        .create_indexes(&namespace(), &spec, operation, level)
        .unwrap();
    assert_eq!(setup.insert(&[document(3, 7)]), [(0, DUPLICATE)]);
    assert_eq!(setup.insert(&[document(3, 8)]), []);
    setup.assert_valid();
}

#[test]
fn a_capped_collection_refuses_shared_keys_as_well() {
    let setup = Setup::new(&doc! { "capped": true, "size": 65_536 });
    setup.prepare(true);
    let piece = [document(1, 7), document(2, 7)];
    assert_eq!(setup.insert(&piece), [(1, DUPLICATE)]);
    setup.convert().unwrap();
    assert_eq!(setup.insert(&[document(3, 7)]), [(0, DUPLICATE)]);
    setup.assert_valid();
}

#[test]
fn a_transaction_sees_its_own_keys_and_meets_those_of_others_as_a_conflict() {
    for is_converted in [false, true] {
        let setup = Setup::new(&doc! {});
        assert_eq!(setup.insert(&[document(1, 1)]), []);
        setup.prepare(true);
        if is_converted {
            setup.convert().unwrap();
        }
        let (database, operation) = (setup.database(), &setup.operation);
        let mut unit = database.begin(operation, UnitReads::Snapshot).unwrap();
        let mut insert = |id, a| {
            let document = document(id, a);
            let documents = [document.as_raw()];
            let inserted = database.insert_in(&mut unit, operation, &namespace(), &documents, true);
            inserted.map(|outcome| outcome.errors.first().map(|(_, error)| error.code()))
        };
        assert_eq!(insert(2, 2).unwrap(), None);
        assert_eq!(insert(3, 2).unwrap(), Some(DUPLICATE));
        assert_eq!(insert(3, 1).unwrap(), Some(DUPLICATE));
        assert_eq!(setup.insert(&[document(4, 4)]), []);
        // Somebody took the key since the snapshot was made.
        assert_eq!(insert(5, 4).unwrap_err().code(), CONFLICT);
    }
}

#[test]
fn of_many_writers_of_one_key_one_goes_through() {
    for is_converted in [false, true] {
        let setup = Setup::new(&doc! {});
        setup.prepare(true);
        if is_converted {
            setup.convert().unwrap();
        }
        for round in 0..50 {
            let refused: usize = std::thread::scope(|scope| {
                let writer = |id: i32| setup.insert(&[document(id, round)]).len();
                let writers = (0..4).map(|n| scope.spawn(move || writer(round * 4 + n)));
                let writers: Vec<_> = writers.collect();
                writers.into_iter().map(|it| it.join().unwrap()).sum()
            });
            assert_eq!(refused, 3, "round {round}");
        }
        setup.assert_valid();
    }
}

/// Cut keys that begin alike are looked at one by one, which their writer does not go on with when it is to end.
#[test]
fn a_walk_over_many_cut_keys_ends_with_its_operation() {
    const LOOKS: u32 = 5;
    let setup = Setup::new(&doc! {});
    let long = |number: i32| format!("{}{number}", "x".repeat(3000));
    let documents: Vec<Document> = (0..2000).map(|id| document(id, long(id))).collect();
    for piece in documents.chunks(500) {
        assert_eq!(setup.insert(piece), []);
    }
    setup.prepare(true);
    let looks = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&looks);
    let has_gone = Box::new(move || counted.fetch_add(1, Ordering::Relaxed) >= LOOKS);
    let operation = Arc::new(Operation::default().with_disconnect(has_gone));
    let running = run_as(Arc::clone(&operation));
    let new = document(-1, long(-1));
    let (raw, level) = ([new.as_raw()], Level::Written);
    let ended = (setup.database()).insert_piece(&operation, &namespace(), &raw, true, level);
    drop(running);
    assert_eq!(ended.map(|done| done.inserted).unwrap_err().code(), 11_601);
    assert!(looks.load(Ordering::Relaxed) <= LOOKS + 1);
    // Nothing of it was written, and nobody waits for its locks.
    assert_eq!(setup.insert(&[new]), []);
}

#[test]
fn a_rebuilt_index_is_as_it_was_and_a_converted_one_has_the_form_of_a_unique_one() {
    let mut setup = Setup::new(&doc! {});
    let documents: Vec<Document> = (0..3000).map(|id| document(id, id)).collect();
    for piece in documents.chunks(500) {
        assert_eq!(setup.insert(piece), []);
    }
    let others = [
        doc! { "key": { "b": 1 }, "name": "b", "hidden": true, "sparse": true },
        doc! { "key": { "a": -1 }, "name": "u", "unique": true },
    ];
    let (operation, level) = (Operation::default(), Level::Written);
    let database = setup.database();
    database
        .create_indexes(&namespace(), &others, &operation, level)
        .unwrap();
    setup.prepare(true);
    setup.convert().unwrap();
    let database = setup.database();
    let before = database.list_indexes(&namespace()).unwrap();
    let idents = |database: &Database| -> Vec<(bool, u64)> {
        let collection = database.collection(&namespace()).unwrap().unwrap();
        let snapshot = database.snapshot(&namespace()).unwrap().unwrap();
        assert_eq!(collection.ident, snapshot.collection.ident);
        let indexes = &snapshot.index_catalog().unwrap().indexes;
        let seen = indexes.iter();
        seen.map(|index| (index.unique_entries, index.ident.0))
            .collect()
    };
    let old = idents(database);
    let next = AtomicI32::new(3000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let id = next.fetch_add(1, Ordering::Relaxed);
                assert_eq!(setup.insert(&[document(id, id)]), []);
                let taken = setup.insert(&[document(-1, id)]);
                assert_eq!(taken, [(0, DUPLICATE)]);
                // Nobody sees those that are built.
                assert_eq!(database.list_indexes(&namespace()).unwrap(), before);
                let stats = database.coll_stats(&namespace()).unwrap().unwrap();
                let uses = database.index_accesses(&namespace()).unwrap();
                assert_eq!(
                    (stats.indexes.len(), uses.len()),
                    (before.len(), before.len())
                );
            }
        });
        let rebuilt = database.rebuild_indexes(&namespace(), &operation, level);
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        rebuilt.unwrap();
    });
    for _ in 0..2 {
        let database = setup.database();
        assert_eq!(database.list_indexes(&namespace()).unwrap(), before);
        let new = idents(database);
        assert_eq!(new.len(), old.len());
        for ((_, was), (_, is)) in old.iter().zip(&new) {
            assert!(is > was, "each is a new one");
        }
        let forms: Vec<bool> = new.iter().map(|(form, _)| *form).collect();
        assert_eq!(forms, [true, false, true]);
        assert_eq!(setup.insert(&[document(-1, 5)]), [(0, DUPLICATE)]);
        setup.assert_valid();
        setup.restart();
    }
}
