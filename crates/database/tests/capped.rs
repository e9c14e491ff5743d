//! Capped collections: the numbers of their records, and what the journal says of those that make room.

use std::sync::Arc;

use quarry_bson::{Document, RawDocument, doc};
use quarry_database::payload::{ChangeKind, Payload};
use quarry_database::{
    Change, Database, IndexChange, KeyRange, Level, Namespace, Operation, Options,
};
use quarry_journal::SimulatedFiles;
use quarry_storage::{Engine, Memory, Op, WriteBatch};

struct Setup {
    engine: Arc<Memory>,
    files: Arc<SimulatedFiles>,
    database: Option<Database>,
}

fn namespace() -> Namespace {
    Namespace::parse("db.c").unwrap()
}

impl Setup {
    fn new(options: &Document) -> Setup {
        let mut setup = Setup {
            engine: Arc::new(Memory::new()),
            files: Arc::new(SimulatedFiles::new()),
            database: None,
        };
        setup.restart();
        setup.create(options);
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

    fn create(&self, options: &Document) {
        let operation = Operation::default();
        self.database()
            .create_collection(&namespace(), options.as_raw(), &operation, Level::Written)
            .unwrap();
    }

    fn insert(&self, ids: &[i32]) {
        let documents: Vec<Document> = ids.iter().map(|id| doc! { "_id": *id }).collect();
        let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let operation = Operation::default();
        let inserted =
            self.database()
                .insert_piece(&operation, &namespace(), &raw, true, Level::Written);
        assert_eq!(inserted.unwrap().inserted, ids.len() as u64);
    }

    /// The keys of all records, in their order.
    fn keys(&self) -> Vec<Vec<u8>> {
        let snapshot = self.database().snapshot(&namespace()).unwrap().unwrap();
        let prefix = KeyRange::prefix(snapshot.collection.prefix.as_bytes());
        let mut cursor = snapshot.cursor(prefix).unwrap();
        let mut keys = Vec::new();
        cursor.first().unwrap();
        while cursor.valid() {
            keys.push(cursor.key().to_vec());
            cursor.next().unwrap();
        }
        keys
    }

    fn delete(&self, keys: &[Vec<u8>]) {
        let collection = self.database().collection(&namespace()).unwrap().unwrap();
        let operation = Operation::default();
        let deleted = self
            .database()
            .modify_piece(
                &operation,
                &namespace(),
                collection.ident,
                keys,
                Level::Written,
                &mut |_, _, _| Ok(Change::Delete),
            )
            .unwrap();
        assert_eq!(deleted.deleted, keys.len() as u64);
    }

    fn validate(&self) {
        let report = self
            .database()
            .validate(&namespace(), true, &Operation::default());
        assert_eq!(report.unwrap().errors, Vec::<String>::new());
    }
}

#[test]
fn a_record_id_is_never_given_again() {
    let options = doc! { "capped": true, "size": 100_000 };
    let mut setup = Setup::new(&options);
    setup.insert(&[1, 2, 3]);
    let mut given = setup.keys();
    // The newest; the newest that is left, and so a lower one than is known by then; all; each with and without a start.
    for (round, deleted) in [vec![2], vec![2, 3], vec![0, 1, 2], vec![0], vec![1]]
        .iter()
        .enumerate()
    {
        for restarts in [false, true] {
            let keys = setup.keys();
            let chosen: Vec<Vec<u8>> = deleted
                .iter()
                .filter_map(|at| keys.get(*at).cloned())
                .rev()
                .collect();
            chosen.chunks(1).for_each(|one| setup.delete(one));
            if restarts {
                setup.restart();
            }
            let id = 100 + 2 * round as i32 + i32::from(restarts);
            setup.insert(&[id]);
            let newest = setup.keys().pop().unwrap();
            assert!(given.iter().all(|key| *key < newest), "round {round}");
            given.push(newest);
            setup.validate();
        }
    }
    // What is kept of a collection goes with it.
    let system = |setup: &Setup| {
        let snapshot = setup.engine.snapshot().unwrap();
        let mut cursor = snapshot.cursor(KeyRange::prefix(&[0x00, 0x17])).unwrap();
        cursor.first().unwrap();
        cursor.valid()
    };
    setup.delete(&setup.keys());
    assert!(system(&setup));
    let operation = Operation::default();
    let dropped = setup
        .database()
        .drop_collection(&namespace(), &operation, Level::Written);
    assert!(dropped.unwrap().is_some());
    assert!(!system(&setup));
}

/// Replay, change streams and the cache of records go through both side by side.
#[test]
fn the_journal_names_the_operations_in_the_order_of_its_batch() {
    let options = doc! { "capped": true, "size": 100_000, "max": 3 };
    let setup = Setup::new(&options);
    for piece in [&[1, 2][..], &[3, 4], &[5, 6, 7, 8, 9], &[10]] {
        setup.insert(piece);
    }
    setup.delete(&setup.keys()[1..]);
    setup.validate();
    let database = setup.database();
    let prefix = database.collection(&namespace()).unwrap().unwrap().prefix;
    let mut records = database.journal().read(1).unwrap();
    let mut kinds = [0, 0];
    while let Some((_, bytes)) = records.next().unwrap() {
        let payload = Payload::parse(bytes).unwrap();
        let batch = WriteBatch::from_bytes(payload.batch).unwrap();
        let mut in_batch: Vec<_> = batch
            .iter()
            .enumerate()
            .filter(|(_, op)| op.key().starts_with(prefix.as_bytes()))
            .map(|(position, op)| match op {
                Op::Put(..) => (ChangeKind::Insert, Some(position)),
                Op::Delete(_) => (ChangeKind::Delete, Some(position)),
            })
            .collect();
        // One of a client's deletes and one that makes room are deletes of the batch alike.
        let changes = payload.changes().map(|change| match change.kind {
            ChangeKind::Trim => (ChangeKind::Delete, change.position),
            kind => (kind, change.position),
        });
        let mut changes: Vec<_> = changes.collect();
        // The inserts came first, and deletes are applied first.
        changes.sort_by_key(|(_, position)| *position);
        in_batch.sort_by_key(|(_, position)| *position);
        assert_eq!(changes, in_batch);
        let of = |kind| in_batch.iter().filter(|(found, _)| *found == kind).count();
        kinds[0] += of(ChangeKind::Insert);
        kinds[1] += of(ChangeKind::Delete);
    }
    assert_eq!(kinds, [10, 9]);
}

/// The index on `_id` of a capped collection has an entry in the catalog, which is written anew with any other.
#[test]
fn the_index_on_id_is_never_shown_as_unique() {
    let mut setup = Setup::new(&doc! { "capped": true, "size": 100_000 });
    let (name, operation) = (namespace(), Operation::default());
    let shown = |setup: &Setup| {
        let listed = setup.database().list_indexes(&name).unwrap();
        assert_eq!(listed.len(), 2);
        listed[0].clone()
    };
    let specs = [doc! { "key": { "a": 1 }, "name": "a_1" }];
    (setup
        .database()
        .create_indexes(&name, &specs, &operation, Level::Written))
    .unwrap();
    let before = shown(&setup);
    assert_eq!(before, doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" });
    let hide = IndexChange {
        hidden: Some(true),
        ..IndexChange::default()
    };
    (setup.database())
        .modify_index(&name, "a_1".into(), hide, &operation, Level::Written)
        .unwrap();
    assert_eq!(shown(&setup), before);
    setup.restart();
    assert_eq!(shown(&setup), before);
    // It is unique all the same.
    setup.insert(&[1]);
    let again = doc! { "_id": 1 };
    let inserted = (setup.database())
        .insert_piece(&operation, &name, &[again.as_raw()], true, Level::Written)
        .unwrap();
    assert_eq!(inserted.errors[0].1.code(), 11_000);
}
