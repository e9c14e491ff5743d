//! Writers that wait for a stalled engine: what wakes them, and who waits behind them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use quarry_bson::doc;
use quarry_database::{Database, Error, Level, Namespace, Operation, Options, Result};
use quarry_storage::{Engine, Faulty, Memory};

/// A wait for another thread that ends in error; far below the time after which a stalled engine is given up.
const WAIT_MAX: Duration = Duration::from_secs(10);

struct Setup {
    engine: Arc<Faulty>,
    database: Arc<Database>,
}

impl Setup {
    /// With a collection, so that an insert is one commit.
    fn new() -> Setup {
        let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let opened = Database::open(Arc::clone(&engine) as Arc<dyn Engine>, Options::default());
        let setup = Setup {
            engine,
            database: Arc::new(opened.unwrap()),
        };
        let first = setup.insert(0, Operation::default()).1;
        first.recv_timeout(WAIT_MAX).unwrap().unwrap();
        setup
    }

    /// Inserts on a thread of its own; what came of it comes through the channel.
    fn insert(&self, id: i32, operation: Operation) -> (Arc<Operation>, Receiver<Result<()>>) {
        let operation = Arc::new(operation);
        let (done, is_done) = channel();
        let (database, on_thread) = (Arc::clone(&self.database), Arc::clone(&operation));
        std::thread::spawn(move || {
            let _running = quarry_database::run_as(Arc::clone(&on_thread));
            let namespace = Namespace::new("db", "c").unwrap();
            let document = doc! { "_id": id };
            let inserted = database.insert_piece(
                &on_thread,
                &namespace,
                &[document.as_raw()],
                true,
                Level::Written,
            );
            let _ = done.send(inserted.map(drop));
        });
        (operation, is_done)
    }
}

/// Waits for another thread to get somewhere.
fn until(somewhere: &str, is_there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < WAIT_MAX, "{somewhere}");
        std::thread::yield_now();
    }
}

#[test]
fn waiting_writers_wake_for_kill_and_time_limit_and_the_rest_goes_on() {
    let setup = Setup::new();
    setup.engine.stall();
    let (killed, of_killed) = setup.insert(1, Operation::default());
    let (_, of_patient) = setup.insert(2, Operation::default());
    let deadline = Instant::now() + Duration::from_millis(50);
    let (_, of_limited) = setup.insert(3, Operation::new(Some(deadline)));
    let limited = of_limited.recv_timeout(WAIT_MAX).unwrap();
    assert!(matches!(limited, Err(Error::MaxTimeExpired)), "{limited:?}");
    killed.kill();
    let killed = of_killed.recv_timeout(WAIT_MAX).unwrap();
    assert!(matches!(killed, Err(Error::Interrupted)), "{killed:?}");
    assert!(of_patient.try_recv().is_err(), "it waits for the engine");
    setup.engine.heal();
    of_patient.recv_timeout(WAIT_MAX).unwrap().unwrap();
    setup.database.close().unwrap();
}

#[test]
fn a_close_does_not_wait_for_a_stalled_engine() {
    let setup = Setup::new();
    setup.engine.stall();
    let (_, waits) = setup.insert(1, Operation::default());
    until("the insert meets the stall", || {
        setup.engine.told_unready() > 0
    });
    let (closed, is_closed) = channel();
    let closing = Arc::clone(&setup.database);
    std::thread::spawn(move || closed.send(closing.close()));
    is_closed.recv_timeout(WAIT_MAX).unwrap().unwrap();
    let ended = waits.recv_timeout(WAIT_MAX).unwrap();
    assert!(matches!(ended, Err(Error::ShuttingDown)), "{ended:?}");
}

/// The engine says that it is ready and then stands still in a write, as one does that fills up in that very moment.
#[test]
fn an_engine_that_stands_still_in_a_write_holds_nobody_who_is_called_off() {
    let setup = Setup::new();
    setup.engine.hold_writes();
    // The journal has it, and readers see it: its writer need not wait for the engine.
    let (_, of_first) = setup.insert(1, Operation::default());
    of_first.recv_timeout(WAIT_MAX).unwrap().unwrap();
    let (_, of_patient) = setup.insert(2, Operation::default());
    until("somebody hands the first one over", || {
        setup.engine.held_writes() > 0
    });
    let deadline = Instant::now() + Duration::from_millis(50);
    let (_, of_limited) = setup.insert(3, Operation::new(Some(deadline)));
    let (killed, of_killed) = setup.insert(4, Operation::default());
    let limited = of_limited.recv_timeout(WAIT_MAX).unwrap();
    assert!(matches!(limited, Err(Error::MaxTimeExpired)), "{limited:?}");
    killed.kill();
    let killed = of_killed.recv_timeout(WAIT_MAX).unwrap();
    assert!(matches!(killed, Err(Error::Interrupted)), "{killed:?}");
    let namespace = Namespace::new("db", "c").unwrap();
    let found = setup.database.collection(&namespace).unwrap().unwrap();
    assert_eq!(setup.database.counts(&found).unwrap().documents, 2);
    assert!(of_patient.try_recv().is_err(), "it waits for the engine");
    setup.engine.heal();
    of_patient.recv_timeout(WAIT_MAX).unwrap().unwrap();
    setup.database.close().unwrap();
}
