//! `hello` and `isMaster`: who the server is: a standalone that takes writes, or the primary of a set of one.
//!
//! A client that names the topology it knows waits here until that changes, which on a standalone it never does, or
//! until `maxAwaitTimeMS`; with exhaust, replies keep coming at that interval, and at once with a change. A set that
//! stops tells so, that its clients need not wait for a connection to fail.

use std::os::fd::AsFd;
use std::time::Duration;

use quarry_bson::{
    DateTime, Document, DocumentBuilder, ElementType, RawDocument, RawValue, extjson,
};
use quarry_query::ErrorCode;

use super::{authenticate, sasl_start};
use crate::access::control::mechanisms_of;
use crate::access::credentials::Mechanism;
use crate::access::name::{EXTERNAL, Kind, Name};
use crate::access::store;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::Fields;
use crate::dispatch::privilege::Requires;
use crate::observe::log::{self, Attribute};
use crate::server::Server;

/// Documents of one write command.
pub const WRITE_BATCH_DOCUMENTS_MAX: usize = 100_000;
/// The bytes that a client may say of itself.
const METADATA_BYTES_MAX: usize = 512;
/// The field that begins a login.
const LOGIN_FIELD: &str = "speculativeAuthenticate";
/// A longer wait ends here; no `maxTimeMS` is longer either.
const AWAIT_MS_MAX: u64 = i32::MAX as u64;
const WIRE_VERSION_MIN: i32 = 0;
/// MongoDB 8.0's.
const WIRE_VERSION_MAX: i32 = 25;

pub static COMMAND: Command = Command {
    fields: Fields::ANY,
    secret_field: Some(LOGIN_FIELD),
    is_in_api_1: true,
    ..Command::new(
        "hello",
        "tells who the server is",
        Requires::Nothing,
        |invocation, reply| run(invocation, reply, "isWritablePrimary"),
    )
};

pub static IS_MASTER: Command = Command {
    aliases: &["ismaster"],
    fields: Fields::ANY,
    secret_field: Some(LOGIN_FIELD),
    ..Command::new(
        "isMaster",
        "tells who the server is",
        Requires::Nothing,
        |invocation, reply| run(invocation, reply, "ismaster"),
    )
};

fn run(
    invocation: &mut Invocation<'_>,
    reply: &mut DocumentBuilder<'_>,
    primary: &str,
) -> Result<()> {
    if let Some(metadata) = invocation.document("client")? {
        remember(invocation, metadata)?;
    }
    if let Some(known) = invocation.document("topologyVersion")? {
        await_change(invocation, known)?;
    }
    let server = invocation.server;
    if server.replica_set.is_some() && server.shutdown.is_requested() {
        return Err(stopping(server));
    }
    if invocation
        .get("helloOk")
        .is_some_and(|value| value.is_truthy())
    {
        reply.append("helloOk", true);
    }
    append_topology_version(server, reply);
    match &server.replica_set {
        None => {
            reply.append(primary, true);
        }
        Some(set) => {
            let local = invocation.connection.transport.local_address();
            set.append_hello(primary, local, &server.database, reply);
            // No write concern asks for the majority.
            reply.append("isImplicitDefaultMajorityWC", true);
        }
    }
    reply.append("maxBsonObjectSize", quarry_bson::DOCUMENT_BYTES_MAX as i32);
    reply.append("maxMessageSizeBytes", quarry_wire::MESSAGE_BYTES_MAX as i32);
    reply.append("maxWriteBatchSize", WRITE_BATCH_DOCUMENTS_MAX as i32);
    reply.append("localTime", DateTime::now());
    let minutes = server.parameters.session_timeout_minutes;
    reply.append("logicalSessionTimeoutMinutes", minutes);
    reply.append(
        "connectionId",
        i32::try_from(invocation.connection.id).unwrap_or(i32::MAX),
    );
    reply.append("minWireVersion", WIRE_VERSION_MIN);
    reply.append("maxWireVersion", WIRE_VERSION_MAX);
    reply.append("readOnly", false);
    append_compression(invocation, reply);
    append_mechanisms(invocation, reply)?;
    append_login(invocation, reply)
}

/// The mechanisms that the user in `saslSupportedMechs` can log in with. For a user who is not there they are those that a new
/// one would have, so that nobody learns who is there.
fn append_mechanisms(invocation: &Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let Some(text) = invocation.text("saslSupportedMechs")? else {
        return Ok(());
    };
    let Some((database, user)) = text.split_once('.') else {
        return Err(CommandError::bad_value(
            "UserName must contain a '.' separated database.user pair",
        ));
    };
    let name = Name::new(user, database);
    let document = store::get(&invocation.server.database, Kind::User, &name)?;
    let mut listed = reply.array("saslSupportedMechs");
    match document {
        Some(document) => {
            for mechanism in mechanisms_of(&document) {
                listed.push(mechanism);
            }
        }
        None => {
            for mechanism in Mechanism::ALL {
                listed.push(mechanism.name());
            }
        }
    }
    listed.finish();
    Ok(())
}

