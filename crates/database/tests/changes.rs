//! Changes read from the journal: complete, in order, once each, filtered, resumed over crashes, and never from another
//! history than the reader's own.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, doc};
use quarry_database::{
    Change, ChangeBody, ChangeEvent, ChangeKind, ChangePoint, ChangeReader, ChangeScope,
    ChangesFrom, ChangesRead, Database, DefinitionKind, Level, Namespace, Operation, Options,
    UnitReads, take_commit_time,
};
use quarry_journal::SimulatedFiles;
use quarry_journal::files::simulated::Crash;
use quarry_storage::{Engine, FlushImages, ImagedEngine};

const LONG: Duration = Duration::from_secs(20);

fn ns(name: &str) -> Namespace {
    Namespace::parse(name).unwrap()
}

fn collection(name: &str) -> ChangeScope {
    ChangeScope::Collection(ns(name))
}

fn insert(database: &Database, name: &str, document: &Document) {
    let documents = [document.as_raw()];
    let operation = Operation::default();
    let inserted = database.insert_piece(&operation, &ns(name), &documents, true, Level::Written);
    assert!(inserted.unwrap().errors.is_empty());
}

/// Changes the document as `change` says, and puts `new` in its place.
fn modify(
    database: &Database,
    name: &str,
    id: impl Into<quarry_bson::Value>,
    change: Change,
    new: &Document,
) {
    let collection = database.collection(&ns(name)).unwrap().unwrap();
    let id: quarry_bson::Value = id.into();
    let key = Database::record_key(&collection, id.as_raw());
    let done = database.modify_piece(
        &Operation::default(),
        &ns(name),
        collection.ident,
        &[key],
        Level::Written,
        &mut |_, _, out| {
            out.extend_from_slice(new.as_bytes());
            Ok(change)
        },
    );
    let done = done.unwrap();
    assert!(done.error.is_none() && done.matched == 1);
}

/// An event as a line, and the place behind it.
type Told = (String, ChangePoint);

fn told(event: &ChangeEvent<'_>) -> Told {
    let namespace = event.namespace;
    let line = match &event.body {
        ChangeBody::Document(change) => {
            let shown = |document: Option<RawDocument<'_>>| match document {
                None => String::new(),
                Some(document) => format!(" {document}"),
            };
            let before = match change.pre_image {
                None => String::new(),
                Some(image) => format!(" before {image}"),
            };
            let (key, after) = (change.document_key(), shown(change.document));
            let of = key.get("_id").unwrap().element_type();
            format!("{:?} {namespace} {of:?}{after}{before}", change.kind)
        }
        ChangeBody::Definition { kind, body } => format!("{kind:?} {namespace} {}", body.len()),
    };
    (line, event.point)
}

