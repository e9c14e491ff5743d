//! The cluster time: when a write was made, as clients order what they see by it.
//!
//! A time is a BSON Timestamp: seconds, and an ordinal within the second. The journal gives each record one, later than any
//! before it, also over restarts, and later than what a client has seen elsewhere. `$clusterTime` and `operationTime` of a
//! reply come from here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quarry_bson::{DateTime, DocumentBuilder, RawBinary, RawDocument, RawValue, Timestamp};
use quarry_journal::Journal;
use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};

/// The bytes of a signature by no key.
const NO_SIGNATURE: [u8; 20] = [0; 20];

/// The clock of a set: the journal's times, and what clients have seen beyond them.
#[derive(Default)]
pub struct ClusterClock {
    /// The highest time that a client has brought along.
    seen: AtomicU64,
    /// The time of a record that was seen to be durable, the highest.
    durable: AtomicU64,
}

/// The times of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterTimes {
    /// `operationTime`: the time of the last write; in the reply of a command that has written, of its own last write.
    pub written: Timestamp,
    /// The time of a write that survives a power loss, the last that is known of.
    pub durable: Timestamp,
    /// `$clusterTime`: the highest time that is known.
    pub known: Timestamp,
}

impl ClusterClock {
    /// The times of now.
    pub fn times(&self, journal: &Journal) -> ClusterTimes {
        // In this order: the record of that time is one of those up to the LSN.
        let written = journal.cluster_time();
        let lsn = journal.last_lsn();
        let durable = match journal.durable_lsn() >= lsn {
            true => self.durable.fetch_max(written, Relaxed).max(written),
            false => self.durable.load(Relaxed),
        };
        ClusterTimes {
            written: Timestamp::from_u64(written),
            durable: Timestamp::from_u64(durable),
            known: Timestamp::from_u64(written.max(self.seen.load(Relaxed))),
        }
    }

    /// Follows a time that a client has seen; no later write gets it or one before it.
    ///
    /// # Errors
    /// A time that is far ahead of this machine's clock is refused: no time is signed, so that a single client could use them
    /// up. One that this server has told is never refused, wherever the machine's clock was set meanwhile.
    pub fn follow(&self, seen: Timestamp, journal: &Journal) -> Result<()> {
        if !journal.advance_cluster_time(seen.to_u64()) {
            let message = format!(
                "New cluster time, {}, is too far from this node's wall clock time",
                seen.time
            );
            return Err(CommandError::new(
                ErrorCode::CLUSTER_TIME_FAILS_RATE_LIMITER,
                message,
            ));
        }
        self.seen.fetch_max(seen.to_u64(), Relaxed);
        Ok(())
    }
}

impl ClusterTimes {
    /// The times for a command that has committed last at that time. Others may have written since: who begins a change stream
    /// at the `operationTime` of a write, or reads at it, is to meet that write.
    pub fn of_write(self, committed: u64) -> ClusterTimes {
        let written = Timestamp::from_u64(committed);
        ClusterTimes { written, ..self }
    }

    /// Appends `$clusterTime`, signed by no key as mongod does without keys, and `operationTime`.
    pub fn append(&self, reply: &mut DocumentBuilder<'_>) {
        let mut cluster = reply.document("$clusterTime");
        cluster.append("clusterTime", self.known);
        let mut signature = cluster.document("signature");
        signature.append(
            "hash",
            RawValue::Binary(RawBinary {
                subtype: 0,
                bytes: &NO_SIGNATURE,
            }),
        );
        signature.append("keyId", 0i64);
        signature.finish();
        cluster.finish();
        reply.append("operationTime", self.written);
    }
}

/// The time in a client's `$clusterTime`.
pub fn parse(cluster_time: RawDocument<'_>) -> Result<Timestamp> {
    match cluster_time.get("clusterTime") {
        Some(RawValue::Timestamp(time)) => Ok(time),
        Some(other) => Err(CommandError::field_type(
            "$clusterTime",
            "clusterTime",
            other.element_type().alias(),
            "timestamp",
        )),
        None => Err(CommandError::missing_field("$clusterTime", "clusterTime")),
    }
}

/// The second of a time, as a date.
pub fn date_of(time: Timestamp) -> DateTime {
    DateTime(i64::from(time.time) * 1000)
}
