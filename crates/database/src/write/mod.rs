//! Writes of documents, a piece at a time: at most `PIECE_DOCUMENTS_MAX` documents in one atomic batch.
//!
//! A piece locks its records, reads the latest, makes all its index keys, locks and checks its unique keys, and commits
//! once. The order of loops (keys of the whole piece before its one commit) is what makes batches cheap. A document
//! that fails takes none of its entries into the batch; in an ordered insert and in an update nothing behind it counts.

mod capped;
pub(crate) mod duplicate;
#[cfg(test)]
mod hostile_keys;
mod insert;
#[cfg(test)]
mod isolation;
pub(crate) mod latest;
mod modified_keys;
mod modify;
mod open_transactions;
mod own_writes;
mod piece;
mod shared_keys;
mod transaction;
pub(crate) mod unique_check;
pub(crate) mod unit;
#[cfg(test)]
mod unit_bounds;
mod unit_collections;

use std::sync::Arc;

use parking_lot::Mutex;
use quarry_journal::{Level, Until};
use quarry_storage::{Engine, WriteBatch};
use quarry_timing::Durations;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::catalog::cache::Catalog;
use crate::catalog::collection::{Collection, IndexCatalog};
use crate::catalog::collection_holds::CollectionHolds;
use crate::catalog::time_series::SeriesKeys;
use crate::commit::commits::Commits;
use crate::commit::payload::{ALLOCATED, CATALOG, Delta, Header, MARKS, REPEATS, now_ms};
use crate::commit::session_section::SessionSection;
use crate::definitions::builds::Builds;
use crate::definitions::changes::Definitions;
use crate::error::Result;
use crate::keyspace::counts::Counts;
use crate::keyspace::ident::Ident;
use crate::locks::WriteLocks;
use crate::locks::large_batches::Admitted;
#[cfg(test)]
use crate::locks::mutant::Mutant;
use crate::operation::Operation;
use crate::sessions::retryable_write::RetryableWrite;
use crate::snapshot::reads::{ReadSnapshot, Reads};

pub use insert::Inserted;
pub use modify::{Change, Compute, Modified, NewDocument};
use open_transactions::OpenTransactions;
pub use open_transactions::{
    OPEN_TRANSACTIONS_MAX, TRANSACTIONS_MEMORY_BYTES_MAX, TransactionCounters,
};
pub use own_writes::TRANSACTION_BYTES_MAX;
use own_writes::Tally;
use piece::Piece;
pub use transaction::Transaction;
pub use unit::{UnitReads, WriteUnit};

/// Documents and bytes that one commit takes at most.
pub const PIECE_DOCUMENTS_MAX: usize = 500;
/// The bytes that one commit takes at most, unless a single document has more.
pub const PIECE_BYTES_MAX: usize = 1024 * 1024;
/// A piece ends once its documents have so many index entries, those that go and those that come: 20,000 of them are a commit
/// of some 30 ms, which hears no killOp.
const PIECE_ENTRIES_MAX: usize = 20_000;
/// Likewise once they have so many bytes: a few documents with arrays in compound indexes would outgrow a record.
const PIECE_ENTRIES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Whether a piece with so many index entries, of so many bytes, takes in no further document.
#[inline]
fn entries_fill_piece(entries: usize, bytes: usize) -> bool {
    entries >= PIECE_ENTRIES_MAX || bytes >= PIECE_ENTRIES_BYTES_MAX
}

/// The statements of a session that a piece holds, as far as they are recorded.
#[derive(Clone, Copy)]
enum Recorded<'r> {
    /// No session asks for them again.
    Nothing,
    /// Every statement that was named is in the piece.
    All(&'r RetryableWrite),
    /// The documents at these positions are in it, and so are the statements that they are.
    Documents(&'r RetryableWrite, &'r dyn Fn(usize) -> bool),
}

impl Recorded<'_> {
    fn stage(self, batch: &mut WriteBatch, wall_ms: i64) -> SmallVec<[i32; 4]> {
        match self {
            Recorded::Nothing => SmallVec::new(),
            Recorded::All(write) => write.stage(batch, |_| true, wall_ms),
            Recorded::Documents(write, went_in) => write.stage(batch, went_in, wall_ms),
        }
    }

    /// The session, for those who read the journal. What goes from the front of a capped collection is no statement, so that
    /// there the changes are not told apart.
    fn section<'s>(
        &self,
        collection: &Collection,
        statements: &'s [i32],
    ) -> Option<SessionSection<'s>>
    where
        Self: 's,
    {
        match self {
            Recorded::Nothing => None,
            Recorded::All(write) | Recorded::Documents(write, _) => {
                let is_told = collection.is_clustered();
                Some(write.section(if is_told { statements } else { &[] }))
            }
        }
    }

    fn settle(self, is_committed: bool) {
        match self {
            Recorded::Nothing => {}
            Recorded::All(write) | Recorded::Documents(write, _) => write.settle(is_committed),
        }
    }
}