/// All that there is for now, by at most `at_once` events a call.
fn read_by(reader: &mut ChangeReader, at_once: usize) -> Vec<Told> {
    let mut events = Vec::new();
    loop {
        let mut left = at_once;
        let read = reader.read(&mut |event| {
            events.push(told(event));
            left -= 1;
            Ok(match left {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        });
        if read.unwrap() == ChangesRead::All {
            return events;
        }
    }
}

fn read(reader: &mut ChangeReader) -> Vec<String> {
    let events = read_by(reader, usize::MAX);
    events.into_iter().map(|(line, _)| line).collect()
}

#[test]
fn every_kind_of_change_is_told_once_and_in_order() {
    let database = Database::open_in_memory().unwrap();
    let operation = Operation::default();
    let mut everything = database
        .read_changes(ChangeScope::Everything, ChangesFrom::Now)
        .unwrap();
    let images = doc! { "changeStreamPreAndPostImages": { "enabled": true } };
    database
        .create_collection(&ns("a.c"), images.as_raw(), &operation, Level::Written)
        .unwrap();
    insert(&database, "a.c", &doc! { "_id": 1, "n": 1 });
    modify(
        &database,
        "a.c",
        1,
        Change::Update,
        &doc! { "_id": 1, "n": 2 },
    );
    modify(
        &database,
        "a.c",
        1,
        Change::Replace,
        &doc! { "_id": 1, "m": 3 },
    );
    // The record's key is that of 1.0, too, and the event tells which one it was.
    insert(&database, "a.d", &doc! { "_id": 7.0 });
    modify(&database, "a.d", 7, Change::Delete, &Document::new());
    modify(&database, "a.c", 1, Change::Delete, &Document::new());
    let specs = [doc! { "key": { "n": 1 } }];
    database
        .create_indexes(&ns("a.c"), &specs, &operation, Level::Written)
        .unwrap();
    let name = doc! { "i": "n_1" };
    let which = [name.get("i").unwrap()];
    database
        .drop_indexes(&ns("a.c"), &which, &operation, Level::Written)
        .unwrap();
    (database.set_pre_images(&ns("a.c"), false, &operation, Level::Written)).unwrap();
    (database.rename_collection(&ns("a.c"), &ns("b.c"), false, &operation, Level::Written))
        .unwrap();
    insert(&database, "b.c", &doc! { "_id": 2 });
    database
        .drop_collection(&ns("b.c"), &operation, Level::Written)
        .unwrap();
    database
        .drop_database("a", &operation, Level::Written)
        .unwrap();
    let expected = [
        "Create a.c 3",
        "Insert a.c Int32 {_id: 1, n: 1}",
        "Update a.c Int32 {_id: 1, n: 2} before {_id: 1, n: 1}",
        "Replace a.c Int32 {_id: 1, m: 3} before {_id: 1, n: 2}",
        "Create a.d 3",
        "Insert a.d Double {_id: 7}",
        "Delete a.d Double",
        "Delete a.c Int32 before {_id: 1, m: 3}",
        "CreateIndexes a.c 3",
        "DropIndexes a.c 3",
        "Modify a.c 4",
        "Rename a.c 3",
        "Insert b.c Int32 {_id: 2}",
        "Drop b.c 2",
        "Drop a.d 2",
        "DropDatabase a 2",
    ];
    let events = read(&mut everything);
    let plain = |line: &str| line.replace(' ', "");
    assert_eq!(
        events.iter().map(|line| plain(line)).collect::<Vec<_>>(),
        expected.map(plain)
    );
    assert_eq!(read(&mut everything), Vec::<String>::new());
}

#[test]
fn a_reader_is_told_of_its_own_scope() {
    let database = Database::open_in_memory().unwrap();
    let open = |scope| database.read_changes(scope, ChangesFrom::Now).unwrap();
    let mut of_collection = open(collection("a.c"));
    let mut of_database = open(ChangeScope::Database("a".to_owned()));
    let mut of_another = open(ChangeScope::Database("a.c".replace('.', "")));
    insert(&database, "a.c", &doc! { "_id": 1 });
    insert(&database, "a.cc", &doc! { "_id": 1 });
    insert(&database, "a.system.js", &doc! { "_id": 1 });
    insert(&database, "ab.c", &doc! { "_id": 1 });
    insert(&database, "config.c", &doc! { "_id": 1 });
    assert_eq!(read(&mut of_collection).len(), 2);
    assert_eq!(read(&mut of_database).len(), 4);
    assert_eq!(read(&mut of_another).len(), 0);
    let mut everything =
        (database.read_changes(ChangeScope::Everything, ChangesFrom::Time(0))).unwrap();
    assert_eq!(read(&mut everything).len(), 6);
    // A collection is told of the end of its database, and of a rename to its name.
    let operation = Operation::default();
    (database.rename_collection(&ns("ab.c"), &ns("ab.d"), false, &operation, Level::Written))
        .unwrap();
    database
        .drop_database("a", &operation, Level::Written)
        .unwrap();
    let expected = ["Drop a.c 2", "Drop a.cc 2", "DropDatabase a 2"];
    assert_eq!(read(&mut of_collection), expected[..1]);
    assert_eq!(read(&mut of_database), expected);
    assert_eq!(
        read(&mut open_from_start(&database, "ab.d")),
        ["Rename ab.c 3"]
    );
}

fn open_from_start(database: &Database, name: &str) -> ChangeReader {
    let scope = collection(name);
    database.read_changes(scope, ChangesFrom::Time(0)).unwrap()
}

#[test]
fn a_reader_goes_on_from_any_place_and_from_any_time() {
    let database = Database::open_in_memory().unwrap();
    let mut times = Vec::new();
    for id in 0..30 {
        let documents: Vec<Document> = (0..3).map(|n| doc! { "_id": (id * 10 + n) }).collect();
        let raw: Vec<_> = documents.iter().map(Document::as_raw).collect();
        let operation = Operation::default();
        times.push(database.cluster_time());
        database
            .insert_piece(&operation, &ns("a.c"), &raw, true, Level::Written)
            .unwrap();
        insert(&database, "a.other", &doc! { "_id": id });
    }
    let all = read_by(&mut open_from_start(&database, "a.c"), usize::MAX);
    assert_eq!(all.len(), 91);
    let places: Vec<_> = all.iter().map(|(_, point)| point.to_bytes()).collect();
    assert!(
        places.is_sorted_by(|a, b| a < b),
        "tokens order as events do"
    );
    // Cut at every place, in the middle of records too, and by calls of any size.
    for at_once in [1, 2, 5, 1000] {
        let found = read_by(&mut open_from_start(&database, "a.c"), at_once);
        assert_eq!(found, all, "by {at_once}");
    }
    for (number, (_, point)) in all.iter().enumerate() {
        let from = ChangesFrom::Behind(ChangePoint::from_bytes(&point.to_bytes()));
        let mut reader = database.read_changes(collection("a.c"), from).unwrap();
        assert_eq!(read_by(&mut reader, 4), all[number + 1..]);
        // The reader's own place is as good as that of the last event.
        let from = ChangesFrom::Behind(reader.point());
        let mut behind = database.read_changes(collection("a.c"), from).unwrap();
        assert_eq!(read(&mut behind), Vec::<String>::new());
    }
    for (number, &time) in times.iter().enumerate().skip(1) {
        let from = ChangesFrom::Time(time + 1);
        let mut reader = database.read_changes(collection("a.c"), from).unwrap();
        assert_eq!(read_by(&mut reader, 1000), all[1 + 3 * number..]);
    }
    // What comes before a time that is still to come is passed over.
    let future = database.cluster_time() + (100 << 32);
    let from = ChangesFrom::Time(future);
    let mut reader = database.read_changes(collection("a.c"), from).unwrap();
    insert(&database, "a.c", &doc! { "_id": 1000 });
    assert!(read(&mut reader).is_empty());
    assert!(database.advance_cluster_time(future));
    insert(&database, "a.c", &doc! { "_id": 1001 });
    assert_eq!(read(&mut reader).len(), 1);
}

/// The place of a reader stays before a time that is still to come, whatever is written until then, so that who goes on from
/// there is told of nothing earlier either.
#[test]
fn a_reader_that_waits_for_a_time_is_resumed_at_that_time() {
    let database = Database::open_in_memory().unwrap();
    insert(&database, "a.c", &doc! { "_id": 0 });
    let future = database.cluster_time() + (100 << 32);
    let open = |from| database.read_changes(collection("a.c"), from);
    let mut reader = open(ChangesFrom::Time(future)).unwrap();
    let begun = reader.point();
    for (id, name) in (1..).zip(["a.c", "a.other", "a.c", "a.other"]) {
        insert(&database, name, &doc! { "_id": id });
        assert!(read(&mut reader).is_empty());
        database.sync().unwrap();
        assert!(read(&mut reader).is_empty());
        assert_eq!(reader.point(), begun);
    }
    // Another life of the journal may have lost what came before the time.
    let foreign = ChangePoint {
        life: begun.life + 1,
        ..begun
    };
    let refused = open(ChangesFrom::Behind(foreign)).err();
    assert_eq!(refused.map(|error| error.code()), Some(286));
    let kept = ChangePoint::from_bytes(&begun.to_bytes());
    let mut resumed = open(ChangesFrom::Behind(kept)).unwrap();
    insert(&database, "a.c", &doc! { "_id": 10 });
    assert!(database.advance_cluster_time(future));
    insert(&database, "a.c", &doc! { "_id": 11 });
    for reader in [&mut reader, &mut resumed] {
        assert_eq!(read(reader).len(), 1);
        assert!(reader.point().cluster_time > begun.cluster_time);
    }
    let mut later = open(ChangesFrom::Behind(begun)).unwrap();
    assert_eq!(read(&mut later).len(), 1);
}

/// A reader that begins at the time that a writer was told meets that write, however many others were committed with it or since.
#[test]
fn a_reader_from_the_time_of_a_commit_meets_the_commit() {
    const WRITERS: i32 = 4;
    const WRITES: i32 = 25;
    let database = Database::open_in_memory().unwrap();
    insert(&database, "a.c", &doc! { "_id": (-1) });
    let write = |writer: i32| {
        let database = &database;
        let write = move |number| {
            let id = writer * WRITES + number;
            insert(database, "a.c", &doc! { "_id": id });
            (id, take_commit_time().expect("this thread has committed"))
        };
        (0..WRITES).map(write).collect::<Vec<_>>()
    };
    let written: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(writer)))
            .collect();
        let written = writers.into_iter().map(|writer| writer.join().unwrap());
        written.flatten().collect()
    });
    for (id, time) in written {
        let from = ChangesFrom::Time(time);
        let mut reader = database.read_changes(collection("a.c"), from).unwrap();
        let mut found = None;
        let mut take = |event: &ChangeEvent<'_>| {
            assert!(event.cluster_time >= time);
            let ChangeBody::Document(change) = &event.body else {
                unreachable!("only documents change");
            };
            if change.document_key().get_i32("_id") == Some(id) {
                found = Some(event.cluster_time);
            }
            Ok(ControlFlow::Continue(()))
        };
        while reader.read(&mut take).unwrap() == ChangesRead::Some {}
        assert_eq!(found, Some(time), "{id}");
    }
    assert!(take_commit_time().is_some(), "the first insert");
    assert_eq!(take_commit_time(), None);
}

