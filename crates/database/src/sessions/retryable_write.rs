//! One command of a session whose statements are recorded with what they commit.
//!
//! It rides on the command's `Operation`. Whoever runs the command names the statements of what it hands to the database next,
//! and what they are to be answered if they come again; the commit of a piece puts the record of those that went in into its
//! batch. One command of a session runs at a time, so that what is known of the session here is all there is to know.

use parking_lot::Mutex;
use quarry_bson::RawDocument;
use quarry_storage::WriteBatch;
use smallvec::SmallVec;

use crate::commit::payload::now_ms;
use crate::commit::session_section::{SessionSection, USER_BYTES};
use crate::keyspace::layout::{self, SESSION_BYTES};
use crate::sessions::record::{SessionRecord, StatementKind};
use crate::sessions::statement_set::StatementSet;

/// Records of earlier txnNumbers that one batch takes with it at most; the next batches take the others.
const STALE_RECORDS_A_BATCH: usize = 256;

/// The records of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionHistory {
    /// The statements of the last txnNumber that are done.
    executed: StatementSet,
    /// The keys of their records: the first statement of each.
    records: StatementSet,
    /// The keys of the records of earlier txnNumbers, which nobody asks for any more.
    stale: StatementSet,
}

impl SessionHistory {
    /// Begins a higher txnNumber: nothing of it is done.
    pub fn advance(&mut self) {
        self.stale.extend(&self.records);
        self.records.clear();
        self.executed.clear();
    }

    /// Whether the session has no record that is stored.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.stale.is_empty()
    }

    /// Whether that statement of the last txnNumber is done.
    pub fn is_executed(&self, statement: i32) -> bool {
        self.executed.contains(statement.cast_unsigned())
    }

    /// Adds a record that was read back.
    pub(super) fn add(&mut self, key: u32, statements: &StatementSet) {
        self.records.insert(key);
        self.executed.extend(statements);
    }

    /// Adds the key of a record that only waits to be deleted.
    pub(super) fn add_stale(&mut self, key: u32) {
        self.stale.insert(key);
    }
}

/// One command of a session that writes with a txnNumber.
pub struct RetryableWrite {
    session: [u8; SESSION_BYTES],
    /// The digest of the user whose session it is, if it is known.
    user: Option<[u8; USER_BYTES]>,
    txn_number: i64,
    progress: Mutex<Progress>,
}

struct Progress {
    history: SessionHistory,
    /// The statements of what is handed to the database next, by position in it.
    named: SmallVec<[i32; 4]>,
    kind: StatementKind,
    answer: Vec<u8>,
    /// The record in the batch that is on its way.
    staged: Option<Staged>,
    /// How many records were committed.
    records: u64,
}

struct Staged {
    key: u32,
    statements: StatementSet,
    stale: SmallVec<[u32; 4]>,
}

impl RetryableWrite {
    /// A command of that session, which has written what `history` says.
    pub fn new(
        session: [u8; SESSION_BYTES],
        txn_number: i64,
        history: SessionHistory,
    ) -> RetryableWrite {
        RetryableWrite {
            session,
            user: None,
            txn_number,
            progress: Mutex::new(Progress {
                history,
                named: SmallVec::new(),
                kind: StatementKind::Insert,
                answer: Vec::new(),
                staged: None,
                records: 0,
            }),
        }
    }

    /// Names the user whose session it is, by the digest that stands beside the id in an lsid.
    #[must_use]
    pub fn of_user(self, user: [u8; USER_BYTES]) -> RetryableWrite {
        RetryableWrite {
            user: Some(user),
            ..self
        }
    }

    /// The session's id.
    pub fn session(&self) -> &[u8; SESSION_BYTES] {
        &self.session
    }

    /// The txnNumber of the command.
    pub fn txn_number(&self) -> i64 {
        self.txn_number
    }

    /// Whether that statement was done by an earlier try, or by this one.
    pub fn is_executed(&self, statement: i32) -> bool {
        self.progress.lock().history.is_executed(statement)
    }

    /// Names the statements of what is handed to the database next, by position in it.
    pub fn name_statements(&self, statements: impl IntoIterator<Item = i32>) {
        let mut progress = self.progress.lock();
        progress.named.clear();
        progress.named.extend(statements);
    }

    /// The statements that are named, by position.
    pub fn named(&self) -> SmallVec<[i32; 4]> {
        self.progress.lock().named.clone()
    }

    /// Says what is handed to the database next, and what it is to be answered when it comes again.
    pub fn set_answer(&self, kind: StatementKind, answer: Option<RawDocument<'_>>) {
        let mut progress = self.progress.lock();
        progress.kind = kind;
        progress.answer.clear();
        if let Some(answer) = answer {
            progress.answer.extend_from_slice(answer.as_bytes());
        }
    }

    /// How many records of the command are committed.
    pub fn records(&self) -> u64 {
        self.progress.lock().records
    }

    /// Hands out all that the session has written, this command included.
    pub fn take_history(&self) -> SessionHistory {
        std::mem::take(&mut self.progress.lock().history)
    }

    /// The puts by which a transaction is known to be committed, for the record of its commit; `settle` follows.
    pub fn commit_record(&self) -> WriteBatch {
        self.name_statements([0]);
        self.set_answer(StatementKind::Commit, None);
        let mut batch = WriteBatch::new();
        self.stage(&mut batch, |_| true, now_ms());
        batch
    }

