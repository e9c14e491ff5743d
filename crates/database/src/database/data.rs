//! The front for documents: reading them, writing them, waiting for what was written, and what sessions have written.

use std::sync::Arc;
use std::time::Duration;

use quarry_bson::{RawDocument, RawValue};
use quarry_journal::Level;
use quarry_storage::WriteBatch;
use quarry_timing::{Durations, Phase};

use super::{Database, PinnedFigures, PinnedSnapshot};
use crate::catalog::collection::Collection;
use crate::commit::late_writes::ReplyFirst;
use crate::commit::watches::CommitWatch;
use crate::definitions::replacement::Temporary;
use crate::error::Result;
use crate::events::change_reader::{ChangeReader, ChangeScope, ChangesFrom};
use crate::keyspace::counts::Counts;
use crate::keyspace::ident::Ident;
use crate::keyspace::layout::SESSION_BYTES;
use crate::keyspace::namespace::Namespace;
use crate::operation::Operation;
use crate::sessions::session_records::{RecordedStatement, StoredSession, UnusedSessions};
use crate::snapshot::collection_snapshot::CollectionSnapshot;
use crate::upkeep::validate::{ValidateReport, validate};
use crate::write::{
    Compute, Inserted, Modified, Transaction, TransactionCounters, UnitReads, WriteUnit,
};