/// A reader that has nothing to read is at the end of what is durable, however much others write.
#[test]
fn a_reader_of_a_quiet_collection_passes_over_what_others_write() {
    let database = Database::open_in_memory().unwrap();
    insert(&database, "a.quiet", &doc! { "_id": 0 });
    let mut quiet = (database.read_changes(collection("a.quiet"), ChangesFrom::Now)).unwrap();
    let begun = quiet.point();
    for id in 0..50 {
        insert(&database, "a.busy", &doc! { "_id": id });
        assert_eq!(read(&mut quiet), Vec::<String>::new());
    }
    database.sync().unwrap();
    assert!(read(&mut quiet).is_empty() && !quiet.wait_until(Instant::now()));
    assert!(quiet.point().cluster_time > begun.cluster_time + 90);
    insert(&database, "a.quiet", &doc! { "_id": 1 });
    assert!(quiet.wait_until(Instant::now()));
    assert_eq!(read(&mut quiet).len(), 1);
    let from = ChangesFrom::Behind(begun);
    let mut again = database.read_changes(collection("a.quiet"), from).unwrap();
    assert_eq!(read(&mut again).len(), 1);
}

#[test]
fn readers_beside_writers_miss_nothing() {
    const WRITES: i32 = 100;
    let database = Database::open_in_memory().unwrap();
    insert(&database, "a.c", &doc! { "_id": -1 });
    let (database, deadline) = (&database, Instant::now() + LONG);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            scope.spawn(move || {
                let mut changes = open_from_start(database, "a.c");
                let mut seen = Vec::new();
                while seen.len() < 2 + 2 * WRITES as usize {
                    seen.extend(read_by(&mut changes, 1 + reader * 7));
                    let is_more =
                        seen.len() >= 2 + 2 * WRITES as usize || changes.wait_until(deadline);
                    assert!(is_more, "nobody was woken at {}", seen.len());
                }
                assert!(seen.is_sorted_by(|(_, a), (_, b)| a.to_bytes() < b.to_bytes()));
            });
        }
        for writer in 0..2 {
            scope.spawn(move || {
                for id in 0..WRITES {
                    insert(database, "a.c", &doc! { "_id": (writer * 1000 + id) });
                    insert(database, "a.other", &doc! { "_id": (writer * 1000 + id) });
                }
            });
        }
    });
}

