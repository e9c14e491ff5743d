//! The transactions that are open: how many, since when, and what they hold in memory together.
//!
//! A transaction is entered when it begins and leaves when it ends, however it ends. What one may stage is bounded
//! (`TRANSACTION_BYTES_MAX`); how many are open, and what all of them stage together, is bounded here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// The transactions that may be open at once. Each keeps a snapshot, and an engine has so many readers and no more (mdbx
/// 4,096): those outside of transactions must find room however many transactions lie idle.
pub const OPEN_TRANSACTIONS_MAX: usize = 2048;

/// The bytes that all open transactions may stage together.
pub const STAGED_BYTES_MAX: u64 = if cfg!(test) { 2 << 20 } else { 1 << 30 };

/// The transactions that are open, and counts of those that were.
#[derive(Default)]
pub struct OpenTransactions {
    /// When each began, by its number.
    open: Mutex<BTreeMap<u64, Instant>>,
    started: AtomicU64,
    committed: AtomicU64,
    aborted: AtomicU64,
    staged_bytes: AtomicU64,
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
    /// The age of the one that has been open for longest.
    pub oldest: Option<Duration>,
}

/// A transaction among those that are open; it leaves when this is dropped, and counts as aborted unless it was committed.
pub(super) struct Entered {
    transactions: Arc<OpenTransactions>,
    number: u64,
    begun: Instant,
    bytes: u64,
    is_committed: bool,
}

impl OpenTransactions {
    /// Enters a transaction that begins, before it has a snapshot. WriteConflict where as many are open as may be: the others
    /// end some time, and this one may begin again.
    pub(super) fn enter(transactions: &Arc<OpenTransactions>) -> Result<Entered> {
        let begun = Instant::now();
        let mut open = transactions.open.lock();
        if open.len() >= OPEN_TRANSACTIONS_MAX {
            return Err(Error::WriteConflict);
        }
        let number = transactions.started.fetch_add(1, Ordering::Relaxed);
        open.insert(number, begun);
        drop(open);
        Ok(Entered {
            transactions: Arc::clone(transactions),
            number,
            begun,
            bytes: 0,
            is_committed: false,
        })
    }

    /// The figures now.
    pub fn counters(&self) -> TransactionCounters {
        let (open, oldest) = {
            let open = self.open.lock();
            (open.len() as u64, open.values().min().copied())
        };
        TransactionCounters {
            open,
            started: self.started.load(Ordering::Relaxed),
            committed: self.committed.load(Ordering::Relaxed),
            aborted: self.aborted.load(Ordering::Relaxed),
            staged_bytes: self.staged_bytes.load(Ordering::Relaxed),
            oldest: oldest.map(|begun| begun.elapsed()),
        }
    }
}

impl Entered {
    /// When the transaction was entered.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Counts what the transaction has staged by now. False where all together have staged too much.
    pub fn staged(&mut self, bytes: u64) -> bool {
        let all = &self.transactions.staged_bytes;
        let more = bytes.saturating_sub(self.bytes);
        self.bytes += more;
        all.fetch_add(more, Ordering::Relaxed) + more <= STAGED_BYTES_MAX
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
            .fetch_sub(self.bytes, Ordering::Relaxed);
        let ended = match self.is_committed {
            true => &transactions.committed,
            false => &transactions.aborted,
        };
        ended.fetch_add(1, Ordering::Relaxed);
    }
}
