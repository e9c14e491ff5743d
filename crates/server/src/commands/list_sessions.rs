//! The stages `$listSessions` and `$listLocalSessions`. One node has no other sessions than its own, so that both stages list the
//! same.

use quarry_bson::{DateTime, Document, RawValue};
use quarry_query::ErrorCode;
use quarry_query::pipeline::Specification;

use super::stage_surroundings::Surroundings;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::privilege::{Action, Resource};
use crate::sessions::owner::SessionOwner;
use crate::sessions::session::Lsid;

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
    sessions.list(invocation.operation, &mut |id, unused, owner| {
        if !users.is_empty() && !users.contains(&owner) {
            return Ok(());
        }
        let unused_ms = i64::try_from(unused.as_millis()).unwrap_or(i64::MAX);
        let entry = Document::build(|entry| {
            Lsid { id, owner }.append("_id", entry);
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
