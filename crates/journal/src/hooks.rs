//! The owner's side of a commit: asked before a group is written (`ready`), given the chance to add
//! records at commit order (`finish_group`), and handed the accepted group before anyone is woken (`apply`).
//!
//! All three run on the leader's thread, one group at a time and in LSN order. A panic in any of them
//! aborts the process ([`AbortOnPanic`]): memory and journal could disagree otherwise.

use crate::error::HookError;
use crate::group_header::{GROUP_HEADER_BYTES, GroupHeader};

/// A record's length field.
pub(crate) const RECORD_HEADER_BYTES: usize = 4;

/// The part of a commit that the journal's owner does for each group.
pub trait Hooks: Send + Sync {
    /// Whether the engine can take a group of about `bytes` bytes. A refusal answers the whole group and nothing is
    /// written. It must not wait long: the turn is held meanwhile, and nobody behind it can be interrupted.
    fn ready(&self, bytes: usize) -> Result<(), HookError>;

    /// Adds records that depend on commit order. What it computes must stay out of memory until
    /// `apply`: the append may still fail. An error answers the whole group as one of `ready` does,
    /// and nothing is written.
    fn finish_group(&self, group: &mut GroupBuilder<'_>) -> Result<(), HookError>;

    /// Applies an accepted group as one atomic step. The log has the group, so it can no longer be refused: an owner
    /// whose engine may not take it now keeps it, shows it to readers, and answers `ready` with an error until the
    /// engine has it. An error here latches the journal, and the next start replays the group; so applying must be
    /// idempotent. During `Journal::open` it replays, and an error fails the start.
    fn apply(&self, first_lsn: u64, payloads: &Payloads<'_>) -> Result<(), HookError>;

    /// Asked at each group while the journal is opened: true ends the opening with `Error::Closed`.
    fn gives_up(&self) -> bool {
        false
    }
}

/// A group that has its LSNs but is not yet written.
pub struct GroupBuilder<'g> {
    buffer: &'g mut Vec<u8>,
    first_lsn: u64,
    count: u32,
    cluster_time: u64,
}

impl<'g> GroupBuilder<'g> {
    pub(crate) fn new(
        buffer: &'g mut Vec<u8>,
        first_lsn: u64,
        count: u32,
        cluster_time: u64,
    ) -> Self {
        GroupBuilder {
            buffer,
            first_lsn,
            count,
            cluster_time,
        }
    }

    /// The LSN of the group's first record.
    pub fn first_lsn(&self) -> u64 {
        self.first_lsn
    }

    /// The LSN that the next pushed payload gets.
    pub fn next_lsn(&self) -> u64 {
        self.first_lsn + u64::from(self.count)
    }

    /// The records that are in the group so far.
    pub fn payloads(&self) -> Payloads<'_> {
        Payloads {
            first_lsn: self.first_lsn,
            count: self.count,
            body: &self.buffer[GROUP_HEADER_BYTES..],
            cluster_time: self.cluster_time,
            incarnation: 0,
        }
    }

    /// Adds a trailing record and returns its LSN.
    pub fn push_payload(&mut self, payload: &[u8]) -> u64 {
        let lsn = self.next_lsn();
        push_record(self.buffer, payload);
        self.count += 1;
        lsn
    }

    /// Like `push_payload`, for a payload that `write` appends where it will stand, so that it is made nowhere else first.
    pub fn push_payload_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let lsn = self.next_lsn();
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        write(self.buffer);
        let payload_bytes = self.buffer.len() - start - RECORD_HEADER_BYTES;
        let length = u32::try_from(payload_bytes).expect("RECORD_BYTES_MAX fits 32 bits");
        self.buffer[start..start + RECORD_HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
        self.count += 1;
        lsn
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

/// A record in a group: its length as a u32 little-endian, then its bytes.
pub(crate) fn push_record(buffer: &mut Vec<u8>, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("RECORD_BYTES_MAX fits 32 bits");
    buffer.extend_from_slice(&length.to_le_bytes());
    buffer.extend_from_slice(payload);
}

/// The records of one group, in LSN order.
#[derive(Clone, Copy)]
pub struct Payloads<'g> {
    first_lsn: u64,
    count: u32,
    body: &'g [u8],
    cluster_time: u64,
    incarnation: u64,
}

impl<'g> Payloads<'g> {
    /// The records of a group that is being committed, whose first one has that cluster time.
    pub(crate) fn new(first_lsn: u64, count: u32, cluster_time: u64, body: &'g [u8]) -> Self {
        Payloads {
            first_lsn,
            count,
            body,
            cluster_time,
            incarnation: 0,
        }
    }

