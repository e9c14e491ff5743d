//! The thread that deletes documents that have expired, by the indexes with `expireAfterSeconds`.
//!
//! A pass asks the database for those indexes, which stand in a range of their own, and goes round them: a piece of deletes
//! for each that has something due, until none has. So an index with a million documents to go holds up none of the others
//! for longer than a piece, and a server without such an index reads one empty range a pass. Each piece is an ordinary
//! delete, which waits where a client's would, gives way where writes are refused, and is told to change streams.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quarry_bson::DateTime;
use quarry_database::{ExpiringIndex, Operation};
use quarry_query::exec;

use crate::dispatch::error::Result;
use crate::observe::counters::Counter;
use crate::observe::log;
use crate::server::Server;
use crate::threads;

/// How often it looks whether a pass is due, so that a shorter `ttlMonitorSleepSecs` counts soon.
const TICK_MAX: Duration = Duration::from_secs(1);

/// The lane of the counters: the thread has no connection, whose number it would be.
const LANE: i64 = 0;

pub fn start(server: &'static Server) -> std::io::Result<()> {
    let is_over = || server.shutdown.is_requested();
    let last_pass = Mutex::new(Instant::now());
    let round = move || wait_and_pass(server, &last_pass);
    threads::start("ttl", is_over, round).map(drop)
}

/// False when the server stops.
fn wait_and_pass(server: &'static Server, last_pass: &Mutex<Instant>) -> bool {
    let sleep_s = server.parameters.ttl_sleep_s.load(Relaxed).unsigned_abs();
    let rest = Duration::from_secs(sleep_s).saturating_sub(last_pass.lock().elapsed());
    if server.shutdown.wait_for(rest.min(TICK_MAX)) {
        return false;
    }
    if rest > TICK_MAX || !server.parameters.is_ttl_enabled.load(Relaxed) {
        return true;
    }
    if let Err(error) = pass(server) {
        log::warning(
            "ttl",
            "documents that have expired are not deleted; the next pass tries again",
            &[("error", error.message.as_str().into())],
        );
    }
    *last_pass.lock() = Instant::now();
    true
}

/// An index in a pass, and the entry behind which its next piece begins.
struct Due {
    index: ExpiringIndex,
    behind: Option<Vec<u8>>,
}

/// Deletes what has expired when it begins. An index that fails is left for the next pass; the first failure is returned.
fn pass(server: &'static Server) -> Result<()> {
    let now = DateTime::now();
    let (mut listed_behind, mut failure) = (None, None);
    loop {
        let listed = server.database.expiring_indexes(listed_behind)?;
        let Some(last) = listed.last() else {
            break;
        };
        listed_behind = Some(last.ident);
        let due = |index| Due {
            index,
            behind: None,
        };
        let mut round: Vec<Due> = listed.into_iter().map(due).collect();
        while !round.is_empty() && !server.shutdown.is_requested() {
            round.retain_mut(|due| match expire_piece(server, due, now) {
                Ok(has_more) => has_more,
                Err(error) => {
                    failure.get_or_insert(error);
                    false
                }
            });
        }
    }
    server.counters.add(LANE, Counter::TtlPasses, 1);
    failure.map_or(Ok(()), Err)
}

/// Deletes a piece of what has expired by an index; false if nothing is left.
fn expire_piece(server: &'static Server, due: &mut Due, now: DateTime) -> Result<bool> {
    let stops = || server.shutdown.is_requested();
    let operation = Arc::new(Operation::default().with_disconnect(Box::new(stops)));
    let _interrupts = quarry_query::interrupts::run_as(Arc::clone(&operation));
    let scope = (&server.database).into();
    let behind = due.behind.as_deref();
    let expired = exec::expire(scope, &operation, &due.index, behind, now)?;
    for counter in [Counter::DocumentsExpired, Counter::DocumentsDeleted] {
        server.counters.add(LANE, counter, expired.deleted);
    }
    due.behind = expired.behind;
    Ok(due.behind.is_some())
}
