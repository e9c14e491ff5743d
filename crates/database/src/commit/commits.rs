//! The front of the commit path: what writers, definitions and builds call to have a batch committed and acknowledged.
//! The comment at the head of `commit` tells the whole way.

use std::cell::Cell;
use std::sync::Arc;

use quarry_journal::{CommitReport, Journal, Level, Until};
use quarry_storage::WriteBatch;
use quarry_timing::{Phase, Work};

use crate::commit::CommitPath;
use crate::commit::checkpoint::Checkpoints;
use crate::commit::late_writes::LateWrites;
use crate::commit::payload::Header;
use crate::commit::refusals::Refusals;
use crate::commit::standstill::Standstill;
use crate::error::{Error, Result};
use crate::keyspace::counts::Counts;
use crate::keyspace::ident::Ident;

thread_local! {
    /// The cluster time of what this thread has committed last, until it is taken; 0 if that is nothing.
    static COMMIT_TIME: Cell<u64> = const { Cell::new(0) };
}

/// The cluster time of the last commit that this thread has made since it asked last, if it has made one. A client is told of
/// its own commit's time: by the time of the reply others may have committed later.
pub fn take_commit_time() -> Option<u64> {
    Some(COMMIT_TIME.take()).filter(|&time| time > 0)
}

/// The journal, the commit path behind it, and what is noted of both.
pub struct Commits {
    journal: Arc<Journal>,
    path: Arc<CommitPath>,
    late_writes: Arc<LateWrites>,
    checkpoints: Checkpoints,
    refusals: Refusals,
}

impl Commits {
    pub fn new(
        journal: Arc<Journal>,
        path: Arc<CommitPath>,
        late_writes: Arc<LateWrites>,
    ) -> Commits {
        Commits {
            journal,
            path,
            late_writes,
            checkpoints: Checkpoints::default(),
            refusals: Refusals::default(),
        }
    }

    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    pub fn path(&self) -> &Arc<CommitPath> {
        &self.path
    }

    pub fn late_writes(&self) -> &Arc<LateWrites> {
        &self.late_writes
    }

    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Notes an error of work in the background: of damage refuses every write from now on, and tells of it once.
    pub fn failed_in_background(&self, error: &Error) {
        let damage = self.path.damage();
        if let Some(reason) = damage.first(error) {
            // In this order: who is refused for it is not the first to tell of it.
            self.refusals.damaged(&reason);
            damage.refuse_writes(reason);
        }
    }

    /// Gives out an ident; the record that uses it must carry `ALLOCATED`.
    pub fn allocate_ident(&self) -> Ident {
        self.path.allocate_ident()
    }

    /// The exact number of documents of a collection, and their bytes.
    pub fn counts(&self, ident: Ident) -> Result<Counts> {
        self.path.counts(ident)
    }

    /// Commits one batch; returns its LSN. See `commit` for the order of things.
    pub fn commit(&self, header: &Header<'_>, batch: &WriteBatch) -> Result<u64> {
        self.commit_record(None, header.record(batch))
    }

    /// Like `commit`, for a batch of any size, which is dropped before its record waits. `syncing` says that the writer
    /// will wait for the sync, and up to where this call takes it.
    pub fn commit_whole(
        &self,
        syncing: Option<Until>,
        header: &Header<'_>,
        batch: WriteBatch,
    ) -> Result<u64> {
        let record = header.record(&batch);
        drop(batch);
        self.commit_record(syncing, record)
    }

    /// Like `commit`, for a thread that has to end when it is told to: where others wait out a stall of the engine, it has
    /// none committed and is to try again.
    pub fn try_commit(&self, header: &Header<'_>, batch: &WriteBatch) -> Result<Option<u64>> {
        self.late_writes.catch_up_at_once();
        match self.journal.submit(&header.record(batch)) {
            Ok(ticket) => {
                self.refusals.taken();
                Ok(Some(ticket.lsn))
            }
            Err(error) if error.is_stalled() => Ok(None),
            Err(error) => Err(self.refusals.failed(error.into())),
        }
    }

    fn commit_record(&self, syncing: Option<Until>, record: Vec<u8>) -> Result<u64> {
        let _wait = quarry_timing::phase(Phase::CommitWait);
        self.late_writes.catch_up_at_once();
        let ended = self.checkpoints.ended();
        let mut standstill = None;
        let submitted = loop {
            let submitted = match syncing {
                Some(until) => self.journal.submit_syncing(&record, until),
                None => self.journal.submit(&record),
            };
            match submitted {
                Err(error) if error.is_stalled() => {
                    let standstill = standstill.get_or_insert_with(Standstill::default);
                    let waited = self.path.wait_out_stall(standstill);
                    waited.map_err(|error| self.refusals.failed(error))?;
                }
                submitted => break submitted.map_err(Error::from),
            }
        };
        let ticket = submitted.map_err(|error| self.refusals.failed(error))?;
        COMMIT_TIME.set(ticket.cluster_time);
        self.refusals.taken();
        self.account(record.len(), &ticket.report);
        self.checkpoints.name_since(ended);
        Ok(ticket.lsn)
    }

    /// Splits the time of a commit: the append, the engine's write, and the sync that it waited for.
    fn account(&self, bytes: usize, report: &CommitReport) {
        quarry_timing::count(Work::JournalBytes, bytes as u64);
        quarry_timing::count(Work::Commits, 1);
        quarry_timing::count(Work::GroupWriters, u64::from(report.group_writers));
        quarry_timing::name(Work::Group, report.group);
        quarry_timing::add(Phase::JournalAppend, report.append_ns);
        quarry_timing::add(Phase::EngineWrite, report.apply_ns);
        if report.sync_wait_ns > 0 {
            quarry_timing::add(Phase::SyncWait, report.sync_wait_ns);
            quarry_timing::name(Work::Sync, self.journal.sync_counters().syncs);
        }
    }

    /// Returns when what is committed up to `lsn` has reached `level`.
    fn acknowledge(&self, lsn: u64, level: Level) -> Result<()> {
        if level == Level::Written || self.journal.durable_lsn() >= lsn {
            return Ok(());
        }
        let _wait = quarry_timing::phase(Phase::SyncWait);
        let ended = self.checkpoints.ended();
        let waited = self.journal.wait_durable(lsn).map_err(Error::from);
        waited.map_err(|error| self.refusals.failed(error))?;
        self.checkpoints.name_since(ended);
        quarry_timing::name(Work::Sync, self.journal.sync_counters().syncs);
        Ok(())
    }

    /// Like `acknowledge`, but for a whole command that committed up to `lsn`. One that changed nothing waits for what it saw: whoever asks
    /// again for a change that was acknowledged at a lower level, and is told that it is there, relies on it.
    pub fn settle(&self, lsn: Option<u64>, level: Level) -> Result<()> {
        self.acknowledge(lsn.unwrap_or_else(|| self.journal.accepted_lsn()), level)
    }
}