    /// Puts the record of the named statements at the positions that went in into their batch, and takes records of earlier
    /// txnNumbers out; returns the statements that are in it. The session is alone here, and a piece is committed before the
    /// next one is staged.
    pub(crate) fn stage(
        &self,
        batch: &mut WriteBatch,
        went_in: impl Fn(usize) -> bool,
        wall_ms: i64,
    ) -> SmallVec<[i32; 4]> {
        let mut progress = self.progress.lock();
        let progress = &mut *progress;
        debug_assert!(progress.staged.is_none(), "a piece is still on its way");
        let positions = 0..progress.named.len();
        let ids = positions.filter(|&position| went_in(position));
        let ids: SmallVec<[i32; 4]> = ids.map(|position| progress.named[position]).collect();
        let Some(key) = ids.first().copied().map(i32::cast_unsigned) else {
            return ids;
        };
        let mut statements = StatementSet::default();
        for id in &ids {
            statements.insert(id.cast_unsigned());
        }
        let record = SessionRecord {
            kind: progress.kind,
            wall_ms,
            txn_number: self.txn_number,
            statements,
            answer: &progress.answer,
        };
        let mut value = Vec::with_capacity(32 + progress.answer.len());
        record.write(&mut value);
        let statements = record.statements;
        batch.put(&layout::session_key(&self.session, key), &value);
        let mut stale = SmallVec::new();
        for old in progress.history.stale.iter().filter(|old| *old != key) {
            if stale.len() == STALE_RECORDS_A_BATCH {
                break;
            }
            batch.delete(&layout::session_key(&self.session, old));
            stale.push(old);
        }
        progress.staged = Some(Staged {
            key,
            statements,
            stale,
        });
        ids
    }

    /// The session as the journal record of a piece names it. No event tells of it, so the user is left out.
    pub(crate) fn section<'s>(&'s self, statements: &'s [i32]) -> SessionSection<'s> {
        SessionSection {
            id: &self.session,
            user: None,
            txn_number: self.txn_number,
            is_transaction: false,
            statements,
        }
    }

    /// The session as the journal record of a transaction names it.
    pub(crate) fn transaction_section(&self) -> SessionSection<'_> {
        SessionSection {
            user: self.user.as_ref(),
            is_transaction: true,
            ..self.section(&[])
        }
    }

    /// Notes that the staged record is committed, or that its batch was refused and has left nothing.
    pub fn settle(&self, is_committed: bool) {
        let mut progress = self.progress.lock();
        let Some(staged) = progress.staged.take() else {
            return;
        };
        if !is_committed {
            return;
        }
        progress.records += 1;
        let history = &mut progress.history;
        history.stale.remove(staged.key);
        staged
            .stale
            .iter()
            .for_each(|old| history.stale.remove(*old));
        history.add(staged.key, &staged.statements);
    }
}

#[cfg(test)]
mod tests {
    use quarry_storage::Op;

    use super::*;

    const SESSION: [u8; 16] = [7; 16];

    fn command(txn_number: i64, history: SessionHistory) -> RetryableWrite {
        RetryableWrite::new(SESSION, txn_number, history)
    }

    fn keys(batch: &WriteBatch) -> Vec<(bool, u32)> {
        let key = |op: Op<'_>| {
            let (_, statement) = layout::split_session_key(op.key()).unwrap();
            (matches!(op, Op::Put(..)), statement)
        };
        batch.iter().map(key).collect()
    }

    #[test]
    fn only_what_went_in_is_recorded_and_only_what_is_committed_is_done() {
        let write = command(1, SessionHistory::default());
        write.name_statements([0, 1, 2]);
        let mut batch = WriteBatch::new();
        write.stage(&mut batch, |position| position != 1, 5);
        assert_eq!(keys(&batch), [(true, 0)]);
        assert!(!write.is_executed(0));
        write.settle(true);
        assert_eq!(
            [0, 1, 2].map(|id| write.is_executed(id)),
            [true, false, true]
        );

        write.name_statements([1]);
        let mut batch = WriteBatch::new();
        write.stage(&mut batch, |_| true, 5);
        write.settle(false);
        assert!(!write.is_executed(1), "its batch was refused");
    }

    #[test]
    fn a_piece_of_which_nothing_went_in_leaves_no_record() {
        let write = command(1, SessionHistory::default());
        write.name_statements([0]);
        let mut batch = WriteBatch::new();
        write.stage(&mut batch, |_| false, 5);
        assert!(batch.is_empty());
    }

    #[test]
    fn the_next_number_takes_the_records_of_the_one_before_with_it_in_bounded_steps() {
        let write = command(1, SessionHistory::default());
        for id in 0..600 {
            write.name_statements([id]);
            write.stage(&mut WriteBatch::new(), |_| true, 5);
            write.settle(true);
        }
        let mut history = write.take_history();
        history.advance();
        let write = command(2, history);
        for id in 0..4 {
            write.name_statements([id]);
            let mut batch = WriteBatch::new();
            write.stage(&mut batch, |_| true, 5);
            assert!(keys(&batch).len() <= 1 + STALE_RECORDS_A_BATCH);
            write.settle(true);
        }
        let history = write.take_history();
        assert!(history.stale.is_empty());
        assert_eq!(history.records.ranges(), [(0, 3)]);
    }
}
