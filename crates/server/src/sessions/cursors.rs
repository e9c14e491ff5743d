//! Open cursors: what a find or aggregate left to be fetched.
//!
//! A cursor is idle in the table or in the hands of exactly one getMore; killing a busy one interrupts that getMore. One
//! that is dropped in those hands, by an error or a panic, has ended: where it stood is not known.
//! It belongs to a namespace and to the session that made it, and ends with its last document, by killCursors, with
//! its session, or after ten idle minutes.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quarry_bson::Document;
use quarry_database::Operation;
use quarry_query::ErrorCode;
use rustc_hash::FxHashMap;

use crate::access::name::Name;
use crate::access::user::User;
use crate::dispatch::error::{CommandError, Result};
use crate::sessions::client_cursor::{ClientCursor, Source};
use crate::sessions::session::SessionId;

/// Cursors open at once.
const CURSORS_MAX: usize = 1_000_000;
const SHARDS: usize = 16;

enum Slot {
    Idle {
        cursor: Box<ClientCursor>,
        last_used: Instant,
    },
    Busy {
        operation: Arc<Operation>,
        owner: Option<Name>,
        session: Option<SessionId>,
        is_killed: bool,
        /// killCursors has killed it: its getMore tells that, and not that something has interrupted it.
        by_kill_cursors: bool,
    },
}

/// The table of cursors.
#[derive(Default)]
pub struct Cursors {
    shards: [Mutex<FxHashMap<i64, Slot>>; SHARDS],
    pub total_opened: AtomicI64,
    pub total_timed_out: AtomicI64,
    open: AtomicI64,
}

impl Cursors {
    /// Gives the cursor a number and keeps it. The number is random, so that no client can guess another's.
    pub fn keep(&self, mut cursor: ClientCursor) -> Result<i64> {
        if self.open.fetch_add(1, Relaxed) >= CURSORS_MAX as i64 {
            self.open.fetch_sub(1, Relaxed);
            return Err(CommandError::new(
                ErrorCode::EXCEEDED_MEMORY_LIMIT,
                "too many open cursors",
            ));
        }
        loop {
            let id = random_id();
            let mut shard = self.shard(id).lock();
            if shard.contains_key(&id) {
                continue;
            }
            cursor.id = id;
            shard.insert(
                id,
                Slot::Idle {
                    cursor: Box::new(cursor),
                    last_used: Instant::now(),
                },
            );
            self.total_opened.fetch_add(1, Relaxed);
            return Ok(id);
        }
    }

    /// The rest of the cursor's maxTimeMS, before a getMore begins. One that waits for data has none: that limit was for its find
    /// alone.
    pub fn time_left(&self, id: i64) -> Option<Duration> {
        match self.shard(id).lock().get(&id) {
            Some(Slot::Idle { cursor, .. }) if !cursor.is_await_data => cursor.time_left,
            _ => None,
        }
    }

