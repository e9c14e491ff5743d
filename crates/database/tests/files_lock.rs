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

/// Locks the files on a thread of its own, as that operation.
fn lock(
    database: &Arc<Database>,
    operation: &Arc<Operation>,
    deadline: Option<Instant>,
) -> Receiver<Result<u64>> {
    let (done, is_done) = channel();
    let (database, operation) = (Arc::clone(database), Arc::clone(operation));
    std::thread::spawn(move || {
        let _running = quarry_database::run_as(operation);
        let _ = done.send(database.lock_files(deadline));
    });
    is_done
}

/// Waits until the condition holds.
fn wait_until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < WAIT_MAX, "in vain");
        std::thread::yield_now();
    }
}

fn is_lock_timeout(locked: &Result<u64>) -> bool {
    locked.as_ref().is_err_and(|error| error.code() == 24)
}

fn count(database: &Database) -> u64 {
    let namespace = Namespace::new("db", "c").unwrap();
    let collection = database.collection(&namespace).unwrap().unwrap();
    database.count(&collection).unwrap()
}

#[test]
fn writes_wait_for_the_last_lock_and_reads_do_not() {
    let (_, database) = open();
    assert_eq!(database.lock_files(None).unwrap(), 1);
    assert_eq!(database.lock_files(None).unwrap(), 2);
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
    database.lock_files(None).unwrap();
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
    database.lock_files(None).unwrap();
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
    let refused = database.lock_files(None);
    assert!(refused.is_err(), "{refused:?}");
    engine.heal();
    let (_, of_write) = insert(&database, 1, Operation::default());
    of_write.recv_timeout(WAIT_MAX).unwrap().unwrap();
    assert_eq!(database.lock_files(None).unwrap(), 1);
    database.close().unwrap();
}

/// The engine has not taken a batch, and stalls.
#[test]
fn a_lock_that_waits_for_the_engine_can_be_ended() {
    let (engine, database) = open();
    engine.hold_writes();
    let (_, of_write) = insert(&database, 1, Operation::default());
    of_write.recv_timeout(WAIT_MAX).unwrap().unwrap();
    engine.stall();
    let killed = Arc::new(Operation::default());
    let of_killed = lock(&database, &killed, None);
    wait_until(|| database.are_files_locked());
    assert!(of_killed.recv_timeout(SOME_LOOKS).is_err(), "it waits");
    killed.kill();
    let ended = of_killed.recv_timeout(WAIT_MAX).unwrap();
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    assert!(!database.are_files_locked());
    let deadline = Instant::now() + Duration::from_millis(50);
    let limited = lock(&database, &Arc::default(), Some(deadline));
    let limited = limited.recv_timeout(WAIT_MAX).unwrap();
    assert!(is_lock_timeout(&limited), "{limited:?}");
    assert!(!database.are_files_locked() && !engine.is_paused());
    engine.heal();
    let (_, of_write) = insert(&database, 2, Operation::default());
    of_write.recv_timeout(WAIT_MAX).unwrap().unwrap();
    assert_eq!(database.lock_files(None).unwrap(), 1);
    assert!(engine.is_paused());
    assert_eq!(count(&database), 3);
    database.close().unwrap();
}

#[test]
fn writes_go_on_while_most_of_the_data_is_synced() {
    let (engine, database) = open();
    engine.hold_syncs();
    let of_lock = lock(&database, &Arc::default(), None);
    wait_until(|| engine.held_syncs() > 0);
    let (_, of_write) = insert(&database, 1, Operation::default());
    of_write.recv_timeout(WAIT_MAX).unwrap().unwrap();
    assert!(!database.are_files_locked());
    engine.heal();
    assert_eq!(of_lock.recv_timeout(WAIT_MAX).unwrap().unwrap(), 1);
    assert!(database.are_files_locked());
    database.close().unwrap();
}

/// A second lock, or an unlock, waits for the lock that is just being taken, and can be ended.
#[test]
fn a_wait_for_another_lock_can_be_ended() {
    let (engine, database) = open();
    engine.hold_pauses();
    let of_first = lock(&database, &Arc::default(), None);
    wait_until(|| engine.held_pauses() > 0);
    let killed = Arc::new(Operation::default());
    let of_second = lock(&database, &killed, None);
    assert!(of_second.recv_timeout(SOME_LOOKS).is_err(), "it waits");
    killed.kill();
    let ended = of_second.recv_timeout(WAIT_MAX).unwrap();
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    let deadline = Instant::now() + Duration::from_millis(50);
    let limited = database.lock_files(Some(deadline));
    assert!(is_lock_timeout(&limited), "{limited:?}");
    {
        let _running = quarry_database::run_as(Arc::clone(&killed));
        let ended = database.unlock_files();
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    }
    engine.heal();
    assert_eq!(of_first.recv_timeout(WAIT_MAX).unwrap().unwrap(), 1);
    assert_eq!(database.lock_files(None).unwrap(), 2);
    database.close().unwrap();
}

/// The server stops while files are just being locked: nobody would give that lock up.
#[test]
fn a_lock_that_is_overtaken_by_a_stop_lets_go() {
    let (engine, database) = open();
    engine.hold_pauses();
    let of_lock = lock(&database, &Arc::default(), None);
    wait_until(|| engine.held_pauses() > 0);
    assert!(!database.end_files_lock().unwrap());
    engine.heal();
    let ended = of_lock.recv_timeout(WAIT_MAX).unwrap();
    assert!(matches!(ended, Err(Error::ShuttingDown)), "{ended:?}");
    assert!(!engine.is_paused() && !database.are_files_locked());
    let refused = database.lock_files(None);
    assert!(matches!(refused, Err(Error::ShuttingDown)), "{refused:?}");
    database.close().unwrap();
}

/// `fsync` without a lock has nothing to make durable then, and waits for nobody.
#[test]
fn a_sync_of_locked_files_returns() {
    let (_, database) = open();
    database.lock_files(None).unwrap();
    let (done, is_done) = channel();
    let of_sync = Arc::clone(&database);
    std::thread::spawn(move || done.send(of_sync.sync()));
    is_done.recv_timeout(WAIT_MAX).unwrap().unwrap();
    assert!(database.are_files_locked());
    database.close().unwrap();
}
