//! Commands that the console runs: `POST /command` with a command as Extended JSON, answered with its reply as Extended JSON.
//!
//! A command goes through the dispatcher like one of a client's: held against the privileges of the user who has logged in,
//! listed by `currentOp`, interrupted by `killOp`, by its time and when the browser goes. Keeps true: a console that was
//! not started for it changes nothing; a request, its reply, its time and the number of those that run beside each other are bounded; without
//! access control nobody reaches data by the admin port whom the operator has not let in there.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use quarry_bson::{Document, RawDocument, extjson};
use quarry_timing::Phase;
use quarry_wire::ReplyBuilder;

use crate::access::login::Login;
use crate::access::restrictions::Ends;
use crate::dispatch::call::Call;
use crate::dispatch::dispatcher::dispatch;
use crate::net::certificates::Certificates;
use crate::net::connections::Entry;
use crate::net::transport::Transport;
use crate::observe::admin_access::{Origin, Who};
use crate::observe::operation_end;
use crate::process::config::ConsoleMode;
use crate::server::Server;

/// A longer request is refused.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// A longer reply is not shown; JSON takes a few times as much.
const REPLY_BYTES_MAX: usize = 6 << 20;
/// A command has this long, less than its HTTP connection has.
const TIME_MAX: Duration = Duration::from_secs(30);
/// The header and the flags that stand before the document of a reply.
const BODY_OFFSET: usize = quarry_wire::HEADER_BYTES + 5;

/// The purpose that a command serves, by which it is allowed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// It tells what whoever may see the admin port may see.
    Figures,
    /// It shows what is stored or asked.
    Data,
    /// It ends an operation.
    Kill,
    /// It changes documents or indexes.
    Change,
}

/// Which of the admin port's threads run a command, so that those that take long hold up nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// With those that write figures.
    Short,
    /// With others that may run as long as they are allowed to.
    Long,
}

const FIGURES: [&str; 5] = [
    "serverStatus",
    "buildInfo",
    "ping",
    "connectionStatus",
    "getOpTiming",
];
const DATA: [&str; 13] = [
    "listDatabases",
    "listCollections",
    "listIndexes",
    "collStats",
    "dbStats",
    "count",
    "distinct",
    "find",
    "aggregate",
    "getMore",
    "killCursors",
    "explain",
    "currentOp",
];
const CHANGES: [&str; 6] = [
    "insert",
    "update",
    "delete",
    "findAndModify",
    "createIndexes",
    "dropIndexes",
];
/// Stages that write, and one that has the server copy all its files.
const STAGES_OF_CHANGES: [&str; 3] = ["$out", "$merge", "$backupCursor"];
/// Arguments that would leave something behind on the server.
const REFUSED_ARGUMENTS: [&str; 6] = [
    "lsid",
    "txnNumber",
    "startTransaction",
    "autocommit",
    "awaitData",
    "tailable",
];

/// A command that may be run.
pub struct Asked {
    pub body: Document,
    purpose: Purpose,
    pub lane: Lane,
}

/// Why a request is not run.
pub struct Refusal(pub StatusCode, pub String);

impl Refusal {
    fn forbidden(why: &str) -> Refusal {
        Refusal(StatusCode::FORBIDDEN, format!("{why}\n"))
    }
}

/// Whether the console is served at all.
pub fn is_open(server: &Server) -> bool {
    server.config.console != Some(ConsoleMode::Off)
}

/// Reads a request, in the shell's spelling or as Extended JSON, and says whether it may be run for `who`.
pub fn parse(
    server: &Server,
    text: &str,
    is_shell: bool,
    who: &Who,
    address: IpAddr,
) -> Result<Asked, Refusal> {
    let body = read(text, is_shell)?;
    let Some(purpose) = purpose_of(body.as_raw()) else {
        return Err(Refusal::forbidden("the console does not run this command"));
    };
    if let Some(argument) = REFUSED_ARGUMENTS
        .into_iter()
        .find(|name| body.get(*name).is_some())
    {
        return Err(Refusal::forbidden(&format!(
            "the console runs no command with `{argument}`"
        )));
    }
    refuse(server, purpose, who, address)?;
    let name = body
        .as_raw()
        .first()
        .map(|first| first.name().to_string_lossy().into_owned());
    let is_short = purpose != Purpose::Data || name.as_deref() == Some("currentOp");
    let lane = if is_short && purpose != Purpose::Change {
        Lane::Short
    } else {
        Lane::Long
    };
    Ok(Asked {
        body,
        purpose,
        lane,
    })
}

