//! Logical sessions: who they are, when they were last used, and what their txnNumber is (`participant`).
//!
//! Under access control a session belongs to the user that used it first, and nobody else may use it. It begins with its first use
//! and ends by endSessions, or 30 minutes after its last use. What it has
//! written is forgotten behind that, by the reaper: whoever ends sessions waits for no write.

use std::collections::HashSet;
use std::fmt;
use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hashbrown::{DefaultHashBuilder, HashMap};
use parking_lot::Mutex;
use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_database::{Database, Operation};
use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};
use crate::sessions::owner::SessionOwner;
use crate::sessions::participant::{OpenTransaction, Participant};

/// MongoDB's default bound on sessions.
const SESSIONS_MAX: usize = if cfg!(test) { 2_000 } else { 1_000_000 };
const SHARDS: usize = 16;
/// Ended sessions whose records wait to be forgotten; those beyond it are found by the walk over all that is stored.
const FORGOTTEN_LATER_MAX: usize = 100_000;
const UUID_SUBTYPE: u8 = 4;
/// The name under which errors give the fields of an lsid.
const LSID: &str = "OperationSessionInfo.lsid";

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

    /// Parses the `{id: UUID}` that a command says its session by. That is its user's, so that nobody needs to say whose it is; and
    /// no server runs others' transactions here, so that there are no sessions within sessions.
    #[inline]
    pub fn parse(lsid: RawDocument<'_>) -> Result<SessionId> {
        // Drivers send the id and nothing else.
        if let Some(id) = lsid.sole_element("id")
            && let RawValue::Binary(id) = id.value()
            && id.subtype == UUID_SUBTYPE
            && let Ok(bytes) = <[u8; 16]>::try_from(id.bytes)
        {
            return Ok(SessionId(bytes));
        }
        let named = NamedSession::parse(lsid)?;
        match named.owner {
            None => Ok(named.id),
            Some(_) => Err(not_supported("uid")),
        }
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

/// A session as those name it who list, keep and end sessions: by its id, and by its owner where they say that too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedSession {
    pub id: SessionId,
    pub owner: Option<SessionOwner>,
}

impl NamedSession {
    /// Parses `{id: UUID, uid: digest}`.
    #[cold]
    pub fn parse(lsid: RawDocument<'_>) -> Result<NamedSession> {
        let (mut id, mut owner) = (None, None);
        for field in lsid {
            let name = field.name();
            match name.as_bytes() {
                b"id" => {
                    id.get_or_insert(field.value());
                }
                b"uid" => owner = Some(SessionOwner::parse(field.value())?),
                b"txnNumber" | b"txnUUID" => return Err(not_supported(&name.to_string_lossy())),
                _ => {
                    let name = name.to_string_lossy();
                    return Err(CommandError::unknown_field(LSID, &name));
                }
            }
        }
        let id = match id {
            Some(RawValue::Binary(id)) => id,
            Some(other) => {
                let found = other.element_type().alias();
                return Err(CommandError::field_type(LSID, "id", found, "binData"));
            }
            None => return Err(CommandError::missing_field(LSID, "id")),
        };
        match <[u8; 16]>::try_from(id.bytes) {
            Ok(bytes) if id.subtype == UUID_SUBTYPE => Ok(NamedSession {
                id: SessionId(bytes),
                owner,
            }),
            _ => Err(CommandError::type_mismatch(
                "BSON field 'lsid.id' is not a UUID",
            )),
        }
    }

    /// Parses the array of lsids that endSessions, refreshSessions and killSessions take.
    pub fn parse_all(command: &str, value: Option<RawValue<'_>>) -> Result<Vec<NamedSession>> {
        let Some(RawValue::Array(lsids)) = value else {
            return Err(CommandError::type_mismatch(format!(
                "BSON field '{command}.{command}' is not an array"
            )));
        };
        lsids
            .iter()
            .map(|lsid| match lsid {
                RawValue::Document(lsid) => NamedSession::parse(lsid),
                _ => Err(CommandError::type_mismatch(format!(
                    "BSON field '{command}.{command}' holds no lsid"
                ))),
            })
            .collect()
    }
}

/// A session with its owner, as operations and lists show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lsid {
    pub id: SessionId,
    pub owner: SessionOwner,
}

