//! A group that cannot be finished is refused before the journal has it: its writers are told, and nothing else happens.

use std::sync::Arc;

use quarry_bson::doc;
use quarry_database::{Database, Error, Level, Namespace, Operation, Options};
use quarry_journal::SimulatedFiles;
use quarry_storage::{Engine, Error as StorageError, Faulty, Memory};

fn open(engine: &Arc<Faulty>, files: &SimulatedFiles) -> Database {
    let options = Options {
        commit_interval_ms: 0,
        ..Options::default()
    };
    let (engine, files) = (Arc::clone(engine) as _, Arc::new(files.clone()));
    Database::open_on(engine, files, options).unwrap()
}

fn insert(database: &Database, namespace: &Namespace, id: i32) -> Result<(), Error> {
    let document = doc! { "_id": id };
    let operation = Operation::default();
    let inserted = database.insert_piece(
        &operation,
        namespace,
        &[document.as_raw()],
        true,
        Level::Written,
    )?;
    assert!(inserted.errors.is_empty(), "{:?}", inserted.errors);
    Ok(())
}

#[test]
fn an_unreadable_counter_refuses_the_group_and_nothing_else() {
    let (memory, files) = (Arc::new(Memory::new()), SimulatedFiles::new());
    let engine = Arc::new(Faulty::new(memory as Arc<dyn Engine>));
    let namespace = Namespace::parse("db.c").unwrap();
    let database = open(&engine, &files);
    insert(&database, &namespace, 1).unwrap();
    drop(database);

    // After a start no counter has been read.
    let database = open(&engine, &files);
    let collection = database.collection(&namespace).unwrap().unwrap();
    let accepted = database.journal().accepted_lsn();
    for error in [
        StorageError::Corruption("a page".to_owned()),
        StorageError::Io("no reader slot is left".to_owned()),
    ] {
        engine.fail_gets(error);
        for late in [false, true] {
            let _replying_first = late.then(|| database.reply_first());
            let refused = insert(&database, &namespace, 2).unwrap_err();
            assert!(matches!(refused, Error::WritesRefused { .. }), "{refused}");
        }
        engine.heal();
    }
    assert_eq!(database.journal().accepted_lsn(), accepted);
    assert!(!database.journal().is_latched());
    assert_eq!(database.count(&collection).unwrap(), 1);
    insert(&database, &namespace, 2).unwrap();
    assert_eq!(database.count(&collection).unwrap(), 2);
    drop(database);

    let database = open(&engine, &files);
    let collection = database.collection(&namespace).unwrap().unwrap();
    assert_eq!(database.count(&collection).unwrap(), 2);
    insert(&database, &namespace, 3).unwrap();
}