/// Reads a command that is not run but looked at: of whatever it does, what it asks is held against documents that `who` may read.
pub fn parse_question(
    server: &Server,
    text: &str,
    is_shell: bool,
    who: &Who,
    address: IpAddr,
) -> Result<Asked, Refusal> {
    let body = read(text, is_shell)?;
    refuse(server, Purpose::Data, who, address)?;
    Ok(Asked {
        body,
        purpose: Purpose::Data,
        lane: Lane::Long,
    })
}

fn read(text: &str, is_shell: bool) -> Result<Document, Refusal> {
    let read = if is_shell {
        extjson::parse_legacy(text)
    } else {
        extjson::parse(text)
    };
    read.map_err(|error| Refusal(StatusCode::BAD_REQUEST, format!("{error}\n")))
}

/// Why a command of this purpose is not run for `who`, beside what the user's own privileges say.
fn refuse(server: &Server, purpose: Purpose, who: &Who, address: IpAddr) -> Result<(), Refusal> {
    let mode = server.config.console;
    if purpose == Purpose::Change && mode != Some(ConsoleMode::Rw) {
        return Err(Refusal::forbidden(
            "the console is read-only: start the server with --console rw",
        ));
    }
    match who {
        _ if purpose == Purpose::Figures => Ok(()),
        Who::User(..) => Ok(()),
        Who::Token(..) => Err(Refusal::forbidden(
            "the token opens figures alone: log in as a user",
        )),
        Who::Anybody if mode.is_some() => Ok(()),
        Who::Anybody if !address.to_canonical().is_loopback() => Err(Refusal::forbidden(
            "there is no access control, so that data is shown to browsers on the server's own machine alone: start the server \
             with --auth, or with --console ro if whoever reaches the admin port may see all data",
        )),
        Who::Anybody if asks_for_certificates(server) => Err(Refusal::forbidden(
            "clients need a certificate, for which the admin port does not ask: start the server with --console ro if whoever \
             reaches the admin port may see all data",
        )),
        Who::Anybody => Ok(()),
    }
}

fn asks_for_certificates(server: &Server) -> bool {
    let certificates = server.certificates.as_ref();
    certificates.is_some_and(Certificates::has_authorities)
}

fn purpose_of(body: RawDocument<'_>) -> Option<Purpose> {
    let first = body.first()?;
    let name = first.name().as_str().ok()?;
    if FIGURES.contains(&name) {
        return Some(Purpose::Figures);
    }
    if name == "killOp" {
        return Some(Purpose::Kill);
    }
    if CHANGES.contains(&name) || (name == "aggregate" && has_stage_of_change(body)) {
        return Some(Purpose::Change);
    }
    if name == "explain" {
        let explained = first.value().as_document()?;
        let inner = purpose_of(explained)?;
        return (inner == Purpose::Data).then_some(Purpose::Data);
    }
    DATA.contains(&name).then_some(Purpose::Data)
}

fn has_stage_of_change(body: RawDocument<'_>) -> bool {
    let stages = body.get_array("pipeline").into_iter().flatten();
    let documents = stages.filter_map(|stage| stage.as_document());
    documents
        .filter_map(|stage| stage.first())
        .any(|first| STAGES_OF_CHANGES.iter().any(|name| first.name() == *name))
}

/// Runs commands on this thread, for whoever holds the other end of its transport: dropping that interrupts what runs.
pub struct Runner {
    server: &'static Server,
    entry: Entry,
}

