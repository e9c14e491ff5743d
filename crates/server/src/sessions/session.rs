//! Logical sessions: who they are and when they were last used. A session holds cursors, nothing else yet.
//!
//! A session begins with its first use and ends by endSessions, by killSessions, or 30 minutes after its last use.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};

/// Minutes that a session lives without being used, as `hello` announces it.
pub const SESSION_TIMEOUT_MINUTES: i32 = 30;
/// MongoDB's default bound on sessions.
const SESSIONS_MAX: usize = 1_000_000;
const SHARDS: usize = 16;
const UUID_SUBTYPE: u8 = 4;

/// The UUID of an lsid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    pub fn generate() -> SessionId {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        SessionId(bytes)
    }

    /// Parses `{id: UUID}`.
    pub fn parse(lsid: RawDocument<'_>) -> Result<SessionId> {
        let id = match lsid.get("id") {
            Some(RawValue::Binary(id)) => id,
            Some(other) => {
                let found = other.element_type().alias();
                return Err(CommandError::field_type(
                    "OperationSessionInfo.lsid",
                    "id",
                    found,
                    "binData",
                ));
            }
            None => {
                return Err(CommandError::missing_field(
                    "OperationSessionInfo.lsid",
                    "id",
                ));
            }
        };
        match <[u8; 16]>::try_from(id.bytes) {
            Ok(bytes) if id.subtype == UUID_SUBTYPE => Ok(SessionId(bytes)),
            _ => Err(CommandError::type_mismatch(
                "BSON field 'lsid.id' is not a UUID",
            )),
        }
    }

    /// Parses the array of lsids that endSessions, refreshSessions and killSessions take.
    pub fn parse_all(command: &str, value: Option<RawValue<'_>>) -> Result<Vec<SessionId>> {
        let Some(RawValue::Array(lsids)) = value else {
            return Err(CommandError::type_mismatch(format!(
                "BSON field '{command}.{command}' is not an array"
            )));
        };
        lsids
            .iter()
            .map(|lsid| match lsid {
                RawValue::Document(lsid) => SessionId::parse(lsid),
                _ => Err(CommandError::type_mismatch(format!(
                    "BSON field '{command}.{command}' holds no lsid"
                ))),
            })
            .collect()
    }

    /// Appends `name: {id: UUID}`.
    pub fn append(&self, name: &str, out: &mut DocumentBuilder<'_>) {
        let mut lsid = out.document(name);
        lsid.append(
            "id",
            RawValue::Binary(quarry_bson::RawBinary {
                subtype: UUID_SUBTYPE,
                bytes: &self.0,
            }),
        );
        lsid.finish();
    }
}

/// All sessions of the server.
#[derive(Default)]
pub struct Sessions {
    shards: [Mutex<HashMap<SessionId, Instant>>; SHARDS],
}

impl Sessions {
    /// Notes that the session is used now, and begins it when it is new.
    pub fn touch(&self, session: SessionId) -> Result<()> {
        let now = Instant::now();
        let mut shard = self.shard(session).lock();
        if let Some(last_used) = shard.get_mut(&session) {
            *last_used = now;
            return Ok(());
        }
        if shard.len() >= SESSIONS_MAX / SHARDS {
            return Err(CommandError::new(
                ErrorCode::TOO_MANY_LOGICAL_SESSIONS,
                "cannot add session: too many sessions",
            ));
        }
        shard.insert(session, now);
        Ok(())
    }

    pub fn remove(&self, session: SessionId) {
        self.shard(session).lock().remove(&session);
    }

    pub fn clear(&self) -> Vec<SessionId> {
        self.shards
            .iter()
            .flat_map(|shard| std::mem::take(&mut *shard.lock()).into_keys())
            .collect()
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Ends the sessions unused since before `timeout` ago and names them.
    pub fn reap(&self, timeout: Duration) -> Vec<SessionId> {
        let now = Instant::now();
        let mut ended = Vec::new();
        for shard in &self.shards {
            shard.lock().retain(|session, last_used| {
                let keep = now.duration_since(*last_used) < timeout;
                if !keep {
                    ended.push(*session);
                }
                keep
            });
        }
        ended
    }

    fn shard(&self, session: SessionId) -> &Mutex<HashMap<SessionId, Instant>> {
        &self.shards[usize::from(session.0[0]) % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_sessions_end() {
        let sessions = Sessions::default();
        let session = SessionId::generate();
        sessions.touch(session).unwrap();
        assert!(sessions.reap(Duration::from_secs(60)).is_empty());
        assert_eq!(sessions.reap(Duration::ZERO), [session]);
        assert_eq!(sessions.len(), 0);
    }
}
