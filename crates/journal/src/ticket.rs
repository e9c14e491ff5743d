//! The answer to a writer: its LSN, and where the time of its commit went.

use crate::group::Place;

/// How safe a write is when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Handed to the operating system: survives a killed process.
    Written,
    /// Synced: survives power loss.
    Durable,
}

/// When `Journal::submit_syncing` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When the record is applied. Its writer lets its locks go and sleeps a second time, for the sync.
    Applied,
    /// When the sync is over, too: one sleep instead of two, for a writer whose locks hardly anybody waits for. Beside
    /// writers that asked for `Applied` it may return before the sync is over.
    Synced,
}

/// Where the nanoseconds of a commit went, and with whom it shared its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitReport {
    /// From submission to the start of the append, and being woken afterwards.
    pub wait_ns: u64,
    /// Waiting for readiness, finishing and writing the group.
    pub append_ns: u64,
    /// Applying the group.
    pub apply_ns: u64,
    /// From apply to durable, or making a sync while the group was applied; 0 unless the level is Durable.
    pub sync_wait_ns: u64,
    /// Groups are numbered from 1 in each life of the journal.
    pub group: u64,
    /// How many writers were in the group.
    pub group_writers: u32,
}

impl CommitReport {
    /// From submission to acknowledgement.
    pub fn total_ns(&self) -> u64 {
        self.wait_ns + self.append_ns + self.apply_ns + self.sync_wait_ns
    }
}

/// A write that is accepted and applied, not yet durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The record's LSN.
    pub lsn: u64,
    /// The cluster time of the commit: that of the last record of its group, with which the whole group becomes visible.
    pub cluster_time: u64,
    /// Where the time went so far.
    pub report: CommitReport,
}

/// A write acknowledged at the level asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The record's LSN.
    pub lsn: u64,
    /// Where the time went.
    pub report: CommitReport,
}

impl Ticket {
    /// The receipt of a write that has reached the level asked for.
    pub(crate) fn acknowledged(self) -> Committed {
        Committed {
            lsn: self.lsn,
            report: self.report,
        }
    }
}

/// A write that was submitted without waiting. `Journal::wait` acknowledges it.
#[must_use = "a write is acknowledged by `Journal::wait` only"]
pub struct Pending {
    pub(crate) place: Place,
    pub(crate) level: Level,
}

impl Pending {
    /// The level that was asked for.
    pub fn level(&self) -> Level {
        self.level
    }
}
