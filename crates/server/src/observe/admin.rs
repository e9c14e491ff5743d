//! The admin port: figures for monitoring and for people, over HTTP and apart from the clients' port.
//!
//! `/` is the console, a page for people, which runs some of the server's commands (`console`). `/metrics` gives the Prometheus text format (version 0.0.4), or OpenMetrics with exemplars to a scraper that
//! accepts it; `/health` says whether the server is up, and its data not known to be damaged. It listens on the first address only. On a server with access
//! control everything but `/health` asks who is there (`admin_access`). On one with TLS it speaks TLS with the same certificate, and
//! HTTP as well where connections without encryption are allowed.
//!
//! One thread serves all connections; what takes long to write is written on another, so that a client that is slow to
//! ask or to take its answer holds up nobody. Commands that may take long have threads of their own, so that they hold up no
//! figures. Connections, their time, their headers and bodies are bounded, and nobody waits to
//! be let in: where as many are open as may be, the one that has been open for longest makes room. `/health` needs nothing
//! but the one thread, so that it is answered whatever the others do.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{self, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time;
use tokio_rustls::TlsAcceptor;

use crate::net::foreign::ForeignProtocol;
use crate::net::transport::Transport;
use crate::observe::admin_access::{AdminAccess, Origin, Verdict, Who};
use crate::observe::console::{self, Lane};
use crate::observe::history::answer::{self, Question};
use crate::observe::log;
use crate::observe::metrics::{self, Format};
use crate::process::config::AdminPort;
use crate::server::Server;
use crate::threads;

/// Connections served at once, where there are descriptors enough; one more ends the oldest of them.
pub const CONNECTIONS_MAX: usize = 128;
/// Answers written at once.
const WRITERS_MAX: usize = 4;
/// Commands of the console that run beside each other, of those that may take long.
const COMMANDS_MAX: usize = 4;
/// A request's body is read for so long.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
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
const JSON: &str = "application/json";
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

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

    /// The answer that names what this server serves.
    fn not_found(server: &Server) -> Page {
        let served = match console::is_open(server) {
            true => "/, /timing.json, /history.json, /language.json, /command, /advice",
            false => "the console is off; /timing.json",
        };
        let reason = format!("not found: {served}, /metrics and /health are served\n");
        Page::refused(StatusCode::NOT_FOUND, reason)
    }
}

