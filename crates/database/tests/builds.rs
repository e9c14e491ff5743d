//! Index builds that do not go through: cut off by a crash at each of their commits, dropped, renamed away, waited for;
//! and unique ones that meet duplicates.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_database::{Change, Database, Error, Level, Namespace, Operation, Options};
use quarry_journal::SimulatedFiles;
use quarry_journal::files::simulated::Crash;
use quarry_storage::{Engine, FlushImages, ImagedEngine, KeyRange, Snapshot};

/// The first pieces of a build hold 256 documents: this many take three.
const DOCUMENTS: i32 = 700;
const WAIT_MAX: Duration = Duration::from_secs(60);

fn options() -> Options {
    Options {
        commit_interval_ms: 0,
        record_cache_bytes: 64 << 10,
        ..Options::default()
    }
}

fn namespace() -> Namespace {
    Namespace::parse("db.c").unwrap()
}

fn specs() -> [Document; 2] {
    [
        doc! { "key": { "a": 1 } },
        doc! { "key": { "u": -1 }, "unique": true },
    ]
}

fn open(engine: &Arc<ImagedEngine>, files: &Arc<SimulatedFiles>) -> Database {
    let engine = Arc::clone(engine) as Arc<dyn Engine>;
    Database::open_on(engine, Arc::clone(files) as _, options()).unwrap()
}

fn fill(database: &Database) {
    let documents: Vec<Document> = (0..DOCUMENTS)
        .map(|i| doc! { "_id": i, "a": [(i % 3), "x"], "u": i })
        .collect();
    let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
    for piece in raw.chunks(500) {
        let done = database.insert_piece(
            &Operation::default(),
            &namespace(),
            piece,
            true,
            Level::Written,
        );
        assert!(done.unwrap().errors.is_empty());
    }
}

fn create(database: &Database, operation: &Operation) -> quarry_database::Result<usize> {
    database
        .create_indexes(&namespace(), &specs(), operation, Level::Written)
        .map(|made| made.after)
}

