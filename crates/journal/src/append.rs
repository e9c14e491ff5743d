//! The order of a commit: ready, finish, the log, apply. Only the writer whose turn it is uses it.
//!
//! A group is handed to the engine only after the log has accepted it. From then on it stands: what an engine does not
//! take its owner keeps, or the journal latches.

use std::sync::Arc;

use crate::error::{Error, HookError, HookErrorKind, Result};
use crate::group_header::GROUP_HEADER_BYTES;
use crate::hooks::{GroupBuilder, Hooks, Payloads, push_record};
use crate::latch::Latch;
use crate::log::{Log, LogGroup, Stage};
use crate::spares::is_kept;
use crate::stamp::Stamp;

pub(crate) struct Appender {
    log: Arc<dyn Log>,
    pub next_lsn: u64,
    /// The place in the history behind the last group.
    stamp: Stamp,
    /// The buffer for groups of lone writers, which have none of their own.
    buffer: Vec<u8>,
}

/// The parts of the journal that the appender uses and does not own.
pub(crate) struct Surroundings<'j> {
    pub hooks: &'j dyn Hooks,
    pub latch: &'j Latch,
    pub unix_ms: u64,
    /// No cluster time below this is given.
    pub cluster_time_min: u64,
}

/// A group that the log accepted: the records for `apply`.
#[derive(Clone, Copy)]
pub(crate) struct Accepted {
    pub first_lsn: u64,
    pub count: u32,
    pub cluster_time: u64,
}

impl Accepted {
    /// The cluster time of the group's last record.
    pub fn last_cluster_time(&self) -> u64 {
        self.cluster_time + u64::from(self.count) - 1
    }
}

impl Appender {
    pub fn new(log: Arc<dyn Log>, next_lsn: u64, stamp: Stamp) -> Self {
        Appender {
            log,
            next_lsn,
            stamp,
            buffer: Vec::new(),
        }
    }

    /// A group of one record, in a buffer that is to be given back.
    pub fn group_of(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut group = std::mem::take(&mut self.buffer);
        group.clear();
        group.resize(GROUP_HEADER_BYTES, 0);
        push_record(&mut group, payload);
        group
    }

    pub fn keep_buffer(&mut self, buffer: Vec<u8>, group_bytes_max: usize) {
        if is_kept(&buffer, group_bytes_max) {
            self.buffer = buffer;
        }
    }

    /// Gives the group its LSNs, lets the owner finish it, and returns when the log has accepted it.
    pub fn append(
        &mut self,
        group: &mut Vec<u8>,
        count: u32,
        around: &Surroundings<'_>,
    ) -> Result<Accepted> {
        debug_assert!(
            count > 0 && group.len() > GROUP_HEADER_BYTES,
            "a group that is appended has records"
        );
        around.latch.check()?;
        around.hooks.ready(group.len()).map_err(Error::Refused)?;
        let first_lsn = self.next_lsn;
        let cluster_time = (self.stamp).cluster_time_at(around.unix_ms, around.cluster_time_min);
        let mut builder = GroupBuilder::new(group, first_lsn, count, cluster_time);
        let finished = around.hooks.finish_group(&mut builder);
        finished.map_err(Error::Refused)?;
        let count = builder.count();
        let records = &group[GROUP_HEADER_BYTES..];
        let stamp = (self.stamp).of_next(cluster_time, first_lsn, count, records);
        let behind = stamp.behind(count);
        if !behind.is_possible() {
            let refusal = HookError::new(
                HookErrorKind::Failed,
                "the journal has come to the end of cluster time, and takes no more records",
            );
            return Err(Error::Refused(refusal));
        }
        let mut offered = LogGroup::new(group, first_lsn, count, around.unix_ms, stamp);
        let accepted = self
            .log
            .submit(&mut offered, first_lsn)
            .and_then(|ticket| self.log.wait(&ticket, Stage::Accepted));
        accepted.inspect_err(|error| {
            // From here on this node does not know what the log holds.
            if error.is_outcome_unknown() || matches!(error, Error::PositionMoved { .. }) {
                around.latch.throw(&error.to_string());
            }
        })?;
        debug_assert_eq!(
            first_lsn, self.next_lsn,
            "nobody else gives LSNs while a group is appended"
        );
        self.next_lsn = first_lsn + u64::from(count);
        self.stamp = behind;
        Ok(Accepted {
            first_lsn,
            count,
            cluster_time,
        })
    }

    /// Hands the accepted group to the owner.
    pub fn apply(&self, group: &[u8], accepted: Accepted, around: &Surroundings<'_>) -> Result<()> {
        let Accepted {
            first_lsn,
            count,
            cluster_time,
        } = accepted;
        debug_assert!(
            first_lsn + u64::from(count) <= self.next_lsn,
            "only a group that the log has accepted is applied"
        );
        let records = &group[GROUP_HEADER_BYTES..];
        let payloads = Payloads::new(first_lsn, count, cluster_time, records);
        around.hooks.apply(first_lsn, &payloads).map_err(|refusal| {
            let error = Error::Unapplied(refusal);
            around.latch.throw(&error.to_string());
            error
        })
    }
}
