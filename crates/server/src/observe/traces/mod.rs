//! Traces over OTLP: a span an operation with a child span a phase, for those who gave `--otlpEndpoint`.
//!
//! An operation that is traced is noted when its reply is out: its figures are copied into a bounded queue, and a
//! thread of its own makes spans of them and sends them. What does not fit the queue, or cannot be sent, is counted and
//! gone: no operation waits for a collector. Without an endpoint there is no queue, no thread and no cost.

mod endpoint;
mod exporter;
mod span;
mod trace_context;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use quarry_bson::DocumentBuilder;

pub use endpoint::Endpoint;
pub use trace_context::TraceContext;

use crate::observe::ended::Ended;
use crate::observe::timing_document::signed;
use crate::server::Server;
use crate::threads;
use exporter::{Exporter, Queue};
use span::Finished;

/// How long sending what is in the queue may take when the server stops.
const FINISH_TIME: Duration = Duration::from_millis(500);
/// Golden ratio of 2^32: neighbouring operation numbers fall far apart.
const SPREAD: u32 = 0x9e37_79b9;

static TRACER: OnceLock<Tracer> = OnceLock::new();

/// The tracer: which operations are traced, and how far their spans came.
pub struct Tracer {
    endpoint: Endpoint,
    queue: Queue,
    counts: Counts,
}

/// Operations.
#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    /// They did not fit the queue.
    dropped: AtomicU64,
    /// The collector did not take them.
    failed: AtomicU64,
}

/// Starts the thread that sends, if there is an endpoint.
pub fn start(server: &'static Server) -> std::io::Result<()> {
    let Some(endpoint) = server.config.otlp_endpoint.clone() else {
        return Ok(());
    };
    let tracer = TRACER.get_or_init(|| Tracer {
        endpoint,
        queue: Queue::default(),
        counts: Counts::default(),
    });
    let mut exporter = Exporter::new(server, tracer);
    // Ends when the queue is closed, which it is after the last operation.
    threads::start("traces", || false, move || exporter.send_next()).map(drop)
}

/// Sends what is left, within a bound, when no operation runs any more.
pub fn finish() {
    if let Some(tracer) = tracer() {
        tracer.queue.finish(FINISH_TIME);
    }
}

/// The tracer, if operations are traced.
#[inline]
pub fn tracer() -> Option<&'static Tracer> {
    TRACER.get()
}

impl Tracer {
    /// Notes the operation if it is to be traced: when it was slow; when its client traces it and says so; and else
    /// by the share that `traceSampleRate` names.
    pub fn note(&self, server: &Server, ended: &Ended<'_>, is_slow: bool) {
        if !ended.breakdown.is_timed() {
            return;
        }
        let context = TraceContext::of(ended.call.body);
        let is_meant = is_slow
            || context.as_ref().map_or_else(
                || is_in_share(ended.outcome.opid, server.parameters.trace_sample_rate()),
                |context| context.is_sampled,
            );
        if !is_meant {
            return;
        }
        let finished = Finished::new(ended, context, SystemTime::now());
        if !self.queue.push(finished) {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Operations sent, dropped and failed since the start.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        [
            ("sent", self.counts.sent.load(Relaxed)),
            ("dropped", self.counts.dropped.load(Relaxed)),
            ("failed", self.counts.failed.load(Relaxed)),
        ]
    }

    /// For serverStatus.
    pub fn append_status(&self, out: &mut DocumentBuilder<'_>) {
        out.append("endpoint", self.endpoint.as_str());
        for (name, count) in self.counts() {
            out.append(name, signed(count));
        }
    }
}

/// Chooses evenly by number, without random bytes.
fn is_in_share(opid: u32, share: f64) -> bool {
    f64::from(opid.wrapping_mul(SPREAD)) < share * (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_operations_is_chosen() {
        for share in [0.0, 0.01, 0.5, 1.0] {
            let chosen = (1..=100_000)
                .filter(|opid| is_in_share(*opid, share))
                .count();
            assert!(
                (chosen as f64 - share * 1e5).abs() < 50.0,
                "{share} {chosen}"
            );
        }
    }
}