#[test]
fn a_unit_is_told_in_the_order_of_its_writes() {
    let database = Database::open_in_memory().unwrap();
    let operation = Operation::default();
    for name in ["a.x", "a.y"] {
        insert(&database, name, &doc! { "_id": 1 });
    }
    let mut reader = (database.read_changes(ChangeScope::Everything, ChangesFrom::Now)).unwrap();
    let mut unit = database.begin(&operation, UnitReads::Snapshot).unwrap();
    for (name, id) in [("a.y", 9), ("a.x", 5), ("a.y", 2), ("a.x", 3)] {
        let document = doc! { "_id": id };
        let documents = [document.as_raw()];
        (database.insert_in(&mut unit, &operation, &ns(name), &documents, true)).unwrap();
    }
    database.commit(unit, &operation, Level::Written).unwrap();
    let events = read_by(&mut reader, 3);
    let lines: Vec<_> = events
        .iter()
        .map(|(line, _)| line.replace(' ', ""))
        .collect();
    let expected = [("a.y", 9), ("a.x", 5), ("a.y", 2), ("a.x", 3)]
        .map(|(name, id)| format!("Insert{name}Int32{{_id:{id}}}"));
    assert_eq!(lines, expected);
    assert!(events.iter().all(|(_, point)| point.lsn == events[0].1.lsn));
}

