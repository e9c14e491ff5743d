//! Files that are locked for somebody who copies them: who waits, what wakes them, and what a failure leaves.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use quarry_bson::doc;
use quarry_database::{Database, Error, Level, Namespace, Operation, Options, Result};
use quarry_storage::{Engine, Faulty, Memory};

/// A wait for another thread that ends in error.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Several looks of a writer that waits.
const SOME_LOOKS: Duration = Duration::from_millis(100);

fn open() -> (Arc<Faulty>, Arc<Database>) {
    let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
    let opened = Database::open(Arc::clone(&engine) as Arc<dyn Engine>, Options::default());
    let database = Arc::new(opened.unwrap());
    insert(&database, 0, Operation::default())
        .1
        .recv_timeout(WAIT_MAX)
        .unwrap()
        .unwrap();
    (engine, database)
}

/// Inserts on a thread of its own; what came of it comes through the channel.
fn insert(
    database: &Arc<Database>,
    id: i32,
    operation: Operation,
) -> (Arc<Operation>, Receiver<Result<()>>) {
    let operation = Arc::new(operation);
    let (done, is_done) = channel();
    let (database, on_thread) = (Arc::clone(database), Arc::clone(&operation));
    std::thread::spawn(move || {
        let _running = quarry_database::run_as(Arc::clone(&on_thread));
        let namespace = Namespace::new("db", "c").unwrap();
        let document = doc! { "_id": id };
        let documents = [document.as_raw()];
        let inserted =
            database.insert_piece(&on_thread, &namespace, &documents, true, Level::Written);
        let _ = done.send(inserted.map(drop));
    });
    (operation, is_done)
}

fn count(database: &Database) -> u64 {
    let namespace = Namespace::new("db", "c").unwrap();
    let collection = database.collection(&namespace).unwrap().unwrap();
    database.count(&collection).unwrap()
}

#[test]
fn writes_wait_for_the_last_lock_and_reads_do_not() {
    let (_, database) = open();
    assert_eq!(database.lock_files().unwrap(), 1);
    assert_eq!(database.lock_files().unwrap(), 2);
    let (_, of_write) = insert(&database, 1, Operation::default());
    assert!(of_write.recv_timeout(SOME_LOOKS).is_err(), "it waits");
    assert_eq!(count(&database), 1);
    assert_eq!(database.unlock_files().unwrap(), Some(1));
    assert!(of_write.recv_timeout(SOME_LOOKS).is_err(), "it still waits");
    assert!(database.are_files_locked());
    assert_eq!(database.unlock_files().unwrap(), Some(0));
    of_write.recv_timeout(WAIT_MAX).unwrap().unwrap();
    assert_eq!(database.unlock_files().unwrap(), None);
    assert_eq!(count(&database), 2);
    database.close().unwrap();
}

#[test]
fn writes_that_wait_can_be_ended() {
    let (_, database) = open();
    database.lock_files().unwrap();
    let deadline = Instant::now() + Duration::from_millis(50);
    let (_, of_limited) = insert(&database, 1, Operation::new(Some(deadline)));
    let limited = of_limited.recv_timeout(WAIT_MAX).unwrap();
    assert!(matches!(limited, Err(Error::MaxTimeExpired)), "{limited:?}");
    let (killed, of_killed) = insert(&database, 2, Operation::default());
    assert!(of_killed.recv_timeout(SOME_LOOKS).is_err(), "it waits");
    killed.kill();
    let ended = of_killed.recv_timeout(WAIT_MAX).unwrap();
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    database.unlock_files().unwrap();
    assert_eq!(count(&database), 1);
    database.close().unwrap();
}

#[test]
fn a_close_ends_the_lock_and_the_waits() {
    let (_, database) = open();
    database.lock_files().unwrap();
    let (_, of_write) = insert(&database, 1, Operation::default());
    assert!(of_write.recv_timeout(SOME_LOOKS).is_err(), "it waits");
    database.close().unwrap();
    let ended = of_write.recv_timeout(WAIT_MAX).unwrap();
    assert!(matches!(ended, Err(Error::ShuttingDown)), "{ended:?}");
}

#[test]
fn a_lock_that_fails_leaves_writes_free() {
    let (engine, database) = open();
    engine.fail_syncs(quarry_storage::Error::Io("switched off".into()));
    let refused = database.lock_files();
    assert!(refused.is_err(), "{refused:?}");
    engine.heal();
    let (_, of_write) = insert(&database, 1, Operation::default());
    of_write.recv_timeout(WAIT_MAX).unwrap().unwrap();
    assert_eq!(database.lock_files().unwrap(), 1);
    database.close().unwrap();
}