    /// Hands the cursor out to a getMore.
    pub fn take(
        &self,
        id: i64,
        namespace: &str,
        session: Option<SessionId>,
        txn_number: Option<i64>,
        user: Option<&User>,
        operation: &Arc<Operation>,
    ) -> Result<CursorInHand<'_>> {
        let mut shard = self.shard(id).lock();
        let Some(slot) = shard.get_mut(&id) else {
            return Err(not_found(id));
        };
        let Slot::Idle { cursor, .. } = slot else {
            let message = format!("cursor id {id} is already in use");
            return Err(CommandError::new(ErrorCode(12_051), message));
        };
        check_namespace(cursor, namespace)?;
        if user.is_some_and(|user| user.name != cursor.owner) {
            let message = format!("cursor id {id} was not created by the authenticated user");
            return Err(CommandError::new(ErrorCode::UNAUTHORIZED, message));
        }
        if user.is_some_and(|user| !user.may_all(&cursor.needs)) {
            let message = format!("not authorized for getMore with cursor id {id}");
            return Err(CommandError::new(ErrorCode::UNAUTHORIZED, message));
        }
        check_session(cursor, session)?;
        check_transaction(cursor, txn_number)?;
        let busy = Slot::Busy {
            owner: cursor.owner.clone(),
            operation: Arc::clone(operation),
            session: cursor.session,
            is_killed: false,
            by_kill_cursors: false,
        };
        match std::mem::replace(slot, busy) {
            Slot::Idle { cursor, .. } => Ok(CursorInHand {
                cursors: self,
                cursor: Some(cursor),
                id,
            }),
            Slot::Busy { .. } => Err(not_found(id)),
        }
    }

    fn put_back(&self, cursor: Box<ClientCursor>) -> bool {
        let id = cursor.id;
        let mut shard = self.shard(id).lock();
        if !matches!(
            shard.get(&id),
            Some(Slot::Busy {
                is_killed: false,
                ..
            })
        ) {
            shard.remove(&id);
            self.open.fetch_sub(1, Relaxed);
            drop(shard);
            return false;
        }
        shard.insert(
            id,
            Slot::Idle {
                cursor,
                last_used: Instant::now(),
            },
        );
        true
    }

    fn finish(&self, id: i64) {
        if self.shard(id).lock().remove(&id).is_some() {
            self.open.fetch_sub(1, Relaxed);
        }
    }

    /// Whether the cursor was made by that user; no for one that is not there.
    pub fn is_owned(&self, id: i64, user: &User) -> bool {
        let shard = self.shard(id).lock();
        let owner = match shard.get(&id) {
            Some(Slot::Idle { cursor, .. }) => &cursor.owner,
            Some(Slot::Busy { owner, .. }) => owner,
            None => return false,
        };
        owner.is_some() && *owner == user.name
    }

    /// Kills one cursor of `namespace`; false when there is none.
    pub fn kill(&self, id: i64, namespace: &str) -> Result<bool> {
        let mut shard = self.shard(id).lock();
        if let Some(Slot::Idle { cursor, .. }) = shard.get(&id) {
            check_namespace(cursor, namespace)?;
        }
        let killed = shard.get_mut(&id).map(kill_slot);
        if let Some(Slot::Busy {
            by_kill_cursors, ..
        }) = shard.get_mut(&id)
        {
            *by_kill_cursors = true;
        }
        let removed = if killed == Some(true) {
            shard.remove(&id)
        } else {
            None
        };
        drop(shard);
        if let Some(removed) = removed {
            self.open.fetch_sub(1, Relaxed);
            if let Slot::Idle { mut cursor, .. } = removed
                && let Source::Stream(stream) = &mut cursor.source
            {
                stream.closed_by_client();
            }
        }
        Ok(killed.is_some())
    }

    pub fn kill_session(&self, session: SessionId) {
        self.kill_where(|slot| match slot {
            Slot::Idle { cursor, .. } => cursor.session == Some(session),
            Slot::Busy { session: owner, .. } => *owner == Some(session),
        });
    }

    pub fn kill_all(&self) {
        self.kill_where(|_| true);
    }

    /// Ends the cursors that were not used for `timeout`, but for those of sessions that `spares` names: they end with these.
    pub fn reap(&self, timeout: Duration, spares: impl Fn(SessionId) -> bool) {
        let now = Instant::now();
        let is_spared = |cursor: &ClientCursor| {
            cursor.has_no_timeout
                || cursor.lasts_with_session() && cursor.session.is_some_and(&spares)
        };
        let ended = self.kill_where(|slot| match slot {
            Slot::Idle { cursor, last_used } => {
                now.duration_since(*last_used) >= timeout && !is_spared(cursor)
            }
            Slot::Busy { .. } => false,
        });
        self.total_timed_out.fetch_add(ended, Relaxed);
    }

    /// Open cursors, those without a timeout, and those in use.
    pub fn count(&self) -> (i64, i64, i64) {
        let (mut open, mut no_timeout, mut busy) = (0, 0, 0);
        for shard in &self.shards {
            for slot in shard.lock().values() {
                open += 1;
                match slot {
                    Slot::Idle { cursor, .. } => no_timeout += i64::from(cursor.has_no_timeout),
                    Slot::Busy { .. } => busy += 1,
                }
            }
        }
        (open, no_timeout, busy)
    }

    /// Hands over the idle cursors as `$currentOp` lists them. There may be a million: the lock is held for the numbers
    /// of a shard's cursors and then for one cursor at a time, never for `take`. With an owner they are that user's alone.
    pub fn list_idle(
        &self,
        operation: &Operation,
        owner: Option<&User>,
        take: &mut dyn FnMut(Document) -> Result<()>,
    ) -> Result<()> {
        for shard in &self.shards {
            let ids: Vec<i64> = shard.lock().keys().copied().collect();
            for id in ids {
                operation.check()?;
                let entry = match shard.lock().get(&id) {
                    Some(Slot::Idle { cursor, .. })
                        if owner.is_some_and(|user| user.name != cursor.owner) =>
                    {
                        continue;
                    }
                    Some(Slot::Idle { cursor, last_used }) => Document::build(|entry| {
                        cursor.append_idle(last_used.elapsed(), entry);
                    }),
                    // In use or ended meanwhile.
                    _ => continue,
                };
                take(entry)?;
            }
        }
        Ok(())
    }

    fn kill_where(&self, is_meant: impl Fn(&Slot) -> bool) -> i64 {
        let mut killed = 0;
        for shard in &self.shards {
            // The cursors are dropped outside of the lock: one may hold much.
            let mut ended = Vec::new();
            let mut slots = shard.lock();
            let ids: Vec<i64> = slots
                .iter()
                .filter(|(_, slot)| is_meant(slot))
                .map(|(id, _)| *id)
                .collect();
            for id in ids {
                if slots.get_mut(&id).is_some_and(kill_slot) {
                    ended.extend(slots.remove(&id));
                }
            }
            drop(slots);
            killed += ended.len() as i64;
        }
        self.open.fetch_sub(killed, Relaxed);
        killed
    }

    fn shard(&self, id: i64) -> &Mutex<FxHashMap<i64, Slot>> {
        &self.shards[id.unsigned_abs() as usize % SHARDS]
    }
}

