//! A write that is acknowledged before the engine has it: nobody sees the difference, whether the engine takes it later or
//! refuses it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use quarry_bson::{RawDocument, RawValue, doc};
use quarry_database::{Change, Database, Error, KeyRange, Level, Namespace, Operation, Options};
use quarry_journal::SimulatedFiles;
use quarry_storage::{Engine, Error as StorageError, Faulty, Memory};

const WAIT_MAX: Duration = Duration::from_secs(20);
/// More groups than are written at once after a batch was in somebody's way.
const GROUPS: i32 = 200;

struct Setup {
    database: Database,
    faulty: Arc<Faulty>,
    /// The engine below the database, which shows what it really has.
    engine: Arc<Memory>,
    files: Arc<SimulatedFiles>,
}

fn namespace() -> Namespace {
    Namespace::parse("db.c").unwrap()
}

fn open(engine: Arc<dyn Engine>, files: &Arc<SimulatedFiles>) -> Database {
    let options = Options {
        commit_interval_ms: 0,
        record_cache_bytes: 64 << 10,
        ..Options::default()
    };
    Database::open_on(engine, Arc::clone(files) as _, options).unwrap()
}

impl Setup {
    /// With an index on `n` and one document, of `_id` 0.
    fn new() -> Setup {
        let engine = Arc::new(Memory::new());
        let faulty = Arc::new(Faulty::new(Arc::clone(&engine) as _));
        let files = Arc::new(SimulatedFiles::new());
        let database = open(Arc::clone(&faulty) as _, &files);
        let index = [doc! { "key": { "n": 1 } }];
        database
            .create_indexes(&namespace(), &index, &Operation::default(), Level::Written)
            .unwrap();
        let setup = Setup {
            database,
            faulty,
            engine,
            files,
        };
        setup.insert(0).unwrap();
        setup
    }

    fn insert(&self, id: i32) -> Result<(), Error> {
        self.insert_with(id, "")
    }

    fn insert_with(&self, id: i32, filler: &str) -> Result<(), Error> {
        let document = doc! { "_id": id, "n": id, "filler": filler };
        let operation = Operation::default();
        let inserted = self.database.insert_piece(
            &operation,
            &namespace(),
            &[document.as_raw()],
            true,
            Level::Written,
        )?;
        assert!(inserted.errors.is_empty(), "{:?}", inserted.errors);
        Ok(())
    }

