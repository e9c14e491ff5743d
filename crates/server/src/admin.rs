//! The admin port: figures for monitoring, over HTTP and apart from the clients' port.
//!
//! `/metrics` gives the Prometheus text format (version 0.0.4); `/health` says whether the server is up. It listens
//! on the first address only and takes no commands.

use std::fmt::Write as _;
use std::thread;

use quarry_timing::{Distribution, Window};
use tiny_http::{Header, Response, StatusCode};

use crate::config::AdminPort;
use crate::counters::Counter;
use crate::server::Server;

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Starts the admin server; the port it listens on, if it is not off.
pub fn start(server: &'static Server) -> Result<Option<u16>, String> {
    let AdminPort::On(port) = server.config.admin_port else {
        return Ok(None);
    };
    let address = server
        .config
        .addresses
        .first()
        .map_or("127.0.0.1", String::as_str);
    let http = tiny_http::Server::http((address, port))
        .map_err(|error| format!("cannot listen on {address}:{port} (adminPort): {error}"))?;
    let port = http.server_addr().to_ip().map(|address| address.port());
    thread::Builder::new()
        .name("admin".into())
        .spawn(move || {
            for request in http.incoming_requests() {
                answer(server, request);
            }
        })
        .map_err(|error| format!("cannot start the admin thread: {error}"))?;
    Ok(port)
}

fn answer(server: &Server, request: tiny_http::Request) {
    let path = request.url().split('?').next().unwrap_or_default();
    let (status, body) = match path {
        "/metrics" => (200, metrics(server)),
        "/health" => (200, "ok\n".to_owned()),
        _ => (
            404,
            "not found: /metrics and /health are served\n".to_owned(),
        ),
    };
    let mut response = Response::from_string(body).with_status_code(StatusCode(status));
    if let Ok(header) = Header::from_bytes("Content-Type", TEXT_FORMAT) {
        response = response.with_header(header);
    }
    // A client that went away before its answer is not worth a line.
    let _ = request.respond(response);
}

fn metrics(server: &Server) -> String {
    let mut text = String::with_capacity(8 << 10);
    phases(&mut text);
    let mut metric = |name: &str, kind: &str, help: &str, value: u64| {
        let _ = write!(
            text,
            "# HELP quarry_{name} {help}\n# TYPE quarry_{name} {kind}\nquarry_{name} {value}\n"
        );
    };
    metric(
        "uptime_seconds",
        "gauge",
        "Seconds since the start",
        server.started.elapsed().as_secs(),
    );
    metric(
        "connections_open",
        "gauge",
        "Client connections open",
        server.connections.len() as u64,
    );
    metric(
        "sessions_open",
        "gauge",
        "Logical sessions",
        server.sessions.len() as u64,
    );
    metric(
        "cursors_open",
        "gauge",
        "Open cursors",
        server.cursors.count().0.unsigned_abs(),
    );
    for (name, help, counter) in [
        (
            "network_received_bytes_total",
            "Bytes received from clients",
            Counter::BytesIn,
        ),
        (
            "network_sent_bytes_total",
            "Bytes sent to clients",
            Counter::BytesOut,
        ),
        (
            "documents_returned_total",
            "Documents returned",
            Counter::DocumentsReturned,
        ),
        (
            "documents_inserted_total",
            "Documents inserted",
            Counter::DocumentsInserted,
        ),
        (
            "documents_updated_total",
            "Documents updated",
            Counter::DocumentsUpdated,
        ),
        (
            "documents_deleted_total",
            "Documents deleted",
            Counter::DocumentsDeleted,
        ),
    ] {
        metric(name, "counter", help, server.counters.get(counter));
    }
    let engine = server.engine.counters();
    for (name, help, value) in [
        (
            "engine_gets_total",
            "Point reads in the engine",
            engine.gets,
        ),
        (
            "engine_seeks_total",
            "Cursor seeks in the engine",
            engine.seeks,
        ),
        (
            "engine_nexts_total",
            "Cursor steps in the engine",
            engine.nexts,
        ),
        (
            "engine_writes_total",
            "Batches applied to the engine",
            engine.writes,
        ),
        (
            "engine_flushes_total",
            "Durable points of the engine",
            engine.flushes,
        ),
    ] {
        metric(name, "counter", help, value);
    }
    text
}

/// Two summaries: an operation's whole time, and its time by phase.
fn phases(text: &mut String) {
    let report = quarry_timing::kinds(Window::SinceStart);
    text.push_str(
        "# HELP quarry_operation_seconds Time of an operation, first byte in to last byte out\n",
    );
    text.push_str("# TYPE quarry_operation_seconds summary\n");
    for kind in &report {
        summary(
            text,
            "quarry_operation_seconds",
            &format!("operation=\"{}\"", kind.kind.name()),
            &kind.times.wall,
        );
    }
    text.push_str("# HELP quarry_phase_seconds Time of an operation within one phase\n");
    text.push_str("# TYPE quarry_phase_seconds summary\n");
    for kind in &report {
        let operation = kind.kind.name();
        for phase in &kind.times.phases {
            let labels = format!("operation=\"{operation}\",phase=\"{}\"", phase.phase.name());
            summary(text, "quarry_phase_seconds", &labels, &phase.time);
        }
        let labels = format!("operation=\"{operation}\",phase=\"unattributed\"");
        summary(
            text,
            "quarry_phase_seconds",
            &labels,
            &kind.times.unattributed,
        );
    }
}

fn summary(text: &mut String, name: &str, labels: &str, figures: &Distribution) {
    let seconds = |us: f64| us / 1e6;
    let _ = write!(
        text,
        "{name}{{{labels},quantile=\"0.5\"}} {}\n{name}{{{labels},quantile=\"0.99\"}} {}\n\
         {name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {}\n",
        seconds(figures.quantile_us(0.5)),
        seconds(figures.quantile_us(0.99)),
        seconds(figures.sum_ns() as f64 / 1e3),
        figures.count(),
    );
}