/// Also where nothing is left in the end.
#[test]
fn each_change_of_a_document_in_a_unit_is_told() {
    let database = Database::open_in_memory().unwrap();
    let operation = Operation::default();
    let images = doc! { "changeStreamPreAndPostImages": { "enabled": true } };
    database
        .create_collection(&ns("a.c"), images.as_raw(), &operation, Level::Written)
        .unwrap();
    for id in 1..=4 {
        insert(&database, "a.c", &doc! { "_id": id, "n": 0 });
    }
    let ident = database.collection(&ns("a.c")).unwrap().unwrap().ident;
    let key = |id: i32| {
        let collection = database.collection(&ns("a.c")).unwrap().unwrap();
        Database::record_key(&collection, id.into())
    };
    let stored = |id: i32| {
        let mut found = None;
        let read = &mut |bytes: &[u8]| found = Some(RawDocument::new(bytes).unwrap().get_i32("n"));
        database.get_record(&key(id), read).unwrap();
        found.map(|n| n.unwrap())
    };
    let long = "x".repeat(8 << 10);
    let steps = [
        (1, Change::Update, doc! { "_id": 1, "n": 1 }),
        (2, Change::Delete, doc! {}),
        (3, Change::Update, doc! { "_id": 3, "n": 1 }),
        (1, Change::Replace, doc! { "_id": 1, "n": 2 }),
        (2, Change::NoMatch, doc! { "_id": 2, "n": 1 }),
        (5, Change::NoMatch, doc! { "_id": 5, "n": 1 }),
        (3, Change::Delete, doc! {}),
        (5, Change::Update, doc! { "_id": 5, "n": 2 }),
        (5, Change::Delete, doc! {}),
        (4, Change::Update, doc! { "_id": 4, "n": 1 }),
        (
            4,
            Change::Update,
            doc! { "_id": 4, "n": 2, "long": (long.as_str()) },
        ),
    ];
    let mut reader = (database.read_changes(collection("a.c"), ChangesFrom::Now)).unwrap();
    let mut unit = database.begin(&operation, UnitReads::Snapshot).unwrap();
    for (id, change, new) in &steps {
        if *change == Change::NoMatch {
            let documents = [new.as_raw()];
            (database.insert_in(&mut unit, &operation, &ns("a.c"), &documents, true)).unwrap();
            continue;
        }
        let done = database.modify_in(
            &mut unit,
            &operation,
            &ns("a.c"),
            ident,
            &[key(*id)],
            &mut |_, _, out| {
                out.extend_from_slice(new.as_bytes());
                Ok(*change)
            },
        );
        assert_eq!(done.unwrap().matched, 1);
    }
    database.commit(unit, &operation, Level::Written).unwrap();
    let told: Vec<String> = read(&mut reader)
        .iter()
        .map(|line| line.replace(' ', "").replace(&long, "long"))
        .collect();
    let expected = [
        "Updatea.cInt32{_id:1,n:1}before{_id:1,n:0}",
        "Deletea.cInt32before{_id:2,n:0}",
        "Updatea.cInt32{_id:3,n:1}before{_id:3,n:0}",
        "Replacea.cInt32{_id:1,n:2}before{_id:1,n:1}",
        "Inserta.cInt32{_id:2,n:1}",
        "Inserta.cInt32{_id:5,n:1}",
        "Deletea.cInt32before{_id:3,n:1}",
        "Updatea.cInt32{_id:5,n:2}before{_id:5,n:1}",
        "Deletea.cInt32before{_id:5,n:2}",
        "Updatea.cInt32{_id:4,n:1}before{_id:4,n:0}",
        "Updatea.cInt32{_id:4,n:2,long:'long'}before{_id:4,n:1}",
    ];
    assert_eq!(told, expected);
    let left = [1, 2, 3, 4, 5].map(stored);
    assert_eq!(left, [Some(2), Some(1), None, Some(2), None]);
    let held = database.collection(&ns("a.c")).unwrap().unwrap();
    assert_eq!(database.counts(&held).unwrap().documents, 3);
}

