//! The stages `$listSessions` and `$listLocalSessions`, and the transactions that wait for their clients, which `$currentOp`
//! lists. One node has no other sessions than its own, so that both stages list the same.

use std::sync::atomic::Ordering::Relaxed;

use quarry_bson::{DateTime, Document, DocumentBuilder, RawBinary, RawValue};
use quarry_query::ErrorCode;
use quarry_query::pipeline::Specification;

use super::stage_surroundings::Surroundings;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, Resource};
use crate::server::Server;
use crate::sessions::owner::SessionOwner;
use crate::sessions::session::SessionId;

/// The bytes that a list of sessions may hold.
const LISTED_BYTES_MAX: usize = 64 << 20;

/// The documents of `$listSessions`, the first stage over `config.system.sessions`.
pub fn stored(
    surroundings: Surroundings<'_, '_>,
    specification: Specification<'_>,
) -> Result<Vec<Document>> {
    let (invocation, namespace) = (surroundings.invocation, surroundings.namespace);
    if namespace.is_none_or(|namespace| namespace.as_str() != "config.system.sessions") {
        let message = "$listSessions may only be run against config.system.sessions";
        return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
    }
    list(invocation, specification)
}

/// The documents of `$listLocalSessions`, the first stage of `{aggregate: 1}`.
pub fn local(
    surroundings: Surroundings<'_, '_>,
    specification: Specification<'_>,
) -> Result<Vec<Document>> {
    let (invocation, namespace) = (surroundings.invocation, surroundings.namespace);
    if namespace.is_some() {
        let message = "$listLocalSessions must be run against the database with {aggregate: 1}, not a collection";
        return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
    }
    list(invocation, specification)
}

/// Lists sessions that are open: those of the users named, all of them, or the client's own, which alone needs no privilege. Without
/// access control all of them are everybody's; no user that is named has any.
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
    let users = users.into_iter().flatten().map(SessionOwner::parse_user);
    let users = users.collect::<Result<Vec<_>>>()?;
    match invocation.session_owner() {
        Some(own) if !all_users && users.iter().all(|user| user == own) => {
            listed(invocation, &[*own])
        }
        None if users.is_empty() => listed(invocation, &[]),
        _ => {
            invocation.require(Action::ListSessions, Resource::Cluster)?;
            listed(invocation, &users)
        }
    }
}

/// Lists all sessions that are open.
pub fn all(invocation: &Invocation<'_>) -> Result<Vec<Document>> {
    invocation.require(Action::ListSessions, Resource::Cluster)?;
    listed(invocation, &[])
}

/// Lists the sessions of these users, or all of them where none is named.
fn listed(invocation: &Invocation<'_>, users: &[SessionOwner]) -> Result<Vec<Document>> {
    let mut listed = Vec::new();
    let mut bytes = 0;
    let sessions = &invocation.server.sessions;
    sessions.list(invocation.operation, &mut |session, unused, owner| {
        if !users.is_empty() && !users.contains(&owner) {
            return Ok(());
        }
        let unused_ms = i64::try_from(unused.as_millis()).unwrap_or(i64::MAX);
        let entry = Document::build(|entry| {
            append(session, owner, "_id", entry);
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
            let owner = server.sessions.owner(*session);
            append(
                *session,
                owner.unwrap_or(SessionOwner::NOBODY),
                "lsid",
                entry,
            );
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
fn append(session: SessionId, owner: SessionOwner, name: &str, out: &mut DocumentBuilder<'_>) {
    let mut lsid = out.document(name);
    let (subtype, bytes) = (4, &session.0[..]);
    lsid.append("id", RawValue::Binary(RawBinary { subtype, bytes }));
    lsid.append("uid", owner.as_raw());
    lsid.finish();
}