/// A cursor that a getMore reads from. Dropped without `put_back` it has ended.
pub struct CursorInHand<'c> {
    cursors: &'c Cursors,
    /// None once it is put back.
    cursor: Option<Box<ClientCursor>>,
    id: i64,
}

impl CursorInHand<'_> {
    /// Whether killCursors has killed it meanwhile.
    pub fn is_killed_by_client(&self) -> bool {
        matches!(
            self.cursors.shard(self.id).lock().get(&self.id),
            Some(Slot::Busy {
                by_kill_cursors: true,
                ..
            })
        )
    }

    /// Puts the cursor back into the table, unless it was killed meanwhile; says whether it is still open.
    pub fn put_back(mut self) -> bool {
        match self.cursor.take() {
            Some(cursor) => self.cursors.put_back(cursor),
            None => false,
        }
    }
}

impl Deref for CursorInHand<'_> {
    type Target = ClientCursor;

    fn deref(&self) -> &ClientCursor {
        self.cursor.as_ref().expect(IN_HAND)
    }
}

impl DerefMut for CursorInHand<'_> {
    fn deref_mut(&mut self) -> &mut ClientCursor {
        self.cursor.as_mut().expect(IN_HAND)
    }
}

const IN_HAND: &str = "only `put_back`, which consumes the hand, takes the cursor out of it";

impl Drop for CursorInHand<'_> {
    fn drop(&mut self) {
        if self.cursor.is_some() {
            self.cursors.finish(self.id);
        }
    }
}

/// Interrupts a busy cursor's getMore; says whether the slot can be removed now.
fn kill_slot(slot: &mut Slot) -> bool {
    match slot {
        Slot::Idle { .. } => true,
        Slot::Busy {
            operation,
            is_killed,
            ..
        } => {
            operation.kill();
            *is_killed = true;
            false
        }
    }
}

fn check_namespace(cursor: &ClientCursor, namespace: &str) -> Result<()> {
    if cursor.namespace == namespace {
        return Ok(());
    }
    let message = format!(
        "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {}",
        cursor.namespace
    );
    Err(CommandError::new(ErrorCode::UNAUTHORIZED, message))
}

fn check_session(cursor: &ClientCursor, session: Option<SessionId>) -> Result<()> {
    let id = cursor.id;
    let (code, message) = match (cursor.session, session) {
        (mine, theirs) if mine == theirs => return Ok(()),
        (None, Some(_)) => (
            50_736,
            format!("Cannot run getMore on cursor {id}, which was not created in a session"),
        ),
        (Some(_), None) => (
            50_737,
            format!(
                "Cannot run getMore on cursor {id}, which was created in a session, without an lsid"
            ),
        ),
        _ => (
            50_738,
            format!("Cannot run getMore on cursor {id}, which was created in another session"),
        ),
    };
    Err(CommandError::new(ErrorCode(code), message))
}

fn check_transaction(cursor: &ClientCursor, number: Option<i64>) -> Result<()> {
    let id = cursor.id;
    let (code, message) = match (cursor.txn_number, number) {
        (mine, theirs) if mine == theirs => return Ok(()),
        (None, _) => (
            50_739,
            format!("Cannot run getMore on cursor {id}, which was not created in a transaction"),
        ),
        (Some(mine), None) => (
            50_740,
            format!(
                "Cannot run getMore on cursor {id}, which was created in transaction {mine}, without a txnNumber"
            ),
        ),
        (Some(mine), Some(theirs)) => (
            50_741,
            format!(
                "Cannot run getMore on cursor {id}, which was created in transaction {mine}, in transaction {theirs}"
            ),
        ),
    };
    Err(CommandError::new(ErrorCode(code), message))
}

fn not_found(id: i64) -> CommandError {
    CommandError::new(
        ErrorCode::CURSOR_NOT_FOUND,
        format!("cursor id {id} not found"),
    )
}

