//! Pipelines that several threads read give what one thread gives: the same bytes, the same error, the same counts; whatever the sizes of
//! the parts are that they share out among them, wherever helpers leave, and whatever is spilled.
//!
//! What helpers have read is a count of the process, and so are the bounds of memory: one lock keeps the tests apart.

mod random_pipeline;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use quarry_bson::{Document, RawDocument, Value, doc, extjson};
use quarry_database::{Database, Level, Namespace, Operation, Options, take_thread_work};
use quarry_query::exec::{self, AggregateRequest, InsertRequest, Over, ThreadBounds};
use quarry_query::parameters::GROUP_MEMORY_BYTES;
use quarry_query::spilling::{self, BlockPlace, SpillFile, SpillSpace};
use quarry_query::turns::TURNS;
use quarry_query::{ErrorCode, Result, interrupts};

const EVERYTHING: i64 = 100 << 20;

/// Small sizes, so that a few documents are many parts.
const SMALL: ThreadBounds = ThreadBounds {
    threads_max: Some(3),
    documents_alone: 2,
    part_documents: 4,
    piece_documents: 2,
    waits_for_idle: false,
    pieces_max: u64::MAX,
};

struct Fixture {
    database: Database,
    namespace: Namespace,
}

/// The outcome of a pipeline: its documents, or its error, and the documents that it has looked at.
#[derive(Debug, PartialEq)]
struct Outcome {
    results: Result<Vec<Vec<u8>>>,
    docs_examined: u64,
}

fn alone() -> MutexGuard<'static, ()> {
    static LOCK: LazyLock<Mutex<()>> = LazyLock::new(|| {
        spilling::install(Box::new(InMemory));
        Mutex::new(())
    });
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_documents(documents: &[Document]) -> Fixture {
    let options = Options {
        commit_interval_ms: 0,
        filter_language: quarry_query::filter_language(),
        index_kinds: quarry_query::index_kinds(),
        ..Options::default()
    };
    let fixture = Fixture {
        database: Database::open(Arc::new(quarry_storage::Memory::new()), options).unwrap(),
        namespace: Namespace::parse("db.c").unwrap(),
    };
    fixture.insert(&fixture.namespace, documents);
    fixture
}

impl Fixture {
    fn insert(&self, namespace: &Namespace, documents: &[Document]) {
        for some in documents.chunks(1000) {
            let raw: Vec<RawDocument<'_>> = some.iter().map(Document::as_raw).collect();
            let request = InsertRequest::new(namespace, &raw);
            let scope = (&self.database).into();
            let outcome =
                exec::insert(scope, &Operation::default(), request, Level::Written).unwrap();
            assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        }
    }

