//! A start that replays many small groups: what the engine has afterwards, and in how many writes it got there.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quarry_bson::doc;
use quarry_database::{Database, Error, Level, Namespace, Operation, Options};
use quarry_journal::SimulatedFiles;
use quarry_journal::files::simulated::Crash;
use quarry_storage::{Engine, Faulty, FlushImages, ImagedEngine, Memory};

const INSERTS: i32 = 500;
/// Documents of this size fill many batches.
const LARGE_BYTES: usize = 100 << 10;
const WAIT_MAX: Duration = Duration::from_secs(20);

fn open<E: Engine>(
    engine: &Arc<E>,
    files: &SimulatedFiles,
    options: Options,
) -> Result<Database, Error> {
    Database::open_on(
        Arc::clone(engine) as Arc<dyn Engine>,
        Arc::new(files.clone()),
        options,
    )
}

/// A journal of that many groups, and the engine as it was before the first of them.
fn journal() -> (Arc<Memory>, SimulatedFiles) {
    journal_of("some text")
}

/// Like `journal`, of documents with this text.
fn journal_of(text: &str) -> (Arc<Memory>, SimulatedFiles) {
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
        let document = doc! { "_id": id, "text": text };
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

/// Opens a database that is given up once the engine is being written to; the writes that have begun by then are made.
fn open_and_give_up(engine: &Arc<Memory>, files: &SimulatedFiles) {
    let faulty = Arc::new(Faulty::new(Arc::clone(engine) as Arc<dyn Engine>));
    faulty.hold_writes();
    let options = Options::default();
    let give_up = Arc::clone(&options.give_up);
    let ended = std::thread::scope(|scope| {
        let opening = scope.spawn(|| open(&faulty, files, options).err());
        let begun = Instant::now();
        while faulty.held_writes() == 0 {
            assert!(begun.elapsed() < WAIT_MAX, "nothing is replayed");
            std::thread::yield_now();
        }
        give_up.store(true, Ordering::Relaxed);
        faulty.heal();
        opening.join().unwrap()
    });
    assert!(matches!(ended, Some(Error::ShuttingDown)), "{ended:?}");
}

/// Each start goes on behind what the one before it has left, which is a whole number of groups.
#[test]
fn a_replay_that_ends_in_its_midst_twice_goes_on_where_it_was() {
    let (engine, files) = journal_of(&"x".repeat(LARGE_BYTES));
    let mut lsns = vec![engine.image().applied_lsn()];
    for _ in 0..2 {
        open_and_give_up(&engine, &files);
        lsns.push(engine.image().applied_lsn());
    }
    assert!(
        lsns.is_sorted_by(|before, after| before < after),
        "{lsns:?}"
    );
    let database = open(&engine, &files, Options::default()).unwrap();
    let last = database.journal().accepted_lsn();
    assert!(lsns[2] < last, "{lsns:?} of {last}");
    assert_eq!(database.journal().replayed(), last - lsns[2]);
    assert_eq!(count(&database), INSERTS as u64);
    database.close().unwrap();
}

/// The batches behind one that the engine refuses are not written, and the start says what the engine said.
#[test]
fn a_batch_that_is_refused_ends_the_replay() {
    let (engine, files) = journal_of(&"x".repeat(LARGE_BYTES));
    let before = engine.image().applied_lsn();
    let faulty = Arc::new(Faulty::new(Arc::clone(&engine) as Arc<dyn Engine>));
    faulty.fail_next_writes(1, quarry_storage::Error::Io("switched off".to_owned()));
    let ended = open(&faulty, &files, Options::default()).err();
    let said = ended.expect("the replay fails").to_string();
    assert!(said.contains("switched off"), "{said}");
    assert_eq!(engine.image().applied_lsn(), before);
    let database = open(&engine, &files, Options::default()).unwrap();
    assert_eq!(count(&database), INSERTS as u64);
    database.close().unwrap();
}
