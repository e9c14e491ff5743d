//! The end of an operation: what is counted, logged and profiled of it once its reply is out.
//!
//! On the way of every operation: it allocates nothing and takes no lock that cores share, unless the operation is
//! slow, profiled, or the first of its collection or query shape.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use quarry_bson::DocumentBuilder;
use quarry_storage::{ThreadWork, take_thread_work};
use quarry_timing::{Exemplar, Finished, LabelTexts, Labels, Work};

use crate::dispatch::call::{Call, Outcome, without_secrets};
use crate::net::connections::Connection;
use crate::observe::ended::Ended;
use crate::observe::query_shape;
use crate::observe::timing_document;
use crate::observe::traces::{self, TraceContext};
use crate::server::Server;

/// One in so many operations is an exemplar of its bucket, beside the slow ones.
const OPERATIONS_AN_EXEMPLAR: u32 = 1024;
/// Ends the operation that this thread runs. `reply` is the whole message that was sent.
pub fn settle(
    server: &'static Server,
    connection: &Connection,
    call: &Call<'_>,
    outcome: &Outcome<'_>,
    reply: &[u8],
) {
    let finished = quarry_timing::finish_operation();
    let slow_ms = server.parameters.slow_ms.load(Relaxed);
    let is_slow = i64::try_from(finished.wall_ns() / 1_000_000).unwrap_or(i64::MAX) >= slow_ms;
    if is_slow || server.profiler.is_on() || traces::tracer().is_some() {
        settle_noted(server, connection, call, outcome, reply, finished, is_slow);
        return;
    }
    if outcome.opid.is_multiple_of(OPERATIONS_AN_EXEMPLAR) {
        note_exemplar(call, outcome, &finished);
    }
    record(call, outcome, finished, work_at_end(outcome));
}

/// Ends an operation that is written about.
#[cold]
fn settle_noted(
    server: &'static Server,
    connection: &Connection,
    call: &Call<'_>,
    outcome: &Outcome<'_>,
    reply: &[u8],
    finished: Finished,
    is_slow: bool,
) {
    finished.count_all(work_at_end(outcome));
    let breakdown = finished.breakdown();
    if is_slow || outcome.opid.is_multiple_of(OPERATIONS_AN_EXEMPLAR) {
        note_exemplar(call, outcome, &finished);
    }
    record(call, outcome, finished, []);
    let shown = outcome.has_secrets.then(|| without_secrets(call.body));
    let shown = shown.as_ref().map(|body| Call {
        body: body.as_raw(),
        sequences: &[],
        ..*call
    });
    let call = shown.as_ref().unwrap_or(call);
    let data = server.data();
    let ended = Ended::new(&data, connection, call, outcome, reply, &breakdown);
    if let Some(tracer) = traces::tracer() {
        tracer.note(server, &ended, is_slow);
    }
    if is_slow || server.profiler.is_on() {
        server
            .profiler
            .note(&server.database, &server.slow_operations, &ended, is_slow);
        // What the profiler wrote is not the next operation's work.
        take_thread_work();
    }
}

/// Writes `quarry: {timing: {...}}` into a reply: the breakdown up to here, before the reply is encoded and sent.
pub fn append_timing(outcome: &Outcome<'_>, reply: &mut DocumentBuilder<'_>) {
    quarry_timing::count_all(engine_work());
    let mut breakdown = quarry_timing::breakdown();
    for (work, amount) in outcome_work(outcome) {
        breakdown.work[work as usize] += amount;
    }
    let mut quarry = reply.document("quarry");
    let mut timing = quarry.document("timing");
    timing_document::append_breakdown(&mut timing, &breakdown);
    timing.finish();
    quarry.finish();
}

/// Counts what was not counted while the operation ran.
#[inline]
fn work_at_end(outcome: &Outcome<'_>) -> [(Work, u64); 10] {
    let [gets, seeks, nexts, read, written, hits, misses] = engine_work();
    let [keys, docs, returned] = outcome_work(outcome);
    [
        gets, seeks, nexts, read, written, hits, misses, keys, docs, returned,
    ]
}

/// Takes what this thread asked of the engine since the last call.
#[inline]
fn engine_work() -> [(Work, u64); 7] {
    let work = if quarry_timing::IS_COMPILED {
        take_thread_work()
    } else {
        ThreadWork::default()
    };
    [
        (Work::EngineGets, work.gets),
        (Work::EngineSeeks, work.seeks),
        (Work::EngineNexts, work.nexts),
        (Work::BytesRead, work.bytes_read),
        (Work::BytesWritten, work.bytes_written),
        (Work::CacheHits, work.cache_hits),
        (Work::CacheMisses, work.cache_misses),
    ]
}

#[inline]
fn outcome_work(outcome: &Outcome<'_>) -> [(Work, u64); 3] {
    [
        (Work::KeysExamined, outcome.keys_examined),
        (Work::DocsExamined, outcome.docs_examined),
        (Work::Returned, outcome.returned),
    ]
}

#[inline]
fn record<const N: usize>(
    call: &Call<'_>,
    outcome: &Outcome<'_>,
    finished: Finished,
    work: [(Work, u64); N],
) {
    if !finished.is_timed() {
        return;
    }
    // What never began, or is on no collection, has no labels.
    let labels = if outcome.collection.is_empty() || outcome.namespace_hash == 0 {
        Labels::NONE
    } else {
        Labels {
            namespace: outcome.namespace_hash,
            shape: query_shape::hash(call, outcome).unwrap_or(0),
        }
    };
    let texts = || Texts { call, outcome };
    quarry_timing::record_operation(outcome.kind, finished, work, labels, texts);
}

#[cold]
fn note_exemplar(call: &Call<'_>, outcome: &Outcome<'_>, finished: &Finished) {
    if !finished.is_timed() || outcome.collection.is_empty() {
        return;
    }
    let exemplar = Exemplar {
        opid: outcome.opid,
        trace: TraceContext::of(call.body).map_or(0, |context| context.trace_id),
        wall_ns: finished.wall_ns(),
        unix_ms: unix_ms(),
    };
    quarry_timing::note_exemplar(outcome.kind, exemplar);
}

struct Texts<'a> {
    call: &'a Call<'a>,
    outcome: &'a Outcome<'a>,
}

impl LabelTexts for Texts<'_> {
    fn namespace(&self) -> String {
        self.outcome.namespace()
    }

    fn shape(&self) -> String {
        query_shape::text(&self.outcome.namespace(), self.call, self.outcome)
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
