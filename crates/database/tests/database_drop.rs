//! dropDatabase over many collections: gone at once, cleaned up in pieces, whatever cuts them off.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, doc};
use quarry_database::{Change, Database, Level, Namespace, Operation, Options};
use quarry_journal::SimulatedFiles;
use quarry_journal::files::simulated::Crash;
use quarry_storage::{Engine, FlushImages, ImagedEngine, KeyRange};

/// Pieces hold 256 collections: this many take three.
const COLLECTIONS: usize = 600;
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The prefix of the marks of dropped databases, as keyspace.md has it.
const MARKS: [u8; 2] = [0x00, 0x16];
const CATALOG: &[u8] = b"\x00\x10big\x00";
const COUNTERS: &[u8] = b"\x00\x13";

fn open(engine: &Arc<ImagedEngine>, files: &Arc<SimulatedFiles>) -> Database {
    let options = Options {
        commit_interval_ms: 0,
        ..Options::default()
    };
    let engine = Arc::clone(engine) as Arc<dyn Engine>;
    Database::open_on(engine, Arc::clone(files) as _, options).unwrap()
}

fn namespace(number: usize) -> Namespace {
    Namespace::new("big", &format!("c{number:04}")).unwrap()
}

fn insert(database: &Database, into: &Namespace, document: &Document) {
    let raw = [document.as_raw()];
    let done = database.insert_piece(&Operation::default(), into, &raw, true, Level::Written);
    assert_eq!(done.unwrap().inserted, 1);
}

fn fill(database: &Database) {
    for number in 0..COLLECTIONS {
        insert(
            database,
            &namespace(number),
            &doc! { "_id": 1, "old": true },
        );
    }
    let operation = Operation::default();
    let spec = [doc! { "key": { "old": 1 } }];
    for number in [0, COLLECTIONS - 1] {
        let into = namespace(number);
        let made = database.create_indexes(&into, &spec, &operation, Level::Written);
        assert_eq!(made.unwrap().after, 2);
    }
}