    fn run(&self, pipeline: &str, threads: ThreadBounds, operation: &Operation) -> Outcome {
        let pipeline = extjson::parse(&format!(r#"{{"p": {pipeline}}}"#)).unwrap();
        let stages = pipeline.get_array("p").unwrap();
        let over = Over::Collection(&self.namespace);
        let request = AggregateRequest {
            threads,
            ..AggregateRequest::new(over, stages)
        };
        let results = || {
            let mut executor = exec::aggregate((&self.database).into(), operation, request)?;
            let (mut found, mut document) = (Vec::new(), Vec::new());
            while executor.next(operation, &mut document)? {
                found.push(std::mem::take(&mut document));
            }
            Ok(found)
        };
        Outcome {
            results: results(),
            docs_examined: operation.docs_examined.load(Relaxed),
        }
    }

    fn run_with(&self, pipeline: &str, threads: ThreadBounds) -> Outcome {
        self.run(pipeline, threads, &Operation::default())
    }

    /// Runs the pipeline by one thread, and asserts that it comes to the same with others; returns what it comes to.
    fn compare(&self, pipeline: &str, threads: ThreadBounds) -> Outcome {
        let wanted = self.run_with(pipeline, one_thread());
        let found = self.run_with(pipeline, threads);
        assert_eq!(shown(&found), shown(&wanted), "{pipeline} {threads:?}");
        assert_eq!(found, wanted, "{pipeline} {threads:?}");
        wanted
    }
}

fn shown(outcome: &Outcome) -> Vec<String> {
    let results = outcome.results.as_ref().map_or(&[][..], Vec::as_slice);
    let shown = |one: &Vec<u8>| extjson::canonical(RawDocument::new(one).unwrap());
    results.iter().map(shown).collect()
}

fn one_thread() -> ThreadBounds {
    ThreadBounds {
        threads_max: Some(1),
        ..SMALL
    }
}

fn helped() -> u64 {
    TURNS.in_use().helped_documents
}

fn bounds() -> impl Strategy<Value = ThreadBounds> {
    let sizes = (1..5_u64, 1..20_u64, 1..6_u64);
    let pieces_max = prop_oneof![2 => Just(u64::MAX), 1 => 1..5_u64];
    (2..5_usize, sizes, pieces_max).prop_map(
        |(threads, (documents_alone, part_documents, piece_documents), pieces_max)| ThreadBounds {
            threads_max: Some(threads),
            documents_alone,
            part_documents,
            piece_documents,
            pieces_max,
            ..SMALL
        },
    )
}

/// How the `_id`s of a collection lie.
#[derive(Debug, Clone, Copy)]
enum Ids {
    Numbers,
    /// Runs of neighbours with wide gaps in between.
    Clusters,
    /// Alike for longer than a key is compared as a number.
    LongTexts,
    Mixed,
}

fn ids() -> impl Strategy<Value = Ids> {
    prop_oneof![
        Just(Ids::Numbers),
        Just(Ids::Clusters),
        Just(Ids::LongTexts),
        Just(Ids::Mixed),
    ]
}

fn id(ids: Ids, number: i32) -> Value {
    let cluster = || i64::from(number % 7) << 40 | i64::from(number);
    let text = || format!("{}/{number:05}/{}", "alike".repeat(6), number * 7919 % 100);
    match (ids, number % 3) {
        (Ids::Numbers, _) | (Ids::Mixed, 0) => Value::from(number),
        (Ids::Clusters, _) | (Ids::Mixed, 1) => Value::from(cluster()),
        (Ids::LongTexts | Ids::Mixed, _) => Value::from(text().as_str()),
    }
}

/// Documents with the fields of `random_pipeline`, and Doubles `f` whose sum depends on the order in which they are added.
fn collection() -> impl Strategy<Value = Vec<Document>> {
    let documents = prop::collection::vec(random_pipeline::listed_documents(), 1..6);
    let double = prop_oneof![
        4 => -1e3..1e3_f64,
        1 => Just(1e16),
        1 => Just(-1e16),
        1 => Just(1e-9),
        1 => Just(f64::INFINITY),
    ];
    let doubles = prop::collection::vec(double, 200);
    (ids(), documents, doubles).prop_map(|(ids, documents, doubles)| {
        let all = documents.concat().into_iter().zip(doubles).enumerate();
        all.map(|(number, (document, double))| {
            let mut with_id = doc! { "_id": (id(ids, number as i32)), "f": double };
            if number % 5 == 0 {
                with_id.append("x", Value::from(format!("{number}").as_str()));
            }
            for element in &document {
                with_id.append_element(element);
            }
            with_id
        })
        .collect()
    })
}

fn stage() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        r#"{"$match": {"v": {"$gt": -3}}}"#,
        r#"{"$match": {"$expr": {"$lt": [{"$abs": "$v"}, 4]}}}"#,
        r#"{"$unwind": "$l"}"#,
        r#"{"$unwind": {"path": "$l", "preserveNullAndEmptyArrays": true, "includeArrayIndex": "n"}}"#,
        r#"{"$addFields": {"w": {"$multiply": ["$v", 2]}, "k": {"$ifNull": ["$k", "none"]}}}"#,
        r#"{"$project": {"k": 1, "v": 1, "f": 1, "l": 1, "d": 1, "x": 1}}"#,
        r#"{"$unset": "d"}"#,
        r#"{"$replaceRoot": {"newRoot": {"$mergeObjects": ["$$ROOT", {"r": "$v"}]}}}"#,
        r#"{"$redact": {"$cond": [{"$eq": ["$e", 1]}, "$$PRUNE", "$$DESCEND"]}}"#,
        // Each of these needs all documents before it in one place.
        r#"{"$limit": 25}"#,
        r#"{"$skip": 7}"#,
        r#"{"$sort": {"v": 1}}"#,
        // These fail for some documents.
        r#"{"$addFields": {"q": {"$divide": [1, {"$subtract": ["$v", 4]}]}}}"#,
        r#"{"$replaceRoot": {"newRoot": "$d"}}"#,
    ])
}

