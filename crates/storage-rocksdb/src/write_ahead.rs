//! The write-ahead rule at RocksDB's flushes, and what else RocksDB tells us from its threads.
//!
//! A flush that begins asks the hook for the highest LSN handed to RocksDB so far, which is at or
//! above everything in the memtables it picked. RocksDB offers no way to refuse a flush there, so
//! a refused one waits on its own thread and asks again, until the journal agrees or the engine
//! shuts down; RocksDB discards a flush that finishes during a shutdown.
//!
//! Compactions wait there for the end of a replay, if the engine was opened for one.
//!
//! Flushes and compactions wait there for file descriptors too. One that finds none in the middle all the same would be an error
//! from which RocksDB does not recover without being opened again: it is kept from RocksDB, which tries a compaction again by
//! itself; a flush is asked for again by [`crate::RocksDb`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, RwLock};
use quarry_storage::{BeforeDurable, Error, Result, check_descriptors};
use rust_rocksdb::event_listener::{
    BackgroundErrorStatus, CompactionJobInfo, DBBackgroundErrorReason, DBWriteStallCondition,
    EventListener, FlushJobInfo, MutableStatus, WriteStallInfo,
};

use crate::{failure::from_rocksdb, iterator_pool::IteratorPool};

const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// The descriptors that a flush has open together: its table, the manifest, the directory, and some more.
pub(crate) const DESCRIPTORS_OF_A_JOB: usize = 8;
/// With so many tables in level 0 compactions do not wait for a replay; with 20 RocksDB slows writes down until they are done.
const LEVEL0_MAX_IN_REPLAY: u64 = 8;
/// Nor longer than this: a replay that waits for RocksDB may wait for a compaction after all.
const REPLAY_MAX: Duration = Duration::from_secs(5);
/// A compaction opens its inputs as well, those of which the table cache has let go; beyond so many the wait is not exact.
const INPUTS_ASKED_FOR_MAX: usize = 64;

/// Shared by the engine and RocksDB's threads. Lock order: `failure`, then `refusal`; no other two are held at once.
#[derive(Default)]
pub(crate) struct WriteAhead {
    hook: RwLock<Option<BeforeDurable>>,
    /// The highest LSN handed to RocksDB, set before the write.
    written_lsn: AtomicU64,
    /// Why a flush waits now: the hook refuses it, or there are no descriptors.
    refusal: Mutex<Option<Error>>,
    failure: Mutex<Failure>,
    /// Either of the two above may be set. Changes under `failure`.
    in_trouble: AtomicBool,
    /// Compactions wait for the end of a replay.
    is_replaying: AtomicBool,
    /// The tables of level 0, as long as compactions wait.
    level0_tables: AtomicU64,
    shutting_down: Mutex<bool>,
    /// Told to those who wait before their work, when the engine shuts down or a replay has ended.
    may_go_on: Condvar,
    /// Everything up to this sequence number of RocksDB's is in tables.
    flushed_sequence: Mutex<u64>,
    flush_ended: Condvar,
    writes_stopped: AtomicBool,
    /// Since when RocksDB slows writes down or takes none, if it does.
    stalled_since: Mutex<Option<Instant>>,
    /// The time that stalls took which have ended.
    stalled_ns: AtomicU64,
    /// Runs in a flush that goes on, when it has seen descriptors and before it opens its table.
    #[cfg(test)]
    pub(crate) before_table: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
    pub(crate) flushes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compaction_bytes_read: AtomicU64,
    pub(crate) compaction_bytes_written: AtomicU64,
}

/// The failures of background jobs.
#[derive(Default)]
struct Failure {
    /// The first error that was not resumed.
    error: Option<Error>,
    /// How many there have been: another one may come while RocksDB resumes.
    count: u64,
}

impl WriteAhead {
    /// With `is_replaying` compactions wait until `end_replay`.
    pub(crate) fn new(is_replaying: bool) -> WriteAhead {
        WriteAhead {
            is_replaying: AtomicBool::new(is_replaying),
            ..WriteAhead::default()
        }
    }

    /// Level 0 has so many tables more. Compactions wait for a replay no longer where writes would soon wait for them.
    pub(crate) fn note_level0(&self, tables: u64) {
        if !self.is_replaying.load(Ordering::Relaxed) {
            return;
        }
        let all = self.level0_tables.fetch_add(tables, Ordering::Relaxed) + tables;
        if all >= LEVEL0_MAX_IN_REPLAY {
            self.end_replay();
        }
    }

    /// Compactions no longer wait for a replay.
    pub(crate) fn end_replay(&self) {
        self.is_replaying.store(false, Ordering::Relaxed);
        self.may_go_on.notify_all();
    }

    pub(crate) fn set_hook(&self, hook: BeforeDurable) {
        *self.hook.write() = Some(hook);
    }

    /// Before every write that carries an LSN.
    pub(crate) fn note_lsn(&self, lsn: u64) {
        self.written_lsn.fetch_max(lsn, Ordering::SeqCst);
    }