    /// The records of a group that was read.
    pub(crate) fn of_group(header: &GroupHeader, body: &'g [u8]) -> Self {
        Payloads {
            first_lsn: header.first_lsn,
            count: header.count,
            body,
            cluster_time: header.stamp.cluster_time,
            incarnation: header.incarnation,
        }
    }

    /// The cluster time of the first record; each further one has the next. 0 in a group of an earlier version, which has
    /// none.
    pub fn cluster_time(&self) -> u64 {
        self.cluster_time
    }

    /// The cluster time of the group, which is that of its last record: the group becomes visible as a whole, and no record of
    /// it is seen by whoever reads the state at an earlier time. 0 in a group of an earlier version.
    pub fn group_cluster_time(&self) -> u64 {
        match self.cluster_time {
            0 => 0,
            first => first + u64::from(self.count.saturating_sub(1)),
        }
    }

    /// The life of the journal that has written the group; 0 while the group is being committed.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The LSN of the first record.
    pub fn first_lsn(&self) -> u64 {
        self.first_lsn
    }

    /// The LSN of the last record; the one before the first if there is none.
    pub fn last_lsn(&self) -> u64 {
        (self.first_lsn + u64::from(self.count)).saturating_sub(1)
    }

    /// Each record with its LSN, in order.
    pub fn iter(&self) -> PayloadIter<'g> {
        PayloadIter {
            lsn: self.first_lsn,
            left: self.count,
            body: self.body,
        }
    }

    /// This group without its records up to and including `lsn`.
    pub(crate) fn after(self, lsn: u64) -> Self {
        let mut iter = self.iter();
        while iter.left > 0 && iter.lsn <= lsn && iter.next().is_some() {}
        let left_out = iter.lsn - self.first_lsn;
        Payloads {
            first_lsn: iter.lsn,
            count: iter.left,
            body: iter.body,
            cluster_time: match self.cluster_time {
                0 => 0,
                first => first + left_out,
            },
            incarnation: self.incarnation,
        }
    }

    /// The bytes of all records, with their lengths.
    pub(crate) fn body(&self) -> &'g [u8] {
        self.body
    }

    /// Whether the body holds exactly `count` whole records.
    pub(crate) fn is_whole(&self) -> bool {
        let mut iter = self.iter();
        let mut seen = 0;
        while iter.next().is_some() {
            seen += 1;
        }
        seen == self.count && iter.body.is_empty()
    }
}

impl<'g> IntoIterator for &Payloads<'g> {
    type Item = (u64, &'g [u8]);
    type IntoIter = PayloadIter<'g>;

    fn into_iter(self) -> PayloadIter<'g> {
        self.iter()
    }
}

/// Yields `(lsn, payload)`; ends early at a record that does not fit its group.
pub struct PayloadIter<'g> {
    lsn: u64,
    left: u32,
    body: &'g [u8],
}

impl<'g> Iterator for PayloadIter<'g> {
    type Item = (u64, &'g [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let (length, rest) = self.body.split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let payload = rest.get(..length)?;
        let lsn = self.lsn;
        self.body = &rest[length..];
        self.lsn += 1;
        self.left -= 1;
        Some((lsn, payload))
    }
}

/// Ends the process if a panic begins while this is alive; closing a journal during one is no reason.
#[must_use = "it guards as long as it is alive"]
pub struct AbortOnPanic {
    was_panicking: bool,
}

impl AbortOnPanic {
    /// Begins the guard. A panic that is under way already does not count.
    #[expect(clippy::new_without_default, reason = "a guard has no default")]
    pub fn new() -> Self {
        AbortOnPanic {
            was_panicking: std::thread::panicking(),
        }
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            std::process::abort();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An owner that takes every group and keeps nothing.
    pub(crate) struct NoOwner;

    impl Hooks for NoOwner {
        fn ready(&self, _bytes: usize) -> std::result::Result<(), HookError> {
            Ok(())
        }

        fn finish_group(&self, _: &mut GroupBuilder<'_>) -> std::result::Result<(), HookError> {
            Ok(())
        }

        fn apply(&self, _: u64, _: &Payloads<'_>) -> std::result::Result<(), HookError> {
            Ok(())
        }
    }
}