fn names(database: &Database, namespace: &Namespace) -> Vec<String> {
    let specs = database.list_indexes(namespace).unwrap();
    let names = specs.iter().map(|spec| spec.get_str("name").unwrap());
    names.map(str::to_owned).collect()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < WAIT_MAX, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn assert_valid(database: &Database, namespace: &Namespace) {
    let report = database.validate(namespace, true, &Operation::default());
    assert_eq!(report.unwrap().errors, Vec::<String>::new());
}

/// An operation that is asked at every piece of a build, and interrupted where `at_piece` says so.
fn watched(at_piece: impl Fn(usize) -> bool + Send + Sync + 'static) -> Operation {
    let pieces = AtomicUsize::new(0);
    Operation::default().with_disconnect(Box::new(move || {
        at_piece(pieces.fetch_add(1, Ordering::SeqCst))
    }))
}

fn keys_in(engine: &dyn Engine, range: KeyRange) -> usize {
    let snapshot: Box<dyn Snapshot> = engine.snapshot().unwrap();
    let mut cursor = snapshot.cursor(range).unwrap();
    cursor.first().unwrap();
    let mut keys = 0;
    while cursor.valid() {
        keys += 1;
        cursor.next().unwrap();
    }
    keys
}

#[test]
fn a_crash_at_any_commit_of_a_build_leaves_no_index_behind() {
    for crash in [Crash::Kill, Crash::Drop, Crash::Tear] {
        let mut at = 0;
        while crash_at(at, crash) {
            at += 1;
        }
        assert_eq!(at, 4, "registered, and three pieces");
    }
}

/// Crashes at the `at`-th look of a build at its interrupts; false if there were fewer, and it went through.
fn crash_at(at: usize, crash: Crash) -> bool {
    let images = FlushImages::memory();
    let engine = images.open().unwrap();
    let files = Arc::new(SimulatedFiles::new());
    let database = open(&engine, &files);
    fill(&database);
    database.sync().unwrap();
    engine.sync().unwrap();
    let left: Arc<Mutex<Option<SimulatedFiles>>> = Arc::default();
    let operation = watched({
        let (left, files) = (Arc::clone(&left), Arc::clone(&files));
        move |piece| {
            if piece == at {
                *left.lock().unwrap() = Some(files.crash(crash, at as u64));
            }
            piece == at
        }
    });
    let outcome = create(&database, &operation);
    let left = left.lock().unwrap().take();
    assert_eq!(outcome.is_err(), left.is_some());
    let is_cut = left.is_some();
    let left = left.unwrap_or_else(|| files.crash(crash, 0));
    drop(database);

    let engine = images.reopen(images.lsns().len() - 1).unwrap();
    let files = Arc::new(left);
    let database = open(&engine, &files);
    let found = database.interrupted_builds().to_vec();
    if crash == Crash::Kill && is_cut {
        let named: Vec<_> = found.iter().map(|build| build.index.as_str()).collect();
        assert_eq!(named, ["a_1", "u_-1"]);
        assert!(found.iter().all(|build| build.namespace == namespace()));
    }
    let is_building = || {
        let stats = database.coll_stats(&namespace()).unwrap().unwrap();
        stats.indexes.iter().any(|index| index.is_building)
    };
    wait_until("the index is dropped", || !is_building());
    let listed = names(&database, &namespace());
    if is_cut {
        assert_eq!(listed, ["_id_"], "{crash:?} at {at}");
    }
    assert_valid(&database, &namespace());
    assert_eq!(create(&database, &Operation::default()).unwrap(), 3);
    assert_valid(&database, &namespace());
    drop(database);
    let database = open(&engine, &files);
    assert_eq!(database.interrupted_builds(), [], "{crash:?} at {at}");
    is_cut
}

#[test]
fn the_space_of_an_interrupted_build_comes_back() {
    let images = FlushImages::memory();
    let engine = images.open().unwrap();
    let files = Arc::new(SimulatedFiles::new());
    let database = Arc::new(open(&engine, &files));
    engine.sync().unwrap();
    fill(&database);
    let seen: Arc<Mutex<Option<(KeyRange, SimulatedFiles)>>> = Arc::default();
    let operation = watched({
        let (database, files, seen) = (database.clone(), files.clone(), seen.clone());
        move |piece| {
            if piece == 3 {
                let snapshot = database.snapshot(&namespace()).unwrap().unwrap();
                let index = snapshot.index_catalog().unwrap().index("a_1").unwrap();
                let range = KeyRange::prefix(index.prefix.as_bytes());
                *seen.lock().unwrap() = Some((range, files.crash(Crash::Kill, 0)));
            }
            piece == 3
        }
    });
    assert_eq!(create(&database, &operation).unwrap_err().code(), 11_601);
    drop((operation, database));
    let (range, files) = seen.lock().unwrap().take().unwrap();
    let engine = images.reopen(1).unwrap();
    let database = open(&engine, &Arc::new(files));
    wait_until("the space comes back", || {
        keys_in(engine.as_ref(), range.clone()) == 0
    });
    assert_valid(&database, &namespace());
}

#[test]
fn a_renamed_collection_takes_its_unfinished_build_along_and_loses_it() {
    let engine = FlushImages::memory().open().unwrap();
    let database = Arc::new(open(&engine, &Arc::new(SimulatedFiles::new())));
    fill(&database);
    let to = Namespace::parse("other.d").unwrap();
    let operation = watched({
        let (database, to) = (Arc::clone(&database), to.clone());
        move |piece| {
            if piece == 2 {
                let renamer = Operation::default();
                let renamed =
                    database.rename_collection(&namespace(), &to, false, &renamer, Level::Written);
                renamed.unwrap();
            }
            false
        }
    });
    assert_eq!(create(&database, &operation).unwrap_err().code(), 175);
    drop(operation);
    assert_eq!(names(&database, &to), ["_id_"]);
    assert_valid(&database, &to);
}

#[test]
fn an_index_dropped_while_it_is_built_aborts_the_build() {
    let engine = FlushImages::memory().open().unwrap();
    let database = Arc::new(open(&engine, &Arc::new(SimulatedFiles::new())));
    fill(&database);
    let operation = watched({
        let database = Arc::clone(&database);
        move |piece| {
            if piece == 1 {
                let name = RawValue::from("a_1");
                let dropper = Operation::default();
                let dropped =
                    database.drop_indexes(&namespace(), &[name], &dropper, Level::Written);
                dropped.unwrap();
            }
            false
        }
    });
    assert_eq!(create(&database, &operation).unwrap_err().code(), 276);
    drop(operation);
    assert_eq!(names(&database, &namespace()), ["_id_"]);
    assert_valid(&database, &namespace());
}

#[test]
fn the_same_index_asked_for_twice_is_ready_when_either_returns() {
    let engine = FlushImages::memory().open().unwrap();
    let database = open(&engine, &Arc::new(SimulatedFiles::new()));
    fill(&database);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                assert_eq!(create(&database, &Operation::default()).unwrap(), 3);
                let stats = database.coll_stats(&namespace()).unwrap().unwrap();
                assert!(stats.indexes.iter().all(|index| !index.is_building));
            });
        }
    });
    assert_valid(&database, &namespace());
}

