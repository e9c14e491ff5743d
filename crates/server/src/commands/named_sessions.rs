//! The sessions that endSessions, refreshSessions and killSessions name, as far as they are the client's to name.

use quarry_query::ErrorCode;

use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::sessions::owner::SessionOwner;
use crate::sessions::session::{NamedSession, SessionId};

/// Reads the list of lsids that is the command's subject. Those of other users are left out, unless `may_name_any`. An lsid may have
/// its user's digest beside the id, as `$listSessions` shows it: then it is that user's session, or none.
///
/// # Errors
/// Unauthorized for a client that names another user than itself and may not.
pub fn named_sessions(invocation: &Invocation<'_>, may_name_any: bool) -> Result<Vec<SessionId>> {
    let sessions = &invocation.server.sessions;
    let own = invocation.session_owner();
    let digest = own.copied().unwrap_or(SessionOwner::NOBODY);
    let mut found = Vec::new();
    for named in NamedSession::parse_all(invocation.command.name, invocation.subject())? {
        let is_meant = match named.owner {
            Some(owner) if owner != digest && own.is_some() && !may_name_any => {
                return Err(refused());
            }
            // A session that no user has used yet is the one's who asks.
            Some(owner) => owner == sessions.owner(named.id).unwrap_or(digest),
            None => may_name_any || !sessions.is_of_another(named.id, own),
        };
        if is_meant {
            found.push(named.id);
        }
    }
    Ok(found)
}

#[cold]
fn refused() -> CommandError {
    let message = "Unauthorized to set user digest in LogicalSessionId";
    CommandError::new(ErrorCode::UNAUTHORIZED, message)
}