#[test]
fn a_place_that_the_journal_does_not_have_is_history_lost() {
    let files = SimulatedFiles::new();
    let engine = FlushImages::memory();
    let first = engine.open().unwrap();
    let options = || Options {
        commit_interval_ms: 0,
        journal_segment_bytes: Some(16 * 1024),
        ..Options::default()
    };
    let open = |engine: &Arc<ImagedEngine>| {
        let shared = Arc::clone(engine) as Arc<dyn Engine>;
        Database::open_on(shared, Arc::new(files.clone()), options()).unwrap()
    };
    let database = open(&first);
    let filler = "x".repeat(1000);
    for id in 0..100 {
        insert(
            &database,
            "a.c",
            &doc! { "_id": id, "filler": (filler.as_str()) },
        );
    }
    let events = read_by(&mut open_from_start(&database, "a.c"), usize::MAX);
    let code = |scope: &str, from| {
        let error = database.read_changes(collection(scope), from).err();
        error.map(|error| error.code())
    };
    let (_, last) = *events.last().unwrap();
    let others = [
        ChangePoint {
            life: last.life ^ 1,
            ..last
        },
        ChangePoint {
            cluster_time: last.cluster_time + 1,
            ..last
        },
        ChangePoint {
            lsn: last.lsn + 50,
            ..last
        },
        // A time that has not come, told by nobody who waits for it in this life.
        ChangePoint {
            lsn: 0,
            cluster_time: last.cluster_time + (1 << 32),
            life: 0,
            ..last
        },
        ChangePoint {
            lsn: 0,
            cluster_time: last.cluster_time + (1 << 32),
            life: last.life ^ 1,
            ..last
        },
    ];
    for other in others {
        assert_eq!(
            code("a.c", ChangesFrom::Behind(other)),
            Some(286),
            "{other:?}"
        );
    }
    assert_eq!(code("a.c", ChangesFrom::Behind(last)), None);
    // The window moves on.
    let lsn = database.journal().sync().unwrap();
    first.sync().unwrap();
    assert!(database.journal().checkpointed(lsn).unwrap() > 0);
    let (_, early) = events[3];
    assert_eq!(code("a.c", ChangesFrom::Behind(early)), Some(286));
    assert_eq!(
        code("a.c", ChangesFrom::Time(early.cluster_time)),
        Some(286)
    );
    assert_eq!(code("a.c", ChangesFrom::Behind(last)), None);
}