/// Begins the login that the client sends along, to save a round trip. One that cannot begin is left out of the answer, and
/// the client begins anew.
fn append_login(invocation: &Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let Some(start) = invocation.document(LOGIN_FIELD)? else {
        return Ok(());
    };
    let Some(first) = start.first() else {
        return Ok(());
    };
    let database = start.get_str("db");
    if first.name() == "saslStart"
        && let Some(database) = database
        && let Ok(step) = sasl_start::start(invocation, start, database, true)
    {
        let mut shown = reply.document(LOGIN_FIELD);
        sasl_start::append(&step, &mut shown);
        shown.finish();
    } else if first.name() == "authenticate"
        // Not all drivers say where the users are whom certificates name: there is one place.
        && let Ok(name) =
            authenticate::log_in(invocation, start, database.unwrap_or(EXTERNAL), true)
    {
        let mut shown = reply.document(LOGIN_FIELD);
        authenticate::append(&name, &mut shown);
        shown.finish();
    }
    Ok(())
}

/// The counter of the topology's version; a standalone's never changes.
fn topology_counter(server: &Server) -> i64 {
    let set = server.replica_set.as_ref();
    set.map_or(0, |set| set.topology.version().counter)
}

/// Appends the version of the topology, which `hello` waits for.
pub fn append_topology_version(server: &Server, out: &mut DocumentBuilder<'_>) {
    let mut version = out.document("topologyVersion");
    version.append("processId", server.process_id);
    version.append("counter", topology_counter(server));
    version.finish();
}

/// The error of a set whose only member stops.
fn stopping(server: &Server) -> CommandError {
    let mut error = CommandError::new(
        ErrorCode::SHUTDOWN_IN_PROGRESS,
        "The server is in quiesce mode and will shut down",
    );
    let details = Document::build(|details| append_topology_version(server, details));
    error.details = Some(Box::new(details));
    error
}

/// The compressors that both know, in the order that the client offers.
fn append_compression(invocation: &Invocation<'_>, reply: &mut DocumentBuilder<'_>) {
    let Some(RawValue::Array(offered)) = invocation.get("compression") else {
        return;
    };
    let served = &invocation.server.config.compressors;
    let mut common = reply.array("compression");
    for name in offered.iter().filter_map(|name| name.as_str()) {
        if served.iter().any(|ours| ours.as_str() == name) {
            common.push(name);
        }
    }
    common.finish();
}

/// Keeps what the client says of itself; it says it once a connection.
fn remember(invocation: &Invocation<'_>, metadata: RawDocument<'_>) -> Result<()> {
    if metadata.as_bytes().len() > METADATA_BYTES_MAX {
        return Err(CommandError::new(
            ErrorCode::CLIENT_METADATA_DOCUMENT_TOO_LARGE,
            format!(
                "The client metadata document must be less then or equal to {METADATA_BYTES_MAX} bytes"
            ),
        ));
    }
    let mut kept = invocation.connection.metadata.lock();
    if kept.is_some() {
        return Err(CommandError::new(
            ErrorCode::CLIENT_METADATA_CANNOT_BE_MUTATED,
            "The client metadata document may only be sent in the first hello",
        ));
    }
    *kept = Some(metadata.to_owned_document());
    drop(kept);
    if let Some(audit) = &invocation.server.audit {
        // A full audit log keeps nobody from connecting: whoever may not go on without it is refused at the login.
        let _ = audit.note_metadata(invocation.connection, metadata);
    }
    if !invocation.server.is_quiet() {
        let client = invocation.connection.peer.to_string();
        let said = Attribute::Json(extjson::relaxed(metadata));
        let line = [("client", client.into()), ("doc", said)];
        log::info("network", "client metadata", &line);
    }
    Ok(())
}

fn await_change(invocation: &mut Invocation<'_>, known: RawDocument<'_>) -> Result<()> {
    let (Some(process), Some(counter)) =
        (known.get_object_id("processId"), known.get_i64("counter"))
    else {
        return Err(CommandError::missing_field("TopologyVersion", "processId"));
    };
    let Some(wait) = invocation.get("maxAwaitTimeMS") else {
        return Err(CommandError::new(
            ErrorCode(31_368),
            "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'",
        ));
    };
    let ms = match wait.as_i64_exact().map(u64::try_from) {
        Some(Ok(ms)) => ms,
        Some(Err(_)) => {
            return Err(CommandError::bad_value(
                "'maxAwaitTimeMS' must be a non-negative integer",
            ));
        }
        None => {
            let found = wait.element_type();
            return Err(CommandError::field_type(
                "hello",
                "maxAwaitTimeMS",
                found.alias(),
                ElementType::Int64.alias(),
            ));
        }
    };
    let server = invocation.server;
    let version = server
        .replica_set
        .as_ref()
        .map(|set| set.topology.version());
    let current = version.as_ref().map_or(0, |version| version.counter);
    // Another process, or a topology older than ours: the client learns at once.
    if process != server.process_id || counter < current {
        return Ok(());
    }
    if counter > current {
        let message = format!(
            "Received a topology version with counter: {counter} which is greater than the server topology version \
             counter: {current}"
        );
        return Err(CommandError::new(ErrorCode(31_382), message));
    }
    if !invocation.may_wait {
        return Ok(());
    }
    invocation.is_exhaust = invocation.is_exhaust_allowed;
    // The client's wish, not the server's work.
    let _pause = quarry_timing::pause();
    let transport = &invocation.connection.transport;
    let limit = Duration::from_millis(ms.min(AWAIT_MS_MAX));
    match version {
        Some(version) => transport.has_input_before(version.is_over.as_fd(), limit),
        None => transport.has_input_within(limit),
    };
    Ok(())
}
