//! The front for sessions: what they have written, and who forgets it.

use super::Database;
use crate::error::Result;
use crate::keyspace::layout::SESSION_BYTES;
use crate::sessions::session_records::{RecordedStatement, StoredSession, UnusedSessions};

impl Database {
    /// The session as it is stored; none if it has written nothing with a txnNumber. The caller has the session alone.
    pub fn stored_session(&self, session: &[u8; SESSION_BYTES]) -> Result<Option<StoredSession>> {
        self.session_records.load(session)
    }

    /// A statement of an update, a delete or a findAndModify that was done with this txnNumber; none if its record is not
    /// there.
    pub fn recorded_statement(
        &self,
        session: &[u8; SESSION_BYTES],
        txn_number: i64,
        statement: i32,
    ) -> Result<Option<RecordedStatement>> {
        self.session_records.find(session, txn_number, statement)
    }

    /// Takes away what is stored of the session. The caller has the session alone.
    pub fn forget_session(&self, session: &[u8; SESSION_BYTES]) -> Result<()> {
        self.session_records.forget(session)
    }

    /// Looks at a bounded number of sessions behind `behind`, and returns those that nobody has written in since `before_ms`,
    /// in milliseconds since 1970, and where the walk over all goes on.
    pub fn unused_sessions(
        &self,
        behind: Option<&[u8; SESSION_BYTES]>,
        before_ms: i64,
    ) -> Result<UnusedSessions> {
        self.session_records.unused(behind, before_ms)
    }
}