    /// How long RocksDB has slowed writes down or taken none.
    pub(crate) fn stalled_ns(&self) -> u64 {
        let since = *self.stalled_since.lock();
        let now = since.map_or(0, |since| since.elapsed().as_nanos() as u64);
        self.stalled_ns.load(Ordering::Relaxed) + now
    }

    fn note_stall(&self, is_stalled: bool) {
        let mut since = self.stalled_since.lock();
        if is_stalled {
            since.get_or_insert_with(Instant::now);
        } else if let Some(since) = since.take() {
            let ns = since.elapsed().as_nanos() as u64;
            self.stalled_ns.fetch_add(ns, Ordering::Relaxed);
        }
    }

    pub(crate) fn flushed_sequence(&self) -> u64 {
        *self.flushed_sequence.lock()
    }

    pub(crate) fn note_flushed(&self, sequence: u64) {
        let mut flushed = self.flushed_sequence.lock();
        *flushed = sequence.max(*flushed);
        drop(flushed);
        self.flush_ended.notify_all();
    }

    /// Returns when a flush has ended, or after a moment.
    pub(crate) fn wait_for_a_flush(&self, sequence: u64) {
        let mut flushed = self.flushed_sequence.lock();
        if *flushed < sequence {
            self.flush_ended.wait_for(&mut flushed, ASK_AGAIN_AFTER);
        }
    }

    /// Asks the hook about everything written so far.
    pub(crate) fn ask(&self) -> Result<()> {
        match self.hook.read().as_ref() {
            Some(hook) => hook(self.written_lsn.load(Ordering::SeqCst)),
            None => Ok(()),
        }
    }

    /// Lets go of a flush that waits for the hook.
    pub(crate) fn shut_down(&self) {
        *self.shutting_down.lock() = true;
        self.may_go_on.notify_all();
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        *self.shutting_down.lock()
    }

    pub(crate) fn writes_stopped(&self) -> bool {
        self.writes_stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn set_writes_going(&self) {
        self.writes_stopped.store(false, Ordering::Relaxed);
    }

    /// The reason against further writes, if there is one: a flush that waits, or a background job that failed.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        if !self.in_trouble.load(Ordering::Acquire) {
            return None;
        }
        if let Some(error) = self.failure.lock().error.clone() {
            return Some(Trouble::Failed(error));
        }
        self.refusal.lock().clone().map(Trouble::Refused)
    }

    /// Taken before RocksDB is resumed, for [`WriteAhead::clear_failures`].
    pub(crate) fn failures(&self) -> u64 {
        self.failure.lock().count
    }

    /// RocksDB has resumed what had failed when there were so many failures. A later one stays; says whether none does.
    pub(crate) fn clear_failures(&self, resumed: u64) -> bool {
        let mut failure = self.failure.lock();
        let is_clear = failure.count == resumed;
        if is_clear {
            failure.error = None;
        }
        self.settle(&failure);
        is_clear
    }

    fn set_refusal(&self, refusal: Option<Error>) {
        let failure = self.failure.lock();
        *self.refusal.lock() = refusal;
        self.settle(&failure);
    }

    fn fail(&self, error: Error) {
        let mut failure = self.failure.lock();
        // One that passes by itself hides none that does not.
        let is_worse = |known: &Error| matches!(known, Error::Stalled(_));
        if failure.error.as_ref().is_none_or(is_worse) {
            failure.error = Some(error);
        }
        failure.count += 1;
        self.settle(&failure);
    }

    /// An error of RocksDB's background work. Returns whether it is to be kept from RocksDB, which goes on then; after any
    /// other it stops that work.
    fn note_error(&self, reason: DBBackgroundErrorReason, error: Error) -> bool {
        use DBBackgroundErrorReason::{KCompaction, KFlush, KFlushNoWAL};
        match (reason, error) {
            (KCompaction, Error::Stalled(_)) => true,
            (KFlush | KFlushNoWAL, Error::Stalled(cause)) => {
                self.fail(Error::Stalled(cause));
                true
            }
            // Descriptors ran out elsewhere, as in the manifest: more of them do not end what RocksDB has stopped for.
            (_, Error::Stalled(cause)) => {
                self.fail(Error::Io(cause));
                false
            }
            (_, error) => {
                self.fail(error);
                false
            }
        }
    }

    fn settle(&self, failure: &Failure) {
        let trouble = failure.error.is_some() || self.refusal.lock().is_some();
        self.in_trouble.store(trouble, Ordering::Release);
    }

    /// Returns once the hook agrees and there are descriptors, or at shutdown. Writes are refused meanwhile.
    fn wait_before_a_flush(&self) {
        let mut refused = false;
        while let Err(error) = self
            .ask()
            .and_then(|()| check_descriptors(DESCRIPTORS_OF_A_JOB))
        {
            refused = true;
            self.set_refusal(Some(error));
            if self.pause() {
                return;
            }
        }
        if refused {
            self.set_refusal(None);
        }
        #[cfg(test)]
        if let Some(before_table) = self.before_table.lock().as_ref() {
            before_table();
        }
    }

    /// Returns once nothing is replayed and there are descriptors, or at shutdown. Writes go on: RocksDB stalls them when it falls behind.
    fn wait_before_a_compaction(&self, inputs: usize) {
        let count = DESCRIPTORS_OF_A_JOB + inputs.min(INPUTS_ASKED_FOR_MAX);
        let begun = Instant::now();
        let waits_for_replay =
            || self.is_replaying.load(Ordering::Relaxed) && begun.elapsed() < REPLAY_MAX;
        while waits_for_replay() || check_descriptors(count).is_err() {
            if self.pause() {
                return;
            }
        }
    }

    /// A moment, or less when the engine shuts down: true then.
    fn pause(&self) -> bool {
        let mut shutting_down = self.shutting_down.lock();
        if !*shutting_down {
            self.may_go_on.wait_for(&mut shutting_down, ASK_AGAIN_AFTER);
        }
        *shutting_down
    }
}

