//! Snapshots for reads with read concern `snapshot` outside of transactions: several reads, of one client or of many, see the
//! state at one cluster time.
//!
//! A snapshot is made for whoever asks first and kept for those who name its time later: for five minutes, or as long as the
//! database is told, and only so many at once; the oldest goes first, and is then SnapshotTooOld for all but those who read
//! it already. Those are counted for as long as anybody reads them. It holds no collection: a definition that has changed since is SnapshotUnavailable. While one is kept, no dropped space is reclaimed
//! that it can see.
//!
//! Which state belongs to a time the journal tells: everything before the first record with a later time. What a snapshot
//! holds the engine tells, by the applied LSN that is in every batch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quarry_journal::Journal;
use quarry_storage::APPLIED_LSN_KEY;

use crate::catalog::cache::Catalog;
use crate::catalog::collection::Collection;
use crate::commit::{Counts, decode_counts};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;
use crate::snapshot::collection_snapshot::{CollectionSnapshot, entry_in, snapshot_unavailable};
use crate::snapshot::reads::{ReadSnapshot, Reads};

/// How many milliseconds a snapshot is kept for others unless the database is told otherwise, as MongoDB's
/// `minSnapshotHistoryWindowInSeconds` has it.
const WINDOW_MS_DEFAULT: u64 = 300_000;
/// The number of snapshots that are kept at most.
const PINNED_MAX: usize = 64;
/// How often a snapshot is made anew where others commit while it is made.
const ATTEMPTS_MAX: usize = 1000;

/// The state of the database at one cluster time.
pub struct PinnedSnapshot {
    snapshot: Mutex<ReadSnapshot>,
    /// It has every commit up to this LSN, and none behind it.
    lsn: u64,
    made: Instant,
    /// Counts it until it is dropped.
    held: Arc<Held>,
    number: u64,
}

/// The snapshots that are kept, by the last LSN that each has.
pub(super) struct PinnedSnapshots {
    by_lsn: Mutex<BTreeMap<u64, Arc<PinnedSnapshot>>>,
    window_ms: AtomicU64,
    held: Arc<Held>,
}

/// The figures of the snapshots that are pinned: kept for those who name their times, or still read by a cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedFigures {
    /// How many there are.
    pub count: usize,
    /// The age of the oldest one.
    pub oldest: Option<Duration>,
}

/// When each snapshot was made that somebody still has, by a number that rises. Its lock is a leaf.
#[derive(Default)]
struct Held(Mutex<BTreeMap<u64, Instant>>);

impl Held {
    /// Counts another one; returns its number.
    fn add(&self, made: Instant) -> u64 {
        let mut held = self.0.lock();
        let number = held.last_key_value().map_or(0, |(last, _)| last + 1);
        held.insert(number, made);
        number
    }
}

impl Default for PinnedSnapshots {
    fn default() -> PinnedSnapshots {
        PinnedSnapshots {
            by_lsn: Mutex::default(),
            window_ms: AtomicU64::new(WINDOW_MS_DEFAULT),
            held: Arc::default(),
        }
    }
}

impl Drop for PinnedSnapshot {
    fn drop(&mut self) {
        self.held.0.lock().remove(&self.number);
    }
}

/// Whether a snapshot belongs to a time.
enum Found {
    Pinned(Arc<PinnedSnapshot>),
    /// It has later commits as well.
    TooLate,
    /// It lacks commits that are just being applied.
    TooEarly,
}

impl PinnedSnapshots {
    /// The state at a cluster time, or now; and the time that stands for it from now on.
    pub fn pin(
        &self,
        reads: &Reads,
        journal: &Journal,
        at: Option<u64>,
    ) -> Result<(Arc<PinnedSnapshot>, u64)> {
        self.expire();
        if at.is_some_and(|at| !journal.advance_cluster_time(at)) {
            let message = "atClusterTime is too far ahead of this machine's clock";
            return Err(Error::invalid(ErrorCode::INVALID_OPTIONS, message));
        }
        for _ in 0..ATTEMPTS_MAX {
            let time = at.unwrap_or_else(|| journal.cluster_time());
            match self.try_pin(reads, journal, time)? {
                Found::Pinned(pinned) => return Ok((pinned, time)),
                Found::TooLate if at.is_some() => return Err(too_old()),
                Found::TooLate | Found::TooEarly => std::thread::yield_now(),
            }
        }
        let message =
            "Unable to read from a snapshot: commits come too fast; please retry the operation.";
        Err(Error::invalid(ErrorCode::SNAPSHOT_UNAVAILABLE, message))
    }