fn random_id() -> i64 {
    loop {
        let random = getrandom::u64().expect("the kernel gives random bytes");
        let id = (random >> 1) as i64;
        if id != 0 {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;
    use crate::sessions::client_cursor::DocumentStream;

    fn cursor(session: Option<SessionId>) -> ClientCursor {
        let documents = (0..5).map(|n| doc! { "_id": n }).collect();
        ClientCursor::new("db.c".into(), session, Source::Documents(documents))
    }

    #[test]
    fn a_list_of_idle_cursors_locks_none_for_long_and_is_interrupted() {
        let cursors = Cursors::default();
        let operation = Arc::new(Operation::default());
        for _ in 0..50 {
            cursors.keep(cursor(None)).unwrap();
        }
        let mut listed = 0;
        let walked = cursors.list_idle(&operation, None, &mut |entry| {
            listed += 1;
            // Whoever takes an entry may use the table.
            let id = entry
                .get_path("cursor.cursorId")
                .and_then(|id| id.as_i64_exact());
            cursors.kill(id.unwrap(), "db.c")?;
            if listed == 10 {
                operation.kill();
            }
            Ok(())
        });
        assert_eq!(walked.err().map(|error| error.code), Some(11_601));
        assert_eq!((listed, cursors.count().0), (10, 40));
    }

    #[test]
    fn a_cursor_is_for_its_owner_only_and_ends_when_killed() {
        let cursors = Cursors::default();
        let operation = Arc::new(Operation::default());
        let session = Some(SessionId::generate());
        let id = cursors.keep(cursor(session)).unwrap();
        assert_eq!(
            cursors
                .take(id, "db.other", session, None, None, &operation)
                .err()
                .unwrap()
                .code,
            13
        );
        assert_eq!(
            cursors
                .take(id, "db.c", None, None, None, &operation)
                .err()
                .unwrap()
                .code,
            50_737
        );
        let taken = cursors
            .take(id, "db.c", session, None, None, &operation)
            .unwrap();
        assert_eq!(
            cursors
                .take(id, "db.c", session, None, None, &operation)
                .err()
                .unwrap()
                .code,
            12_051
        );
        assert!(!taken.is_killed_by_client());
        assert!(cursors.kill(id, "db.c").unwrap());
        assert!(operation.is_killed());
        assert!(taken.is_killed_by_client());
        assert!(!taken.put_back());
        assert_eq!(
            cursors
                .take(id, "db.c", session, None, None, &operation)
                .err()
                .unwrap()
                .code,
            43
        );
        let id = cursors.keep(cursor(None)).unwrap();
        cursors.reap(Duration::from_secs(60), |_| false);
        let taken = cursors
            .take(id, "db.c", None, None, None, &operation)
            .unwrap();
        assert!(cursors.kill(id, "db.c").unwrap());
        assert_eq!(cursors.count().0, 1);
        drop(taken);
        assert_eq!(cursors.count().0, 0);
    }

    #[test]
    fn a_cursor_of_an_open_session_ends_with_that() {
        let cursors = Cursors::default();
        let (open, over) = (SessionId::generate(), SessionId::generate());
        let sessions = [None, Some(open), Some(over)];
        let ids = sessions.map(|session| cursors.keep(cursor(session)).unwrap());
        cursors.reap(Duration::ZERO, |session| session == open);
        let is_open = ids.map(|id| cursors.kill(id, "db.c").unwrap());
        assert_eq!(is_open, [false, true, false]);
        let mut kept = cursor(Some(open));
        kept.source = Source::Stream(Box::new(Held));
        cursors.keep(kept).unwrap();
        cursors.reap(Duration::ZERO, |_| true);
        assert_eq!(cursors.count().0, 0, "nobody else may have what it keeps");
    }

    /// Documents of something that is kept for the client until that closes the cursor.
    struct Held;

    impl DocumentStream for Held {
        fn next(&mut self, _: &Operation, _: &mut Vec<u8>) -> Result<bool> {
            Ok(false)
        }

        fn save(&mut self) {}

        fn is_dead(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_cursor_that_is_dropped_in_the_hands_of_a_get_more_has_ended() {
        let cursors = Cursors::default();
        let operation = Arc::new(Operation::default());
        let id = cursors.keep(cursor(None)).unwrap();
        drop(
            cursors
                .take(id, "db.c", None, None, None, &operation)
                .unwrap(),
        );
        let again = cursors.take(id, "db.c", None, None, None, &operation);
        assert_eq!(again.err().unwrap().code, 43);
        assert_eq!((cursors.count().0, cursors.open.load(Relaxed)), (0, 0));
    }
}
