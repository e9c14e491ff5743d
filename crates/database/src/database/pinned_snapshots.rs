//! Snapshots for reads with read concern `snapshot` outside of transactions: several reads, of one client or of many, see the
//! state at one cluster time.
//!
//! A snapshot is made for whoever asks first and kept for those who name its time later: for five minutes, or as long as the
//! database is told, and only so many at once; the oldest goes first, and is then SnapshotTooOld for all but those who read
//! it already. Those are counted for as long as anybody reads them. It holds no collection: a definition that has changed since is SnapshotUnavailable. While one is kept, no dropped space is reclaimed
//! that it can see, and the engine keeps what was replaced since.
//!
//! How much that may be is counted (`CommitPath::replaced_bytes`) and can be bounded. A snapshot beyond the bound is *given up*: the engine
//! has it no more, and it is SnapshotTooOld for those who read it, too; a read that runs just then goes on to the end of its batch.
//!
//! Which state belongs to a time the journal tells: everything before the first record with a later time. What a snapshot
//! holds the engine tells, by the applied LSN that is in every batch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quarry_storage::APPLIED_LSN_KEY;

use crate::catalog::cache::Catalog;
use crate::catalog::collection::Collection;
use crate::commit::commits::Commits;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::keyspace::counts::{Counts, decode_counts};
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
    moment: Arc<Moment>,
    /// Counts it until it is dropped.
    held: Arc<Held>,
    number: u64,
}

/// One state of the database.
struct Moment {
    /// None once it is given up.
    snapshot: Mutex<Option<ReadSnapshot>>,
    /// It has every commit up to this LSN, and none behind it.
    lsn: u64,
    made: Instant,
    /// The bytes that commits had replaced before.
    replaced_before: u64,
}

/// The snapshots that are kept, by the last LSN that each has.
pub(super) struct PinnedSnapshots {
    by_lsn: Mutex<BTreeMap<u64, Arc<PinnedSnapshot>>>,
    window_ms: AtomicU64,
    /// The bytes that the engine may keep for one; all there are where nothing is bounded.
    bytes_max: AtomicU64,
    given_up: AtomicU64,
    held: Arc<Held>,
}

/// The figures of the snapshots that are pinned: kept for those who name their times, or still read by a cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedFigures {
    /// How many there are.
    pub count: usize,
    /// The age of the oldest one.
    pub oldest: Option<Duration>,
    /// About the bytes, at most, that the engine keeps for them.
    pub pinned_bytes: u64,
    /// How many were given up since the start because the engine kept too much for them.
    pub given_up: u64,
}

/// The moments of the snapshots that somebody still has and that are not given up, by numbers that rise. Its lock is a leaf.
#[derive(Default)]
struct Held {
    moments: Mutex<BTreeMap<u64, Arc<Moment>>>,
    next: AtomicU64,
}

impl Held {
    /// Counts another one; returns its number, which no other ever has.
    fn add(&self, moment: &Arc<Moment>) -> u64 {
        let number = self.next.fetch_add(1, Relaxed);
        self.moments.lock().insert(number, Arc::clone(moment));
        number
    }

    /// Takes those out that are meant, and counts them no more.
    fn take(&self, is_meant: impl Fn(&Moment) -> bool) -> Vec<Arc<Moment>> {
        let mut moments = self.moments.lock();
        let meant = moments.iter().filter(|(_, moment)| is_meant(moment));
        let meant: Vec<u64> = meant.map(|(number, _)| *number).collect();
        let taken = meant.iter().filter_map(|number| moments.remove(number));
        taken.collect()
    }
}

impl Moment {
    /// About the bytes, at most, that the engine keeps for it.
    fn pinned_bytes(&self, replaced_bytes: u64) -> u64 {
        replaced_bytes.saturating_sub(self.replaced_before)
    }

    /// Lets the engine's snapshot go.
    fn give_up(&self) {
        let snapshot = self.snapshot.lock().take();
        drop(snapshot);
    }

    /// Reads the snapshot, if it is still there.
    fn read<T>(&self, read: impl FnOnce(&mut ReadSnapshot) -> Result<T>) -> Result<T> {
        match &mut *self.snapshot.lock() {
            Some(snapshot) => read(snapshot),
            None => Err(too_old()),
        }
    }
}

impl Default for PinnedSnapshots {
    fn default() -> PinnedSnapshots {
        PinnedSnapshots {
            by_lsn: Mutex::default(),
            window_ms: AtomicU64::new(WINDOW_MS_DEFAULT),
            bytes_max: AtomicU64::new(u64::MAX),
            given_up: AtomicU64::new(0),
            held: Arc::default(),
        }
    }
}