    /// Gives up those that have been kept for long enough.
    pub fn expire(&self) {
        let window = Duration::from_millis(self.window_ms.load(Relaxed));
        let mut by_lsn = self.by_lsn.lock();
        by_lsn.retain(|_, pinned| pinned.made.elapsed() < window);
    }

    /// Keeps snapshots for so long from now on.
    pub fn set_window(&self, window: Duration) {
        let ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        self.window_ms.store(ms, Relaxed);
    }

    pub fn figures(&self) -> PinnedFigures {
        let held = self.held.0.lock();
        let oldest = held.values().next().map(Instant::elapsed);
        let count = held.len();
        PinnedFigures { count, oldest }
    }

    fn try_pin(&self, reads: &Reads, journal: &Journal, time: u64) -> Result<Found> {
        // In this order: what is accepted and not later than the time is counted.
        let accepted = journal.accepted_lsn();
        let later = journal.first_since(time + 1).map_err(of_history)?;
        let wanted = later.map_or(accepted, |later| later - 1);
        if let Some(pinned) = self.by_lsn.lock().get(&wanted) {
            return Ok(Found::Pinned(Arc::clone(pinned)));
        }
        let snapshot = reads.snapshot()?;
        let mut last = 0;
        snapshot.get(APPLIED_LSN_KEY, &mut |value| {
            last = value.try_into().map_or(0, u64::from_le_bytes);
        })?;
        if last != wanted {
            return Ok(match last > wanted {
                true => Found::TooLate,
                false => Found::TooEarly,
            });
        }
        let made = Instant::now();
        let pinned = Arc::new(PinnedSnapshot {
            snapshot: Mutex::new(snapshot),
            lsn: wanted,
            made,
            number: self.held.add(made),
            held: Arc::clone(&self.held),
        });
        let mut by_lsn = self.by_lsn.lock();
        if by_lsn.len() >= PINNED_MAX {
            by_lsn.pop_first();
        }
        let pinned = by_lsn.entry(wanted).or_insert(pinned);
        Ok(Found::Pinned(Arc::clone(pinned)))
    }
}

impl PinnedSnapshot {
    /// How long ago it was made.
    pub fn age(&self) -> Duration {
        self.made.elapsed()
    }

    /// The collection that the name means in the snapshot, if there is one.
    pub(super) fn collection(
        &self,
        catalog: &Catalog,
        namespace: &Namespace,
    ) -> Result<Option<Arc<Collection>>> {
        let now = catalog.get(namespace)?;
        let then = entry_in(&self.snapshot.lock(), namespace)?;
        let is_same = then.as_deref() == now.as_ref().map(|now| now.entry.as_bytes());
        match is_same {
            true => Ok(now),
            false => Err(snapshot_unavailable(namespace)),
        }
    }

    /// A snapshot of its moment for a transaction, and the last LSN that it has.
    pub(super) fn share(&self) -> Result<(ReadSnapshot, u64)> {
        Ok((self.snapshot.lock().share()?, self.lsn))
    }

    /// One of its collections.
    pub(super) fn open(
        &self,
        catalog: &Arc<Catalog>,
        namespace: &Namespace,
    ) -> Result<Option<CollectionSnapshot>> {
        let Some(collection) = self.collection(catalog, namespace)? else {
            return Ok(None);
        };
        let snapshot = self.snapshot.lock().share()?;
        Ok(Some(CollectionSnapshot::of(
            collection, catalog, snapshot, None,
        )))
    }

    pub(super) fn get_record(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.snapshot.lock().get_record(key, read)
    }

    pub(super) fn counts(&self, collection: &Collection) -> Result<Counts> {
        let mut counts = Counts::default();
        let key = layout::counters_key(collection.ident);
        let mut read = |value: &[u8]| counts = decode_counts(value);
        self.snapshot.lock().get(&key, &mut read)?;
        Ok(counts)
    }
}

/// Translates the error of a journal that cannot read the records of a time: gone ones make it too old, a broken disk does not.
fn of_history(error: quarry_journal::Error) -> Error {
    match error {
        quarry_journal::Error::HistoryMissing { .. } => too_old(),
        other => other.into(),
    }
}

fn too_old() -> Error {
    let message = "Read timestamp is older than the oldest available timestamp.";
    Error::invalid(ErrorCode::SNAPSHOT_TOO_OLD, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_history_that_has_gone_is_too_old() {
        let broken = quarry_journal::Error::NoSpace {
            message: String::from("the disk is full"),
        };
        assert_ne!(of_history(broken).code(), 239);
        assert_eq!(too_old().code(), 239);
    }
}