    fn delete(&self, id: i32) -> Result<(), Error> {
        let ident = self.database.collection(&namespace())?.unwrap().ident;
        let (keys, operation) = ([self.key(id)], Operation::default());
        let mut delete =
            |_, _: RawDocument<'_>, _: &mut quarry_database::NewDocument| Ok(Change::Delete);
        let deleted = self.database.modify_piece(
            &operation,
            &namespace(),
            ident,
            &keys,
            Level::Written,
            &mut delete,
        )?;
        match deleted.error {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn key(&self, id: i32) -> Vec<u8> {
        let collection = self.database.collection(&namespace()).unwrap().unwrap();
        Database::record_key(&collection, RawValue::Int32(id))
    }

    fn engine_has(&self, id: i32) -> bool {
        self.engine.get(&self.key(id), &mut |_| {}).unwrap()
    }

    /// The `_id`s found by key and by a scan; indexes and counters agree with them.
    fn ids(&self) -> Vec<i32> {
        let operation = Operation::default();
        let report = self.database.validate(&namespace(), true, &operation);
        assert_eq!(report.unwrap().errors, Vec::<String>::new());
        self.ids_beside_a_writer()
    }

    fn ids_beside_a_writer(&self) -> Vec<i32> {
        let id_of = |bytes: &[u8]| match RawDocument::new(bytes).unwrap().get("_id") {
            Some(RawValue::Int32(id)) => id,
            other => panic!("{other:?}"),
        };
        let snapshot = self.database.snapshot(&namespace()).unwrap().unwrap();
        let mut cursor = snapshot
            .cursor(KeyRange::prefix(snapshot.collection.prefix.as_bytes()))
            .unwrap();
        let mut ids = Vec::new();
        cursor.first().unwrap();
        while cursor.valid() {
            ids.push(id_of(cursor.value()));
            cursor.next().unwrap();
        }
        let mut by_key = Vec::new();
        for id in -1..GROUPS + 10 {
            let mut latest = None;
            let get = |bytes: &[u8]| latest = Some(id_of(bytes));
            (self.database.get_record(&self.key(id), &mut { get })).unwrap();
            by_key.extend(latest);
        }
        assert_eq!(by_key, ids);
        let count = self.database.count(&snapshot.collection).unwrap();
        assert_eq!(count, ids.len() as u64);
        ids
    }
}

#[test]
fn the_engine_has_a_write_once_the_reply_is_out() {
    let setup = Setup::new();
    let replying_first = setup.database.reply_first();
    setup.insert(1).unwrap();
    assert!(!setup.engine_has(1));
    drop(replying_first);
    assert!(setup.engine_has(1));
    setup.insert(2).unwrap();
    assert!(setup.engine_has(2), "nobody asked for a late write");
}

#[test]
fn a_reader_on_the_same_thread_sees_it_and_so_does_the_next_write() {
    let setup = Setup::new();
    let replying_first = setup.database.reply_first();
    setup.insert(1).unwrap();
    assert_eq!(setup.ids(), [0, 1]);
    assert!(setup.engine_has(1));
    setup.delete(0).unwrap();
    setup.insert(0).unwrap();
    setup.delete(1).unwrap();
    // The last one alone is late, and its thread's own reading is in nobody's way.
    assert!(setup.engine_has(0) && setup.engine_has(1));
    assert_eq!(setup.ids(), [0]);
    drop(replying_first);
}

#[test]
fn an_engine_that_stands_still_holds_up_the_next_writer_and_no_reader() {
    let setup = Setup::new();
    setup.faulty.hold_writes();
    let replying_first = setup.database.reply_first();
    setup.insert(1).unwrap();
    drop(replying_first);
    let found = || setup.ids_beside_a_writer();
    thread::scope(|scope| {
        assert_eq!(scope.spawn(found).join().unwrap(), [0, 1]);
        let writer = scope.spawn(|| setup.insert(2));
        let begun = Instant::now();
        while setup.faulty.held_writes() == 0 {
            assert!(begun.elapsed() < WAIT_MAX && !writer.is_finished());
            thread::yield_now();
        }
        assert!(!setup.engine_has(1));
        assert_eq!(scope.spawn(found).join().unwrap(), [0, 1]);
        setup.faulty.heal();
        writer.join().unwrap().unwrap();
    });
    assert!(setup.engine_has(1) && setup.engine_has(2));
    assert_eq!(setup.ids(), [0, 1, 2]);
}

#[test]
fn a_batch_that_was_in_the_way_makes_the_next_groups_be_written_at_once() {
    let setup = Setup::new();
    let mut late = Vec::new();
    for id in 1..GROUPS {
        let replying_first = setup.database.reply_first();
        setup.insert(id).unwrap();
        if !setup.engine_has(id) {
            late.push(id);
            thread::scope(|scope| {
                let found =
                    scope.spawn(|| setup.database.snapshot(&namespace()).unwrap().is_some());
                assert!(found.join().unwrap());
            });
        }
        assert!(setup.engine_has(id));
        drop(replying_first);
    }
    assert!(late.len() > 1 && late.len() <= 5, "{late:?}");
}

#[test]
fn large_batches_and_changes_of_the_catalog_are_written_at_once() {
    let setup = Setup::new();
    let replying_first = setup.database.reply_first();
    setup.insert_with(1, &"x".repeat(300_000)).unwrap();
    assert!(setup.engine_has(1));
    setup.insert(2).unwrap();
    let (namespace, operation) = (namespace(), Operation::default());
    let dropped = (setup.database).drop_collection(&namespace, &operation, Level::Written);
    assert!(dropped.unwrap().is_some());
    assert!(setup.database.collection(&namespace).unwrap().is_none());
    drop(replying_first);
}

#[test]
fn an_engine_whose_writes_are_durable_is_written_before_the_reply() {
    let setup = Setup::new();
    setup.faulty.sync_writes();
    let replying_first = setup.database.reply_first();
    setup.insert(1).unwrap();
    assert!(setup.engine_has(1));
    drop(replying_first);
}

#[test]
fn what_the_engine_refuses_after_the_reply_is_seen_and_kept() {
    let setup = Setup::new();
    let replying_first = setup.database.reply_first();
    setup.insert(1).unwrap();
    setup.faulty.no_space();
    drop(replying_first);
    assert!(!setup.engine_has(1));
    assert_eq!(setup.ids(), [0, 1], "acknowledged and seen");
    for refused in [setup.insert(2), setup.delete(1), setup.delete(0)] {
        let is_clear = matches!(&refused, Err(Error::WritesRefused { no_space: true, .. }));
        assert!(is_clear, "{refused:?}");
    }
    assert_eq!(setup.ids(), [0, 1]);
    assert!(setup.database.sync().is_ok(), "the journal has space");
    setup.faulty.heal();
    setup.delete(0).unwrap();
    assert!(setup.engine_has(1) && !setup.engine_has(0));
    assert_eq!(setup.ids(), [1]);
}

#[test]
fn the_engine_catches_up_though_nobody_writes() {
    let setup = Setup::new();
    let replying_first = setup.database.reply_first();
    setup.insert(1).unwrap();
    setup.faulty.no_space();
    drop(replying_first);
    assert_eq!(setup.ids(), [0, 1]);
    setup.faulty.heal();
    let begun = Instant::now();
    while !setup.engine_has(1) {
        assert!(begun.elapsed() < WAIT_MAX);
        thread::yield_now();
    }
    assert_eq!(setup.ids(), [0, 1]);
}

#[test]
fn the_journal_takes_nothing_while_the_engine_refuses_what_is_before_it() {
    let setup = Setup::new();
    let replying_first = setup.database.reply_first();
    setup.insert(1).unwrap();
    let last_lsn = setup.database.journal().last_lsn();
    // The engine says that it is ready all the time.
    let error = StorageError::Io("refused by a test".into());
    setup.faulty.fail_next_writes(usize::MAX, error);
    drop(replying_first);
    let refused = setup.insert(2);
    assert!(
        matches!(&refused, Err(Error::WritesRefused { .. })),
        "{refused:?}"
    );
    assert_eq!(setup.database.journal().last_lsn(), last_lsn);
    setup.faulty.heal();
    setup.insert(3).unwrap();
    assert_eq!(setup.ids(), [0, 1, 3]);
}

#[test]
fn what_the_engine_refuses_before_the_reply_stands_too() {
    let setup = Setup::new();
    let error = StorageError::Io("refused by a test".into());
    setup.faulty.fail_next_writes(usize::MAX, error.clone());
    // The journal has it: no client has to guess.
    setup.delete(0).unwrap();
    assert!(setup.engine_has(0));
    assert_eq!(setup.ids(), Vec::<i32>::new());
    assert!(setup.insert(1).is_err());
    setup.faulty.heal();
    setup.insert(2).unwrap();
    assert_eq!(setup.ids(), [2]);

    setup.faulty.fail_next_writes(usize::MAX, error);
    let (namespace, operation) = (namespace(), Operation::default());
    let dropped = (setup.database).drop_collection(&namespace, &operation, Level::Written);
    assert!(dropped.unwrap().is_some());
    assert!(setup.database.collection(&namespace).unwrap().is_none());
    assert!(setup.insert(3).is_err());
    setup.faulty.heal();
    setup.insert(4).unwrap();
    assert_eq!(setup.ids(), [4]);
}

#[test]
fn what_the_engine_refuses_to_the_end_is_there_after_the_next_start() {
    let setup = Setup::new();
    let replying_first = setup.database.reply_first();
    setup.delete(0).unwrap();
    setup.faulty.no_space();
    drop(replying_first);
    assert_eq!(setup.ids(), Vec::<i32>::new());
    let Setup {
        database,
        faulty,
        engine,
        files,
    } = setup;
    drop(database);
    faulty.heal();
    let setup = Setup {
        database: open(Arc::clone(&faulty) as _, &files),
        faulty,
        engine,
        files,
    };
    assert!(!setup.engine_has(0));
    assert_eq!(setup.ids(), Vec::<i32>::new());
}
