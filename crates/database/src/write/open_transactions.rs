//! The transactions that are open: how many, since when, and what they hold in memory together.
//!
//! A transaction is entered when it begins and leaves when it ends, however it ends. What one may stage is bounded
//! (`TRANSACTION_BYTES_MAX`); how many are open, and what all of them take in memory together, is bounded here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quarry_timing::Durations;

use crate::error::{Error, Result};

/// The transactions that may be open at once. Each keeps a snapshot, and an engine has so many readers and no more (mdbx
/// 4,096): those outside of transactions must find room however many transactions lie idle.
pub const OPEN_TRANSACTIONS_MAX: usize = 2048;

/// The bytes that all open transactions may take in memory together: what they stage, and what they note of each record and
/// lock, which is several times as much where documents are small.
pub const TRANSACTIONS_MEMORY_BYTES_MAX: u64 = if cfg!(test) { 2 << 20 } else { 1 << 30 };

/// The transactions that are open, and counts of those that were.
#[derive(Default)]
pub struct OpenTransactions {
    /// The begin of each, by its number.
    open: Mutex<BTreeMap<u64, Begin>>,
    started: AtomicU64,
    committed: AtomicU64,
    aborted: AtomicU64,
    staged_bytes: AtomicU64,
    memory_bytes: AtomicU64,
    /// From the begin to the end of each that has ended.
    durations: Mutex<Durations>,
}

/// The begin of a transaction.
#[derive(Clone, Copy)]
struct Begin {
    at: Instant,
    /// The bytes that commits had replaced before its snapshot was made (`CommitPath::replaced_bytes`).
    replaced_before: u64,
}

/// The figures of transactions since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionCounters {
    /// Transactions that are open.
    pub open: u64,
    /// Transactions that have begun.
    pub started: u64,
    /// Transactions that were committed, those that have written nothing among them.
    pub committed: u64,
    /// Transactions that ended otherwise.
    pub aborted: u64,
    /// The bytes that those that are open have staged.
    pub staged_bytes: u64,
    /// About the bytes that those that are open take in memory.
    pub memory_bytes: u64,
    /// The age of the one that has been open for longest.
    pub oldest: Option<Duration>,
    /// About the bytes, at most, that the engine keeps for the snapshots of those that are open.
    pub pinned_bytes: u64,
}

/// A transaction among those that are open; it leaves when this is dropped, and counts as aborted unless it was committed.
pub(super) struct Entered {
    transactions: Arc<OpenTransactions>,
    number: u64,
    begin: Begin,
    staged_bytes: u64,
    memory_bytes: u64,
    is_committed: bool,
}

impl OpenTransactions {
    /// Enters a transaction that begins, before it has a snapshot, with the bytes that commits have replaced before that.
    /// WriteConflict where as many are open as may be: the others end some time, and this one may begin again.
    pub(super) fn enter(
        transactions: &Arc<OpenTransactions>,
        replaced_before: u64,
    ) -> Result<Entered> {
        let begin = Begin {
            at: Instant::now(),
            replaced_before,
        };
        let mut open = transactions.open.lock();
        if open.len() >= OPEN_TRANSACTIONS_MAX {
            return Err(Error::WriteConflict);
        }
        let number = transactions.started.fetch_add(1, Ordering::Relaxed);
        open.insert(number, begin);
        drop(open);
        Ok(Entered {
            transactions: Arc::clone(transactions),
            number,
            begin,
            staged_bytes: 0,
            memory_bytes: 0,
            is_committed: false,
        })
    }

    /// How long those were open that have ended, committed or not.
    pub fn durations(&self) -> Durations {
        self.durations.lock().clone()
    }

    /// The figures now, where commits have replaced so many bytes since the start.
    pub fn counters(&self, replaced_bytes: u64) -> TransactionCounters {
        let (open, oldest, replaced_before) = {
            let open = self.open.lock();
            let oldest = open.values().map(|begin| begin.at).min();
            let replaced_before = open.values().map(|begin| begin.replaced_before).min();
            (open.len() as u64, oldest, replaced_before)
        };
        let pinned = replaced_before.map(|before| replaced_bytes.saturating_sub(before));
        TransactionCounters {
            open,
            started: self.started.load(Ordering::Relaxed),
            committed: self.committed.load(Ordering::Relaxed),
            aborted: self.aborted.load(Ordering::Relaxed),
            staged_bytes: self.staged_bytes.load(Ordering::Relaxed),
            memory_bytes: self.memory_bytes.load(Ordering::Relaxed),
            oldest: oldest.map(|begun| begun.elapsed()),
            pinned_bytes: pinned.unwrap_or(0),
        }
    }
}

impl Entered {
    /// When the transaction was entered.
    pub fn begun(&self) -> Instant {
        self.begin.at
    }

    /// The bytes that commits had replaced before its snapshot was made.
    pub fn replaced_before(&self) -> u64 {
        self.begin.replaced_before
    }

    /// Counts what the transaction has staged and takes in memory by now. False where all together take too much.
    pub fn grown(&mut self, staged_bytes: u64, memory_bytes: u64) -> bool {
        let all = &self.transactions;
        let staged = staged_bytes.saturating_sub(self.staged_bytes);
        self.staged_bytes += staged;
        all.staged_bytes.fetch_add(staged, Ordering::Relaxed);
        let memory = memory_bytes.saturating_sub(self.memory_bytes);
        self.memory_bytes += memory;
        all.memory_bytes.fetch_add(memory, Ordering::Relaxed) + memory
            <= TRANSACTIONS_MEMORY_BYTES_MAX
    }

    /// The transaction is committed.
    pub fn committed(mut self) {
        self.is_committed = true;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let transactions = &self.transactions;
        transactions.open.lock().remove(&self.number);
        transactions
            .staged_bytes
            .fetch_sub(self.staged_bytes, Ordering::Relaxed);
        transactions
            .memory_bytes
            .fetch_sub(self.memory_bytes, Ordering::Relaxed);
        let ended = match self.is_committed {
            true => &transactions.committed,
            false => &transactions.aborted,
        };
        ended.fetch_add(1, Ordering::Relaxed);
        transactions
            .durations
            .lock()
            .record(self.begin.at.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};
    use quarry_journal::Level;

    use super::*;
    use crate::database::{Database, Scope};
    use crate::keyspace::namespace::Namespace;
    use crate::operation::Operation;

    #[test]
    fn many_small_documents_count_with_all_that_is_noted_of_them() {
        let database = Database::open_in_memory().unwrap();
        let operation = Operation::default();
        let namespace = Namespace::parse("db.c").unwrap();
        database
            .collection_or_create(&namespace, &operation)
            .unwrap();
        let mut open = Vec::new();
        let refused = (0..8).find_map(|number| {
            let transaction = database.begin_transaction(&operation).unwrap();
            let ids = number * 900..(number + 1) * 900;
            let documents: Vec<Document> = ids.map(|id| doc! { "_id": id }).collect();
            let raw: Vec<_> = documents.iter().map(Document::as_raw).collect();
            let scope = Scope::in_transaction(&database, &transaction);
            let inserted = scope.insert_piece(&operation, &namespace, &raw, true, Level::Written);
            open.push(transaction);
            inserted.err()
        });
        let counters = database.transaction_counters();
        assert!(counters.staged_bytes < TRANSACTIONS_MEMORY_BYTES_MAX / 2);
        assert_eq!(refused.expect("they take too much").code(), 112);
        assert!(counters.memory_bytes > TRANSACTIONS_MEMORY_BYTES_MAX);
        open.clear();
        assert_eq!(database.transaction_counters().memory_bytes, 0);
    }
}
