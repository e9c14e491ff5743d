//! The stored records of sessions: read back when a session is first asked for, and taken away with their sessions.
//!
//! Nothing is read at a start: a session's records are looked for with its first command that has a txnNumber. Whoever forgets a
//! session has it alone, as whoever writes in it; otherwise a record of now would go with those of before.

use std::sync::Arc;

use quarry_bson::Document;
use quarry_storage::{KeyRange, WriteBatch};

use crate::commit::commits::Commits;
use crate::commit::payload::{Header, now_ms};
use crate::error::Result;
use crate::keyspace::layout::{self, SESSION_BYTES};
use crate::sessions::record::{SessionRecord, StatementKind};
use crate::sessions::retryable_write::SessionHistory;
use crate::snapshot::reads::Reads;

/// Records that one batch takes away at most.
const RECORDS_A_BATCH: usize = 1000;
/// Records that one step of the walk over all sessions looks at; it ends with the session of the last one.
const RECORDS_A_STEP: usize = if cfg!(test) { 4 } else { 4096 };

/// The stored state of one session.
#[derive(Debug, PartialEq, Eq)]
pub struct StoredSession {
    /// The highest txnNumber with which it has written.
    pub txn_number: i64,
    /// Whether that was a transaction, which is committed.
    pub is_transaction: bool,
    /// The records of the session.
    pub history: SessionHistory,
}

/// A statement that was done.
#[derive(Debug, PartialEq)]
pub struct RecordedStatement {
    /// The kind of write that it was.
    pub kind: StatementKind,
    /// The answer; none for a kind that says it all.
    pub answer: Option<Document>,
}

/// The sessions that nobody has written in for some time, and where the walk over all goes on.
#[derive(Debug, Default)]
pub struct UnusedSessions {
    /// Their ids.
    pub sessions: Vec<[u8; SESSION_BYTES]>,
    /// The last session that was looked at; none at the end.
    pub behind: Option<[u8; SESSION_BYTES]>,
}

/// Who reads and takes away the records of sessions.
pub(crate) struct SessionRecords {
    reads: Reads,
    commits: Arc<Commits>,
}

impl SessionRecords {
    pub fn new(reads: Reads, commits: Arc<Commits>) -> SessionRecords {
        SessionRecords { reads, commits }
    }

    /// The session as it is stored; none if it has written nothing.
    pub fn load(&self, session: &[u8; SESSION_BYTES]) -> Result<Option<StoredSession>> {
        let snapshot = self.reads.snapshot()?;
        let mut cursor = snapshot.cursor(KeyRange::prefix(&layout::session_prefix(session)))?;
        let mut stored: Option<StoredSession> = None;
        cursor.first()?;
        while cursor.valid() {
            if let Some((_, key)) = layout::split_session_key(cursor.key()) {
                let record = SessionRecord::parse(cursor.value())?;
                let so_far = stored.get_or_insert_with(|| StoredSession {
                    txn_number: record.txn_number,
                    is_transaction: false,
                    history: SessionHistory::default(),
                });
                if record.txn_number > so_far.txn_number {
                    so_far.history.advance();
                    so_far.txn_number = record.txn_number;
                    so_far.is_transaction = false;
                }
                if record.txn_number < so_far.txn_number {
                    so_far.history.add_stale(key);
                } else {
                    so_far.is_transaction |= record.kind == StatementKind::Commit;
                    so_far.history.add(key, &record.statements);
                }
            }
            cursor.next()?;
        }
        Ok(stored)
    }

    /// A statement that is done; none if its record is not there. Not for a statement of an insert, which shares a
    /// record with others and has no answer of its own.
    pub fn find(
        &self,
        session: &[u8; SESSION_BYTES],
        txn_number: i64,
        statement: i32,
    ) -> Result<Option<RecordedStatement>> {
        let key = layout::session_key(session, statement.cast_unsigned());
        let mut value = Vec::new();
        let read = &mut |bytes: &[u8]| value.extend_from_slice(bytes);
        if !self.reads.get(&key, read)? {
            return Ok(None);
        }
        let record = SessionRecord::parse(&value)?;
        if record.txn_number != txn_number {
            return Ok(None);
        }
        let answer = match record.answer {
            [] => None,
            bytes => Some(Document::from_bytes_any_text(bytes.to_vec())?),
        };
        Ok(Some(RecordedStatement {
            kind: record.kind,
            answer,
        }))
    }

    /// Takes the records of a session away.
    pub fn forget(&self, session: &[u8; SESSION_BYTES]) -> Result<()> {
        loop {
            let mut batch = WriteBatch::new();
            {
                let snapshot = self.reads.snapshot()?;
                let range = KeyRange::prefix(&layout::session_prefix(session));
                let mut cursor = snapshot.cursor(range)?;
                cursor.first()?;
                let mut count = 0;
                while cursor.valid() && count < RECORDS_A_BATCH {
                    batch.delete(cursor.key());
                    count += 1;
                    cursor.next()?;
                }
            }
            if batch.is_empty() {
                return Ok(());
            }
            // It has no key that the catalog holds, so that nobody's load waits for it.
            let header = Header {
                wall_ms: now_ms(),
                ..Header::PLAIN
            };
            self.commits.commit(&header, &batch)?;
        }
    }

