//! An operation ends soon after it was killed or has run out of time, whatever it is at.
//!
//! Each row of the table is a kind of work that would take far longer than it is given. What is measured is the work
//! between two looks at the operation, in processor time of the thread, so that a busy machine does not matter: the
//! operation's own hook, which is asked whether the client is still there, notes it at every look. A new kind of work is
//! a new row.

mod fixture;
mod table;
mod works;

use std::cell::Cell;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use quarry_database::Operation;
use quarry_query::interrupts::run_as;

use crate::fixture::Fixture;
use crate::table::table;
use crate::works::Work;

/// The time that an operation is given, in milliseconds; `GIVEN_MS` gives it longer, to meet what comes late.
fn given_ms() -> u64 {
    let asked = std::env::var("GIVEN_MS").ok();
    asked.map_or(20, |asked| asked.parse().unwrap())
}

/// The time that may pass between two looks. Unoptimised code takes ten times as long: it is given half as long again.
const GAP_MS_MAX: u64 = if cfg!(debug_assertions) { 75 } else { 50 };

/// Work that took too long between two looks is tried so often in all: a look that is missing is missing each time, and a page fault
/// that the machine was slow to answer is not.
const TRIES: u32 = 4;

/// Processor time of this thread.
fn cpu_ns() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

thread_local! {
    /// When the last look was, and the longest time between two.
    static LAST_LOOK: Cell<u64> = const { Cell::new(0) };
    static LONGEST: Cell<u64> = const { Cell::new(0) };
}

fn look() {
    let now = cpu_ns();
    LONGEST.set(LONGEST.get().max(now - LAST_LOOK.replace(now)));
}

/// Runs work until it is ended; how long it went without a look at the most, in milliseconds, and how it ended.
fn gap_of(work: &Work, fixture: &Fixture, deadline: Option<Instant>) -> (u64, Option<i32>) {
    let begun = Arc::new(AtomicU64::new(cpu_ns()));
    let noted = Arc::clone(&begun);
    let given_ns = given_ms() * 1_000_000;
    let hook = Box::new(move || {
        look();
        let used = cpu_ns() - noted.load(Relaxed);
        // Nothing but a killed operation ends by this hook: a deadline is to end it by itself.
        deadline.is_none() && used > given_ns
    });
    let operation = Arc::new(Operation::new(deadline).with_disconnect(hook));
    let running = run_as(Arc::clone(&operation));
    let start = cpu_ns();
    begun.store(start, Relaxed);
    LAST_LOOK.set(start);
    LONGEST.set(0);
    let outcome = work(fixture, &operation);
    look();
    drop(running);
    let code = outcome.err().map(|error| error.code());
    (LONGEST.get() / 1_000_000, code)
}

#[test]
fn whatever_an_operation_does_it_ends_soon() {
    let fixture = Fixture::new();
    let only = std::env::var("ONLY").ok();
    let mut late = Vec::new();
    for (name, work) in table() {
        if only.as_deref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        for (how, deadline, code) in [
            ("killed", None, 11_601),
            ("out of time", Some(Duration::from_millis(given_ms())), 50),
        ] {
            let try_once = || {
                gap_of(
                    &work,
                    &fixture,
                    deadline.map(|given| Instant::now() + given),
                )
            };
            let (mut gap_ms, mut ended) = try_once();
            for _ in 1..TRIES {
                if gap_ms > GAP_MS_MAX && ended == Some(code) {
                    (gap_ms, ended) = try_once();
                }
            }
            if std::env::var_os("SHOW").is_some() {
                eprintln!("{gap_ms:>6} ms  {name}, {how}: {ended:?}");
            }
            if gap_ms > GAP_MS_MAX || ended != Some(code) {
                late.push(format!(
                    "{name}, {how}: {gap_ms} ms without a look, ended with {ended:?}"
                ));
            }
        }
    }
    assert!(late.is_empty(), "{}", late.join("\n"));
}
