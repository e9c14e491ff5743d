//! `saslStart`: begins a login; the login of a hello shares what is here.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use quarry_bson::{DocumentBuilder, RawBinary, RawDocument, RawValue};
use quarry_query::ErrorCode;

use crate::access::attempts::Admission;
use crate::access::control::{Start, Step, failed};
use crate::access::credentials::Mechanism;
use crate::access::name::Name;
use crate::access::restrictions::Ends;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any, object, text};
use crate::dispatch::privilege::Requires;
use crate::observe::log;

/// A client's message is far shorter: a name, a nonce, a proof. Base64 takes a third more.
const PAYLOAD_BYTES_MAX: usize = 8 << 10;
/// How often an attempt that waits looks whether somebody waits for it.
const WAIT_TICK: Duration = Duration::from_millis(50);

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        text("mechanism").required(),
        any("payload").required(),
        any("autoAuthorize").ignored(),
        object("options"),
        text("db").ignored(),
    ]),
    has_secrets: true,
    ..Command::new("saslStart", "begins a login", Requires::Nothing, run)
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let database = invocation.generic.database;
    let step = start(invocation, invocation.body, database, false)?;
    append(&step, reply);
    Ok(())
}

/// Begins the login that `body` asks for.
pub fn start(
    invocation: &Invocation<'_>,
    body: RawDocument<'_>,
    database: &str,
    is_speculative: bool,
) -> Result<Step> {
    let server = invocation.server;
    let missing = |field| CommandError::missing_field("saslStart", field);
    let mechanism = body
        .get_str("mechanism")
        .ok_or_else(|| missing("mechanism"))?;
    let payload = payload(body.get("payload").ok_or_else(|| missing("payload"))?)?;
    let options = body.get_document("options");
    let start = Start {
        mechanism,
        payload: &payload,
        database,
        skips_empty: options.is_some_and(|options| {
            options
                .get("skipEmptyExchange")
                .is_some_and(|value| value.is_truthy())
        }),
        is_speculative,
    };
    let iterations = |mechanism| server.parameters.scram_iterations(mechanism);
    let begun = server.access.start(
        &server.database,
        &invocation.connection.login,
        &start,
        iterations,
    );
    if let Err(error) = &begun
        && !is_speculative
    {
        note_failure(invocation, None, &error.message);
    }
    begun
}

/// The message of a login: bytes, or the same in Base64. A long one is refused before it is copied: nobody has logged in.
pub fn payload(value: RawValue<'_>) -> Result<Vec<u8>> {
    let bytes = match value {
        RawValue::Binary(payload) => payload.bytes.len(),
        RawValue::String(text) => text.as_str()?.len(),
        _ => 0,
    };
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(failed());
    }
    match value {
        RawValue::Binary(payload) => Ok(payload.bytes.to_vec()),
        RawValue::String(text) => BASE64
            .decode(text.as_str()?)
            .map_err(|_| CommandError::failed_to_parse("the payload is not Base64")),
        other => Err(CommandError::field_type(
            "saslStart",
            "payload",
            other.element_type().alias(),
            "[string, binData",
        )),
    }
}

/// Writes the server's message.
pub fn append(step: &Step, reply: &mut DocumentBuilder<'_>) {
    reply.append("conversationId", step.conversation);
    reply.append("done", step.is_done);
    let payload = RawBinary {
        subtype: 0,
        bytes: &step.payload,
    };
    reply.append("payload", RawValue::Binary(payload));
}

/// The ends of the connection, which a user's restrictions are held against.
pub fn ends(invocation: &Invocation<'_>) -> Ends {
    let connection = invocation.connection;
    let client = connection.peer.internet().map(|address| address.ip());
    let local = client.and_then(|_| connection.transport.local_address());
    Ends {
        client,
        server: local.map(|address| address.ip()),
    }
}

/// Logs a login that succeeded; its user begins anew at its address. Nobody is logged in whom the audit log cannot tell of.
pub fn note_success(invocation: &Invocation<'_>, name: &Name, mechanism: &str) -> Result<()> {
    let server = invocation.server;
    let connection = invocation.connection;
    let peer = &connection.peer;
    if let Some(audit) = &server.audit {
        let noted = audit.note_login(connection, Some(name), mechanism, 0);
        noted.inspect_err(|_| connection.login.lock().forget())?;
    }
    server.access.attempts.succeed(peer.ip(), name);
    if !server.is_quiet() {
        let line = [
            ("client", peer.to_string().into()),
            ("user", name.to_string().into()),
            ("mechanism", mechanism.into()),
        ];
        log::info("access", "Authentication succeeded", &line);
    }
    Ok(())
}

/// Logs a login that failed, and makes the next ones for its user from its address slower.
pub fn note_failure(invocation: &Invocation<'_>, who: Option<&(Name, Mechanism)>, why: &str) {
    let server = invocation.server;
    let peer = &invocation.connection.peer;
    let mut line = vec![("client", peer.to_string().into()), ("error", why.into())];
    if let Some((name, mechanism)) = who {
        line.push(("user", log::Attribute::Owned(name.to_string())));
        line.push(("mechanism", mechanism.name().into()));
    }
    log::info("access", "Authentication failed", &line);
    if let Some(audit) = &server.audit {
        let (name, mechanism) = who.map_or((None, ""), |(name, mechanism)| {
            (Some(name), mechanism.name())
        });
        let code = ErrorCode::AUTHENTICATION_FAILED.0;
        // The client is refused either way.
        let _ = audit.note_login(invocation.connection, name, mechanism, code);
    }
    server
        .access
        .attempts
        .fail(peer.ip(), who.map(|(name, _)| name));
}

/// Lets an attempt to log in wait as its address has to; false where the client has gone or the server stops. The wait is this
/// thread's alone.
pub fn wait_as(admission: &Admission<'_>, invocation: &Invocation<'_>) -> bool {
    let (server, transport) = (invocation.server, &invocation.connection.transport);
    let until = Instant::now() + admission.delay;
    let _pause = quarry_timing::pause();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        if server.shutdown.wait_for(left.min(WAIT_TICK)) || transport.is_gone() {
            return false;
        }
    }
}