impl Drop for PinnedSnapshot {
    fn drop(&mut self) {
        self.held.moments.lock().remove(&self.number);
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
        commits: &Commits,
        at: Option<u64>,
    ) -> Result<(Arc<PinnedSnapshot>, u64)> {
        let journal = commits.journal();
        self.expire(commits.path().replaced_bytes());
        if at.is_some_and(|at| !journal.advance_cluster_time(at)) {
            let message = "atClusterTime is too far ahead of this machine's clock";
            return Err(Error::invalid(ErrorCode::INVALID_OPTIONS, message));
        }
        for _ in 0..ATTEMPTS_MAX {
            let time = at.unwrap_or_else(|| journal.cluster_time());
            match self.try_pin(reads, commits, time)? {
                Found::Pinned(pinned) => return Ok((pinned, time)),
                Found::TooLate if at.is_some() => return Err(too_old()),
                Found::TooLate | Found::TooEarly => std::thread::yield_now(),
            }
        }
        let message =
            "Unable to read from a snapshot: commits come too fast; please retry the operation.";
        Err(Error::invalid(ErrorCode::SNAPSHOT_UNAVAILABLE, message))
    }

    /// Keeps those no longer that have been kept for long enough, and gives up those for which the engine may keep too much, where
    /// commits have replaced so many bytes since the start.
    pub fn expire(&self, replaced_bytes: u64) {
        let window = Duration::from_millis(self.window_ms.load(Relaxed));
        let bytes_max = self.bytes_max.load(Relaxed);
        let costs_too_much = |moment: &Moment| moment.pinned_bytes(replaced_bytes) > bytes_max;
        let costly = self.held.take(costs_too_much);
        let mut by_lsn = self.by_lsn.lock();
        by_lsn.retain(|_, pinned| {
            pinned.moment.made.elapsed() < window && !costs_too_much(&pinned.moment)
        });
        drop(by_lsn);
        for moment in &costly {
            moment.give_up();
        }
        self.given_up.fetch_add(costly.len() as u64, Relaxed);
    }

    /// Keeps snapshots for so long from now on.
    pub fn set_window(&self, window: Duration) {
        let ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        self.window_ms.store(ms, Relaxed);
    }

    /// Bounds the bytes that the engine may keep for a snapshot, from now on.
    pub fn set_bytes_max(&self, bytes_max: Option<u64>) {
        self.bytes_max.store(bytes_max.unwrap_or(u64::MAX), Relaxed);
    }

    /// The figures, where commits have replaced so many bytes since the start.
    pub fn figures(&self, replaced_bytes: u64) -> PinnedFigures {
        let moments = self.held.moments.lock();
        let bytes = (moments.values()).map(|moment| moment.pinned_bytes(replaced_bytes));
        let made = moments.values().map(|moment| moment.made).min();
        PinnedFigures {
            count: moments.len(),
            oldest: made.map(|made| made.elapsed()),
            pinned_bytes: bytes.max().unwrap_or(0),
            given_up: self.given_up.load(Relaxed),
        }
    }

    fn try_pin(&self, reads: &Reads, commits: &Commits, time: u64) -> Result<Found> {
        let journal = commits.journal();
        // In this order: what is accepted and not later than the time is counted.
        let accepted = journal.accepted_lsn();
        let later = journal.first_since(time + 1).map_err(of_history)?;
        let wanted = later.map_or(accepted, |later| later - 1);
        if let Some(pinned) = self.by_lsn.lock().get(&wanted) {
            return Ok(Found::Pinned(Arc::clone(pinned)));
        }
        let replaced_before = commits.path().replaced_bytes();
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
        let moment = Arc::new(Moment {
            snapshot: Mutex::new(Some(snapshot)),
            lsn: wanted,
            made: Instant::now(),
            replaced_before,
        });
        let pinned = Arc::new(PinnedSnapshot {
            number: self.held.add(&moment),
            held: Arc::clone(&self.held),
            moment,
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
        self.moment.made.elapsed()
    }

    /// The bytes that commits had replaced before it was made.
    pub(super) fn replaced_before(&self) -> u64 {
        self.moment.replaced_before
    }

    /// The collection that the name means in the snapshot, if there is one.
    pub(super) fn collection(
        &self,
        catalog: &Catalog,
        namespace: &Namespace,
    ) -> Result<Option<Arc<Collection>>> {
        let now = catalog.get(namespace)?;
        let then = self.moment.read(|snapshot| entry_in(snapshot, namespace))?;
        let is_same = then.as_deref() == now.as_ref().map(|now| now.entry.as_bytes());
        match is_same {
            true => Ok(now),
            false => Err(snapshot_unavailable(namespace)),
        }
    }

    /// A snapshot of its moment for a transaction, and the last LSN that it has.
    pub(super) fn share(&self) -> Result<(ReadSnapshot, u64)> {
        let snapshot = self.moment.read(ReadSnapshot::share)?;
        Ok((snapshot, self.moment.lsn))
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
        let snapshot = self.moment.read(ReadSnapshot::share)?;
        Ok(Some(CollectionSnapshot::of(
            collection, catalog, snapshot, None,
        )))
    }

    pub(super) fn get_record(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.moment.read(|snapshot| snapshot.get_record(key, read))
    }

    pub(super) fn counts(&self, collection: &Collection) -> Result<Counts> {
        let mut counts = Counts::default();
        let key = layout::counters_key(collection.ident);
        let mut read = |value: &[u8]| counts = decode_counts(value);
        self.moment.read(|snapshot| snapshot.get(&key, &mut read))?;
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