pub(crate) enum Trouble {
    Refused(Error),
    Failed(Error),
}

/// The listener that RocksDB calls on its own threads.
pub(crate) struct Listener {
    pub(crate) write_ahead: Arc<WriteAhead>,
    pub(crate) iterators: Arc<IteratorPool>,
}

impl EventListener for Listener {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        self.write_ahead.wait_before_a_flush();
    }

    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        let inputs = info.input_file_count();
        self.write_ahead.wait_before_a_compaction(inputs);
    }

    fn on_flush_completed(&self, info: &FlushJobInfo) {
        // Whoever waited for it finds it counted.
        self.write_ahead.flushes.fetch_add(1, Ordering::Relaxed);
        self.write_ahead.note_flushed(info.largest_seqno());
        self.write_ahead.note_level0(1);
        self.iterators.end_era();
    }

    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        let counted = &self.write_ahead;
        counted.compactions.fetch_add(1, Ordering::Relaxed);
        (counted.compaction_bytes_read).fetch_add(info.total_input_bytes(), Ordering::Relaxed);
        (counted.compaction_bytes_written).fetch_add(info.total_output_bytes(), Ordering::Relaxed);
        self.iterators.end_era();
    }

    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        let stopped = info.cur() == DBWriteStallCondition::KStopped;
        let is_normal = info.cur() == DBWriteStallCondition::KNormal;
        self.write_ahead.note_stall(!is_normal);
        self.write_ahead
            .writes_stopped
            .store(stopped, Ordering::Relaxed);
    }

    fn on_background_error(&self, reason: DBBackgroundErrorReason, status: MutableStatus) {
        if let Err(error) = status.result()
            && self
                .write_ahead
                .note_error(reason, from_rocksdb(error.clone()))
        {
            status.reset();
        }
    }

    fn on_error_recovery_begin(
        &self,
        _: DBBackgroundErrorReason,
        _: &BackgroundErrorStatus,
        automatic: &mut bool,
    ) {
        *automatic = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_while_resuming_is_not_forgotten() {
        let write_ahead = WriteAhead::default();
        write_ahead.fail(Error::NoSpace("first".into()));
        let resumed = write_ahead.failures();
        // RocksDB says that it has resumed; a flush has failed again before that is noted.
        write_ahead.fail(Error::Io("second".into()));
        assert!(!write_ahead.clear_failures(resumed));
        assert!(matches!(
            write_ahead.trouble(),
            Some(Trouble::Failed(Error::NoSpace(_)))
        ));
        assert!(write_ahead.clear_failures(write_ahead.failures()));
        assert!(write_ahead.trouble().is_none());
        // Nor is one forgotten for a refusal that is over.
        write_ahead.fail(Error::NoSpace("third".into()));
        write_ahead.set_refusal(None);
        assert!(write_ahead.trouble().is_some());
    }
    /// Only what was kept from RocksDB may pass as a stall: it would be declared over while RocksDB does nothing any more.
    #[test]
    fn missing_descriptors_outside_a_flush_are_a_failure() {
        use DBBackgroundErrorReason::{KCompaction, KFlushNoWAL, KManifestWriteNoWAL};
        let missing = || Error::Stalled("IO error: Too many open files".into());
        let write_ahead = WriteAhead::default();
        assert!(write_ahead.note_error(KCompaction, missing()));
        assert!(write_ahead.trouble().is_none());
        assert!(write_ahead.note_error(KFlushNoWAL, missing()));
        assert!(matches!(
            write_ahead.trouble(),
            Some(Trouble::Failed(Error::Stalled(_)))
        ));
        assert!(!write_ahead.note_error(KManifestWriteNoWAL, missing()));
        assert!(matches!(
            write_ahead.trouble(),
            Some(Trouble::Failed(Error::Io(_)))
        ));
    }
}
