//! A start that replays many small groups: what the engine has afterwards, and in how many writes it got there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quarry_bson::doc;
use quarry_database::{Database, Error, Level, Namespace, Operation, Options};
use quarry_journal::SimulatedFiles;
use quarry_journal::files::simulated::Crash;
use quarry_storage::{Engine, FlushImages, ImagedEngine, Memory};

const INSERTS: i32 = 500;

fn open(engine: &Arc<Memory>, files: &SimulatedFiles, options: Options) -> Result<Database, Error> {
    Database::open_on(
        Arc::clone(engine) as Arc<dyn Engine>,
        Arc::new(files.clone()),
        options,
    )
}

/// A journal of that many groups, and the engine as it was before the first of them.
fn journal() -> (Arc<Memory>, SimulatedFiles) {
    let (engine, files) = (Arc::new(Memory::new()), SimulatedFiles::new());
    open(&engine, &files, Options::default())
        .unwrap()
        .close()
        .unwrap();
    let before = Arc::new(Memory::from_image(engine.image()));
    let engine = Arc::new(Memory::from_image(engine.image()));
    let database = open(&engine, &files, Options::default()).unwrap();
    let namespace = Namespace::new("db", "c").unwrap();
    for id in 0..INSERTS {
        let document = doc! { "_id": id, "text": "some text" };
        let operation = Operation::default();
        (database.insert_piece(
            &operation,
            &namespace,
            &[document.as_raw()],
            true,
            Level::Written,
        ))
        .unwrap();
    }
    database.close().unwrap();
    (before, files)
}

fn count(database: &Database) -> u64 {
    let namespace = Namespace::new("db", "c").unwrap();
    let collection = database.collection(&namespace).unwrap().unwrap();
    database.count(&collection).unwrap()
}

#[test]
fn small_groups_go_to_the_engine_together() {
    let (engine, files) = journal();
    let database = open(&engine, &files, Options::default()).unwrap();
    assert!(database.journal().replayed() >= INSERTS as u64);
    let writes = engine.counters().writes;
    assert!(writes < INSERTS as u64 / 10, "{writes} writes");
    assert_eq!(count(&database), INSERTS as u64);
    let namespace = Namespace::new("db", "c").unwrap();
    for id in [0, INSERTS / 2, INSERTS - 1] {
        let collection = database.collection(&namespace).unwrap().unwrap();
        let id = doc! { "_id": id };
        let key = Database::record_key(&collection, id.as_raw().get("_id").unwrap());
        assert!(database.get_record(&key, &mut |_| ()).unwrap());
    }
    // New collections do not take the place of what was replayed.
    let other = Namespace::new("db", "other").unwrap();
    let document = doc! { "_id": 1 };
    let operation = Operation::default();
    (database.insert_piece(
        &operation,
        &other,
        &[document.as_raw()],
        true,
        Level::Written,
    ))
    .unwrap();
    assert_eq!(count(&database), INSERTS as u64);
    database.close().unwrap();
}

#[test]
fn a_replay_that_nobody_waits_for_gives_up_and_the_next_one_has_everything() {
    let (engine, files) = journal();
    let options = Options::default();
    options.give_up.store(true, Ordering::Relaxed);
    let ended = open(&engine, &files, options).err();
    assert!(matches!(ended, Some(Error::ShuttingDown)), "{ended:?}");
    let database = open(&engine, &files, Options::default()).unwrap();
    assert_eq!(count(&database), INSERTS as u64);
    database.close().unwrap();
}

/// The end was unclean: what the engine has been made of again does not need the journal once more.
#[test]
fn what_was_replayed_is_durable_before_anybody_is_served() {
    let images = FlushImages::memory();
    let open = |engine: &Arc<ImagedEngine>, files: &Arc<SimulatedFiles>| {
        let options = Options {
            commit_interval_ms: 0,
            ..Options::default()
        };
        let engine = Arc::clone(engine) as Arc<dyn Engine>;
        Database::open_on(engine, Arc::clone(files) as _, options).unwrap()
    };
    let files = Arc::new(SimulatedFiles::new());
    let engine = images.open().unwrap();
    let database = open(&engine, &files);
    let before = images.lsns().len() - 1;
    let lsn = images.lsns()[before];
    let namespace = Namespace::new("db", "c").unwrap();
    for id in 0..INSERTS {
        let document = doc! { "_id": id };
        let documents = [document.as_raw()];
        let operation = Operation::default();
        (database.insert_piece(&operation, &namespace, &documents, true, Level::Written)).unwrap();
    }
    let files = Arc::new(files.crash(Crash::Kill, 1));
    drop(database);
    drop(engine);
    let engine = images.reopen(before).unwrap();
    let database = open(&engine, &files);
    let replayed = database.journal().replayed();
    assert!(replayed >= INSERTS as u64, "{replayed} records");
    let durable = *images.lsns().last().unwrap();
    assert!(
        durable >= lsn + replayed,
        "{durable} of {lsn} and {replayed}"
    );
}
