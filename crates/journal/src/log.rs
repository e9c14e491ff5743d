//! The one log under the commit path, as a small trait: a group goes in at a position or not at all, is
//! waited for, and is read back. `LocalLog` keeps it in segment files; `MemoryLog` is a log for tests that
//! refuses, delays, reorders and forgets. A replicated log is a third one, and nothing above changes.
//!
//! Whoever implements it keeps: groups are whole and in the order of their LSNs, which are dense; a group is
//! accepted only where the one before it ended; what is durable was accepted, and so was all before it.

pub(crate) mod local;
pub(crate) mod memory;

use crate::error::Result;
use crate::group_header::GROUP_HEADER_BYTES;
use crate::hooks::Payloads;
use crate::stamp::Stamp;

/// An ordered log of groups. Calls may block; they come from any thread.
pub trait Log: Send + Sync {
    /// Offers a group whose first record is to have `expected_lsn`. A log whose next record is another one
    /// answers `PositionMoved` and takes nothing. A ticket promises nothing yet.
    fn submit(&self, group: &mut LogGroup<'_>, expected_lsn: u64) -> Result<LogTicket>;

    /// Returns when the group has reached the stage. An error with `is_outcome_unknown` leaves open whether
    /// the log has the group; after any other one it does not.
    fn wait(&self, ticket: &LogTicket, stage: Stage) -> Result<()>;

    /// Reads accepted groups from the one that holds `from_lsn` on, while others are appended.
    fn read(&self, from_lsn: u64) -> Result<Box<dyn LogReader>>;

    /// The first record that the log still holds; 0 if it holds none.
    fn first_lsn(&self) -> u64;

    /// Everything up to here is durable.
    fn durable_lsn(&self) -> u64;

    /// The place in the history behind the last group that was accepted, for whoever goes on with the log.
    fn stamp(&self) -> Result<Stamp>;

    /// The first record of the first accepted group whose time is that cluster time or a later one; the time of a group is
    /// that of its last record. `None` if there is no such group yet. Fails with `HistoryMissing` where the log may have given
    /// up groups as late as that.
    fn first_since(&self, cluster_time: u64) -> Result<Option<u64>>;
}

/// How far a group has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It has its place and may be applied.
    Accepted,
    /// It survives power loss.
    Durable,
}

/// A group on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTicket {
    /// The LSN of the group's last record.
    pub last_lsn: u64,
    /// The log's own name for it.
    pub token: u64,
}

impl LogTicket {
    /// Stands for everything up to `lsn`, which must be accepted.
    pub fn up_to(lsn: u64) -> Self {
        LogTicket {
            last_lsn: lsn,
            token: 0,
        }
    }
}

/// A group as it is offered: its records, and room before them for a header that a log may put there.
pub struct LogGroup<'g> {
    pub(crate) buffer: &'g mut Vec<u8>,
    pub(crate) count: u32,
    pub(crate) first_lsn: u64,
    pub(crate) unix_ms: u64,
    pub(crate) stamp: Stamp,
}

impl<'g> LogGroup<'g> {
    /// `buffer` begins with the room that a `GroupBuilder` leaves.
    pub(crate) fn new(
        buffer: &'g mut Vec<u8>,
        first_lsn: u64,
        count: u32,
        unix_ms: u64,
        stamp: Stamp,
    ) -> Self {
        debug_assert!(buffer.len() >= GROUP_HEADER_BYTES);
        LogGroup {
            buffer,
            count,
            first_lsn,
            unix_ms,
            stamp,
        }
    }

    /// The group's records.
    pub fn payloads(&self) -> Payloads<'_> {
        Payloads::new(
            self.first_lsn,
            self.count,
            self.stamp.cluster_time,
            &self.buffer[GROUP_HEADER_BYTES..],
        )
    }

    /// The group's place in the history, which a log keeps with it.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The LSN of the group's last record.
    pub fn last_lsn(&self) -> u64 {
        self.payloads().last_lsn()
    }

    /// When it was formed, in milliseconds since 1970.
    pub fn unix_ms(&self) -> u64 {
        self.unix_ms
    }
}

/// Hands out groups in order.
pub trait LogReader: Send {
    /// The next accepted group, without its records before the position asked for; `None` if there is none
    /// yet.
    fn next_group(&mut self) -> Result<Option<Payloads<'_>>>;
}
