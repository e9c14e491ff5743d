//! A collection that takes the place of another at once: with its options and indexes, not at all where those have changed,
//! and with nothing left behind by a crash.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, doc};
use quarry_database::{Database, Level, Namespace, Operation, Options, Temporary};
use quarry_journal::SimulatedFiles;
use quarry_storage::{Engine, Memory};

const EMPTY: RawDocument<'static> = RawDocument::EMPTY;

fn namespace() -> Namespace {
    Namespace::parse("db.c").unwrap()
}

fn open(engine: &Arc<Memory>, files: &Arc<SimulatedFiles>) -> Database {
    let options = Options {
        commit_interval_ms: 0,
        ..Options::default()
    };
    let (engine, files) = (Arc::clone(engine) as Arc<dyn Engine>, Arc::clone(files));
    Database::open_on(engine, files, options).unwrap()
}

fn index(database: &Database, namespace: &Namespace, field: &str) {
    let spec = doc! { "key": { field: 1 }, "name": field };
    let operation = Operation::default();
    database
        .create_indexes(namespace, &[spec], &operation, Level::Written)
        .unwrap();
}

fn insert(database: &Database, namespace: &Namespace, document: &Document) {
    let operation = Operation::default();
    let documents = [document.as_raw()];
    let inserted = database.insert_piece(&operation, namespace, &documents, true, Level::Written);
    assert_eq!(inserted.unwrap().inserted, 1);
}

fn names(database: &Database) -> Vec<String> {
    let listed = database.list_collections("db").unwrap();
    let names = listed.iter().map(|it| it.namespace.collection().to_owned());
    names.collect()
}

#[test]
fn a_replacement_takes_name_and_options_and_the_old_one_goes() {
    let database = Database::open_in_memory().unwrap();
    let made_names = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&made_names);
    database.on_collection_made(Box::new(move |namespace| {
        told.lock().unwrap().push(namespace.as_str().to_owned());
    }));
    let operation = Operation::default();
    let options = doc! { "changeStreamPreAndPostImages": { "enabled": true } };
    database
        .create_collection(&namespace(), options.as_raw(), &operation, Level::Written)
        .unwrap();
    index(&database, &namespace(), "a");
    let expected = database.definition(&namespace()).unwrap().unwrap();
    let temporary = database
        .create_temporary("db", options.as_raw(), &operation)
        .unwrap();
    let made = database.definition(&temporary.namespace).unwrap().unwrap();
    assert!(made.options.get("changeStreamPreAndPostImages").is_some());
    index(&database, &temporary.namespace, "a");
    insert(&database, &temporary.namespace, &doc! { "_id": 1, "a": 1 });
    let replace = |temporary: &Temporary, expected| {
        let level = Level::Written;
        database.replace_collection(temporary, &namespace(), expected, &operation, level)
    };
    assert!(made_names.lock().unwrap().is_empty());
    replace(&temporary, Some(&expected)).unwrap();
    assert_eq!(names(&database), ["c"]);
    // Whoever asked is told of it by its name, and of the temporary one not at all.
    assert_eq!(*made_names.lock().unwrap(), ["db.c"]);
    assert_eq!(
        database.definition(&namespace()).unwrap().unwrap(),
        expected
    );
    let collection = database.collection(&namespace()).unwrap().unwrap();
    assert_eq!(database.count(&collection).unwrap(), 1);
    let report = database.validate(&namespace(), true, &operation).unwrap();
    assert_eq!(report.errors, Vec::<String>::new());

    // An index more, and a collection that was not there: nothing is replaced.
    let temporary = database.create_temporary("db", EMPTY, &operation).unwrap();
    index(&database, &namespace(), "b");
    assert_eq!(
        replace(&temporary, Some(&expected)).unwrap_err().code(),
        125
    );
    assert_eq!(replace(&temporary, None).unwrap_err().code(), 125);
    let collection = database.collection(&namespace()).unwrap().unwrap();
    assert_eq!(database.count(&collection).unwrap(), 1);
}

/// A collection is meant by its ident, and not by its name.
#[test]
fn a_temporary_collection_that_was_dropped_replaces_nothing() {
    for makes_another in [false, true] {
        let database = Database::open_in_memory().unwrap();
        let (operation, level) = (Operation::default(), Level::Written);
        insert(&database, &namespace(), &doc! { "_id": 1 });
        let expected = database.definition(&namespace()).unwrap();
        let temporary = database.create_temporary("db", EMPTY, &operation).unwrap();
        let name = &temporary.namespace;
        let document = doc! { "_id": 2 };
        let fill = || {
            let documents = [document.as_raw()];
            let filled =
                database.insert_piece_into(&operation, &temporary, &documents, true, level);
            filled.map(|inserted| inserted.inserted)
        };
        assert_eq!(fill().unwrap(), 1);
        let dropped = database.drop_collection(name, &operation, level);
        assert!(dropped.unwrap().is_some());
        if makes_another {
            insert(&database, name, &doc! { "_id": "another" });
        }
        assert_eq!(fill().unwrap_err().code(), 175);
        let replaced = database.replace_collection(
            &temporary,
            &namespace(),
            expected.as_ref(),
            &operation,
            level,
        );
        assert_eq!(replaced.unwrap_err().code(), 175);
        let collection = database.collection(&namespace()).unwrap().unwrap();
        assert_eq!(database.count(&collection).unwrap(), 1);
        database.drop_temporary(&temporary).unwrap();
        let another = database.collection(name).unwrap();
        assert_eq!(another.is_some(), makes_another);
    }
}

#[test]
fn a_crash_leaves_no_temporary_collection_and_takes_no_other_of_such_a_name() {
    let (engine, files) = (Arc::new(Memory::new()), Arc::new(SimulatedFiles::new()));
    let database = open(&engine, &files);
    let operation = Operation::default();
    let own = Namespace::parse("db.tmp.agg_out.own").unwrap();
    let no_options = doc! {};
    for namespace in [&namespace(), &own] {
        database
            .create_collection(namespace, no_options.as_raw(), &operation, Level::Written)
            .unwrap();
    }
    for database_name in ["db", "db", "other"] {
        database
            .create_temporary(database_name, EMPTY, &operation)
            .unwrap();
    }
    assert_eq!(names(&database).len(), 4);
    drop(database);

    let database = open(&engine, &files);
    let younger = database.create_temporary("db", EMPTY, &operation).unwrap();
    let began = Instant::now();
    let is_left =
        || names(&database).len() != 3 || !database.list_collections("other").unwrap().is_empty();
    while is_left() {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{:?}",
            names(&database)
        );
        std::thread::yield_now();
    }
    let mut wanted = ["c", own.collection(), younger.namespace.collection()];
    wanted.sort_unstable();
    assert_eq!(names(&database), wanted);
}
