//! What a writer gets back: its LSN and where the time of its commit went.

use std::sync::Arc;

use crate::group::Group;

/// How safe a write is when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Handed to the operating system: survives a killed process.
    Written,
    /// Synced: survives power loss.
    Durable,
}

/// Where the nanoseconds of a commit went, and with whom it shared its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitReport {
    /// From submission to the start of the append, and being woken afterwards.
    pub wait_ns: u64,
    /// Waiting for readiness, finishing and writing the group.
    pub append_ns: u64,
    pub apply_ns: u64,
    /// 0 unless the level is Durable.
    pub sync_wait_ns: u64,
    /// Groups are numbered from 1 in each life of the journal.
    pub group: u64,
    pub group_writers: u32,
}

/// A write that is accepted and applied, not yet durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub lsn: u64,
    pub report: CommitReport,
}

/// A write acknowledged at the level asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    pub lsn: u64,
    pub report: CommitReport,
}

/// A write that was submitted without waiting. `Journal::wait` acknowledges it.
#[must_use = "a write is acknowledged by `Journal::wait` only"]
pub struct Pending {
    pub(crate) group: Arc<Group>,
    pub(crate) index: u32,
    pub(crate) level: Level,
    pub(crate) submitted_ns: u64,
}
