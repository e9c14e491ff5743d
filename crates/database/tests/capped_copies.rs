//! Capped copies of collections: the last documents that have room, the old collection or the new one after a crash, and no write
//! that is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, doc};
use quarry_database::{Database, KeyRange, Level, Namespace, Operation, Options};
use quarry_journal::SimulatedFiles;
use quarry_journal::files::simulated::{Crash, Fault};
use quarry_storage::{Memory, MemoryImage};

struct Setup {
    engine: Arc<Memory>,
    files: Arc<SimulatedFiles>,
    database: Option<Database>,
    operation: Operation,
}

fn named(name: &str) -> Namespace {
    Namespace::parse(name).unwrap()
}

impl Setup {
    fn new() -> Setup {
        let mut setup = Setup {
            engine: Arc::new(Memory::new()),
            files: Arc::new(SimulatedFiles::new()),
            database: None,
            operation: Operation::default(),
        };
        setup.restart();
        setup
    }

    fn restart(&mut self) {
        self.database = None;
        assert!(self.open());
    }

    /// Whether the database could be opened.
    fn open(&mut self) -> bool {
        let options = Options {
            commit_interval_ms: 0,
            ..Options::default()
        };
        let (engine, files) = (Arc::clone(&self.engine), Arc::clone(&self.files));
        self.database = Database::open_on(engine, files, options).ok();
        self.database.is_some()
    }

    /// A database that is still to be opened, on what a machine has.
    fn on(image: &MemoryImage, files: SimulatedFiles) -> Setup {
        Setup {
            engine: Arc::new(Memory::from_image(image.clone())),
            files: Arc::new(files),
            database: None,
            operation: Operation::default(),
        }
    }

    fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    fn insert(&self, namespace: &Namespace, ids: impl Iterator<Item = i32>) {
        let documents: Vec<Document> = ids.map(|id| doc! { "_id": id, "a": id % 7 }).collect();
        let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let (operation, level) = (&self.operation, Level::Written);
        for piece in raw.chunks(500) {
            let inserted = self
                .database()
                .insert_piece(operation, namespace, piece, true, level)
                .unwrap();
            assert_eq!(inserted.inserted, piece.len() as u64);
        }
    }

    /// The `_id`s in the order of the records.
    fn ids(&self, namespace: &Namespace) -> Vec<i32> {
        let snapshot = self.database().snapshot(namespace).unwrap().unwrap();
        let records = KeyRange::prefix(snapshot.collection.prefix.as_bytes());
        let mut cursor = snapshot.cursor(records).unwrap();
        let mut ids = Vec::new();
        cursor.first().unwrap();
        while cursor.valid() {
            let document = RawDocument::new(cursor.value()).unwrap();
            ids.push(document.get_i32("_id").unwrap());
            cursor.next().unwrap();
        }
        ids
    }

    fn names(&self) -> Vec<String> {
        let listed = self.database().list_collections("db").unwrap();
        let names = listed.into_iter().map(|it| it.namespace.to_string());
        names.collect()
    }

    fn convert(&self, namespace: &Namespace, size: i64) -> Result<(), i32> {
        let (operation, level) = (&self.operation, Level::Written);
        let converted = self
            .database()
            .convert_to_capped(namespace, size, operation, level);
        converted.map_err(|error| error.code())
    }

    fn clone(&self, from: &Namespace, to: &Namespace, size: i64) -> Result<(), i32> {
        let (operation, level) = (&self.operation, Level::Written);
        let cloned = self
            .database()
            .clone_as_capped(from, to, size, operation, level);
        cloned.map_err(|error| error.code())
    }

    fn assert_valid(&self, namespace: &Namespace) {
        let report = self
            .database()
            .validate(namespace, true, &self.operation)
            .unwrap();
        assert_eq!(report.errors, Vec::<String>::new());
    }
}

/// The bytes of one of the documents.
fn document_bytes() -> i64 {
    doc! { "_id": 1, "a": 1 }.as_bytes().len() as i64
}