/// The parts of a database that a write or an index build may use. A clone is of this database.
#[derive(Clone)]
pub struct WriteParts {
    pub engine: Arc<dyn Engine>,
    pub catalog: Arc<Catalog>,
    pub definitions: Arc<Definitions>,
    pub holds: Arc<CollectionHolds>,
    pub locks: Arc<WriteLocks>,
    pub reads: Reads,
    pub commits: Arc<Commits>,
    pub builds: Arc<Builds>,
}

/// Who writes documents.
pub struct Writer {
    parts: WriteParts,
    /// The last RecordId that each capped collection has given. Read and changed under its exclusive hold.
    record_ids: Mutex<FxHashMap<Ident, u64>>,
    series_keys: SeriesKeys,
    keeps_locks_over_sync: bool,
    transactions: Arc<OpenTransactions>,
    #[cfg(test)]
    begun_before: Mutex<Option<WriteUnit>>,
}

impl Writer {
    pub fn new(parts: WriteParts, keeps_locks_over_sync: bool) -> Writer {
        Writer {
            parts,
            record_ids: Mutex::default(),
            series_keys: SeriesKeys::new(),
            keeps_locks_over_sync,
            transactions: Arc::default(),
            #[cfg(test)]
            begun_before: Mutex::default(),
        }
    }

    /// The figures of transactions since the start.
    pub fn transaction_counters(&self) -> TransactionCounters {
        let replaced_bytes = self.parts.commits.path().replaced_bytes();
        self.transactions.counters(replaced_bytes)
    }

    /// How long the transactions were open that have ended.
    pub fn transaction_durations(&self) -> Durations {
        self.transactions.durations()
    }

    /// Sets how long a unit of several pieces waits for the hold of a collection; below zero it waits without an end.
    pub fn set_patience_ms(&self, ms: i64) {
        self.parts.locks.set_patience_ms(ms);
    }

    #[cfg(test)]
    pub(crate) fn locks(&self) -> &WriteLocks {
        &self.parts.locks
    }

