//! The admin port: figures for monitoring and for people, over HTTP and apart from the clients' port.
//!
//! `/` is the console, a page for people. `/metrics` gives the Prometheus text format (version 0.0.4), or OpenMetrics with exemplars to a scraper that
//! accepts it; `/health` says whether the server is up. It listens on the first address only and takes no commands.

use std::sync::Arc;
use std::thread;

use tiny_http::{Header, Request, Response, StatusCode};

use crate::config::AdminPort;
use crate::console;
use crate::metrics::{self, Format};
use crate::server::Server;

/// Requests answered beside each other.
const ANSWERS_AT_ONCE: usize = 64;

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// One answer.
struct Page {
    status: u16,
    content_type: &'static str,
    body: String,
}

impl Page {
    fn ok(content_type: &'static str, body: impl Into<String>) -> Page {
        Page {
            status: 200,
            content_type,
            body: body.into(),
        }
    }
}

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
            let slots = Arc::new(());
            for request in http.incoming_requests() {
                answer_apart(server, request, &slots);
            }
        })
        .map_err(|error| format!("cannot start the admin thread: {error}"))?;
    Ok(port)
}

/// Answers on a thread of its own, because a client may be slow to send the rest of its request or to take the answer.
/// With too many of those under way the answer is given here.
fn answer_apart(server: &'static Server, request: Request, slots: &Arc<()>) {
    if Arc::strong_count(slots) > ANSWERS_AT_ONCE {
        answer(server, request);
        return;
    }
    let slot = Arc::clone(slots);
    let answer = move || {
        answer(server, request);
        drop(slot);
    };
    // Without a thread the request is dropped, which ends its connection.
    let _ = thread::Builder::new()
        .name("admin-answer".into())
        .spawn(answer);
}

fn answer(server: &'static Server, request: Request) {
    let path = request.url().split('?').next().unwrap_or_default();
    let page = match path {
        "/metrics" => metrics(server, &request),
        "/health" => Page::ok(PLAIN_TEXT, "ok\n"),
        "/" => Page::ok("text/html; charset=utf-8", console::PAGE),
        "/timing.json" => Page::ok("application/json", console::json(server)),
        _ => Page {
            status: 404,
            content_type: PLAIN_TEXT,
            body: "not found: /, /timing.json, /metrics and /health are served\n".to_owned(),
        },
    };
    let mut response = Response::from_string(page.body)
        .with_status_code(StatusCode(page.status))
        .with_chunked_threshold(usize::MAX);
    for (name, value) in [
        ("Content-Type", page.content_type),
        ("Content-Security-Policy", console::PAGE_POLICY),
    ] {
        if let Ok(header) = Header::from_bytes(name, value) {
            response = response.with_header(header);
        }
    }
    // A client that went away before its answer is not worth a line.
    let _ = request.respond(response);
}

fn metrics(server: &'static Server, request: &Request) -> Page {
    let accept = request
        .headers()
        .iter()
        .find(|header| header.field.equiv("Accept"));
    let format = Format::accepted(accept.map(|header| header.value.as_str()));
    match metrics::text(server, format) {
        Ok(text) => Page::ok(format.content_type(), text),
        Err(error) => Page {
            status: 500,
            content_type: PLAIN_TEXT,
            body: format!("the figures cannot be written: {error}\n"),
        },
    }
}