#[test]
fn the_last_documents_that_have_room_are_copied_and_no_index_but_that_on_id() {
    let mut setup = Setup::new();
    let (old, new) = (named("db.c"), named("db.copy"));
    setup.insert(&old, 0..3000);
    let spec = [doc! { "key": { "a": 1 }, "name": "a" }];
    let (operation, level) = (Operation::default(), Level::Written);
    let database = setup.database();
    database
        .create_indexes(&old, &spec, &operation, level)
        .unwrap();
    let uuid = database.collection(&old).unwrap().unwrap().uuid;
    let size = 1500 * document_bytes();
    setup.clone(&old, &new, size).unwrap();
    assert_eq!(setup.ids(&new), Vec::from_iter(1500..3000));
    assert_eq!(setup.ids(&old).len(), 3000);
    setup.convert(&old, size).unwrap();
    for _ in 0..2 {
        assert_eq!(setup.names(), ["db.c", "db.copy"]);
        for namespace in [&old, &new] {
            let collection = setup.database().collection(namespace).unwrap().unwrap();
            assert_eq!(collection.capped.unwrap().size_bytes, size as u64);
            assert_ne!(collection.uuid, uuid);
            assert_eq!(setup.database().list_indexes(namespace).unwrap().len(), 1);
            setup.assert_valid(namespace);
        }
        setup.restart();
    }
    assert_eq!(setup.ids(&old), Vec::from_iter(1500..3000));
    // It goes on as any capped collection does.
    setup.insert(&old, 5000..5010);
    assert_eq!(setup.ids(&old).len(), 1500);
    assert_eq!(setup.ids(&old).last(), Some(&5009));
    // One document has room wherever it comes.
    setup.convert(&old, 1).unwrap();
    assert_eq!(setup.ids(&old), [5009]);
}

#[test]
fn what_cannot_be_capped_stays_and_leaves_nothing_behind() {
    let setup = Setup::new();
    let (database, operation, level) = (setup.database(), &setup.operation, Level::Written);
    let view = doc! { "viewOn": "c", "pipeline": [] };
    let clustered = doc! { "clusteredIndex": {
        "v": 2, "key": { "_id": 1 }, "name": "x", "unique": true,
    } };
    for (name, options) in [("db.c", doc! {}), ("db.v", view), ("db.k", clustered)] {
        database
            .create_collection(&named(name), options.as_raw(), operation, level)
            .unwrap();
    }
    let copy = named("db.copy");
    for (name, code) in [("db.none", 26), ("db.v", 166), ("db.k", 72)] {
        assert_eq!(setup.convert(&named(name), 4096), Err(code), "{name}");
        assert_eq!(setup.clone(&named(name), &copy, 4096), Err(code), "{name}");
    }
    assert_eq!(setup.clone(&named("db.c"), &named("db.k"), 4096), Err(48));
    assert_eq!(setup.names(), ["db.c", "db.k", "db.v"]);
}

#[test]
fn what_is_written_beside_a_conversion_is_in_what_comes_of_it() {
    let setup = Setup::new();
    let namespace = named("db.c");
    setup.insert(&namespace, 0..2000);
    let (is_over, next) = (AtomicBool::new(false), AtomicI32::new(2000));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let id = next.fetch_add(1, Ordering::Relaxed);
                setup.insert(&namespace, std::iter::once(id));
            }
        });
        let converted = setup.convert(&namespace, 1 << 30);
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        converted.unwrap();
    });
    setup.insert(&namespace, std::iter::once(-1));
    let mut ids = setup.ids(&namespace);
    assert_eq!(ids.pop(), Some(-1), "the last record is the last that came");
    assert_eq!(ids, Vec::from_iter(0..next.into_inner()));
    setup.assert_valid(&namespace);
}

#[test]
fn other_bounds_hold_from_the_next_insert_on() {
    let mut setup = Setup::new();
    let namespace = named("db.c");
    let options = doc! { "capped": true, "size": 1 << 21, "max": 50_000 };
    let (operation, level) = (Operation::default(), Level::Written);
    setup
        .database()
        .create_collection(&namespace, options.as_raw(), &operation, level)
        .unwrap();
    setup.insert(&namespace, 0..45_000);
    let database = setup.database();
    database
        .resize_capped(&namespace, None, Some(100), &operation, level)
        .unwrap();
    setup.restart();
    assert_eq!(setup.ids(&namespace).len(), 45_000);
    // One piece removes 20,000 and no more, however many are over the bounds.
    setup.insert(&namespace, 45_000..45_001);
    let left = setup.ids(&namespace).len();
    setup.insert(&namespace, 45_001..45_002);
    assert_eq!(setup.ids(&namespace), Vec::from_iter(44_902..45_002));
    assert_eq!(left, 45_001 - 2 * 20_000, "of each of its two pieces");
    let database = setup.database();
    let resized = database.resize_capped(&namespace, Some(256), None, &operation, level);
    resized.unwrap();
    setup.insert(&namespace, 50_000..50_001);
    assert_eq!(
        setup.ids(&namespace).len() as i64,
        256 / document_bytes(),
        "as many as have room"
    );
    setup.assert_valid(&namespace);
    let plain = named("db.plain");
    setup.insert(&plain, 0..1);
    let refused = (setup.database()).resize_capped(&plain, Some(256), None, &operation, level);
    assert_eq!(refused.unwrap_err().code(), 72);
}

