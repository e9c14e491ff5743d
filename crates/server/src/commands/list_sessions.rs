//! The stages `$listSessions` and `$listLocalSessions`, and the transactions that wait for their clients, which `$currentOp`
//! lists. One node has no other sessions than its own, so that both stages list the same.

use std::sync::atomic::Ordering::Relaxed;

use quarry_bson::{DateTime, Document, DocumentBuilder, RawBinary, RawValue};
use quarry_database::Namespace;
use quarry_query::ErrorCode;
use quarry_query::pipeline::Specification;

use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, Resource};
use crate::server::Server;
use crate::sessions::session::SessionId;

/// The bytes that a list of sessions may hold.
const LISTED_BYTES_MAX: usize = 64 << 20;

/// The SHA-256 of no user, which MongoDB shows where there is no access control.
const NO_USER: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// Whether the digest of a user is that of none, whose sessions all are.
pub fn is_of_no_user(uid: RawValue<'_>) -> bool {
    matches!(uid, RawValue::Binary(digest) if digest.bytes == NO_USER)
}

/// The documents of `$listSessions`, the first stage over `config.system.sessions`.
pub fn stored(
    invocation: &Invocation<'_>,
    namespace: Option<&Namespace>,
    specification: Specification<'_>,
) -> Result<Vec<Document>> {
    if namespace.is_none_or(|namespace| namespace.as_str() != "config.system.sessions") {
        let message = "$listSessions may only be run against config.system.sessions";
        return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
    }
    list(invocation, specification)
}

/// The documents of `$listLocalSessions`, the first stage of `{aggregate: 1}`.
pub fn local(
    invocation: &Invocation<'_>,
    namespace: Option<&Namespace>,
    specification: Specification<'_>,
) -> Result<Vec<Document>> {
    if namespace.is_some() {
        let message = "$listLocalSessions must be run against the database with {aggregate: 1}, not a collection";
        return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
    }
    list(invocation, specification)
}

/// Lists the sessions that are open. Without access control all of them are everybody's; no user that is named has any.
/// Sessions are not bound to users, and who knows an id may end the session: under access control there is no list of
/// one's own, and every list needs the privilege.
fn list(invocation: &Invocation<'_>, specification: Specification<'_>) -> Result<Vec<Document>> {
    let RawValue::Document(options) = specification.value else {
        return Err(CommandError::type_mismatch(format!(
            "{} options must be specified in an object",
            specification.name
        )));
    };
    let (mut all_users, mut users) = (false, None);
    for option in options {
        match (option.name().as_bytes(), option.value()) {
            (b"allUsers", value) => all_users = value.is_truthy(),
            (b"users", RawValue::Array(named)) => users = Some(named),
            _ => {
                let name = option.name().to_string_lossy();
                return Err(CommandError::unknown_field(specification.name, &name));
            }
        }
    }
    if all_users && users.is_some() {
        return Err(CommandError::new(
            ErrorCode::UNSUPPORTED_FORMAT,
            format!(
                "{} may not specify {{allUsers:true}} and {{users:[...]}} at the same time",
                specification.name
            ),
        ));
    }
    if users.is_some_and(|users| !users.is_empty()) {
        return Ok(Vec::new());
    }
    all(invocation)
}

/// Lists all sessions that are open.
pub fn all(invocation: &Invocation<'_>) -> Result<Vec<Document>> {
    invocation.require(Action::ListSessions, Resource::Cluster)?;
    let mut listed = Vec::new();
    let mut bytes = 0;
    let sessions = &invocation.server.sessions;
    sessions.list(invocation.operation, &mut |session, unused| {
        let unused_ms = i64::try_from(unused.as_millis()).unwrap_or(i64::MAX);
        let entry = Document::build(|entry| {
            append(session, "_id", entry);
            entry.append(
                "lastUse",
                DateTime(DateTime::now().0.saturating_sub(unused_ms)),
            );
        });
        bytes += entry.as_bytes().len();
        listed.push(entry);
        if bytes <= LISTED_BYTES_MAX {
            return Ok(());
        }
        let message = format!("a list of sessions has more than {LISTED_BYTES_MAX} bytes");
        Err(CommandError::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, message))
    })?;
    Ok(listed)
}

/// The transactions that are open and that no command works in now, as `$currentOp` lists them.
pub fn idle_transactions(server: &Server) -> Vec<Document> {
    let micros = |time: std::time::Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let open = server.sessions.open_transactions();
    let idle = open
        .iter()
        .filter(|(_, participant, _)| participant.is_idle());
    let entries = idle.map(|(session, _, open)| {
        let age = open.transaction.begun().elapsed();
        let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        Document::build(|entry| {
            entry.append("type", "idleSession");
            entry.append("desc", "inactive transaction");
            entry.append("active", false);
            append(*session, "lsid", entry);
            let mut transaction = entry.document("transaction");
            let mut parameters = transaction.document("parameters");
            parameters.append("txnNumber", open.number);
            parameters.append("autocommit", false);
            open.read_concern.append("readConcern", &mut parameters);
            parameters.finish();
            let begun = DateTime(DateTime::now().0.saturating_sub(age_ms));
            transaction.append("startWallClockTime", begun.to_string().as_str());
            transaction.append("timeOpenMicros", micros(age));
            let lifetime_s = server.parameters.transaction_lifetime_s.load(Relaxed);
            let expires = DateTime(begun.0.saturating_add(lifetime_s.saturating_mul(1000)));
            transaction.append("expiryTime", expires.to_string().as_str());
            let staged = i64::try_from(open.transaction.staged_bytes()).unwrap_or(i64::MAX);
            transaction.append("stagedBytes", staged);
            transaction.finish();
        })
    });
    entries.collect()
}

/// Appends `name: {id, uid}`.
fn append(session: SessionId, name: &str, out: &mut DocumentBuilder<'_>) {
    let binary = |subtype, bytes| RawValue::Binary(RawBinary { subtype, bytes });
    let mut lsid = out.document(name);
    lsid.append("id", binary(4, &session.0[..]));
    lsid.append("uid", binary(0, &NO_USER[..]));
    lsid.finish();
}
