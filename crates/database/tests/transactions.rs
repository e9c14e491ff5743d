//! Transactions: what they make, what they are refused, who waits for them, and how they end.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_database::{
    Change, Database, Error, Level, Namespace, OPEN_TRANSACTIONS_MAX, Operation, Options, Scope,
    TRANSACTION_BYTES_MAX, TRANSACTIONS_MEMORY_BYTES_MAX, Transaction,
};
use quarry_journal::SimulatedFiles;
use quarry_storage::{Engine, Memory, WriteBatch};

struct Fixture {
    database: Database,
    operation: Operation,
}

fn name(text: &str) -> Namespace {
    Namespace::parse(text).unwrap()
}

fn fixture() -> Fixture {
    Fixture {
        database: Database::open_in_memory().unwrap(),
        operation: Operation::default(),
    }
}

impl Fixture {
    fn begin(&self) -> Arc<Transaction> {
        self.database.begin_transaction(&self.operation).unwrap()
    }

    fn plain(&self) -> Scope<'_> {
        (&self.database).into()
    }

    fn in_transaction<'a>(&'a self, transaction: &'a Transaction) -> Scope<'a> {
        Scope::in_transaction(&self.database, transaction)
    }

    fn commit(&self, transaction: &Transaction) -> Result<Option<u64>, Error> {
        let session = WriteBatch::new();
        (self.database).commit_transaction(transaction, &self.operation, Level::Written, &session)
    }

    fn insert(&self, scope: Scope<'_>, into: &str, document: &Document) -> Result<(), Error> {
        let documents = [document.as_raw()];
        let (operation, level) = (&self.operation, Level::Written);
        let inserted = scope.insert_piece(operation, &name(into), &documents, true, level)?;
        match inserted.errors.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Whether there was a document, which is now `{_id: id, by: by}`.
    fn change(&self, scope: Scope<'_>, of: &str, id: i32, by: &str) -> Result<bool, Error> {
        let namespace = name(of);
        let Some(collection) = scope.collection(&namespace, &self.operation)? else {
            return Ok(false);
        };
        let keys = [collection.record_key(RawValue::Int32(id))];
        let (operation, level) = (&self.operation, Level::Written);
        let new = doc! { "_id": id, "by": by };
        let ident = collection.ident;
        let mut compute = |_: usize, _: RawDocument<'_>, out: &mut quarry_database::NewDocument| {
            out.extend_from_slice(new.as_bytes());
            Ok(Change::Replace)
        };
        let changed =
            scope.modify_piece(operation, &namespace, ident, &keys, level, &mut compute)?;
        match changed.error {
            Some(error) => Err(error),
            None => Ok(changed.matched == 1),
        }
    }

    /// The number of documents; none without the collection.
    fn count(&self, scope: Scope<'_>, of: &str) -> Result<Option<u64>, Error> {
        let collection = scope.collection(&name(of), &self.operation)?;
        collection
            .map(|collection| scope.count(&collection))
            .transpose()
    }
}

fn code(result: Result<impl Sized, Error>) -> i32 {
    result.err().map_or(0, |error| error.code())
}

