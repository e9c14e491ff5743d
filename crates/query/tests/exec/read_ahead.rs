//! A second thread that reads ahead changes no result, and ends with its operation.

use std::sync::Mutex;
use std::thread;

use quarry_query::interrupts;
use quarry_query::parameters::SCAN_READ_AHEAD;

use super::*;

/// Chunks of the scan by far, so that most of them can be read ahead.
const DOCUMENTS: i32 = 40_000;

const FIRST_AND_LAST: &str = r#"[
    {"$match": {"n": {"$gte": 5}}},
    {"$group": {"_id": "$g", "sum": {"$sum": "$n"}, "first": {"$first": "$_id"}, "last": {"$last": "$_id"}}}]"#;

/// A test needs an idle processor, which others have for a moment: it is tried again so often.
const TRIES: u32 = 1_000;

/// Held by a test that looks at what is one for the whole process.
static ONE_BY_ONE: Mutex<()> = Mutex::new(());

fn numbered() -> Fixture {
    let document = |n: i32| doc! { "_id": n, "n": (n % 977), "g": (n.wrapping_mul(7_919) % 31) };
    with_documents(&(0..DOCUMENTS).map(document).collect::<Vec<_>>())
}

/// Whether there is a second processor at all; without one nobody reads ahead.
fn has_processors() -> bool {
    thread::available_parallelism().is_ok_and(|processors| processors.get() > 1)
}

#[test]
fn a_scan_gives_the_same_in_the_same_order_whoever_reads_it() {
    let _only = ONE_BY_ONE.lock();
    let fixture = numbered();
    // Nobody runs on this thread: there is no second one.
    let alone = aggregated(&fixture, FIRST_AND_LAST).unwrap();
    assert_eq!(alone.len(), 31);
    let _running = interrupts::run_as(Arc::new(Operation::new(None)));
    for _ in 0..TRIES {
        let before = CHUNKS_READ_AHEAD.load(Relaxed);
        assert_eq!(aggregated(&fixture, FIRST_AND_LAST).unwrap(), alone);
        if CHUNKS_READ_AHEAD.load(Relaxed) > before || !has_processors() {
            return;
        }
    }
    panic!("nobody has read ahead");
}

#[test]
fn an_error_on_either_side_is_the_operations() {
    let _only = ONE_BY_ONE.lock();
    let fixture = numbered();
    let running = Arc::new(Operation::new(None));
    let _running = interrupts::run_as(Arc::clone(&running));
    // The stage meets the error, behind what the scan has read ahead; then the scan meets it.
    for pipeline in [
        r#"[{"$group": {"_id": {"$divide": [1, {"$subtract": ["$_id", 30000]}]}}}]"#,
        r#"[{"$match": {"$expr": {"$gt": [{"$divide": [1, {"$subtract": ["$_id", 30000]}]}, 2]}}}, {"$group": {"_id": "$g"}}]"#,
    ] {
        let pipeline = json(&format!(r#"{{"p": {pipeline}}}"#));
        let over = Over::Collection(&fixture.namespace);
        let request = AggregateRequest::new(over, pipeline.get_array("p").unwrap());
        let scope = (&fixture.database).into();
        let mut executor = exec::aggregate(scope, &fixture.operation, request).unwrap();
        let error = executor.next(&fixture.operation, &mut Vec::new());
        let text = error.unwrap_err().to_string();
        assert!(text.contains("divide by zero"), "{text}");
    }
    // The fixture serves on, and what is killed ends.
    assert_eq!(aggregated(&fixture, FIRST_AND_LAST).unwrap().len(), 31);
    running.kill();
    let pipeline = json(&format!(r#"{{"p": {FIRST_AND_LAST}}}"#));
    let over = Over::Collection(&fixture.namespace);
    let request = AggregateRequest::new(over, pipeline.get_array("p").unwrap());
    let scope = (&fixture.database).into();
    let ended = exec::aggregate(scope, &fixture.operation, request)
        .and_then(|mut executor| executor.next(&fixture.operation, &mut Vec::new()));
    assert!(ended.is_err());
}

#[test]
fn the_parameter_turns_it_off() {
    let _only = ONE_BY_ONE.lock();
    let fixture = numbered();
    let _running = interrupts::run_as(Arc::new(Operation::new(None)));
    let before = CHUNKS_READ_AHEAD.load(Relaxed);
    SCAN_READ_AHEAD.set(0);
    for _ in 0..20 {
        assert_eq!(aggregated(&fixture, FIRST_AND_LAST).unwrap().len(), 31);
    }
    SCAN_READ_AHEAD.set(1);
    assert_eq!(CHUNKS_READ_AHEAD.load(Relaxed), before);
}