impl Lsid {
    /// Appends `name: {id: UUID, uid: digest}`.
    pub fn append(&self, name: &str, out: &mut DocumentBuilder<'_>) {
        let mut lsid = out.document(name);
        let (subtype, bytes) = (UUID_SUBTYPE, &self.id.0[..]);
        lsid.append(
            "id",
            RawValue::Binary(quarry_bson::RawBinary { subtype, bytes }),
        );
        lsid.append("uid", self.owner.as_raw());
        lsid.finish();
    }
}

/// As MongoDB's messages show a UUID.
impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) {
                "-"
            } else {
                ""
            };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// All sessions of the server.
///
/// Lock order: a participant's state, then its open transaction, then `open`. No lock is taken under a shard's.
#[derive(Default)]
pub struct Sessions {
    shards: [Mutex<Shard>; SHARDS],
    /// Chooses the shard of an id. It is keyed, for clients choose the ids, and could make one shard hold them all.
    shard_hash: DefaultHashBuilder,
    /// The sessions of all shards, which one bound holds for. It changes under the lock of the shard that changes.
    count: AtomicUsize,
    /// The sessions that have begun a transaction which may still be open.
    open: Mutex<HashMap<SessionId, Weak<Participant>>>,
    /// Sessions that have ended and may have written something.
    forgotten_later: Mutex<Vec<SessionId>>,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<SessionId, Entry>,
}

struct Entry {
    last_used: Instant,
    /// Whom it belongs to: the first user that used it. None without access control, and until a user does.
    owner: Option<Box<SessionOwner>>,
    /// None as long as the session has used no txnNumber. A command that has the session, or waits for it, shares it.
    participant: Option<Arc<Participant>>,
}

impl Entry {
    /// Whether a command has the session or waits for it. Asked under the shard's lock, under which commands come by.
    fn is_in_use(&self) -> bool {
        let participant = self.participant.as_ref();
        participant.is_some_and(|participant| Arc::strong_count(participant) > 1)
    }
}

impl Shard {
    /// Takes the session out unless a command uses it; returns the part of it that has used a txnNumber.
    fn extract_unused(
        &mut self,
        session: SessionId,
        count: &AtomicUsize,
    ) -> Option<Arc<Participant>> {
        if self.get(&session).is_some_and(Entry::is_in_use) {
            return None;
        }
        let removed = self.entries.remove(&session)?;
        count.fetch_sub(1, Relaxed);
        removed.participant
    }
}

impl Deref for Shard {
    type Target = HashMap<SessionId, Entry>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl Sessions {
    /// Notes that the session is used now, and begins it when it is new.
    ///
    /// # Errors
    /// Unauthorized where the session is another user's.
    pub fn touch(&self, session: SessionId, user: Option<&SessionOwner>) -> Result<()> {
        self.use_now(session, user, |_| ())
    }

    /// Like `touch`, for a command that uses a txnNumber.
    pub fn participant(
        &self,
        session: SessionId,
        user: Option<&SessionOwner>,
    ) -> Result<Arc<Participant>> {
        self.use_now(session, user, |entry| {
            Arc::clone(entry.participant.get_or_insert_default())
        })
    }

    /// The transaction of that session is to be found by those who end the old ones.
    pub fn note_open(&self, session: SessionId, participant: &Arc<Participant>) {
        self.open
            .lock()
            .insert(session, Arc::downgrade(participant));
    }

    /// The transaction of that session has ended.
    pub fn note_closed(&self, session: SessionId) {
        self.open.lock().remove(&session);
    }

    /// The transactions that are open, each with its session.
    pub fn open_transactions(&self) -> Vec<(SessionId, Arc<Participant>, OpenTransaction)> {
        let open = self.open.lock();
        let transaction = |(session, participant): (&SessionId, &Weak<Participant>)| {
            let participant = participant.upgrade()?;
            let transaction = participant.open_transaction()?;
            Some((*session, participant, transaction))
        };
        open.iter().filter_map(transaction).collect()
    }

    /// Ends the session, unless a command with a txnNumber has it, and the transaction that it has open. What it has written
    /// is forgotten later.
    pub fn remove(&self, session: SessionId) {
        let removed = self
            .shard(session)
            .lock()
            .extract_unused(session, &self.count);
        if let Some(participant) = removed {
            self.end(session, &participant);
        }
    }

    /// Ends the transactions that are open, of those sessions or of all. The sessions stay, and so does what tells whether
    /// their writes are done.
    pub fn end_transactions(&self, sessions: Option<&[SessionId]>) {
        for (session, participant, _) in self.open_transactions() {
            if sessions.is_none_or(|sessions| sessions.contains(&session)) {
                participant.end_transaction();
                self.note_closed(session);
            }
        }
    }

    /// Whether the session may be another user's than this one's. Without access control it is everybody's.
    pub fn is_of_another(&self, session: SessionId, user: Option<&SessionOwner>) -> bool {
        let shard = self.shard(session).lock();
        let owner = shard.get(&session).and_then(|entry| entry.owner.as_deref());
        owner.is_some() && owner != user
    }

    /// The session as it is shown.
    pub fn lsid(&self, id: SessionId) -> Lsid {
        let owner = self.owner(id).unwrap_or(SessionOwner::NOBODY);
        Lsid { id, owner }
    }

    /// The transaction that the session has open.
    pub fn open_transaction(&self, session: SessionId) -> Option<OpenTransaction> {
        let participant = self.open.lock().get(&session)?.upgrade()?;
        participant.open_transaction()
    }

    /// Whether there is such a session.
    pub fn is_open(&self, session: SessionId) -> bool {
        self.shard(session).lock().contains_key(&session)
    }

    /// Whom the session belongs to.
    pub fn owner(&self, session: SessionId) -> Option<SessionOwner> {
        let shard = self.shard(session).lock();
        shard.get(&session)?.owner.as_deref().copied()
    }

    /// Names the sessions of those users; without access control they are nobody's.
    pub fn of(&self, users: &HashSet<SessionOwner>) -> Vec<SessionId> {
        let is_one = |entry: &Entry| {
            let owner = entry.owner.as_deref().unwrap_or(&SessionOwner::NOBODY);
            users.contains(owner)
        };
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let sessions = shard.iter().filter(|(_, entry)| is_one(entry));
            found.extend(sessions.map(|(session, _)| *session));
        }
        found
    }