/// Calls `look` until it says so.
fn wait_until(what: &str, mut look: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !look() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_collection_that_a_transaction_makes_is_its_own_until_the_commit() {
    let fixture = fixture();
    for commits in [false, true] {
        let transaction = fixture.begin();
        let scope = fixture.in_transaction(&transaction);
        let specs = [
            doc! { "key": { "u": 1 }, "unique": true },
            doc! { "key": { "m": 1 } },
        ];
        let (operation, level) = (&fixture.operation, Level::Written);
        let made = scope.create_indexes(&name("db.made"), &specs, operation, level);
        let made = made.unwrap();
        assert!(made.created_collection && made.after == 3);
        fixture
            .insert(scope, "db.made", &doc! { "_id": 1, "u": 1, "m": [1, 2] })
            .unwrap();
        let taken = fixture.insert(scope, "db.made", &doc! { "_id": 2, "u": 1 });
        assert_eq!(code(taken), 11_000);
        fixture
            .insert(scope, "db.implied", &doc! { "_id": 1 })
            .unwrap();
        assert_eq!(fixture.count(scope, "db.made").unwrap(), Some(1));
        assert_eq!(fixture.count(scope, "db.implied").unwrap(), Some(1));
        for of in ["db.made", "db.implied"] {
            assert_eq!(fixture.count(fixture.plain(), of).unwrap(), None);
        }
        assert!(fixture.database.list_databases().unwrap().is_empty());
        if commits {
            fixture.commit(&transaction).unwrap();
        } else {
            transaction.end();
            assert_eq!(code(fixture.commit(&transaction)), 251);
        }
        let seen = commits.then_some(1);
        for of in ["db.made", "db.implied"] {
            assert_eq!(fixture.count(fixture.plain(), of).unwrap(), seen);
        }
    }
    let report = fixture
        .database
        .validate(&name("db.made"), true, &fixture.operation);
    assert_eq!(report.unwrap().errors, Vec::<String>::new());
    // Idents that were given out in the transaction are not given again.
    fixture
        .insert(fixture.plain(), "db.later", &doc! { "_id": 1 })
        .unwrap();
    let idents = ["db.made", "db.implied", "db.later"].map(|of| {
        let collection = fixture.database.collection(&name(of)).unwrap();
        collection.unwrap().ident
    });
    assert!(idents[0] != idents[1] && idents[1] != idents[2]);
}

#[test]
fn whoever_makes_a_collection_that_a_transaction_makes_waits_or_conflicts() {
    let fixture = fixture();
    let (first, second) = (fixture.begin(), fixture.begin());
    let scope = fixture.in_transaction(&first);
    fixture.insert(scope, "db.c", &doc! { "_id": 1 }).unwrap();
    let conflict = fixture.insert(fixture.in_transaction(&second), "db.c", &doc! { "_id": 2 });
    assert_eq!(code(conflict), 112);
    let limited = Operation::new(Some(Instant::now() + Duration::from_millis(20)));
    let waited = fixture
        .database
        .collection_or_create(&name("db.c"), &limited);
    assert_eq!(code(waited), 50, "it waits for the transaction");
    std::thread::scope(|threads| {
        let (begins, has_begun) = channel();
        let fixture = &fixture;
        let inserts = threads.spawn(move || {
            begins.send(()).unwrap();
            fixture.insert(fixture.plain(), "db.c", &doc! { "_id": 3 })
        });
        has_begun.recv().unwrap();
        fixture.commit(&first).unwrap();
        inserts.join().unwrap().unwrap();
    });
    assert_eq!(fixture.count(fixture.plain(), "db.c").unwrap(), Some(2));
    // Begun before the commit: the collection came after its snapshot.
    second.end();
    let third = fixture.begin();
    fixture
        .database
        .rename_collection(
            &name("db.c"),
            &name("db.d"),
            false,
            &fixture.operation,
            Level::Written,
        )
        .unwrap();
    let scope = fixture.in_transaction(&third);
    for of in ["db.c", "db.d"] {
        assert_eq!(code(fixture.count(scope, of)), 246, "{of}");
    }
}

#[test]
fn what_mongodb_refuses_in_a_transaction_is_refused() {
    let fixture = fixture();
    let (operation, level) = (&fixture.operation, Level::Written);
    let plain = fixture.plain();
    fixture.insert(plain, "db.c", &doc! { "_id": 1 }).unwrap();
    let capped = doc! { "capped": true, "size": 4096 };
    plain
        .create_collection(&name("db.capped"), capped.as_raw(), operation, level)
        .unwrap();
    for database in ["admin", "config", "local"] {
        let transaction = fixture.begin();
        let scope = fixture.in_transaction(&transaction);
        let of = format!("{database}.c");
        assert_eq!(code(fixture.count(scope, &of)), 263);
        assert_eq!(code(fixture.insert(scope, &of, &doc! { "_id": 1 })), 263);
    }
    let refused: [&dyn Fn(Scope<'_>) -> i32; 5] = [
        &|scope| code(fixture.insert(scope, "db.capped", &doc! { "_id": 1 })),
        &|scope| code(fixture.insert(scope, "db.system.js", &doc! { "_id": 1 })),
        &|scope| {
            let options = capped.as_raw();
            code(scope.create_collection(&name("db.more"), options, operation, level))
        },
        &|scope| {
            let specs = [doc! { "key": { "a": 1 } }];
            code(scope.create_indexes(&name("db.c"), &specs, operation, level))
        },
        &|scope| {
            fixture.insert(scope, "db.new", &doc! { "_id": 1 }).unwrap();
            let specs = [doc! { "key": { "a": 1 } }];
            code(scope.create_indexes(&name("db.new"), &specs, operation, level))
        },
    ];
    for (number, refuse) in refused.iter().enumerate() {
        let transaction = fixture.begin();
        assert_eq!(
            refuse(fixture.in_transaction(&transaction)),
            263,
            "{number}"
        );
        assert_eq!(code(fixture.commit(&transaction)), 263, "{number}");
    }
    // An index that is there already is no error; a collection is one, whatever its options.
    let transaction = fixture.begin();
    let scope = fixture.in_transaction(&transaction);
    let id = [doc! { "key": { "_id": 1 } }];
    scope
        .create_indexes(&name("db.c"), &id, operation, level)
        .unwrap();
    let same = doc! {};
    let exists = scope.create_collection(&name("db.c"), same.as_raw(), operation, level);
    assert_eq!(code(exists), 48);
}

#[test]
fn a_definition_waits_for_a_transaction_that_has_read_and_others_give_up_soon() {
    let fixture = fixture();
    let plain = fixture.plain();
    fixture.insert(plain, "db.c", &doc! { "_id": 1 }).unwrap();
    let transaction = fixture.begin();
    let scope = fixture.in_transaction(&transaction);
    assert_eq!(fixture.count(scope, "db.c").unwrap(), Some(1));
    std::thread::scope(|threads| {
        let database = &fixture.database;
        let drops = threads.spawn(|| {
            database.drop_collection(&name("db.c"), &Operation::default(), Level::Written)
        });
        wait_until("the drop waits for the reader", || {
            let other = fixture.begin();
            code(fixture.count(fixture.in_transaction(&other), "db.c")) == 24
        });
        assert_eq!(fixture.count(scope, "db.c").unwrap(), Some(1));
        assert!(!drops.is_finished());
        transaction.end();
        assert!(drops.join().unwrap().unwrap().is_some());
    });
    assert_eq!(code(fixture.count(scope, "db.c")), 251);
}

#[test]
fn a_transaction_ends_while_a_call_runs_in_it() {
    let fixture = fixture();
    let plain = fixture.plain();
    fixture.insert(plain, "db.c", &doc! { "_id": 1 }).unwrap();
    let transaction = fixture.begin();
    let (comes, has_come) = channel();
    let (goes_on, waits) = channel::<()>();
    std::thread::scope(|threads| {
        let (fixture, transaction) = (&fixture, &transaction);
        let runs = threads.spawn(move || {
            let scope = fixture.in_transaction(transaction);
            let namespace = name("db.c");
            let operation = &fixture.operation;
            let collection = scope.collection(&namespace, operation).unwrap().unwrap();
            let keys = [collection.record_key(RawValue::Int32(1))];
            let mut compute =
                |_: usize, _: RawDocument<'_>, _: &mut quarry_database::NewDocument| {
                    comes.send(()).unwrap();
                    waits.recv().unwrap();
                    Ok(Change::Delete)
                };
            let (ident, level) = (collection.ident, Level::Written);
            scope.modify_piece(operation, &namespace, ident, &keys, level, &mut compute)
        });
        has_come.recv().unwrap();
        transaction.end();
        transaction.end();
        goes_on.send(()).unwrap();
        assert_eq!(code(runs.join().unwrap()), 251);
    });
    assert!(transaction.is_ended());
    assert!(
        fixture.change(plain, "db.c", 1, "plain").unwrap(),
        "the lock is free"
    );
    let counters = fixture.database.transaction_counters();
    assert_eq!(
        (counters.open, counters.aborted, counters.committed),
        (0, 1, 0)
    );
}

#[test]
fn open_transactions_are_counted_with_their_age_and_bytes() {
    let fixture = fixture();
    let plain = fixture.plain();
    fixture.insert(plain, "db.c", &doc! { "_id": 1 }).unwrap();
    let (first, second) = (fixture.begin(), fixture.begin());
    fixture
        .change(fixture.in_transaction(&first), "db.c", 1, "first")
        .unwrap();
    let counters = fixture.database.transaction_counters();
    assert_eq!((counters.open, counters.started), (2, 2));
    assert!(first.staged_bytes() > 0 && second.staged_bytes() == 0);
    assert_eq!(counters.staged_bytes, first.staged_bytes());
    assert!(counters.oldest.unwrap() >= second.begun().elapsed());
    fixture.commit(&first).unwrap();
    fixture.commit(&second).unwrap();
    let counters = fixture.database.transaction_counters();
    assert_eq!(
        (counters.open, counters.committed, counters.aborted),
        (0, 2, 0)
    );
    assert_eq!((counters.staged_bytes, counters.oldest), (0, None));
    drop(fixture.begin());
    assert_eq!(fixture.database.transaction_counters().aborted, 1);
    const { assert!(TRANSACTIONS_MEMORY_BYTES_MAX > 2 * TRANSACTION_BYTES_MAX as u64) };
}

/// A transaction does not hold a capped collection that it reads: its writers and its drop wait for nobody, and the transaction reads
/// its snapshot of it until it sees another definition.
#[test]
fn a_capped_collection_is_written_and_dropped_beside_a_transaction_that_reads_it() {
    let fixture = fixture();
    let plain = fixture.plain();
    let limited = Operation::new(Some(Instant::now() + Duration::from_secs(2)));
    let level = Level::Written;
    let capped = doc! { "capped": true, "size": 4096 };
    let log = name("db.log");
    plain
        .create_collection(&log, capped.as_raw(), &limited, level)
        .unwrap();
    fixture.insert(plain, "db.log", &doc! { "_id": 1 }).unwrap();
    let (reads, reads_on) = (fixture.begin(), fixture.begin());
    let scopes = [&reads, &reads_on].map(|transaction| fixture.in_transaction(transaction));
    for scope in scopes {
        assert_eq!(fixture.count(scope, "db.log").unwrap(), Some(1));
    }
    let document = doc! { "_id": 2 };
    let inserted = plain.insert_piece(&limited, &log, &[document.as_raw()], true, level);
    assert_eq!(inserted.unwrap().inserted, 1, "it waits for no transaction");
    assert_eq!(fixture.count(scopes[0], "db.log").unwrap(), Some(1));
    let open = scopes[0].snapshot(&log, &limited).unwrap().unwrap();
    let dropped = fixture.database.drop_collection(&log, &limited, level);
    assert!(dropped.unwrap().is_some());
    assert!(open.find_id(RawValue::Int32(1)).unwrap().is_some());
    assert!(open.find_id(RawValue::Int32(2)).unwrap().is_none());
    assert_eq!(code(fixture.count(scopes[0], "db.log")), 246);
    plain
        .create_collection(&log, capped.as_raw(), &limited, level)
        .unwrap();
    assert_eq!(code(fixture.count(scopes[1], "db.log")), 246);
}

/// A transaction holds its database once: a dropDatabase that waits for it does not keep it from more collections.
#[test]
fn a_transaction_goes_on_to_more_collections_while_a_drop_of_its_database_waits() {
    let fixture = fixture();
    let plain = fixture.plain();
    for of in ["db.first", "db.second"] {
        fixture.insert(plain, of, &doc! { "_id": 1 }).unwrap();
    }
    let transaction = fixture.begin();
    let scope = fixture.in_transaction(&transaction);
    assert_eq!(fixture.count(scope, "db.first").unwrap(), Some(1));
    std::thread::scope(|threads| {
        let database = &fixture.database;
        let drops =
            threads.spawn(|| database.drop_database("db", &Operation::default(), Level::Written));
        wait_until("the drop waits for the reader", || {
            let other = fixture.begin();
            code(fixture.count(fixture.in_transaction(&other), "db.first")) == 24
        });
        let second = fixture.count(scope, "db.second");
        let new = fixture.insert(scope, "db.new", &doc! { "_id": 1 });
        transaction.end();
        assert!(drops.join().unwrap().unwrap());
        assert_eq!((second.unwrap(), code(new)), (Some(1), 0));
    });
}

/// A transaction never waits without an end for a name, whatever the patience for collections.
#[test]
fn two_transactions_that_make_the_same_collections_conflict_with_any_patience() {
    let fixture = fixture();
    fixture.database.set_transaction_lock_patience_ms(-1);
    let limited = Fixture {
        database: fixture.database,
        operation: Operation::new(Some(Instant::now() + Duration::from_secs(2))),
    };
    let (first, second) = (limited.begin(), limited.begin());
    let scope = limited.in_transaction(&first);
    limited.insert(scope, "db.c", &doc! { "_id": 1 }).unwrap();
    let conflict = limited.insert(limited.in_transaction(&second), "db.c", &doc! { "_id": 2 });
    assert_eq!(code(conflict), 112);
}

/// Idle transactions leave readers of the engine to everybody else.
#[test]
fn the_transactions_that_are_open_are_bounded() {
    let fixture = fixture();
    let begin = || fixture.database.begin_transaction(&fixture.operation);
    let mut open: Vec<_> = (0..OPEN_TRANSACTIONS_MAX)
        .map(|_| begin().unwrap())
        .collect();
    assert_eq!(code(begin()), 112);
    let counters = fixture.database.transaction_counters();
    assert_eq!(counters.open, OPEN_TRANSACTIONS_MAX as u64);
    assert_eq!(counters.started, OPEN_TRANSACTIONS_MAX as u64);
    open.pop();
    begin().unwrap();
}

/// A collection that a dropped database has left in a snapshot is not there, as it is not there for anybody else.
#[test]
fn a_collection_that_went_with_its_database_is_absent_in_a_snapshot_too() {
    let fixture = fixture();
    let plain = fixture.plain();
    // More than one piece of the cleaner's.
    for number in 0..300 {
        fixture
            .database
            .collection_or_create(&name(&format!("db.c{number}")), &fixture.operation)
            .unwrap();
    }
    fixture
        .database
        .drop_database("db", &fixture.operation, Level::Written)
        .unwrap();
    let transaction = fixture.begin();
    let scope = fixture.in_transaction(&transaction);
    for number in [0, 299] {
        let of = format!("db.c{number}");
        assert_eq!(fixture.count(scope, &of).unwrap(), None);
    }
    // Its name is free as soon as the cleaner has come by.
    wait_until("the name is free", || {
        let transaction = fixture.begin();
        let scope = fixture.in_transaction(&transaction);
        match fixture.insert(scope, "db.c299", &doc! { "_id": 1 }) {
            Ok(()) => fixture.commit(&transaction).is_ok(),
            Err(error) => {
                assert_eq!(error.code(), 112);
                false
            }
        }
    });
    assert_eq!(fixture.count(plain, "db.c299").unwrap(), Some(1));
}

/// A transaction that makes collections is one record: replay brings back all of it, and gives out no ident twice.
#[test]
fn what_a_transaction_makes_comes_back_whole_with_what_its_session_adds() {
    let files = SimulatedFiles::new();
    let engine = Arc::new(Memory::new());
    let open = |engine: &Arc<Memory>| Fixture {
        database: Database::open_on(
            Arc::clone(engine) as Arc<dyn Engine>,
            Arc::new(files.clone()),
            Options::default(),
        )
        .unwrap(),
        operation: Operation::default(),
    };
    let fixture = open(&engine);
    fixture
        .insert(fixture.plain(), "db.there", &doc! { "_id": 1 })
        .unwrap();
    fixture.database.close().unwrap();
    let before = Arc::new(Memory::from_image(engine.image()));
    let fixture = open(&engine_of(&engine));
    let accepted = fixture.database.journal().accepted_lsn();
    let transaction = fixture.begin();
    let scope = fixture.in_transaction(&transaction);
    let specs = [doc! { "key": { "m": 1 } }];
    scope
        .create_indexes(&name("db.made"), &specs, &fixture.operation, Level::Written)
        .unwrap();
    fixture
        .insert(scope, "db.made", &doc! { "_id": 1, "m": [1, 2] })
        .unwrap();
    fixture.change(scope, "db.there", 1, "transaction").unwrap();
    let mut session = WriteBatch::new();
    let key = [0, 0x18, 7];
    session.put(&key, b"session");
    let committed = fixture.database.commit_transaction(
        &transaction,
        &fixture.operation,
        Level::Written,
        &session,
    );
    assert_eq!(committed.unwrap(), Some(accepted + 1));
    fixture.database.close().unwrap();
    drop(fixture);
    let fixture = open(&before);
    assert!(fixture.database.journal().replayed() > 0);
    for of in ["db.made", "db.there"] {
        assert_eq!(fixture.count(fixture.plain(), of).unwrap(), Some(1), "{of}");
        let report = fixture
            .database
            .validate(&name(of), true, &fixture.operation);
        assert_eq!(report.unwrap().errors, Vec::<String>::new());
    }
    let mut kept = Vec::new();
    let mut read = |value: &[u8]| kept.extend_from_slice(value);
    assert!(fixture.database.engine().get(&key, &mut read).unwrap());
    assert_eq!(kept, b"session");
    fixture
        .insert(fixture.plain(), "db.later", &doc! { "_id": 1 })
        .unwrap();
    let ident = |of: &str| {
        let collection = fixture.database.collection(&name(of)).unwrap();
        collection.unwrap().ident
    };
    assert!(ident("db.later") > ident("db.made"));
    fixture.database.close().unwrap();
}

fn engine_of(engine: &Arc<Memory>) -> Arc<Memory> {
    Arc::new(Memory::from_image(engine.image()))
}

/// Reads at one time see one state, as often as it is asked for, whoever writes and drops meanwhile.
#[test]
fn a_snapshot_is_read_again_by_its_time() {
    let fixture = fixture();
    let plain = fixture.plain();
    fixture.insert(plain, "db.c", &doc! { "_id": 1 }).unwrap();
    fixture.insert(plain, "db.d", &doc! { "_id": 1 }).unwrap();
    let (pinned, time) = fixture.database.pin_snapshot(None).unwrap();
    for id in 2..5 {
        fixture.insert(plain, "db.c", &doc! { "_id": id }).unwrap();
    }
    let (again, same) = fixture.database.pin_snapshot(Some(time)).unwrap();
    assert!(Arc::ptr_eq(&pinned, &again) && time == same);
    let (now, later) = fixture.database.pin_snapshot(None).unwrap();
    assert!(later > time);
    let scopes = [&pinned, &now].map(|pinned| Scope::at_snapshot(&fixture.database, pinned));
    assert_eq!(
        scopes.map(|scope| fixture.count(scope, "db.c").unwrap()),
        [Some(1), Some(4)]
    );
    let snapshot = scopes[0].snapshot(&name("db.c"), &fixture.operation);
    let snapshot = snapshot.unwrap().unwrap();
    assert!(snapshot.find_id(RawValue::Int32(1)).unwrap().is_some());
    assert!(snapshot.find_id(RawValue::Int32(2)).unwrap().is_none());
    // Nobody is held up by it, and what is gone it does not find out about.
    fixture
        .database
        .drop_collection(&name("db.d"), &fixture.operation, Level::Written)
        .unwrap();
    assert_eq!(code(fixture.count(scopes[0], "db.d")), 246);
    assert_eq!(
        code(fixture.insert(scopes[0], "db.c", &doc! { "_id": 9 })),
        20
    );
    // A time between the two that nobody has asked for is gone, and so is one from before the journal.
    for gone in [time + 1, later - 1, 1] {
        let belongs = fixture.database.pin_snapshot(Some(gone));
        let state = belongs.map(|(found, _)| Arc::ptr_eq(&found, &pinned));
        assert!(matches!(state, Ok(true)) || code(state) == 239, "{gone}");
    }
    let ahead = time + (100_000 << 32) * 1000;
    assert_eq!(code(fixture.database.pin_snapshot(Some(ahead))), 72);
}

#[test]
fn snapshots_are_pinned_beside_writers() {
    let fixture = fixture();
    fixture
        .insert(fixture.plain(), "db.c", &doc! { "_id": 0 })
        .unwrap();
    std::thread::scope(|threads| {
        let fixture = &fixture;
        let writer = threads.spawn(move || {
            for id in 1..400 {
                fixture
                    .insert(fixture.plain(), "db.c", &doc! { "_id": id })
                    .unwrap();
            }
        });
        let mut seen = 0;
        while !writer.is_finished() {
            let (pinned, time) = fixture.database.pin_snapshot(None).unwrap();
            let scope = Scope::at_snapshot(&fixture.database, &pinned);
            let count = fixture.count(scope, "db.c").unwrap().unwrap();
            assert!(count >= seen, "{time}");
            seen = count;
        }
        writer.join().unwrap();
    });
    let (pinned, _) = fixture.database.pin_snapshot(None).unwrap();
    let scope = Scope::at_snapshot(&fixture.database, &pinned);
    assert_eq!(fixture.count(scope, "db.c").unwrap(), Some(400));
}

/// Nobody has noted what was changed between the snapshot and the transaction over it.
#[test]
fn a_transaction_at_a_time_sees_that_state_and_conflicts_with_what_came_since() {
    let fixture = fixture();
    let plain = fixture.plain();
    for id in 1..=4 {
        fixture
            .insert(plain, "db.c", &doc! { "_id": id, "by": "first" })
            .unwrap();
    }
    let (pinned, time) = fixture.database.pin_snapshot(None).unwrap();
    assert!(fixture.change(plain, "db.c", 1, "second").unwrap());
    fixture
        .insert(plain, "db.c", &doc! { "_id": 5, "by": "second" })
        .unwrap();
    // It changes, and is again as it was.
    assert!(fixture.change(plain, "db.c", 2, "second").unwrap());
    assert!(fixture.change(plain, "db.c", 2, "first").unwrap());
    let begin = || {
        let (pinned, _) = fixture.database.pin_snapshot(Some(time)).unwrap();
        let begun = fixture
            .database
            .begin_transaction_at(&pinned, &fixture.operation);
        begun.unwrap()
    };
    drop(pinned);
    let transaction = begin();
    let scope = fixture.in_transaction(&transaction);
    let collection = scope
        .collection(&name("db.c"), &fixture.operation)
        .unwrap()
        .unwrap();
    assert_eq!(scope.count(&collection).unwrap(), 4);
    assert!(
        !scope
            .get_record(&collection.record_key(RawValue::Int32(5)), &mut |_| {})
            .unwrap()
    );
    assert!(fixture.change(scope, "db.c", 2, "third").unwrap());
    assert!(fixture.change(scope, "db.c", 3, "third").unwrap());
    fixture.insert(scope, "db.c", &doc! { "_id": 6 }).unwrap();
    // Behind its begin it is told of changes as any other.
    assert!(fixture.change(plain, "db.c", 4, "second").unwrap());
    assert!(fixture.change(plain, "db.c", 4, "first").unwrap());
    assert!(fixture.commit(&transaction).unwrap().is_some());
    let conflicts = |write: &dyn Fn(Scope<'_>) -> Result<(), Error>| {
        let transaction = begin();
        let code = code(write(fixture.in_transaction(&transaction)));
        transaction.end();
        assert_eq!(code, 112);
    };
    conflicts(&|scope| fixture.change(scope, "db.c", 1, "third").map(drop));
    conflicts(&|scope| fixture.insert(scope, "db.c", &doc! { "_id": 5 }));
    conflicts(&|scope| fixture.change(scope, "db.c", 3, "third").map(drop));
    let late = begin();
    assert!(fixture.change(plain, "db.c", 4, "second").unwrap());
    assert!(fixture.change(plain, "db.c", 4, "first").unwrap());
    let changed = fixture.change(fixture.in_transaction(&late), "db.c", 4, "third");
    assert_eq!(code(changed), 112);
}