#[test]
fn a_crash_at_any_step_leaves_the_old_collection_or_the_new_one() {
    let namespace = named("db.c");
    let mut before = Setup::new();
    before.insert(&namespace, 0..300);
    before.database.take().unwrap().close().unwrap();
    let image = before.engine.image();
    let size = 100 * document_bytes();
    let mut found = [0, 0];
    for step in (0..).step_by(3) {
        let mut setup = Setup::on(&image, before.files.crash(Crash::Kill, 0));
        setup.files.inject(step, Fault::PowerOff);
        let mut is_done = false;
        if setup.open() {
            let (operation, level) = (&setup.operation, Level::Durable);
            let database = setup.database();
            let converted = database.convert_to_capped(&namespace, size, operation, level);
            is_done = converted.is_ok();
            setup.database = None;
        }
        let crash = Crash::ALL[step as usize % Crash::ALL.len()];
        let mut after = Setup::on(&image, setup.files.crash(crash, step));
        after.restart();
        let collection = after.database().collection(&namespace).unwrap().unwrap();
        let is_new = collection.capped.is_some();
        let first = if is_new { 200 } else { 0 };
        assert_eq!(
            after.ids(&namespace),
            Vec::from_iter(first..300),
            "step {step}"
        );
        assert!(
            is_new || !is_done,
            "step {step}: what was acknowledged is there"
        );
        after.assert_valid(&namespace);
        found[usize::from(is_new)] += 1;
        if is_done && found[1] > 1 {
            break;
        }
    }
    assert!(found[0] > 3, "{found:?}");
}

/// A copy may take long: definitions in the same database, and so in every other one, do not wait for it.
#[test]
fn definitions_beside_a_collection_that_is_converted_do_not_wait() {
    for is_clone in [false, true] {
        let database = Arc::new(Database::open_in_memory().unwrap());
        let (namespace, level) = (named("db.c"), Level::Written);
        let documents: Vec<Document> = (0..50).map(|id| doc! { "_id": id }).collect();
        let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let free = Operation::default();
        database
            .insert_piece(&free, &namespace, &raw, true, level)
            .unwrap();
        let made = Arc::new(AtomicI32::new(0));
        let (others, counted) = (Arc::clone(&database), Arc::clone(&made));
        let operation = Operation::default().with_disconnect(Box::new(move || {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            let limited = Operation::new(Some(Instant::now() + Duration::from_secs(10)));
            let beside = named(&format!("db.beside{number}"));
            others
                .create_collection(&beside, RawDocument::EMPTY, &limited, level)
                .unwrap();
            false
        }));
        match is_clone {
            false => database.convert_to_capped(&namespace, 4096, &operation, level),
            true => {
                database.clone_as_capped(&namespace, &named("db.copy"), 4096, &operation, level)
            }
        }
        .unwrap();
        assert!(made.load(Ordering::Relaxed) >= 50);
    }
}

/// Another client that drops the copy while it is filled, or the database, waits for the copy, or has the work end with an error.
#[test]
fn a_copy_that_is_dropped_while_it_is_filled_loses_nothing() {
    let database = Arc::new(Database::open_in_memory().unwrap());
    let (namespace, level) = (named("db.c"), Level::Written);
    let document = doc! { "_id": 1 };
    let free = Operation::default();
    database
        .insert_piece(&free, &namespace, &[document.as_raw()], true, level)
        .unwrap();
    let others = Arc::clone(&database);
    let operation = Operation::default().with_disconnect(Box::new(move || {
        let listed = others.list_collections("db").unwrap();
        let mut copies = listed.iter().map(|it| &it.namespace);
        let copy = copies.find(|name| name.collection().starts_with("tmp."));
        let soon = || Operation::new(Some(Instant::now() + Duration::from_millis(100)));
        let dropped = others.drop_collection(copy.unwrap(), &soon(), level);
        assert_eq!(dropped.unwrap_err().code(), 50, "the copy is held");
        let dropped = others.drop_database("db", &soon(), level);
        assert_eq!(dropped.unwrap_err().code(), 50, "the database is held");
        false
    }));
    database
        .convert_to_capped(&namespace, 4096, &operation, level)
        .unwrap();
    let converted = database.collection(&namespace).unwrap().unwrap();
    assert!(converted.capped.is_some());
    assert_eq!(database.count(&converted).unwrap(), 1);
    assert_eq!(database.list_collections("db").unwrap().len(), 1);
}