impl From<console::Refusal> for Page {
    fn from(refusal: console::Refusal) -> Page {
        Page::refused(refusal.0, refusal.1)
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
        commands: Arc::new(Semaphore::new(COMMANDS_MAX)),
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
        .max_blocking_threads(WRITERS_MAX + COMMANDS_MAX)
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
    /// A permit a command that may take long.
    commands: Arc<Semaphore>,
    access: Arc<AdminAccess>,
}

/// Accepts one connection.
async fn accept(admin: &Admin, listener: &TcpListener, open: &mut Open) {
    match listener.accept().await {
        Ok((stream, peer)) => {
            open.make_room().await;
            open.add(tokio::spawn(greet(admin.clone(), stream, peer)));
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
async fn greet(admin: Admin, stream: TcpStream, peer: SocketAddr) {
    let _ = stream.set_nodelay(true);
    let Some(certificates) = &admin.server.certificates else {
        return serve(admin, stream, peer, false).await;
    };
    let mut first = [0; 1];
    let looked = time::timeout(HEAD_TIMEOUT, stream.peek(&mut first)).await;
    if !matches!(looked, Ok(Ok(1))) {
        return;
    }
    if first[0] != ForeignProtocol::TLS_HANDSHAKE {
        if !certificates.is_required() {
            serve(admin, stream, peer, false).await;
        }
        return;
    }
    let acceptor = TlsAcceptor::from(certificates.for_admin());
    let shaken = time::timeout(HEAD_TIMEOUT, acceptor.accept(stream)).await;
    if let Ok(Ok(encrypted)) = shaken {
        serve(admin, encrypted, peer, true).await;
    }
}

/// Serves one connection. A failure ends it and is not worth a line.
async fn serve<S>(admin: Admin, stream: S, peer: SocketAddr, is_encrypted: bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let origin = Origin {
        address: peer.ip(),
        port: peer.port(),
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
    let allowed = match is_command(admin.server, request.uri().path()) {
        true => "POST",
        false => "GET, HEAD",
    };
    let page = page(admin, request, origin).await;
    let mut response = Response::new(Full::new(page.body));
    *response.status_mut() = page.status;
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static(page.content_type);
    headers.insert(header::CONTENT_TYPE, content_type);
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, console::PAGE_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (OPENER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if page.status == StatusCode::UNAUTHORIZED {
        let ask = HeaderValue::from_static("Basic realm=\"quarry\", charset=\"UTF-8\"");
        headers.insert(header::WWW_AUTHENTICATE, ask);
    }
    if page.status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
    }
    Ok(response)
}

async fn page(admin: &Admin, request: Request<Incoming>, origin: Origin) -> Page {
    let path = request.uri().path();
    let is_command = is_command(admin.server, path);
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_command && request.method() != Method::POST {
        return Page::refused(StatusCode::METHOD_NOT_ALLOWED, "only POST is served here\n");
    }
    if !is_command && !is_read {
        let reason = "only GET and HEAD are served\n";
        return Page::refused(StatusCode::METHOD_NOT_ALLOWED, reason);
    }
    if path == "/health" {
        return health(admin.server);
    }
    // Before a password is looked at: a foreign page must not even have one guessed.
    if path != "/metrics"
        && path != "/"
        && let Some(reason) = refuse_site(admin.server, request.headers(), origin)
    {
        return Page::refused(StatusCode::FORBIDDEN, reason);
    }
    let who = match admin.who(&request, origin).await {
        Ok(who) => who,
        Err(refused) => return refused,
    };
    match is_command {
        true => admin.command(request, origin, who).await,
        false => admin.read(&request).await,
    }
}

/// Whether the server serves, for anybody who asks. The reason against it names files, and is for those who may see the log.
fn health(server: &Server) -> Page {
    match server.database.damage() {
        None => Page::ok(PLAIN_TEXT, "ok\n"),
        Some(_) => {
            let reason = "stored data is damaged: writes are refused\n";
            Page::refused(StatusCode::SERVICE_UNAVAILABLE, reason)
        }
    }
}

/// Whether something is run for the page there.
fn is_command(server: &Server, path: &str) -> bool {
    matches!(path, "/command" | "/advice") && console::is_open(server)
}

/// Why a request is not answered because of the site that it comes from or goes to.
fn refuse_site(server: &Server, headers: &HeaderMap, origin: Origin) -> Option<&'static str> {
    if let Some(reason) = console::refuse_foreign(headers, origin.is_encrypted) {
        return Some(reason);
    }
    // With access control a page by another name has no password of the user's.
    if server.access.is_enabled() || console::is_own_host(server, headers) {
        return None;
    }
    Some(
        "the request names this server by a name that is not its own: use its address, `localhost`, its host name, or a name \
         that --bind_ip or --advertise gives it\n",
    )
}

impl Admin {
    /// The client of a request, or the answer where it may not see the admin port.
    async fn who(&self, request: &Request<Incoming>, origin: Origin) -> Result<Who, Page> {
        let header = request.headers().get(header::AUTHORIZATION);
        let header = header.and_then(|header| header.to_str().ok());
        let verdict = match self.access.look(self.server, header, origin) {
            Some(verdict) => verdict,
            None => self.check(header.unwrap_or_default(), origin).await,
        };
        let (status, reason) = match verdict {
            Verdict::Granted(who) => return Ok(who),
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
        Err(Page::refused(status, reason))
    }

    /// The answer to a request that only reads.
    async fn read(&self, request: &Request<Incoming>) -> Page {
        let server = self.server;
        match request.uri().path() {
            "/metrics" => {
                let accept = request.headers().get(header::ACCEPT);
                let format = Format::accepted(accept.and_then(|accept| accept.to_str().ok()));
                self.write(move || metrics(server, format)).await
            }
            "/timing.json" => {
                self.write(move || Page::ok(JSON, console::json(server)))
                    .await
            }
            _ if !console::is_open(server) => Page::not_found(server),
            "/history.json" => match Question::parse(request.uri().query().unwrap_or_default()) {
                Ok(question) => self.write(move || past(server, &question)).await,
                Err(reason) => Page::refused(StatusCode::BAD_REQUEST, reason),
            },
            "/language.json" => Page::ok(JSON, console::language()),
            path => match console::file(path) {
                Some(file) => Page::ok(file.content_type, file.text),
                None => Page::not_found(server),
            },
        }
    }

    /// Runs a command of the console.
    async fn command(&self, request: Request<Incoming>, origin: Origin, who: Who) -> Page {
        if !console::is_from_page(request.headers()) {
            let reason = "a command is JSON (Content-Type: application/json), with the header X-Quarry-Console\n";
            return Page::refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason);
        }
        let is_advice = request.uri().path() == "/advice";
        let options = request.uri().query().unwrap_or_default();
        let (is_shell, is_canonical) = (options.contains("shell"), options.contains("canonical"));
        let body = Limited::new(request.into_body(), console::BODY_BYTES_MAX);
        let body = match time::timeout(BODY_TIMEOUT, body.collect()).await {
            Err(_) => {
                return Page::refused(StatusCode::REQUEST_TIMEOUT, "the body came too slowly\n");
            }
            Ok(Err(_)) => {
                let reason = format!("a command has {} bytes at most\n", console::BODY_BYTES_MAX);
                return Page::refused(StatusCode::PAYLOAD_TOO_LARGE, reason);
            }
            Ok(Ok(body)) => body.to_bytes(),
        };
        let Ok(text) = std::str::from_utf8(&body) else {
            return Page::refused(StatusCode::BAD_REQUEST, "the command is not UTF-8\n");
        };
        let parse = match is_advice {
            true => console::parse_question,
            false => console::parse_command,
        };
        let asked = match parse(self.server, text, is_shell, &who, origin.address) {
            Ok(asked) => asked,
            Err(refusal) => return refusal.into(),
        };
        let server = self.server;
        let lane = match asked.lane {
            Lane::Long => &self.commands,
            Lane::Short => &self.writers,
        };
        let permit = Arc::clone(lane).acquire_owned().await;
        // As few of them as there are permits. The other end is held by this task, which ends with its client: then the
        // command is interrupted.
        let Ok((transport, _client)) = Transport::in_process() else {
            let reason = "there is no descriptor left for the command\n";
            return Page::refused(StatusCode::SERVICE_UNAVAILABLE, reason);
        };
        write_with(permit, move || {
            let runner = console::Runner::new(server, transport, who, origin);
            let reply = match is_advice {
                true => console::advise(&runner, &asked),
                false => console::run(&runner, &asked, is_canonical),
            };
            reply.map_or_else(Page::from, |reply| Page::ok(JSON, reply))
        })
        .await
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
        write_with(permit, write).await
    }
}

/// Writes an answer on another thread, which has the permit to its end even where nobody waits for it any more.
async fn write_with(
    permit: Result<OwnedSemaphorePermit, AcquireError>,
    write: impl FnOnce() -> Page + Send + 'static,
) -> Page {
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

fn metrics(server: &'static Server, format: Format) -> Page {
    match metrics::text(server, format) {
        Ok(text) => Page::ok(format.content_type(), text),
        Err(error) => {
            let reason = format!("the figures cannot be written: {error}\n");
            Page::refused(StatusCode::INTERNAL_SERVER_ERROR, reason)
        }
    }
}

fn past(server: &'static Server, question: &Question) -> Page {
    match answer::json(server, question) {
        Ok(text) => Page::ok(JSON, text),
        Err(error) => {
            let reason = format!("the history cannot be read: {error}\n");
            Page::refused(StatusCode::INTERNAL_SERVER_ERROR, reason)
        }
    }
}