impl Database {
    /// The collection that the name means now, if there is one.
    pub fn collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        self.catalog.get(namespace)
    }

    /// The full key of the record with this `_id` in a clustered collection: see [`Collection::record_key`].
    pub fn record_key(collection: &Collection, id: RawValue<'_>) -> Vec<u8> {
        collection.record_key(id)
    }

    /// Reads the latest state of one record; false if there is none.
    pub fn get_record(&self, record_key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let _read = quarry_timing::phase(Phase::EngineRead);
        self.reads.get_record(record_key, read)
    }

    /// A snapshot, and the collection as it is in it; none if it does not exist.
    pub fn snapshot(&self, namespace: &Namespace) -> Result<Option<CollectionSnapshot>> {
        CollectionSnapshot::open(&self.reads, &self.catalog, namespace)
    }

    /// The exact number of documents, and their bytes.
    pub fn counts(&self, collection: &Collection) -> Result<Counts> {
        self.commits.counts(collection.ident)
    }

    /// The exact number of documents.
    pub fn count(&self, collection: &Collection) -> Result<u64> {
        Ok(self.counts(collection)?.documents)
    }

    /// Inserts documents, each with its `_id` first, as one piece. `level` is the one that the caller will `settle` for: it
    /// says how the piece is handed to the journal, and nothing is waited for here.
    pub fn insert_piece(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        documents: &[RawDocument<'_>],
        ordered: bool,
        level: Level,
    ) -> Result<Inserted> {
        self.writer
            .insert_piece(operation, namespace, documents, ordered, level)
    }

    /// Like `insert_piece`, into a temporary collection, which is not made again where it has gone.
    pub fn insert_piece_into(
        &self,
        operation: &Operation,
        temporary: &Temporary,
        documents: &[RawDocument<'_>],
        ordered: bool,
        level: Level,
    ) -> Result<Inserted> {
        let into = (&temporary.namespace, temporary.ident);
        let inserted =
            (self.writer).insert_piece_into(operation, into, documents, ordered, level)?;
        inserted.ok_or_else(|| temporary.gone())
    }

    /// Changes or deletes the records of one collection that still stand under `record_keys`, as one piece. `level`
    /// is as for `insert_piece`.
    pub fn modify_piece(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        expected: Ident,
        record_keys: &[Vec<u8>],
        level: Level,
        compute: &mut Compute<'_>,
    ) -> Result<Modified> {
        self.writer
            .modify_piece(operation, namespace, expected, record_keys, level, compute)
    }

    /// The state at a cluster time of the last five minutes, or now, for reads outside of transactions by a
    /// [`Scope`](crate::Scope); and the time by which it is asked for again. SnapshotTooOld where nobody has asked for that
    /// state while it was the latest.
    pub fn pin_snapshot(&self, at: Option<u64>) -> Result<(Arc<PinnedSnapshot>, u64)> {
        self.pinned.pin(&self.reads, &self.commits, at)
    }

    /// Keeps snapshots that are pinned from now on for so long, for those who name their times.
    pub fn set_snapshot_window(&self, window: Duration) {
        self.pinned.set_window(window);
    }

    /// From now on a pinned snapshot is given up once the engine may keep more than so many bytes for it; with none, no snapshot
    /// is. Whoever reads on in it is told SnapshotTooOld. Transactions are ended by whoever asks `pinned_bytes_of` about them.
    pub fn set_pinned_bytes_max(&self, bytes_max: Option<u64>) {
        self.pinned.set_bytes_max(bytes_max);
    }

    /// How many snapshots are pinned, how old the oldest is, and what they cost.
    pub fn pinned_figures(&self) -> PinnedFigures {
        self.pinned.figures(self.commits.path().replaced_bytes())
    }

    /// About the bytes, at most, that the engine keeps for the snapshot of a transaction.
    pub fn pinned_bytes_of(&self, transaction: &Transaction) -> u64 {
        let now = self.commits.path().replaced_bytes();
        now.saturating_sub(transaction.replaced_before())
    }

    /// Begins a transaction, in which operations work by a [`Scope`](crate::Scope). Its snapshot is made here.
    pub fn begin_transaction(&self, operation: &Operation) -> Result<Arc<Transaction>> {
        self.writer.begin_transaction(operation).map(Arc::new)
    }

    /// Begins a transaction that reads the state of a pinned snapshot. Whatever has other bytes now than in it is a
    /// WriteConflict for who changes it.
    pub fn begin_transaction_at(
        &self,
        pinned: &PinnedSnapshot,
        operation: &Operation,
    ) -> Result<Arc<Transaction>> {
        let (snapshot, lsn) = pinned.share()?;
        let before = pinned.replaced_before();
        let transaction = (self.writer).begin_transaction_at(snapshot, lsn, before, operation)?;
        Ok(Arc::new(transaction))
    }

    /// Commits a transaction and ends it, whatever comes of that; none if it has changed nothing. `session` are puts of
    /// system keys for the same batch, which are left out with a transaction that has changed nothing. Answers
    /// NoSuchTransaction for one that has ended, and the error of a statement that ended with one. The caller settles.
    pub fn commit_transaction(
        &self,
        transaction: &Transaction,
        operation: &Operation,
        level: Level,
        session: &WriteBatch,
    ) -> Result<Option<u64>> {
        transaction.commit(|unit| self.writer.commit(unit, operation, level, session))
    }

    /// The figures of transactions since the start.
    pub fn transaction_counters(&self) -> TransactionCounters {
        self.writer.transaction_counters()
    }

    /// How long the transactions were open that have ended since the start, committed or not.
    pub fn transaction_durations(&self) -> Durations {
        self.writer.transaction_durations()
    }

    /// Sets MongoDB's `maxTransactionLockRequestTimeoutMillis`: how long a transaction waits for a collection whose
    /// definition is being changed. Below zero it waits without an end.
    pub fn set_transaction_lock_patience_ms(&self, ms: i64) {
        self.writer.set_patience_ms(ms);
    }

    /// Begins a unit of several pieces, which is committed as a whole by `commit`. It may outlive the operation and its
    /// thread; dropped, it has changed nothing. What others have locked is a WriteConflict.
    pub fn begin(&self, operation: &Operation, reads: UnitReads) -> Result<WriteUnit> {
        self.writer.begin(operation, reads)
    }

    /// A snapshot of a collection as a unit sees it now; none if there is no such collection.
    pub fn snapshot_in(
        &self,
        unit: &mut WriteUnit,
        namespace: &Namespace,
        operation: &Operation,
    ) -> Result<Option<CollectionSnapshot>> {
        self.writer.snapshot_in(unit, namespace, operation)
    }

    /// Like `insert_piece`, but stages in a unit, which makes the collection if there is none.
    pub fn insert_in(
        &self,
        unit: &mut WriteUnit,
        operation: &Operation,
        namespace: &Namespace,
        documents: &[RawDocument<'_>],
        ordered: bool,
    ) -> Result<Inserted> {
        self.writer
            .insert_in(unit, operation, namespace, documents, ordered)
    }

    /// Like `modify_piece`, but stages in a unit.
    pub fn modify_in(
        &self,
        unit: &mut WriteUnit,
        operation: &Operation,
        namespace: &Namespace,
        expected: Ident,
        record_keys: &[Vec<u8>],
        compute: &mut Compute<'_>,
    ) -> Result<Modified> {
        self.writer
            .modify_in(unit, operation, namespace, expected, record_keys, compute)
    }

    /// Commits what a unit has staged, and ends it; none if it has changed nothing. Answers the error of a statement that has
    /// ended with one, and commits nothing. `level` says how the record is handed to the journal; the caller settles.
    pub fn commit(
        &self,
        unit: WriteUnit,
        operation: &Operation,
        level: Level,
    ) -> Result<Option<u64>> {
        let session = WriteBatch::new();
        self.writer.commit(unit, operation, level, &session)
    }

    /// Returns when what a command has committed up to `lsn` has reached `level`. One that changed nothing waits for what it saw.
    pub fn settle(&self, lsn: Option<u64>, level: Level) -> Result<()> {
        self.commits.settle(lsn, level)
    }

    /// Until it is dropped, what this thread commits is acknowledged before the engine has it, as far as that shortens
    /// the wait for the reply; the engine has it afterwards. No reader or writer sees the difference.
    pub fn reply_first(&self) -> ReplyFirst<'_> {
        self.commits.late_writes().reply_first()
    }

    /// Registers the caller for commits to the collection; one that waits looks first, after registering.
    pub fn watch_commits(&self, ident: Ident) -> CommitWatch<'_> {
        self.commits.path().watch(ident)
    }

    /// Begins to read changes from the journal. Fails with ChangeStreamHistoryLost (286) where it no longer has what
    /// comes behind `from`, or never had that in this history.
    pub fn read_changes(&self, scope: ChangeScope, from: ChangesFrom) -> Result<ChangeReader> {
        ChangeReader::open(&self.commits, scope, from)
    }

    /// The cluster time of the last record that was applied: seconds since 1970 in the high half, a counter in the low half.
    pub fn cluster_time(&self) -> u64 {
        self.commits.journal().cluster_time()
    }

    /// Has every later record get a later cluster time than `beyond`, which a client brought. False where that is too far
    /// ahead of this machine's clock.
    pub fn advance_cluster_time(&self, beyond: u64) -> bool {
        self.commits.journal().advance_cluster_time(beyond)
    }

    /// Hands over to the engine what is still to be written to it, unless it would have to wait.
    pub fn catch_up(&self) {
        self.commits.late_writes().catch_up_at_once();
    }

    /// Makes everything committed durable.
    pub fn sync(&self) -> Result<()> {
        self.commits.journal().sync()?;
        Ok(())
    }

    /// Checks a collection: its documents, its counters, and with `full` every index both ways.
    pub fn validate(
        &self,
        namespace: &Namespace,
        full: bool,
        operation: &Operation,
    ) -> Result<ValidateReport> {
        let (holds, catalog) = (&self.holds, &self.catalog);
        validate(
            holds,
            catalog,
            &self.reads,
            &self.commits,
            namespace,
            full,
            operation,
        )
    }

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