fn keys_in(engine: &dyn Engine, prefix: &[u8]) -> usize {
    let snapshot = engine.snapshot().unwrap();
    let mut cursor = snapshot.cursor(KeyRange::prefix(prefix)).unwrap();
    cursor.first().unwrap();
    let mut keys = 0;
    while cursor.valid() {
        keys += 1;
        cursor.next().unwrap();
    }
    keys
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < WAIT_MAX, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The collections of the database as found in a new life: only those made after the drop.
fn check_new_life(engine: &Arc<ImagedEngine>, files: SimulatedFiles, kept: &[usize]) {
    let database = open(engine, &Arc::new(files));
    let listed = database.list_collections("big").unwrap();
    let names: Vec<&str> = listed
        .iter()
        .map(|found| found.namespace.collection())
        .collect();
    let wanted: Vec<String> = kept.iter().map(|number| format!("c{number:04}")).collect();
    assert_eq!(names, wanted);
    wait_until("the mark goes", || keys_in(engine.as_ref(), &MARKS) == 0);
    assert_eq!(keys_in(engine.as_ref(), CATALOG), kept.len());
    for number in kept {
        let report = database.validate(&namespace(*number), true, &Operation::default());
        let report = report.unwrap();
        assert_eq!((report.documents, report.errors), (1, Vec::new()));
    }
}

#[test]
fn a_dropped_database_is_gone_at_once_and_its_space_comes_back() {
    let images = FlushImages::memory();
    let engine = images.open().unwrap();
    let database = open(&engine, &Arc::new(SimulatedFiles::new()));
    fill(&database);
    let snapshot = database
        .snapshot(&namespace(COLLECTIONS - 1))
        .unwrap()
        .unwrap();
    let records = snapshot.collection.prefix;
    let entries = snapshot.index_catalog().unwrap().indexes[0].prefix;
    drop(snapshot);
    let operation = Operation::default();
    let lsn = database.journal().last_lsn();
    let was_there = database.drop_database("big", &operation, Level::Written);
    assert!(was_there.unwrap());
    assert!(database.list_databases().unwrap().is_empty());
    for number in 0..COLLECTIONS {
        assert!(database.collection(&namespace(number)).unwrap().is_none());
    }
    // Namesakes, beside what the cleaner has not come to.
    let kept = [1, 300, 599];
    for number in kept {
        insert(
            &database,
            &namespace(number),
            &doc! { "_id": 2, "new": true },
        );
    }
    wait_until("the mark goes", || keys_in(engine.as_ref(), &MARKS) == 0);
    let commits = database.journal().last_lsn() - lsn;
    assert!(commits < 30, "pieces, not collections: {commits} commits");
    assert_eq!(keys_in(engine.as_ref(), CATALOG), kept.len());
    wait_until("the space comes back", || {
        keys_in(engine.as_ref(), records.as_bytes()) + keys_in(engine.as_ref(), entries.as_bytes())
            == 0
    });
    for number in kept {
        let report = database.validate(&namespace(number), true, &operation);
        let report = report.unwrap();
        assert_eq!((report.documents, report.errors), (1, Vec::new()));
    }
}

#[test]
fn a_drop_that_is_cut_off_anywhere_is_finished_by_the_next_start() {
    let images = FlushImages::memory();
    let engine = images.open().unwrap();
    let files = Arc::new(SimulatedFiles::new());
    let database = open(&engine, &files);
    engine.sync().unwrap();
    let image = images.lsns().len() - 1;
    fill(&database);
    // The operation ends behind the mark, before the first piece.
    let left: Arc<Mutex<Option<SimulatedFiles>>> = Arc::default();
    let operation = Operation::default().with_disconnect(Box::new({
        let (left, files, engine) = (Arc::clone(&left), Arc::clone(&files), Arc::clone(&engine));
        move || {
            let mut left = left.lock().unwrap();
            let is_behind_mark = left.is_none() && keys_in(engine.as_ref(), &MARKS) > 0;
            if is_behind_mark {
                *left = Some(files.crash(Crash::Kill, 0));
            }
            is_behind_mark
        }
    }));
    let was_there = database.drop_database("big", &operation, Level::Written);
    assert!(was_there.unwrap(), "it is dropped, whatever is left to do");
    let mut lives = vec![left.lock().unwrap().take().unwrap()];
    // And wherever the cleaner is.
    let mut entries_seen = vec![COLLECTIONS];
    wait_until("the mark goes", || keys_in(engine.as_ref(), &MARKS) == 0);
    drop(database);
    for at in 0..3 {
        let engine = images.reopen(image).unwrap();
        let files = Arc::new(lives.pop().unwrap());
        let database = open(&engine, &files);
        insert(&database, &namespace(at), &doc! { "_id": 2, "new": true });
        let before = *entries_seen.last().unwrap();
        wait_until("a piece", || {
            keys_in(engine.as_ref(), &MARKS) == 0 || keys_in(engine.as_ref(), CATALOG) < before
        });
        entries_seen.push(keys_in(engine.as_ref(), CATALOG));
        lives.push(files.crash(Crash::Kill, 1));
    }
    let engine = images.reopen(image).unwrap();
    check_new_life(&engine, lives.pop().unwrap(), &[0, 1, 2]);
}

#[test]
fn a_writer_that_was_there_before_the_drop_ends_and_leaves_nothing() {
    let engine = FlushImages::memory().open().unwrap();
    let database = open(&engine, &Arc::new(SimulatedFiles::new()));
    let into = namespace(0);
    insert(&database, &into, &doc! { "_id": 1, "n": 1 });
    let collection = database.collection(&into).unwrap().unwrap();
    let keys = [Database::record_key(&collection, 1.into())];
    let (writes, written) = (channel::<()>(), channel::<()>());
    std::thread::scope(|scope| {
        let (database, into, collection) = (&database, &into, &collection);
        scope.spawn(move || {
            let operation = Operation::default();
            let mut change =
                |_: usize, _: RawDocument<'_>, out: &mut quarry_database::NewDocument| {
                    writes.0.send(()).unwrap();
                    written.1.recv().unwrap();
                    out.extend_from_slice(doc! { "_id": 1, "n": 2, "more": true }.as_bytes());
                    Ok(Change::Replace)
                };
            let ident = collection.ident;
            let done =
                database.modify_piece(&operation, into, ident, &keys, Level::Written, &mut change);
            assert_eq!(done.unwrap().modified, 1);
        });
        writes.1.recv().unwrap();
        let short = Operation::new(Some(Instant::now() + Duration::from_millis(50)));
        let was_there = database.drop_database("big", &short, Level::Written);
        assert!(was_there.unwrap(), "it does not wait for the writer");
        assert!(database.collection(into).unwrap().is_none());
        written.0.send(()).unwrap();
    });
    wait_until("the mark goes", || keys_in(engine.as_ref(), &MARKS) == 0);
    assert_eq!(keys_in(engine.as_ref(), COUNTERS), 0);
    let records = collection.prefix;
    wait_until("the space comes back", || {
        keys_in(engine.as_ref(), records.as_bytes()) == 0
    });
}