/// Sets `u` of one document, or inserts it, or deletes it.
fn put(database: &Database, id: i32, u: Option<i32>) {
    let operation = Operation::default();
    let collection = database.collection(&namespace()).unwrap().unwrap();
    let key = Database::record_key(&collection, id.into());
    let ident = collection.ident;
    let keys = [key];
    let mut change = |_: usize, _: RawDocument<'_>, out: &mut quarry_database::NewDocument| match u
    {
        None => Ok(Change::Delete),
        Some(u) => {
            out.extend_from_slice(doc! { "_id": id, "u": u }.as_bytes());
            Ok(Change::Replace)
        }
    };
    let done = database.modify_piece(
        &operation,
        &namespace(),
        ident,
        &keys,
        Level::Written,
        &mut change,
    );
    let done = done.unwrap();
    assert!(done.error.is_none(), "{:?}", done.error);
    if let (0, Some(u)) = (done.matched, u) {
        let document = doc! { "_id": id, "u": u };
        let raw = [document.as_raw()];
        let done = database.insert_piece(&operation, &namespace(), &raw, true, Level::Written);
        assert!(done.unwrap().errors.is_empty());
    }
}

/// A unique build on `u`, with writes of `(piece, _id, u)` at its pieces, the number that stands in for its end too.
fn unique_build_with(writes: &[(usize, i32, Option<i32>)]) -> (Arc<Database>, Option<Error>) {
    let engine = FlushImages::memory().open().unwrap();
    let database = Arc::new(open(&engine, &Arc::new(SimulatedFiles::new())));
    fill(&database);
    let operation = watched({
        let (database, writes) = (Arc::clone(&database), writes.to_vec());
        move |piece| {
            for (_, id, u) in writes.iter().filter(|(at, ..)| *at == piece) {
                put(&database, *id, *u);
            }
            false
        }
    });
    let spec = [doc! { "key": { "u": 1 }, "unique": true }];
    let made = database.create_indexes(&namespace(), &spec, &operation, Level::Written);
    drop(operation);
    assert_valid(&database, &namespace());
    (database, made.err())
}

#[test]
fn a_duplicate_that_stands_at_the_end_fails_the_build_and_not_the_write() {
    // Ids are built in pieces of 256: at piece 1 the first 256 are done.
    for writes in [
        &[(1, 900, Some(5))][..],
        &[(1, 900, Some(600))],
        &[(0, 900, Some(901)), (0, 901, Some(901))],
        &[(1, 600, Some(5))],
        &[(1, 5, Some(600))],
        &[(3, 5, Some(600))],
        // The first owner leaves, another one comes.
        &[(1, 900, Some(5)), (1, 5, Some(5000)), (2, 901, Some(5))],
    ] {
        let (database, error) = unique_build_with(writes);
        let Some(Error::DuplicateKey(duplicate)) = error else {
            panic!("{writes:?}: {error:?}");
        };
        assert_eq!(duplicate.index, "u_1");
        assert_eq!(names(&database, &namespace()), ["_id_"]);
        put(&database, 902, Some(7));
    }
}

#[test]
fn a_duplicate_that_is_gone_before_the_end_does_not_fail_the_build() {
    for writes in [
        &[(1, 900, Some(5)), (2, 900, Some(9000))][..],
        &[(1, 900, Some(5)), (2, 900, None)],
        // The owner goes: the other one takes the key over.
        &[(1, 900, Some(5)), (2, 5, None)],
        &[(1, 900, Some(5)), (2, 5, Some(5000))],
        // A document that the build has not met leaves a key that another one took meanwhile.
        &[(1, 900, Some(600)), (1, 600, Some(6000))],
        &[(1, 900, Some(600)), (1, 600, None)],
        &[(1, 900, Some(600)), (3, 900, Some(9000))],
    ] {
        let (database, error) = unique_build_with(writes);
        assert!(error.is_none(), "{writes:?}: {error:?}");
        let refused = database.insert_piece(
            &Operation::default(),
            &namespace(),
            &[doc! { "_id": 999, "u": 7 }.as_raw()],
            true,
            Level::Written,
        );
        let refused = refused.unwrap();
        assert_eq!(
            refused.errors[0].1.code(),
            11_000,
            "it is unique from now on"
        );
    }
}

