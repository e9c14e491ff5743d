//! How long records that nobody waits for gather before one write takes them all.
//!
//! A disk at work interrupts the processors: on a virtual machine each sync holds up the thread that submits a few
//! times, for some tens of microseconds, and with it every record of the group at hand. While the sync of a lone
//! durable record runs, groups are therefore as small as they can be. Where durable records follow so closely that a
//! sync is under way most of the time, small groups would only cost throughput: there it is gathered as ever.
//! Closeness is counted in records, because small groups slow down who submits: by the clock the durable records of a
//! busy journal would look rare for that reason alone.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::log::Log;

/// A durable record is lone if so many others came since the last one.
const LONE_RECORDS: u64 = 1000;

pub(crate) struct Pace {
    gather_ns: u64,
    /// The last record that was submitted for Durable without waiting.
    durable_wanted_lsn: AtomicU64,
    /// The LSN of that record if it is lone. Nothing gathers until it is durable.
    lone_lsn: AtomicU64,
}

impl Pace {
    pub fn new(gather_ns: u64) -> Pace {
        Pace {
            gather_ns,
            durable_wanted_lsn: AtomicU64::new(0),
            lone_lsn: AtomicU64::new(0),
        }
    }

    /// How old the oldest record of a group is to become.
    pub fn gather_ns(&self, log: &dyn Log) -> u64 {
        let lone_lsn = self.lone_lsn.load(Ordering::Relaxed);
        if lone_lsn != 0 && lone_lsn > log.durable_lsn() {
            return 0;
        }
        self.gather_ns
    }

    /// A record that was submitted for Durable without waiting is in the log.
    pub fn note_durable(&self, lsn: u64, log: &dyn Log) {
        let before_lsn = self.durable_wanted_lsn.swap(lsn, Ordering::Relaxed);
        let is_rare = before_lsn == 0 || lsn.saturating_sub(before_lsn) >= LONE_RECORDS;
        let is_lone = is_rare && before_lsn <= log.durable_lsn();
        let lone_lsn = if is_lone { lsn } else { 0 };
        self.lone_lsn.store(lone_lsn, Ordering::Relaxed);
    }
}