impl Runner {
    /// Adds a connection of the console's for `who`.
    pub fn new(server: &'static Server, transport: Transport, who: Who, origin: Origin) -> Runner {
        let peer = SocketAddr::new(origin.address, origin.port);
        let connection = server
            .connections
            .add_of_console(transport, peer, login(who, origin));
        let entry = Entry::new(&server.connections, connection);
        Runner { server, entry }
    }

    /// Whether whoever asks has gone.
    pub fn is_gone(&self) -> bool {
        self.entry.connection().transport.is_gone()
    }

    /// Runs a command and returns its reply, or the reply that tells of its error.
    pub fn run(&self, body: &Document, is_timed: bool) -> Result<Document, Refusal> {
        let (server, connection) = (self.server, self.entry.connection());
        let call = Call {
            body: body.as_raw(),
            sequences: &[],
            has_deep_documents: true,
            is_exhaust_allowed: false,
            may_wait: false,
            started: Instant::now(),
        };
        let timing = quarry_timing::attach();
        connection.take_thread(timing.observer());
        if is_timed {
            quarry_timing::begin_operation_in(Phase::Auth);
        }
        let mut bytes = Vec::new();
        let mut reply = ReplyBuilder::new(&mut bytes, 0, 0);
        let outcome = dispatch(server, connection, &call, reply.body());
        reply.finish();
        if is_timed {
            operation_end::settle(server, connection, &call, &outcome, &bytes);
        }
        connection.leave_thread();
        let reply = match outcome.is_unanswerable() {
            true => Err(defect(
                "the command failed over a defect of the server; its log has more",
            )),
            false => document(&bytes),
        };
        quarry_query::memory::forget_reply();
        reply
    }
}

/// The document of a reply's message.
fn document(message: &[u8]) -> Result<Document, Refusal> {
    let body = message.get(BODY_OFFSET..).unwrap_or_default();
    if body.len() > REPLY_BYTES_MAX {
        let why = format!(
            "the answer has {} bytes, and the console shows {REPLY_BYTES_MAX}: ask for less\n",
            body.len()
        );
        return Err(Refusal(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    let document = RawDocument::new(body).map_err(|_| defect("the reply cannot be read"))?;
    Ok(Document::from_raw(document))
}

fn defect(why: &str) -> Refusal {
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n"))
}

/// Runs the command and returns the reply as Extended JSON; `is_canonical` spells the type of every value out.
pub fn run(runner: &Runner, asked: &Asked, is_canonical: bool) -> Result<String, Refusal> {
    // What the page asks for by itself, every second, is not among the operations that are timed.
    let is_timed =
        matches!(asked.purpose, Purpose::Data | Purpose::Change) && asked.lane == Lane::Long;
    let reply = runner.run(&bounded(asked), is_timed)?;
    Ok(match is_canonical {
        true => extjson::canonical(reply.as_raw()),
        false => extjson::relaxed(reply.as_raw()),
    })
}

/// The command with a bound on its time.
fn bounded(asked: &Asked) -> Document {
    let body = asked.body.as_raw();
    let name = body
        .first()
        .map(|first| first.name().to_string_lossy().into_owned());
    // A getMore has what its cursor has left.
    let takes_time = asked.purpose == Purpose::Data
        && !matches!(name.as_deref(), Some("getMore" | "killCursors"))
        || asked.purpose == Purpose::Change;
    if !takes_time {
        return Document::from_raw(body);
    }
    let most = i64::try_from(TIME_MAX.as_millis()).unwrap_or(i64::MAX);
    let given = body.get("maxTimeMS").and_then(|value| value.as_i64_exact());
    Document::build(|out| {
        for element in body {
            if element.name() != "maxTimeMS" {
                out.append_element(element);
            }
        }
        out.append(
            "maxTimeMS",
            given.filter(|ms| (1..most).contains(ms)).unwrap_or(most),
        );
    })
}

fn login(who: Who, origin: Origin) -> Login {
    match who {
        Who::Anybody => Login::default(),
        Who::User(user, generation) | Who::Token(user, generation) => Login {
            user: Some(user),
            generation,
            ends: Some(Ends {
                client: Some(origin.address),
                server: None,
            }),
            ..Login::default()
        },
    }
}