#[test]
fn a_build_over_nothing_but_duplicates_ends() {
    let engine = FlushImages::memory().open().unwrap();
    let database = open(&engine, &Arc::new(SimulatedFiles::new()));
    let documents: Vec<Document> = (0..3000).map(|i| doc! { "_id": i, "u": 1 }).collect();
    for piece in documents.chunks(500) {
        let raw: Vec<RawDocument<'_>> = piece.iter().map(Document::as_raw).collect();
        let done = database.insert_piece(
            &Operation::default(),
            &namespace(),
            &raw,
            true,
            Level::Written,
        );
        assert_eq!(done.unwrap().inserted, 500);
    }
    let looks = Arc::new(AtomicUsize::new(0));
    let operation = watched({
        let looks = Arc::clone(&looks);
        move |look| {
            looks.store(look + 1, Ordering::SeqCst);
            false
        }
    });
    assert_eq!(create(&database, &operation).unwrap_err().code(), 11_000);
    assert_eq!(
        looks.load(Ordering::SeqCst),
        5,
        "it stopped when 1000 were known, in the fourth piece"
    );
    assert_valid(&database, &namespace());
}

#[test]
fn a_unique_build_among_writers_is_right_or_refused() {
    let engine = FlushImages::memory().open().unwrap();
    let database = open(&engine, &Arc::new(SimulatedFiles::new()));
    fill(&database);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (database, stop) = (&database, &stop);
            scope.spawn(move || {
                // Each has ids and values of its own at rest, and now and then one of the other's for a moment.
                let mut step = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    step = step
                        .wrapping_mul(1_664_525)
                        .wrapping_add(1_013_904_223 + thread);
                    let id = ((step >> 8) % 350 * 2 + thread) as i32;
                    let other = ((step >> 16) % 700) as i32;
                    if step & 32 == 0 {
                        put(database, id, None);
                    } else {
                        try_put(database, id, other);
                    }
                    try_put(database, id, id);
                }
            });
        }
        let spec = [doc! { "key": { "u": 1 }, "unique": true }];
        let _stop = SetAtEnd(&stop);
        for _ in 0..20 {
            let built =
                database.create_indexes(&namespace(), &spec, &Operation::default(), Level::Written);
            assert_valid(&database, &namespace());
            match built {
                Ok(_) => {
                    let dropper = Operation::default();
                    let before = database.drop_all_indexes(&namespace(), &dropper, Level::Written);
                    assert_eq!(before.unwrap(), 2);
                }
                Err(error) => assert_eq!(error.code(), 11_000),
            }
        }
    });
}

/// Sets a flag when it goes, after a failed assertion too.
struct SetAtEnd<'f>(&'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sets `u`, unless a unique index that is ready refuses it.
fn try_put(database: &Database, id: i32, u: i32) {
    let operation = Operation::default();
    let collection = database.collection(&namespace()).unwrap().unwrap();
    let keys = [Database::record_key(&collection, id.into())];
    let document = doc! { "_id": id, "u": u };
    let mut change = |_: usize, _: RawDocument<'_>, out: &mut quarry_database::NewDocument| {
        out.extend_from_slice(document.as_bytes());
        Ok(Change::Replace)
    };
    let ident = collection.ident;
    let done = database.modify_piece(
        &operation,
        &namespace(),
        ident,
        &keys,
        Level::Written,
        &mut change,
    );
    let done = done.unwrap();
    assert!(done.error.is_none_or(|error| error.code() == 11_000));
    if done.matched == 0 {
        let raw = [document.as_raw()];
        let done = database.insert_piece(&operation, &namespace(), &raw, true, Level::Written);
        let errors = done.unwrap().errors;
        assert!(errors.iter().all(|(_, error)| error.code() == 11_000));
    }
}

#[test]
fn a_build_tells_how_far_it_has_come() {
    let engine = FlushImages::memory().open().unwrap();
    let database = open(&engine, &Arc::new(SimulatedFiles::new()));
    fill(&database);
    let told = Arc::new(Mutex::new(Vec::new()));
    let operation = Operation::default();
    let tell = Arc::clone(&told);
    operation.on_progress(Box::new(move |progress| {
        tell.lock().unwrap().push(progress.text(progress.done()));
    }));
    create(&database, &operation).unwrap();
    let expected = [(256, 36), (512, 73), (700, 100)].map(|(done, percent)| {
        format!("Index Build: scanning collection: {done}/{DOCUMENTS} {percent}%")
    });
    assert_eq!(*told.lock().unwrap(), expected);
    // What changes nothing has nothing to tell.
    let again = Operation::default();
    create(&database, &again).unwrap();
    assert!(again.progress().is_none());
}

