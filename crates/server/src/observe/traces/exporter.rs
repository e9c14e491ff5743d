//! The queue of finished operations, and the thread that sends them to the collector in batches.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use parking_lot::{Condvar, Mutex};
use prost::Message;

use super::span::{Finished, number, text};
use super::{Counts, Tracer};
use crate::observe::log;
use crate::server::Server;

/// Operations that wait to be sent; beyond it they are dropped. Each takes about 600 bytes.
const QUEUE_MAX: usize = 4096;
/// Operations in one request.
const BATCH_MAX: usize = 256;
/// An operation waits so long for others to be sent with.
const BATCH_DELAY: Duration = Duration::from_millis(500);
/// A request may take so long.
const SEND_TIME: Duration = Duration::from_secs(5);
/// A batch that the collector cannot take now is sent so often, with a longer pause each time.
const ATTEMPTS_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Finished>,
    is_closed: bool,
    /// Everything is sent, or given up.
    is_done: bool,
}

impl Queue {
    /// False when the queue is full. Wakes the exporter only for a whole batch.
    pub fn push(&self, finished: Finished) -> bool {
        let mut state = self.state.lock();
        if state.waiting.len() >= QUEUE_MAX || state.is_closed {
            return false;
        }
        state.waiting.push_back(finished);
        let is_batch = state.waiting.len() == BATCH_MAX;
        drop(state);
        if is_batch {
            self.changed.notify_all();
        }
        true
    }

    /// Takes no more, and waits until what is in it is sent or `timeout` is over.
    pub fn finish(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        state.is_closed = true;
        self.changed.notify_all();
        while !state.is_done {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return;
            }
        }
    }

    /// The next operations to send; none when the queue is closed and empty.
    fn take(&self) -> Option<Vec<Finished>> {
        let mut state = self.state.lock();
        loop {
            let is_over = (self.changed)
                .wait_while_for(
                    &mut state,
                    |state| state.waiting.len() < BATCH_MAX && !state.is_closed,
                    BATCH_DELAY,
                )
                .timed_out();
            if !state.waiting.is_empty() && (is_over || state.is_closed)
                || state.waiting.len() >= BATCH_MAX
            {
                let count = state.waiting.len().min(BATCH_MAX);
                return Some(state.waiting.drain(..count).collect());
            }
            if state.is_closed {
                state.is_done = true;
                self.changed.notify_all();
                return None;
            }
        }
    }

    /// Waits before the next attempt; false when the server stops meanwhile.
    fn pause(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        (self.changed)
            .wait_while_for(&mut state, |state| !state.is_closed, time)
            .timed_out()
    }
}

/// Why a batch was not taken.
struct Refusal {
    why: String,
    /// It may be taken later.
    is_retryable: bool,
}

pub struct Exporter {
    server: &'static Server,
    tracer: &'static Tracer,
    agent: ureq::Agent,
    resource: Resource,
    /// The last batch was not taken: it has had its line.
    is_failing: bool,
}

/// Operations that are being sent; counted where this is dropped, by a panic too.
struct Counted<'c> {
    counts: &'c Counts,
    operations: u64,
    are_sent: bool,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let counter = match self.are_sent {
            true => &self.counts.sent,
            false => &self.counts.failed,
        };
        counter.fetch_add(self.operations, Relaxed);
    }
}

impl Exporter {
    pub fn new(server: &'static Server, tracer: &'static Tracer) -> Exporter {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(SEND_TIME))
            .http_status_as_error(false)
            .proxy(None)
            .user_agent(concat!("quarry/", env!("CARGO_PKG_VERSION")))
            .build();
        Exporter {
            server,
            tracer,
            agent: ureq::Agent::new_with_config(config),
            resource: resource(server),
            is_failing: false,
        }
    }

    /// Waits for a batch and sends it; false when the queue is closed and empty.
    pub fn send_next(&mut self) -> bool {
        let Some(batch) = self.tracer.queue.take() else {
            return false;
        };
        let mut counted = Counted {
            counts: &self.tracer.counts,
            operations: batch.len() as u64,
            are_sent: false,
        };
        let body = self.request(&batch).encode_to_vec();
        let sent = self.send(&body);
        counted.are_sent = sent.is_ok();
        drop(counted);
        self.log(sent.err());
        true
    }

    fn request(&self, batch: &[Finished]) -> ExportTraceServiceRequest {
        let mut spans: Vec<Span> = Vec::with_capacity(batch.len() * 8);
        for finished in batch {
            finished.append_spans(&mut random, &mut spans);
        }
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(InstrumentationScope {
                        name: "quarry".into(),
                        version: env!("CARGO_PKG_VERSION").into(),
                        ..InstrumentationScope::default()
                    }),
                    spans,
                    ..ScopeSpans::default()
                }],
                ..ResourceSpans::default()
            }],
        }
    }

    fn send(&self, body: &[u8]) -> Result<(), String> {
        let mut attempt = 1;
        loop {
            let Err(refusal) = self.post(body) else {
                return Ok(());
            };
            let is_last = attempt == ATTEMPTS_MAX || !refusal.is_retryable;
            if is_last || !self.tracer.queue.pause(PAUSE * (1 << attempt)) {
                return Err(refusal.why);
            }
            attempt += 1;
        }
    }

    /// The statuses that may be tried again are those of OTLP's specification.
    fn post(&self, body: &[u8]) -> Result<(), Refusal> {
        let answer = (self.agent.post(self.tracer.endpoint.as_str()))
            .header("Content-Type", "application/x-protobuf")
            .send(body)
            .map_err(|error| Refusal {
                why: error.to_string(),
                is_retryable: true,
            })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        Err(Refusal {
            why: format!("status {status}"),
            is_retryable: matches!(status.as_u16(), 429 | 502 | 503 | 504),
        })
    }

    /// One line when it begins to fail, and one when it is over.
    fn log(&mut self, failure: Option<String>) {
        let is_failing = failure.is_some();
        let endpoint = ("endpoint", self.tracer.endpoint.as_str().into());
        match failure {
            Some(why) if !self.is_failing => {
                let why = ("reason", why.into());
                log::warning(
                    "traces",
                    "traces not taken by the collector",
                    &[endpoint, why],
                );
            }
            None if self.is_failing && !self.server.is_quiet() => {
                log::info("traces", "traces taken by the collector again", &[endpoint]);
            }
            _ => {}
        }
        self.is_failing = is_failing;
    }
}

fn resource(server: &Server) -> Resource {
    let host = rustix::system::uname();
    Resource {
        attributes: vec![
            text("service.name", "quarry"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", server.process_id.to_string()),
            text("host.name", host.nodename().to_string_lossy()),
            number("process.pid", u64::from(std::process::id())),
            number("server.port", u64::from(server.port())),
        ],
        ..Resource::default()
    }
}

/// A random number. Without random bytes, spans of one batch may share an id, which costs the picture and nothing else.
fn random() -> u64 {
    getrandom::u64().unwrap_or(1)
}
