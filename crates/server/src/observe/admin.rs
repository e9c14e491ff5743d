//! The admin port: figures for monitoring and for people, over HTTP and apart from the clients' port.
//!
//! `/` is the console, a page for people. `/metrics` gives the Prometheus text format (version 0.0.4), or OpenMetrics with exemplars to a scraper that
//! accepts it; `/health` says whether the server is up. It listens on the first address only and takes no commands. On a server with access
//! control everything but `/health` asks who is there (`admin_access`). On one with TLS it speaks TLS with the same certificate, and
//! HTTP as well where connections without encryption are allowed.
//!
//! One thread serves all connections; what takes long to write is written on another, so that a client that is slow to
//! ask or to take its answer holds up nobody. Connections, their time and their headers are bounded, and nobody waits to
//! be let in: where as many are open as may be, the one that has been open for longest makes room. `/health` needs nothing
//! but the one thread, so that it is answered whatever the others do.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{self, IpAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time;
use tokio_rustls::TlsAcceptor;

use crate::net::foreign::Foreign;
use crate::observe::admin_access::{AdminAccess, Origin, Verdict};
use crate::observe::console;
use crate::observe::log;
use crate::observe::metrics::{self, Format};
use crate::process::config::AdminPort;
use crate::server::Server;
use crate::threads;

/// Connections served at once, where there are descriptors enough; one more ends the oldest of them.
pub const CONNECTIONS_MAX: usize = 128;
/// Answers written at once.
const WRITERS_MAX: usize = 4;
/// A request's head is read for so long, which is also how long a connection may be idle. A monitor sends its head at
/// once, and loses nothing by connecting anew.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection takes no more requests after so long.
const CONNECTION_LIFE: Duration = Duration::from_secs(60);
/// The time in which a client that may no longer ask has to take its last answer.
const LAST_ANSWER: Duration = Duration::from_secs(30);
/// A head is refused when more than this has been read and its end has not come.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// How long to wait when no connection can be accepted, for want of descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// One answer.
struct Page {
    status: StatusCode,
    content_type: &'static str,
    body: Bytes,
}

impl Page {
    fn ok(content_type: &'static str, body: impl Into<Bytes>) -> Page {
        Page {
            status: StatusCode::OK,
            content_type,
            body: body.into(),
        }
    }

    fn refused(status: StatusCode, reason: impl Into<Bytes>) -> Page {
        Page {
            status,
            content_type: PLAIN_TEXT,
            body: reason.into(),
        }
    }
}

/// Starts the admin server, which serves `connections_max` at once; the port it listens on, if it is not off.
pub fn start(server: &'static Server, connections_max: usize) -> Result<Option<u16>, String> {
    let AdminPort::On(port) = server.config.admin_port else {
        return Ok(None);
    };
    let address = server
        .config
        .addresses
        .first()
        .map_or("127.0.0.1", String::as_str);
    let (runtime, listener, port) = listen(address, port)
        .map_err(|error| format!("cannot listen on {address}:{port} (adminPort): {error}"))?;
    let admin = Admin {
        server,
        writers: Arc::new(Semaphore::new(WRITERS_MAX)),
        access: Arc::new(AdminAccess::new()),
    };
    let mut open = Open::new(connections_max);
    // The connections that are open are served while the next one is waited for.
    let round = move || {
        runtime.block_on(accept(&admin, &listener, &mut open));
        true
    };
    threads::start("admin", || server.shutdown.is_requested(), round)
        .map_err(|error| format!("cannot start the admin thread: {error}"))?;
    Ok(Some(port))
}

fn listen(address: &str, port: u16) -> std::io::Result<(Runtime, TcpListener, u16)> {
    let listener = net::TcpListener::bind((address, port))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(WRITERS_MAX)
        .thread_name("admin-writer")
        .build()?;
    let listener = {
        let _entered = runtime.enter();
        TcpListener::from_std(listener)?
    };
    Ok((runtime, listener, port))
}