/// The engine has a record that the journal has lost. Who watches from now on misses nothing of what comes, and who was told
/// of earlier changes is told that there is a gap.
#[test]
fn a_reader_begins_behind_an_engine_that_was_ahead_of_the_journal() {
    let images = FlushImages::memory();
    let files = Arc::new(SimulatedFiles::new());
    let open = |engine: &Arc<ImagedEngine>, files: &Arc<SimulatedFiles>| {
        let options = Options {
            commit_interval_ms: 0,
            ..Options::default()
        };
        let (engine, files) = (Arc::clone(engine) as Arc<dyn Engine>, Arc::clone(files));
        Database::open_on(engine, files, options).unwrap()
    };
    let engine = images.open().unwrap();
    let database = open(&engine, &files);
    insert(&database, "a.c", &doc! { "_id": 1 });
    let told = read_by(&mut open_from_start(&database, "a.c"), usize::MAX);
    let (_, before) = *told.last().unwrap();
    insert(&database, "a.c", &doc! { "_id": 2 });
    database.catch_up();
    engine.leap().unwrap();
    let left = Arc::new(files.crash(Crash::Drop, 1));
    drop(database);
    drop(engine);
    let engine = images.reopen(images.lsns().len() - 1).unwrap();
    let database = open(&engine, &left);
    let mut reader = database
        .read_changes(collection("a.c"), ChangesFrom::Now)
        .unwrap();
    let place = reader.point();
    let lost = database.read_changes(collection("a.c"), ChangesFrom::Behind(before));
    let told_or_lost = |reader: &mut ChangeReader| {
        let mut found = 0;
        let read = reader.read(&mut |_| {
            found += 1;
            Ok(ControlFlow::Continue(()))
        });
        read.map(|_| found).map_err(|error| error.code())
    };
    insert(&database, "a.c", &doc! { "_id": 3 });
    assert_eq!(told_or_lost(&mut reader), Ok(1));
    let from = ChangesFrom::Behind(place);
    let mut again = database.read_changes(collection("a.c"), from).unwrap();
    assert_eq!(told_or_lost(&mut again), Ok(1));
    let lost = lost.map_err(|error| error.code());
    assert_eq!(
        lost.and_then(|mut reader| told_or_lost(&mut reader)),
        Err(286)
    );
}

/// A journal that has lost all its records says nothing to a reader which begins at a time that those records may have had.
#[test]
fn a_reader_from_a_time_is_told_of_records_that_only_the_engine_has() {
    let images = FlushImages::memory();
    let open = |engine: &Arc<ImagedEngine>, files: SimulatedFiles| {
        let options = Options {
            commit_interval_ms: 0,
            ..Options::default()
        };
        Database::open_on(Arc::clone(engine) as _, Arc::new(files), options).unwrap()
    };
    let engine = images.open().unwrap();
    let files = SimulatedFiles::new();
    let database = open(&engine, files.clone());
    insert(&database, "a.c", &doc! { "_id": 1 });
    let written = database.cluster_time();
    database.catch_up();
    engine.leap().unwrap();
    let left = files.crash(Crash::Drop, 1);
    drop(database);
    drop(engine);
    let engine = images.reopen(images.lsns().len() - 1).unwrap();
    let database = open(&engine, left);
    let read_from = |from| {
        let reader = database.read_changes(collection("a.c"), from);
        let mut found = 0;
        let read = reader.and_then(|mut reader| {
            reader.read(&mut |_| {
                found += 1;
                Ok(ControlFlow::Continue(()))
            })
        });
        read.map(|_| found).map_err(|error| error.code())
    };
    let now = database.cluster_time();
    for _ in 0..2 {
        for time in [0, 1, written, now] {
            assert_eq!(read_from(ChangesFrom::Time(time)), Err(286), "{time}");
        }
        let snapshot = database.pin_snapshot(None);
        assert!(snapshot.is_ok(), "the present is no history");
        insert(
            &database,
            "a.c",
            &doc! { "_id": database.cluster_time() as i64 },
        );
    }
    assert_eq!(read_from(ChangesFrom::Time(now + 1)), Ok(2));
}