fn group_stage() -> impl Strategy<Value = String> {
    let id = prop::sample::select(vec![
        r#""$k""#,
        "null",
        r#"{"k": "$k", "v": {"$mod": ["$v", 2]}}"#,
        r#""$l""#,
        r#""$_id""#,
    ]);
    let field = prop::sample::select(vec![
        r#"{"$sum": "$f"}"#,
        r#"{"$avg": "$f"}"#,
        r#"{"$stdDevPop": "$f"}"#,
        r#"{"$stdDevSamp": "$v"}"#,
        r#"{"$sum": 1}"#,
        r#"{"$sum": {"$add": ["$f", "$v"]}}"#,
        r#"{"$sum": {"$toDecimal": "$v"}}"#,
        r#"{"$count": {}}"#,
        r#"{"$min": "$f"}"#,
        r#"{"$max": "$k"}"#,
        r#"{"$first": "$k"}"#,
        r#"{"$last": "$$ROOT"}"#,
        r#"{"$push": "$v"}"#,
        r#"{"$push": "$d"}"#,
        r#"{"$push": {"a": "$l", "b": "$v"}}"#,
        r#"{"$addToSet": "$k"}"#,
        r#"{"$mergeObjects": "$d"}"#,
        r#"{"$mergeObjects": {"v": "$v"}}"#,
        r#"{"$median": {"input": "$f", "method": "approximate"}}"#,
        r#"{"$topN": {"n": 3, "sortBy": {"k": 1}, "output": "$v"}}"#,
        r#"{"$firstN": {"n": 2, "input": "$v"}}"#,
        r#"{"$maxN": {"n": 2, "input": "$f"}}"#,
        r#"{"$sum": {"$toInt": "$x"}}"#,
    ]);
    (id, prop::collection::vec(field, 0..6)).prop_map(|(id, fields)| {
        let fields = fields.iter().enumerate();
        let fields: String = fields
            .map(|(n, one)| format!(r#", "a{n}": {one}"#))
            .collect();
        format!(r#"{{"$group": {{"_id": {id}{fields}}}}}"#)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn several_threads_give_what_one_gives(
        documents in collection(),
        before in prop::collection::vec(stage(), 0..4),
        group in group_stage(),
        bounds in bounds(),
        memory in prop_oneof![3 => Just(EVERYTHING), 1 => 200..20_000_i64],
    ) {
        let _alone = alone();
        let stages: Vec<&str> = before.into_iter().chain([group.as_str()]).collect();
        let pipeline = format!("[{}]", stages.join(", "));
        let fixture = with_documents(&documents);
        GROUP_MEMORY_BYTES.set(memory);
        let wanted = fixture.run_with(&pipeline, one_thread());
        let found = fixture.run_with(&pipeline, bounds);
        GROUP_MEMORY_BYTES.set(EVERYTHING);
        prop_assert_eq!(shown(&found), shown(&wanted), "{}", pipeline);
        prop_assert_eq!(&found.results, &wanted.results, "{}", pipeline);
        // How much is read beyond an error is not said.
        if wanted.results.is_ok() {
            prop_assert_eq!(found.docs_examined, wanted.docs_examined, "{}", pipeline);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever stands before and behind a group: it is shared only where all that stands before can be run by several threads.
    #[test]
    fn any_pipeline_is_its_stages_one_after_the_other(
        input in random_pipeline::listed_documents(),
        other in random_pipeline::documents(),
        stages in random_pipeline::stages(),
        bounds in bounds(),
    ) {
        let _alone = alone();
        let (input, other) = (with_ids(input), with_ids(other));
        let fixture = with_documents(&input);
        let beside = Namespace::parse("db.other").unwrap();
        fixture.insert(&beside, &other);
        if let Ok(expected) = random_pipeline::results_of_each(&stages, &input, &other) {
            let expected: Vec<Vec<u8>> = expected.iter().map(|one| one.as_bytes().to_vec()).collect();
            let expected = Outcome { results: Ok(expected), docs_examined: 0 };
            let pipeline = format!("[{}]", stages.join(", "));
            let found = fixture.run_with(&pipeline, bounds);
            prop_assert_eq!(shown(&found), shown(&expected), "{}", pipeline);
            prop_assert!(found.results.is_ok());
        }
    }
}

fn with_ids(documents: Vec<Document>) -> Vec<Document> {
    let numbered = documents.into_iter().enumerate();
    numbered
        .map(|(number, document)| {
            let mut with_id = doc! { "_id": (number as i32) };
            for element in &document {
                with_id.append_element(element);
            }
            with_id
        })
        .collect()
}

fn numbered(count: i32) -> Vec<Document> {
    let document = |n: i32| {
        let mixed = n.wrapping_mul(0x9E37_79B9_u32 as i32).rotate_left(11);
        doc! { "_id": n, "k": (mixed.rem_euclid(97)), "f": (f64::from(mixed) / 7.0), "v": (mixed % 1000), "pad": ("x".repeat(40)) }
    };
    (0..count).map(document).collect()
}

const FIVE: &str = r#"[{"$group": {"_id": "$k", "n": {"$sum": 1}, "sum": {"$sum": "$f"}, "avg": {"$avg": "$f"},
    "min": {"$min": "$f"}, "max": {"$max": "$v"}}}]"#;

const MIDDLE: ThreadBounds = ThreadBounds {
    documents_alone: 500,
    part_documents: 400,
    piece_documents: 50,
    ..SMALL
};

#[test]
fn helpers_read_a_good_part_of_what_a_long_pipeline_reads() {
    let _alone = alone();
    let fixture = with_documents(&numbered(30_000));
    let before = helped();
    let outcome = fixture.compare(FIVE, MIDDLE);
    assert_eq!(outcome.docs_examined, 30_000);
    assert_eq!(shown(&outcome).len(), 97);
    let by_helpers = helped() - before;
    assert!(by_helpers > 3_000, "{by_helpers} of 30,000");
}

#[test]
fn what_helpers_ask_of_the_engine_is_counted_for_the_operation() {
    let _alone = alone();
    let fixture = with_documents(&numbered(5_000));
    let work = |bounds| {
        take_thread_work();
        let before = helped();
        fixture.run_with(FIVE, bounds).results.unwrap();
        (take_thread_work(), helped() - before)
    };
    let (wanted, _) = work(one_thread());
    let (found, by_helpers) = work(MIDDLE);
    assert!(by_helpers > 0);
    // A part begins and ends with a key that is stood upon twice.
    assert!(
        found.bytes_read >= wanted.bytes_read,
        "{found:?} {wanted:?}"
    );
    assert!(
        found.bytes_read < wanted.bytes_read * 5 / 4,
        "{found:?} {wanted:?}"
    );
}

#[test]
fn a_pipeline_that_is_not_long_enough_has_no_helpers_and_allocates_nothing_for_them() {
    let _alone = alone();
    let fixture = with_documents(&numbered(400));
    let before = helped();
    let allocations = |bounds: ThreadBounds| {
        let measured = allocation_counter::measure(|| {
            fixture.run_with(FIVE, bounds).results.unwrap();
        });
        measured.count_total
    };
    let one = allocations(one_thread());
    assert_eq!(allocations(MIDDLE), one);
    assert_eq!(helped(), before);
}

#[test]
fn the_error_of_the_first_document_counts_whoever_reads_it() {
    let _alone = alone();
    let mut documents = numbered(6_000);
    for place in [2_777, 2_778, 4_000, 5_999] {
        documents[place].append("x", Value::from(format!("no {place}").as_str()));
    }
    let fixture = with_documents(&documents);
    let before = helped();
    for pipeline in [
        r#"[{"$group": {"_id": "$k", "s": {"$sum": {"$toInt": "$x"}}}}]"#,
        r#"[{"$addFields": {"y": {"$toInt": "$x"}}}, {"$group": {"_id": "$k", "s": {"$sum": "$y"}}}]"#,
        r#"[{"$match": {"$expr": {"$ne": [{"$toInt": "$x"}, 1]}}}, {"$group": {"_id": "$v"}}]"#,
    ] {
        for threads in 2..5 {
            let bounds = ThreadBounds {
                threads_max: Some(threads),
                ..MIDDLE
            };
            let found = fixture.run_with(pipeline, bounds).results;
            let wanted = fixture.run_with(pipeline, one_thread()).results;
            assert_eq!(found, wanted, "{pipeline}");
            let message = found.unwrap_err().message;
            assert!(message.contains("no 2777"), "{message}");
        }
    }
    assert!(helped() > before);
}

#[test]
fn groups_that_spill_come_in_the_same_order_and_without_room_the_same_error_comes() {
    let _alone = alone();
    let fixture = with_documents(&numbered(4_000));
    let pushes = r#"[{"$group": {"_id": "$v", "f": {"$first": "$_id"}, "all": {"$push": "$f"}}}]"#;
    let before = helped();
    for memory in [5_000, 60_000, 200_000] {
        GROUP_MEMORY_BYTES.set(memory);
        let wanted = fixture.run_with(pushes, one_thread());
        let found = fixture.run_with(pushes, MIDDLE);
        GROUP_MEMORY_BYTES.set(EVERYTHING);
        assert_eq!(shown(&found), shown(&wanted), "{memory}");
        assert!(wanted.results.is_ok());
    }
    assert!(helped() > before);
}

#[test]
fn a_pipeline_that_is_ended_ends_with_its_helpers() {
    let _alone = alone();
    let fixture = with_documents(&numbered(3_000));
    // Each document is some milliseconds of work.
    let slow = r#"[{"$group": {"_id": {"$size": {"$range": [0, 100000]}},
        "s": {"$sum": {"$reduce": {"input": {"$range": [0, 100000]}, "initialValue": 0, "in": {"$add": ["$$this", "$$value"]}}}}}}]"#;
    let operation = Arc::new(Operation::default());
    let killed = thread::scope(|scope| {
        let running = scope.spawn(|| {
            let _running = interrupts::run_as(Arc::clone(&operation));
            let outcome = fixture.run(slow, SMALL, &operation);
            (outcome.results.unwrap_err().code(), Instant::now())
        });
        while operation.docs_examined.load(Relaxed) < 10 {
            thread::sleep(Duration::from_millis(1));
        }
        let begun = Instant::now();
        operation.kill();
        let (code, ended) = running.join().unwrap();
        assert_eq!(code, ErrorCode::INTERRUPTED.0);
        ended - begun
    });
    assert!(killed < Duration::from_secs(2), "{killed:?}");
    let deadline = Instant::now() + Duration::from_millis(50);
    let operation = Arc::new(Operation::new(Some(deadline)));
    let _running = interrupts::run_as(Arc::clone(&operation));
    let error = fixture.run(slow, SMALL, &operation).results.unwrap_err();
    assert_eq!(error.code(), ErrorCode::MAX_TIME_MS_EXPIRED.0);
    assert!(deadline.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_helper_that_leaves_in_the_middle_of_a_part_gives_the_rest_back() {
    let _alone = alone();
    let fixture = with_documents(&numbered(5_000));
    let before = helped();
    for pieces_max in 1..6 {
        let bounds = ThreadBounds {
            pieces_max,
            piece_documents: 30,
            ..MIDDLE
        };
        fixture.compare(FIVE, bounds);
    }
    assert!(helped() > before);
}

#[test]
fn without_turns_or_with_the_parameter_at_one_there_are_no_helpers() {
    let _alone = alone();
    let fixture = with_documents(&numbered(3_000));
    let before = helped();
    // Nobody has said that this thread's operation takes turns.
    let bounds = ThreadBounds {
        waits_for_idle: true,
        ..MIDDLE
    };
    fixture.compare(FIVE, bounds);
    // The parameter is one where nobody has set it.
    let bounds = ThreadBounds {
        threads_max: None,
        ..MIDDLE
    };
    fixture.compare(FIVE, bounds);
    assert_eq!(helped(), before);
}

struct InMemory;

struct Blocks(Vec<Vec<u8>>);

impl SpillSpace for InMemory {
    fn create(&self) -> Result<Box<dyn SpillFile>> {
        Ok(Box::new(Blocks(Vec::new())))
    }
}

impl SpillFile for Blocks {
    fn end(&self) -> BlockPlace {
        BlockPlace {
            number: self.0.len() as u32,
            position: 0,
        }
    }

    fn append(&mut self, block: &[u8]) -> Result<u64> {
        self.0.push(block.to_vec());
        Ok(block.len() as u64)
    }

    fn read_block(&mut self, place: &mut BlockPlace, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&self.0[place.number as usize]);
        place.number += 1;
        Ok(())
    }
}