/// The state that all admin connections share.
#[derive(Clone)]
struct Admin {
    server: &'static Server,
    /// A permit a writer. An answer is written to its end even if nobody waits for it any more.
    writers: Arc<Semaphore>,
    access: Arc<AdminAccess>,
}

/// Accepts one connection.
async fn accept(admin: &Admin, listener: &TcpListener, open: &mut Open) {
    match listener.accept().await {
        Ok((stream, peer)) => {
            open.make_room().await;
            open.add(tokio::spawn(greet(admin.clone(), stream, peer.ip())));
        }
        Err(error) => {
            let reason = [("error", error.to_string().into())];
            log::warning("network", "the admin port cannot accept", &reason);
            time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// The connections that are served, the oldest first.
struct Open {
    connections: VecDeque<JoinHandle<()>>,
    max: usize,
}

impl Open {
    fn new(max: usize) -> Open {
        Open {
            connections: VecDeque::new(),
            max: max.max(1),
        }
    }

    /// Ends the oldest connections where there are as many as may be. Their sockets are closed on return: a burst of
    /// newcomers would otherwise hold more descriptors than are allowed.
    async fn make_room(&mut self) {
        if self.connections.len() < self.max {
            return;
        }
        self.connections
            .retain(|connection| !connection.is_finished());
        while self.connections.len() >= self.max {
            if let Some(oldest) = self.connections.pop_front() {
                oldest.abort();
                let _ = oldest.await;
            }
        }
    }

    fn add(&mut self, connection: JoinHandle<()>) {
        self.connections.push_back(connection);
    }
}

/// Encrypts one connection if it is to be, and serves it. A handshake has as long as a head.
async fn greet(admin: Admin, stream: TcpStream, address: IpAddr) {
    let _ = stream.set_nodelay(true);
    let Some(certificates) = &admin.server.certificates else {
        return serve(admin, stream, address, false).await;
    };
    let mut first = [0; 1];
    let looked = time::timeout(HEAD_TIMEOUT, stream.peek(&mut first)).await;
    if !matches!(looked, Ok(Ok(1))) {
        return;
    }
    if first[0] != Foreign::TLS_HANDSHAKE {
        if !certificates.is_required() {
            serve(admin, stream, address, false).await;
        }
        return;
    }
    let acceptor = TlsAcceptor::from(certificates.for_admin());
    let shaken = time::timeout(HEAD_TIMEOUT, acceptor.accept(stream)).await;
    if let Ok(Ok(encrypted)) = shaken {
        serve(admin, encrypted, address, true).await;
    }
}

/// Serves one connection. A failure ends it and is not worth a line.
async fn serve<S>(admin: Admin, stream: S, address: IpAddr, is_encrypted: bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let origin = Origin {
        address,
        is_encrypted,
    };
    let service = service_fn(|request| respond(&admin, request, origin));
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    if time::timeout(CONNECTION_LIFE, connection.as_mut())
        .await
        .is_err()
    {
        connection.as_mut().graceful_shutdown();
        let _ = time::timeout(LAST_ANSWER, connection).await;
    }
}

async fn respond(
    admin: &Admin,
    request: Request<Incoming>,
    origin: Origin,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let page = page(admin, &request, origin).await;
    let mut response = Response::new(Full::new(page.body));
    *response.status_mut() = page.status;
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static(page.content_type);
    headers.insert(header::CONTENT_TYPE, content_type);
    let policy = HeaderValue::from_static(console::PAGE_POLICY);
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    if page.status == StatusCode::UNAUTHORIZED {
        let ask = HeaderValue::from_static("Basic realm=\"quarry\", charset=\"UTF-8\"");
        headers.insert(header::WWW_AUTHENTICATE, ask);
    }
    if page.status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    Ok(response)
}

async fn page(admin: &Admin, request: &Request<Incoming>, origin: Origin) -> Page {
    let server = admin.server;
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let reason = "only GET and HEAD are served\n";
        return Page::refused(StatusCode::METHOD_NOT_ALLOWED, reason);
    }
    let path = request.uri().path();
    if path != "/health"
        && let Some(refused) = admin.refusal(request, origin).await
    {
        return refused;
    }
    match path {
        "/metrics" => {
            let accept = request.headers().get(header::ACCEPT);
            let format = Format::accepted(accept.and_then(|accept| accept.to_str().ok()));
            admin.write(move || metrics(server, format)).await
        }
        "/health" => Page::ok(PLAIN_TEXT, "ok\n"),
        "/" => Page::ok("text/html; charset=utf-8", console::PAGE),
        "/timing.json" => {
            let json = move || Page::ok("application/json", console::json(server));
            admin.write(json).await
        }
        _ => Page::refused(
            StatusCode::NOT_FOUND,
            "not found: /, /timing.json, /metrics and /health are served\n",
        ),
    }
}

impl Admin {
    /// The answer to a request whose client may not see the admin port; none where it may.
    async fn refusal(&self, request: &Request<Incoming>, origin: Origin) -> Option<Page> {
        let header = request.headers().get(header::AUTHORIZATION);
        let header = header.and_then(|header| header.to_str().ok());
        let verdict = match self.access.look(self.server, header, origin) {
            Some(verdict) => verdict,
            None => self.check(header.unwrap_or_default(), origin).await,
        };
        let (status, reason) = match verdict {
            Verdict::Granted => return None,
            Verdict::Unknown => (
                StatusCode::UNAUTHORIZED,
                "a user of `admin` with the role clusterMonitor, or the token, is needed\n",
            ),
            Verdict::Forbidden => (
                StatusCode::FORBIDDEN,
                "the user may not see this: the role clusterMonitor is needed\n",
            ),
            Verdict::NotEncrypted => (
                StatusCode::FORBIDDEN,
                "passwords are taken over TLS, or from this machine\n",
            ),
        };
        Some(Page::refused(status, reason))
    }

    /// Checks a token or a password on another thread, after the wait that earlier failures ask for. Only this connection
    /// waits, and gives up where its client goes.
    async fn check(&self, header: &str, origin: Origin) -> Verdict {
        let attempts = &self.server.access.attempts;
        let name = AdminAccess::name_in(header);
        let permit = loop {
            let Some(admission) = attempts.admit(origin.address, name.as_ref()) else {
                attempts.fail(origin.address, name.as_ref());
                return Verdict::Unknown;
            };
            time::sleep(admission.delay).await;
            let Ok(permit) = Arc::clone(&self.writers).acquire_owned().await else {
                return Verdict::Unknown;
            };
            // Those that came at once were all admitted before the first of them had failed.
            if attempts.delay(origin.address, name.as_ref()) <= admission.delay {
                break permit;
            }
        };
        let (access, server) = (Arc::clone(&self.access), self.server);
        let header = header.to_owned();
        let checked = tokio::task::spawn_blocking(move || {
            let verdict = access.check(server, &header, origin);
            drop(permit);
            verdict
        });
        checked.await.unwrap_or(Verdict::Unknown)
    }

    /// Writes an answer on another thread.
    async fn write(&self, write: impl FnOnce() -> Page + Send + 'static) -> Page {
        let permit = Arc::clone(&self.writers).acquire_owned().await;
        let written = tokio::task::spawn_blocking(move || {
            let page = write();
            drop(permit);
            page
        });
        written.await.unwrap_or_else(|error| {
            let reason = format!("the answer was not written: {error}\n");
            Page::refused(StatusCode::INTERNAL_SERVER_ERROR, reason)
        })
    }
}

fn metrics(server: &'static Server, format: Format) -> Page {
    match metrics::text(server, format) {
        Ok(text) => Page::ok(format.content_type(), text),
        Err(error) => {
            let reason = format!("the figures cannot be written: {error}\n");
            Page::refused(StatusCode::INTERNAL_SERVER_ERROR, reason)
        }
    }
}