/// The documents of a model and those that the events make agree over kills and power losses, each event once.
#[test]
fn a_reader_goes_on_over_crashes() {
    for seed in 0..8u64 {
        let images = FlushImages::memory();
        let mut engine = images.open().unwrap();
        let mut files = SimulatedFiles::new();
        let mut place: Option<ChangePoint> = None;
        let mut told_of: BTreeMap<i32, i32> = BTreeMap::new();
        for life in 0..4u64 {
            let shared = Arc::new(files);
            let database = Database::open_on(
                Arc::clone(&engine) as Arc<dyn Engine>,
                Arc::clone(&shared) as _,
                Options {
                    commit_interval_ms: 0,
                    journal_segment_bytes: Some(16 * 1024),
                    ..Options::default()
                },
            )
            .unwrap();
            let from = place.map_or(ChangesFrom::Time(0), ChangesFrom::Behind);
            let mut reader = database.read_changes(collection("a.c"), from).unwrap();
            let mut follow = |reader: &mut ChangeReader, at_once: usize| {
                let mut left = at_once;
                let read = reader.read(&mut |event| {
                    if let ChangeBody::Document(change) = &event.body {
                        let key = change.document_key().get("_id").unwrap().as_i32().unwrap();
                        let new = change.document.map(|new| new.get_i32("n").unwrap());
                        let before = match new {
                            Some(new) => told_of.insert(key, new),
                            None => told_of.remove(&key),
                        };
                        let is_insert = change.kind == ChangeKind::Insert;
                        assert_eq!(before.is_none(), is_insert, "seed {seed} life {life}");
                    }
                    place = Some(event.point);
                    left -= 1;
                    Ok(match left {
                        0 => ControlFlow::Break(()),
                        _ => ControlFlow::Continue(()),
                    })
                });
                if read.unwrap() == ChangesRead::All && at_once % 2 == 1 {
                    place = Some(reader.point());
                }
            };
            follow(&mut reader, usize::MAX);
            for step in 0..30 {
                let id = ((seed * 7 + life * 31 + step * 13) % 10) as i32;
                let n = (life * 100 + step) as i32;
                let collection =
                    (database.collection_or_create(&ns("a.c"), &Operation::default())).unwrap();
                let key = Database::record_key(&collection, id.into());
                let is_there = database.get_record(&key, &mut |_| {}).unwrap();
                let new = doc! { "_id": id, "n": n };
                match (is_there, step % 3) {
                    (false, _) => insert(&database, "a.c", &new),
                    (true, 0) => modify(&database, "a.c", id, Change::Delete, &new),
                    (true, _) => modify(&database, "a.c", id, Change::Update, &new),
                }
                if step % 5 == seed % 5 {
                    follow(&mut reader, 1 + step as usize % 4);
                }
            }
            let crash = [Crash::Kill, Crash::Drop, Crash::Tear, Crash::Reorder];
            let durable = database.journal().durable_lsn();
            files = shared.crash(crash[((seed + life) % 4) as usize], seed * 4 + life);
            drop(reader);
            drop(database);
            let kept = images
                .lsns()
                .iter()
                .rposition(|lsn| *lsn <= durable)
                .unwrap();
            drop(engine);
            engine = images.reopen(kept.max(1)).unwrap();
        }
        // The last life ends well: what was told of is what is there.
        let shared = Arc::clone(&engine) as Arc<dyn Engine>;
        let options = Options {
            commit_interval_ms: 0,
            journal_segment_bytes: Some(16 * 1024),
            ..Options::default()
        };
        let database = Database::open_on(shared, Arc::new(files), options).unwrap();
        let from = place.map_or(ChangesFrom::Time(0), ChangesFrom::Behind);
        let mut reader = database.read_changes(collection("a.c"), from).unwrap();
        let read = reader.read(&mut |event| {
            if let ChangeBody::Document(change) = &event.body {
                let key = change.document_key().get("_id").unwrap().as_i32().unwrap();
                match change.document {
                    Some(new) => told_of.insert(key, new.get_i32("n").unwrap()),
                    None => told_of.remove(&key),
                };
            }
            Ok(ControlFlow::Continue(()))
        });
        assert_eq!(read.unwrap(), ChangesRead::All);
        let mut found = BTreeMap::new();
        for id in 0..10 {
            let collection = database.collection(&ns("a.c")).unwrap().unwrap();
            let key = Database::record_key(&collection, id.into());
            let mut n = None;
            (database.get_record(&key, &mut |bytes| {
                n = RawDocument::new(bytes).unwrap().get_i32("n");
            }))
            .unwrap();
            found.extend(n.map(|n| (id, n)));
        }
        assert_eq!(told_of, found, "seed {seed}");
    }
}

#[test]
fn a_definition_has_its_number() {
    // What is on disks must not change its meaning.
    assert_eq!(DefinitionKind::Modify as u8, 7);
    assert_eq!(ChangeKind::Trim as u8, 5);
}
