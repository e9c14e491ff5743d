//! Takes the server's traces: a collector on loopback that keeps each operation's wall and phases.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use quarry_timing::{PHASE_COUNT, Phase};
use tiny_http::{Request, Response};

/// The server's batches are far smaller.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// When nothing more has come for so long, everything has.
const SILENCE: Duration = Duration::from_millis(1200);
const POLL: Duration = Duration::from_millis(20);

/// One operation, split over its phases.
#[derive(Clone, Debug)]
pub struct Operation {
    pub wall_ns: u64,
    pub phases: [u64; PHASE_COUNT],
}

pub struct Receiver {
    port: u16,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    operations: HashMap<String, Vec<Operation>>,
    last: Option<Instant>,
}

impl Receiver {
    pub fn start() -> io::Result<Receiver> {
        let http = tiny_http::Server::http("127.0.0.1:0").map_err(io::Error::other)?;
        let port = http
            .server_addr()
            .to_ip()
            .ok_or_else(|| io::Error::other("no port"))?
            .port();
        let taken = Arc::new(Mutex::new(Taken::default()));
        let receiver = Receiver {
            port,
            taken: Arc::clone(&taken),
        };
        thread::Builder::new()
            .name("receiver".into())
            .spawn(move || {
                for request in http.incoming_requests() {
                    if let Err(error) = take(request, &taken) {
                        eprintln!("a batch of traces was not read: {error}");
                    }
                }
            })?;
        Ok(receiver)
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn forget(&self) {
        *self.lock() = Taken::default();
    }

    /// The operations of that name, once no more come, at the latest after `timeout`.
    pub fn named(&self, name: &str, timeout: Duration) -> Vec<Operation> {
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline {
            let is_silent = self
                .lock()
                .last
                .is_some_and(|last| last.elapsed() > SILENCE);
            if is_silent {
                break;
            }
            thread::sleep(POLL);
        }
        self.lock().operations.remove(name).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(mut request: Request, taken: &Mutex<Taken>) -> io::Result<()> {
    let mut body = Vec::new();
    request
        .as_reader()
        .take(REQUEST_BYTES_MAX)
        .read_to_end(&mut body)?;
    let batch = ExportTraceServiceRequest::decode(body.as_slice()).map_err(io::Error::other)?;
    let spans = batch.resource_spans.into_iter().flat_map(|resource| {
        let scopes = resource.scope_spans.into_iter();
        scopes.flat_map(|scope| scope.spans)
    });
    let operations = operations(spans.collect());
    let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, operation) in operations {
        taken.operations.entry(name).or_default().push(operation);
    }
    taken.last = Some(Instant::now());
    drop(taken);
    request.respond(Response::empty(200))
}

/// A phase's span follows its operation's in the same batch.
fn operations(spans: Vec<Span>) -> Vec<(String, Operation)> {
    let mut operations: Vec<(String, Operation)> = Vec::new();
    let mut parent = Vec::new();
    for span in spans {
        let ns = span.end_time_unix_nano - span.start_time_unix_nano;
        let phase = Phase::ALL
            .into_iter()
            .find(|phase| phase.name() == span.name);
        match (phase, operations.last_mut()) {
            (Some(phase), Some((_, operation))) if span.parent_span_id == parent => {
                operation.phases[phase as usize] += ns;
            }
            _ => {
                parent = span.span_id;
                let operation = Operation {
                    wall_ns: ns,
                    phases: [0; PHASE_COUNT],
                };
                operations.push((span.name, operation));
            }
        }
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(name: &str, id: u8, parent: u8, ns: u64) -> Span {
        Span {
            name: name.into(),
            span_id: vec![id],
            parent_span_id: vec![parent],
            start_time_unix_nano: 1000,
            end_time_unix_nano: 1000 + ns,
            ..Span::default()
        }
    }

    #[test]
    fn phases_join_the_operation_before_them() {
        let spans = vec![
            span("find a.b", 1, 9, 100),
            span("read", 2, 1, 30),
            span("send", 3, 1, 60),
            span("insert a.b", 4, 9, 50),
            span("read", 5, 4, 50),
        ];
        let found = operations(spans);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].0, "find a.b");
        let phases = &found[0].1.phases;
        assert_eq!(phases[Phase::Read as usize], 30);
        assert_eq!(phases.iter().sum::<u64>(), 90);
        assert_eq!(found[1].1.wall_ns, 50);
    }
}