/// The documents of each piece of a build over so many, where `at_look` is called before each.
fn piece_sizes(documents: i32, at_look: impl Fn(&Database) + Send + Sync + 'static) -> Vec<u64> {
    let engine = FlushImages::memory().open().unwrap();
    let database = Arc::new(open(&engine, &Arc::new(SimulatedFiles::new())));
    let documents: Vec<Document> = (0..documents).map(|i| doc! { "_id": i, "u": i }).collect();
    let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
    for piece in raw.chunks(500) {
        let operation = Operation::default();
        let done = database.insert_piece(&operation, &namespace(), piece, true, Level::Written);
        assert!(done.unwrap().errors.is_empty());
    }
    let operation = watched({
        let database = Arc::clone(&database);
        move |_| {
            at_look(&database);
            false
        }
    });
    let ends = Arc::new(Mutex::new(vec![0]));
    let tell = Arc::clone(&ends);
    operation.on_progress(Box::new(move |progress| {
        tell.lock().unwrap().push(progress.done());
    }));
    create(&database, &operation).unwrap();
    assert_valid(&database, &namespace());
    let ends = ends.lock().unwrap();
    ends.windows(2).map(|ends| ends[1] - ends[0]).collect()
}

#[test]
fn pieces_are_large_while_nobody_else_commits() {
    const PIECES: [u64; 8] = [256, 256, 256, 256, 512, 1024, 2048, 2048];
    let documents = PIECES.iter().sum::<u64>() as i32;
    assert_eq!(piece_sizes(documents, |_| {}), PIECES);
    let beside_others = piece_sizes(documents, |database| put(database, -1, Some(-1)));
    let expected = (documents as u64 + 1).div_ceil(256);
    assert_eq!(beside_others.len() as u64, expected);
    assert!(beside_others.iter().all(|size| *size <= 256));
}

/// Each writer has documents of its own and changes, deletes and puts back those just before, within and just behind the piece
/// that is built.
#[test]
fn a_build_among_writers_has_the_entries_of_what_they_leave() {
    const WRITERS: i32 = 3;
    const ALL: i32 = 6000;
    let engine = FlushImages::memory().open().unwrap();
    let database = open(&engine, &Arc::new(SimulatedFiles::new()));
    fill(&database);
    for id in DOCUMENTS..ALL {
        put(&database, id, Some(id));
    }
    let specs = [
        doc! { "key": { "u": 1 } },
        doc! { "key": { "u": -1, "_id": 1 } },
    ];
    for round in 0..10 {
        let operation = Operation::default();
        let stop = AtomicBool::new(false);
        let changed = Arc::new(AtomicUsize::new(0));
        // Behind its first piece the build waits for a writer, whoever the machine lets run.
        operation.on_progress(Box::new({
            let changed = Arc::clone(&changed);
            move |_| wait_until("a writer", || changed.load(Ordering::Relaxed) > 0)
        }));
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (database, operation) = (&database, &operation);
                let (stop, changed) = (&stop, &changed);
                scope.spawn(move || {
                    let mut random = (round * WRITERS + writer) as u32;
                    while !stop.load(Ordering::Relaxed) {
                        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        let done = operation
                            .progress()
                            .map_or(0, quarry_database::Progress::done);
                        let near = done as i32 - 64 + (random >> 8) as i32 % 448;
                        let id = near.clamp(0, ALL - 1) / WRITERS * WRITERS + writer;
                        if random & 64 == 0 {
                            put(database, id, None);
                        }
                        put(database, id, Some((random >> 16) as i32));
                        changed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let _stop = SetAtEnd(&stop);
            let built = database.create_indexes(&namespace(), &specs, &operation, Level::Written);
            assert_eq!(built.unwrap().after, 3);
        });
        assert_valid(&database, &namespace());
        assert!(changed.load(Ordering::Relaxed) > 0);
        let dropper = Operation::default();
        let before = database.drop_all_indexes(&namespace(), &dropper, Level::Written);
        assert_eq!(before.unwrap(), 3);
    }
}
