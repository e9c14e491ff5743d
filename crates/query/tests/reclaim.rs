//! Readers while what they read is dropped: space that a drop gave up is reclaimed under nobody who may still read it.
//!
//! The engine here reclaims as hastily as its contract allows: a snapshot that is still read loses the range too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawDocument, doc};
use quarry_database::{Database, Level, Namespace, Operation, Options};
use quarry_query::exec::{self, *};
use quarry_storage::{HastyReclaim, Memory};

const DOCUMENTS: usize = 1000;
const WAIT_MAX: Duration = Duration::from_secs(60);

struct Fixture {
    engine: Arc<HastyReclaim>,
    database: Database,
    operation: Operation,
    namespace: Namespace,
}

impl Fixture {
    fn new() -> Fixture {
        let engine = Arc::new(HastyReclaim::new(Arc::new(Memory::new())));
        let database = Database::open(Arc::clone(&engine) as _, Options::default()).unwrap();
        let fixture = Fixture {
            engine,
            database,
            operation: Operation::default(),
            namespace: Namespace::parse("db.c").unwrap(),
        };
        let documents: Vec<Document> = (0..DOCUMENTS as i32)
            .map(|n| doc! { "_id": n, "a": n % 7 })
            .collect();
        let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let request = InsertRequest::new(&fixture.namespace, &raw);
        exec::insert(
            (&fixture.database).into(),
            &fixture.operation,
            request,
            Level::Written,
        )
        .unwrap();
        fixture
    }

    fn create_index(&self) {
        self.database
            .create_indexes(
                &self.namespace,
                &[doc! { "key": doc! { "a": 1 }, "name": "a_1" }],
                &self.operation,
                Level::Written,
            )
            .unwrap();
    }

    fn drop_index(&self) {
        self.database
            .drop_indexes(
                &self.namespace,
                &[quarry_bson::RawValue::from("a_1")],
                &self.operation,
                Level::Written,
            )
            .unwrap();
    }

    /// A find whose plan walks the index.
    fn find_by_index(&self) -> quarry_query::exec::Result<Executor> {
        let (filter, hint) = (doc! { "a": doc! { "$gte": 0 } }, doc! { "a": 1 });
        let mut request = FindRequest::new(&self.namespace);
        request.filter = filter.as_raw();
        request.hint = Some(quarry_bson::RawValue::Document(hint.as_raw()));
        exec::find((&self.database).into(), &self.operation, request)
    }

    fn next(&self, executor: &mut Executor) -> bool {
        executor.next(&self.operation, &mut Vec::new()).unwrap()
    }

    fn drain(&self, executor: &mut Executor) -> usize {
        std::iter::from_fn(|| self.next(executor).then_some(())).count()
    }

    /// Gives the thread that reclaims that many chances.
    fn let_reclaim(&self, chances: u64) {
        let (begun, looks) = (Instant::now(), self.engine.durable_looks());
        while self.engine.durable_looks() < looks + chances {
            assert!(begun.elapsed() < WAIT_MAX);
            std::thread::yield_now();
        }
    }

    fn wait_for_reclaim(&self) {
        let begun = Instant::now();
        while self.engine.reclaimed() == 0 {
            assert!(begun.elapsed() < WAIT_MAX, "nothing is reclaimed any more");
            std::thread::yield_now();
        }
    }
}

/// A read has begun, `drop` drops what it reads, the reclaimer runs, and the read goes on.
fn check_read_over(drop: impl FnOnce(&Fixture)) {
    let fixture = Fixture::new();
    fixture.create_index();
    let mut executor = fixture.find_by_index().unwrap();
    assert!(fixture.next(&mut executor));
    drop(&fixture);
    fixture.let_reclaim(6);
    assert_eq!(1 + fixture.drain(&mut executor), DOCUMENTS);
    assert_eq!(fixture.engine.reclaimed(), 0, "under a reader");
    std::mem::drop(executor);
    fixture.wait_for_reclaim();
}

#[test]
fn a_read_outlives_the_drop_of_its_index() {
    check_read_over(Fixture::drop_index);
}

#[test]
fn a_read_outlives_the_drop_of_its_collection() {
    check_read_over(|fixture| {
        let (namespace, operation) = (&fixture.namespace, &fixture.operation);
        let dropped = fixture
            .database
            .drop_collection(namespace, operation, Level::Written);
        assert!(dropped.unwrap().is_some());
    });
}

#[test]
fn a_read_outlives_the_drop_of_its_database() {
    check_read_over(|fixture| {
        let dropped = (fixture.database).drop_database("db", &fixture.operation, Level::Written);
        assert!(dropped.unwrap());
    });
}

#[test]
fn a_saved_read_holds_nothing_and_hears_of_the_drop() {
    let fixture = Fixture::new();
    fixture.create_index();
    let mut executor = fixture.find_by_index().unwrap();
    assert!(fixture.next(&mut executor));
    executor.save(&fixture.operation).unwrap();
    fixture.drop_index();
    fixture.wait_for_reclaim();
    executor
        .restore((&fixture.database).into(), &fixture.operation)
        .unwrap();
    let error = loop {
        match executor.next(&fixture.operation, &mut Vec::new()) {
            Ok(true) => {}
            Ok(false) => panic!("the read ended as if it were complete"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), 175, "{error}");
}

#[test]
fn counts_by_an_index_that_comes_and_goes_are_those_of_the_collection() {
    let fixture = Fixture::new();
    let (is_over, begun_reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (fixture, is_over, begun_reads) = (&fixture, &is_over, &begun_reads);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    // A hint to an index that is not there is refused; nothing else may go wrong.
                    let Ok(mut executor) = fixture.find_by_index() else {
                        continue;
                    };
                    begun_reads.fetch_add(1, Ordering::Relaxed);
                    assert!(fixture.next(&mut executor));
                    fixture.let_reclaim(2);
                    assert_eq!(1 + fixture.drain(&mut executor), DOCUMENTS);
                }
            });
        }
        let begun = Instant::now();
        while fixture.engine.reclaimed() < 3 {
            fixture.create_index();
            let before = begun_reads.load(Ordering::Relaxed);
            while begun_reads.load(Ordering::Relaxed) == before {
                assert!(begun.elapsed() < WAIT_MAX);
                std::thread::yield_now();
            }
            fixture.drop_index();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