    /// Names all sessions.
    pub fn all(&self) -> Vec<SessionId> {
        let shards = self.shards.iter();
        shards
            .flat_map(|shard| shard.lock().keys().copied().collect::<Vec<_>>())
            .collect()
    }

    /// Takes away what is stored of a session that has ended, unless it is in use again; says whether it has been.
    pub fn forget(&self, session: SessionId, database: &Database) -> Result<()> {
        if self.shard(session).lock().contains_key(&session) {
            return Ok(());
        }
        // A command that comes meanwhile waits for the session.
        let participant = self.participant(session, None)?;
        participant.forget(session, database)?;
        drop(participant);
        let removed = self
            .shard(session)
            .lock()
            .extract_unused(session, &self.count);
        drop(removed);
        Ok(())
    }

    /// Takes the sessions that have ended and are to be forgotten, some at a time.
    pub fn take_forgotten(&self, count: usize) -> Vec<SessionId> {
        let mut later = self.forgotten_later.lock();
        let rest = later.len().saturating_sub(count);
        later.split_off(rest)
    }

    /// Hands over the sessions, how long each was not used and whose it is. The lock is held for a copy of one shard at a time.
    pub fn list(
        &self,
        operation: &Operation,
        take: &mut dyn FnMut(SessionId, Duration, SessionOwner) -> Result<()>,
    ) -> Result<()> {
        for shard in &self.shards {
            let sessions: Vec<(SessionId, Duration, SessionOwner)> = {
                let shard = shard.lock();
                let entry = |(session, entry): (&SessionId, &Entry)| {
                    let owner = entry.owner.as_deref().copied();
                    let owner = owner.unwrap_or(SessionOwner::NOBODY);
                    (*session, entry.last_used.elapsed(), owner)
                };
                shard.iter().map(entry).collect()
            };
            for (session, unused, owner) in sessions {
                operation.check()?;
                take(session, unused, owner)?;
            }
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Ends the sessions unused since before `timeout` ago and names them.
    pub fn reap(&self, timeout: Duration) -> Vec<SessionId> {
        let now = Instant::now();
        let (mut ended, mut participants) = (Vec::new(), Vec::new());
        for shard in &self.shards {
            shard.lock().entries.retain(|session, entry| {
                let keep = now.duration_since(entry.last_used) < timeout || entry.is_in_use();
                if !keep {
                    ended.push(*session);
                    participants.extend(entry.participant.take().map(|found| (*session, found)));
                    self.count.fetch_sub(1, Relaxed);
                }
                keep
            });
        }
        for (session, participant) in participants {
            self.end(session, &participant);
        }
        ended
    }

    fn use_now<T>(
        &self,
        session: SessionId,
        user: Option<&SessionOwner>,
        using: impl FnOnce(&mut Entry) -> T,
    ) -> Result<T> {
        let now = Instant::now();
        let mut shard = self.shard(session).lock();
        if let Some(entry) = shard.entries.get_mut(&session) {
            match (&entry.owner, user) {
                (Some(owner), Some(user)) if **owner != *user => return Err(of_another_user()),
                (None, Some(user)) => entry.owner = Some(Box::new(*user)),
                _ => {}
            }
            entry.last_used = now;
            return Ok(using(entry));
        }
        if self.count.fetch_add(1, Relaxed) >= SESSIONS_MAX {
            self.count.fetch_sub(1, Relaxed);
            return Err(CommandError::new(
                ErrorCode::TOO_MANY_LOGICAL_SESSIONS,
                "cannot add session: too many sessions",
            ));
        }
        let entry = shard.entries.entry(session).or_insert(Entry {
            last_used: now,
            owner: user.copied().map(Box::new),
            participant: None,
        });
        Ok(using(entry))
    }

    /// The session is in the table no more.
    fn end(&self, session: SessionId, participant: &Participant) {
        participant.end_transaction();
        self.note_closed(session);
        let mut later = self.forgotten_later.lock();
        if later.len() < FORGOTTEN_LATER_MAX {
            later.push(session);
        }
    }

    fn shard(&self, session: SessionId) -> &Mutex<Shard> {
        &self.shards[self.shard_hash.hash_one(session) as usize % SHARDS]
    }
}

#[cold]
fn not_supported(field: &str) -> CommandError {
    CommandError::not_supported(format_args!("the field '{field}' of an lsid"))
}

#[cold]
fn of_another_user() -> CommandError {
    let message = "the session belongs to another user";
    CommandError::new(ErrorCode::UNAUTHORIZED, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids that a client has chosen to be alike in all but their last bytes.
    fn chosen(number: usize) -> SessionId {
        SessionId((number as u128).to_be_bytes())
    }

    #[test]
    fn one_bound_holds_for_all_sessions_whatever_their_ids() {
        let sessions = Sessions::default();
        for number in 0..SESSIONS_MAX {
            sessions.touch(chosen(number), None).unwrap();
        }
        let error = sessions.touch(chosen(SESSIONS_MAX), None).unwrap_err();
        assert_eq!(error.code, ErrorCode::TOO_MANY_LOGICAL_SESSIONS.0);
        // Those that are there go on, and each that ends makes room for one.
        sessions.touch(chosen(0), None).unwrap();
        sessions.remove(chosen(0));
        assert_eq!(sessions.len(), SESSIONS_MAX - 1);
        sessions.touch(chosen(SESSIONS_MAX), None).unwrap();
        sessions.touch(chosen(0), None).unwrap_err();
        assert_eq!(sessions.reap(Duration::ZERO).len(), SESSIONS_MAX);
        assert_eq!(sessions.len(), 0);
        sessions.touch(chosen(0), None).unwrap();
    }

    #[test]
    fn unused_sessions_end() {
        let sessions = Sessions::default();
        let session = SessionId::generate();
        sessions.touch(session, None).unwrap();
        assert!(sessions.reap(Duration::from_secs(60)).is_empty());
        assert_eq!(sessions.reap(Duration::ZERO), [session]);
        assert_eq!(sessions.len(), 0);
    }

    #[test]
    fn a_session_is_its_users_alone() {
        let sessions = Sessions::default();
        let (session, mine, others) = (
            SessionId::generate(),
            SessionOwner([1; 32]),
            SessionOwner([2; 32]),
        );
        // What the server does with a session for itself makes nobody its owner.
        drop(sessions.participant(session, None).unwrap());
        sessions.touch(session, Some(&mine)).unwrap();
        let refused = |error: CommandError| assert_eq!(error.code, ErrorCode::UNAUTHORIZED.0);
        refused(sessions.touch(session, Some(&others)).unwrap_err());
        refused(sessions.participant(session, Some(&others)).err().unwrap());
        assert!(sessions.is_of_another(session, Some(&others)));
        assert!(!sessions.is_of_another(session, Some(&mine)));
        assert!(sessions.is_of_another(session, None));
        assert_eq!(sessions.of(&HashSet::from([others])), []);
        assert_eq!(sessions.of(&HashSet::from([others, mine])), [session]);
        sessions.remove(session);
        sessions.touch(session, Some(&others)).unwrap();
        assert_eq!(sessions.owner(session), Some(others));
    }
}