    /// Looks at the sessions behind `behind`, a bounded number of them, for those whose last record is older than
    /// `before_ms`, in milliseconds since 1970.
    pub fn unused(
        &self,
        behind: Option<&[u8; SESSION_BYTES]>,
        before_ms: i64,
    ) -> Result<UnusedSessions> {
        let snapshot = self.reads.snapshot()?;
        let mut cursor = snapshot.cursor(KeyRange::prefix(layout::SESSIONS))?;
        match behind {
            // No statement is higher, so that this is the end of that session's range.
            Some(behind) => {
                let last = layout::session_key(behind, u32::MAX);
                cursor.seek(&[&last[..], &[0]].concat())?;
            }
            None => cursor.first()?,
        }
        let mut unused = UnusedSessions::default();
        let (mut count, mut newest_ms) = (0, i64::MIN);
        loop {
            let next = match cursor.valid() {
                true => layout::split_session_key(cursor.key()).map(|(session, _)| session),
                false => None,
            };
            if let Some(done) = unused.behind.filter(|done| next != Some(*done)) {
                if newest_ms < before_ms {
                    unused.sessions.push(done);
                }
                newest_ms = i64::MIN;
                if next.is_some() && count >= RECORDS_A_STEP {
                    return Ok(unused);
                }
            }
            unused.behind = next;
            if next.is_none() {
                return Ok(unused);
            }
            newest_ms = newest_ms.max(SessionRecord::parse(cursor.value())?.wall_ms);
            count += 1;
            cursor.next()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{RawDocument, doc};
    use quarry_journal::Level;

    use super::*;
    use crate::database::Database;
    use crate::keyspace::namespace::Namespace;
    use crate::operation::Operation;
    use crate::sessions::retryable_write::RetryableWrite;

    fn session(number: u8) -> [u8; SESSION_BYTES] {
        [number; SESSION_BYTES]
    }

    /// Inserts documents as statements of a session, from statement 0 on; returns what the session has written then.
    fn insert(
        database: &Database,
        of: [u8; SESSION_BYTES],
        txn_number: i64,
        history: SessionHistory,
        ids: std::ops::Range<i32>,
    ) -> SessionHistory {
        let operation = Operation::default();
        operation.record_statements(RetryableWrite::new(of, txn_number, history));
        let write = operation.retryable().unwrap();
        let documents: Vec<Document> = ids.clone().map(|id| doc! { "_id": id }).collect();
        let documents: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        write.name_statements(0..i32::try_from(ids.len()).unwrap());
        let namespace = Namespace::parse("db.c").unwrap();
        database
            .insert_piece(&operation, &namespace, &documents, false, Level::Written)
            .unwrap();
        write.take_history()
    }

    #[test]
    fn a_session_is_read_back_as_it_was() {
        let database = Database::open_in_memory().unwrap();
        let me = session(1);
        assert_eq!(database.stored_session(&me).unwrap(), None);
        let history = insert(&database, me, 3, SessionHistory::default(), 0..5);
        // One of these stands already: it is not done.
        let mut next = history.clone();
        next.advance();
        let next = insert(&database, me, 4, next, 4..7);
        assert!(!next.is_executed(0) && next.is_executed(1) && next.is_executed(2));
        insert(&database, session(2), 9, SessionHistory::default(), 10..11);
        let stored = database.stored_session(&me).unwrap().unwrap();
        assert_eq!((stored.txn_number, stored.is_transaction), (4, false));
        assert_eq!(stored.history, next);
    }

    #[test]
    fn a_forgotten_session_has_written_nothing() {
        let database = Database::open_in_memory().unwrap();
        insert(&database, session(1), 1, SessionHistory::default(), 0..3);
        insert(&database, session(2), 1, SessionHistory::default(), 3..6);
        database.forget_session(&session(1)).unwrap();
        assert_eq!(database.stored_session(&session(1)).unwrap(), None);
        assert!(database.stored_session(&session(2)).unwrap().is_some());
    }

    #[test]
    fn a_walk_in_steps_finds_every_session_that_nobody_writes_in() {
        let database = Database::open_in_memory().unwrap();
        for number in 0..11 {
            let first = i32::from(number) * 10;
            let of = session(number);
            insert(
                &database,
                of,
                1,
                SessionHistory::default(),
                first..first + 2,
            );
        }
        assert!(
            database
                .unused_sessions(None, 0)
                .unwrap()
                .sessions
                .is_empty()
        );
        let (mut found, mut steps, mut behind) = (Vec::new(), 0, None);
        loop {
            let step = database.unused_sessions(behind.as_ref(), i64::MAX).unwrap();
            assert!(step.sessions.len() <= RECORDS_A_STEP);
            found.extend(step.sessions);
            steps += 1;
            behind = step.behind;
            if behind.is_none() {
                break;
            }
        }
        assert_eq!(found, (0..11).map(session).collect::<Vec<_>>());
        assert!(steps > 1);
    }
}