    /// Returns when a batch of that size may be made and committed.
    fn admit(&self, bytes: usize, operation: &Operation) -> Result<Option<Admitted<'_>>> {
        let journal = self.parts.commits.journal();
        self.parts
            .locks
            .large_batches
            .admit(bytes, self.parts.engine.as_ref(), journal, operation)
    }

    /// Like `admit`, for a writer that holds its collection exclusively: returns after a bounded time.
    fn admit_under_exclusive_hold(
        &self,
        bytes: usize,
        operation: &Operation,
    ) -> Result<Option<Admitted<'_>>> {
        let (journal, engine) = (self.parts.commits.journal(), self.parts.engine.as_ref());
        self.parts
            .locks
            .large_batches
            .admit_under_exclusive_hold(bytes, engine, journal, operation)
    }

    /// Commits a piece, if it changes anything. `until` matters to a writer that waits for its sync afterwards. With
    /// `Until::Applied` the next writer of a record goes on before the sync. With `Until::Synced` this writer is woken once
    /// instead of twice, and its locks are held over the sync: a writer that wants to change the same document, or wants the
    /// collection for itself, waits for the sync too.
    fn commit_piece(
        &self,
        level: Level,
        collection: &Collection,
        mut piece: Piece,
        until: Until,
        recorded: Recorded<'_>,
    ) -> Result<Option<u64>> {
        if piece.puts.is_empty() && piece.deletes.is_empty() {
            return Ok(None);
        }
        let wall_ms = now_ms();
        let mut batch = if piece.deletes.is_empty() {
            piece.puts
        } else {
            piece.changes.put_behind(piece.deletes.len());
            piece.deletes.append(&piece.puts);
            piece.deletes
        };
        let statements = recorded.stage(&mut batch, wall_ms);
        let delta = [Delta {
            ident: collection.ident,
            uuid: collection.uuid,
            namespace: collection.told_name().as_bytes(),
            documents: piece.documents,
            bytes: piece.bytes,
        }];
        let header = Header {
            flags: if piece.marks.is_empty() { 0 } else { MARKS },
            wall_ms,
            deltas: if piece.changes.is_empty() {
                &[]
            } else {
                &delta
            },
            changes: Some(&piece.changes),
            session: recorded.section(collection, &statements),
            ..Header::PLAIN
        };
        let syncing = (level == Level::Durable).then_some(until);
        let committed = self.parts.commits.commit_whole(syncing, &header, batch);
        recorded.settle(committed.is_ok());
        committed.map(Some)
    }

    /// Begins a unit of several pieces.
    pub fn begin(&self, operation: &Operation, over: UnitReads) -> Result<WriteUnit> {
        operation.check()?;
        let commits = &self.parts.commits;
        let applied_lsn = || commits.path().applied_lsn();
        WriteUnit::begin(&self.parts.locks, &self.parts.reads, applied_lsn, over)
    }

    /// Begins a transaction, whose snapshot is made here. WriteConflict where as many are open as may be.
    pub fn begin_transaction(&self, operation: &Operation) -> Result<Transaction> {
        let replaced_before = self.parts.commits.path().replaced_bytes();
        let entered = OpenTransactions::enter(&self.transactions, replaced_before)?;
        // Not above what the snapshot has.
        let lsn = self.parts.commits.path().applied_lsn();
        let unit = self.begin(operation, UnitReads::Snapshot)?;
        #[cfg(test)]
        let unit = match unit.unit.locks.is_mutant(Mutant::ReadsOldSnapshot) {
            true => self.begun_before.lock().replace(unit),
            false => Some(unit),
        };
        #[cfg(test)]
        let unit = match unit {
            Some(unit) => unit,
            None => self.begin(operation, UnitReads::Snapshot)?,
        };
        Ok(Transaction::new(unit, lsn, entered))
    }

    /// Like `begin_transaction`, over a snapshot that was made before, when commits had replaced `replaced_before` bytes, and has every
    /// commit up to `lsn`. What was changed and changed back since is no conflict.
    pub fn begin_transaction_at(
        &self,
        snapshot: ReadSnapshot,
        lsn: u64,
        replaced_before: u64,
        operation: &Operation,
    ) -> Result<Transaction> {
        operation.check()?;
        let entered = OpenTransactions::enter(&self.transactions, replaced_before)?;
        let applied_lsn = || self.parts.commits.path().applied_lsn();
        let unit = WriteUnit::begin_at(&self.parts.locks, snapshot, applied_lsn);
        Ok(Transaction::new(unit, lsn, entered))
    }

    /// The documents of a collection and their bytes, as a unit sees them.
    pub fn counts_in(&self, unit: &WriteUnit, ident: Ident) -> Result<Counts> {
        unit.counts(ident, || self.parts.commits.counts(ident))
    }

    /// Reads a record of a collection that a unit holds; false if there is none.
    pub fn get_record_in(
        &self,
        unit: &WriteUnit,
        key: &[u8],
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        unit.get_record(&self.parts.reads, key, read)
    }

    /// Commits everything that a unit has staged as one record, and gives its locks back. None if it has changed nothing.
    /// `session` are puts of system keys that go with it into the same batch; with a unit that has changed nothing they are
    /// left out. Where one of its statements has ended with an error, nothing is committed and that error is answered.
    pub fn commit(
        &self,
        mut unit: WriteUnit,
        operation: &Operation,
        level: Level,
        session: &WriteBatch,
    ) -> Result<Option<u64>> {
        unit.check()?;
        operation.check()?;
        let Some(mut whole) = unit.take_whole() else {
            return Ok(None);
        };
        #[cfg(test)]
        if unit.unit.locks.is_mutant(Mutant::LosesTheLast) {
            whole.batch = without_the_last(&whole.batch);
        }
        whole.batch.append(session);
        let deltas: SmallVec<[Delta<'_>; 2]> = whole.tallies.iter().map(Tally::delta).collect();
        let mut flags = match whole.definitions.is_empty() {
            true => 0,
            false => CATALOG | ALLOCATED,
        };
        if whole.repeats {
            flags |= REPEATS;
        }
        let header = Header {
            flags,
            wall_ms: now_ms(),
            deltas: &deltas,
            changes: Some(&whole.changes),
            definitions: &whole.definitions,
            session: operation
                .retryable()
                .map(RetryableWrite::transaction_section),
        };
        let _admitted = self.admit(whole.batch.bytes_len(), operation)?;
        let syncing = (level == Level::Durable).then_some(Until::Applied);
        let lsn = self
            .parts
            .commits
            .commit_whole(syncing, &header, whole.batch)?;
        unit.unit.locks.note_commit(lsn);
        Ok(Some(lsn))
    }

    /// Commits, apart from the unit that is about to put the entries, that indexes of a collection meet arrays or cut keys.
    /// Every plan from here on knows it, in the unit too. A collection that the unit makes has its marks in the unit:
    /// nobody else plans over it.
    fn mark_now(
        &self,
        unit: &WriteUnit,
        collection: &Collection,
        index_catalog: &IndexCatalog,
        marks: impl Iterator<Item = (usize, u64)>,
    ) -> Result<()> {
        let mut new: SmallVec<[(usize, u64); 4]> = SmallVec::new();
        for (number, components) in marks {
            match new.iter_mut().find(|(known, _)| *known == number) {
                Some((_, known)) => *known |= components,
                None => new.push((number, components)),
            }
        }
        if unit.made(&collection.namespace).is_some() {
            return Ok(());
        }
        let mut piece = Piece::default();
        for (number, components) in new {
            piece.mark_multikey(&index_catalog.indexes[number], components);
        }
        self.commit_piece(
            Level::Written,
            collection,
            piece,
            Until::Applied,
            Recorded::Nothing,
        )
        .map(drop)
    }
}

#[cfg(test)]
fn without_the_last(batch: &WriteBatch) -> WriteBatch {
    let mut shorter = WriteBatch::new();
    for op in batch.iter().take(batch.iter().count() - 1) {
        match op {
            quarry_storage::Op::Put(key, value) => shorter.put(key, value),
            quarry_storage::Op::Delete(key) => shorter.delete(key),
        }
    }
    shorter
}
