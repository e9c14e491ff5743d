//! Counters of what the server has done since it started, kept without threads meeting on one cache line.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SHARDS: usize = 16;

/// One thing that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Counter {
    Insert,
    Query,
    Update,
    Delete,
    GetMore,
    Command,
    BytesIn,
    BytesOut,
    Requests,
    /// Requests that a waiting connection met awake.
    RequestsMetAwake,
    DocumentsReturned,
    DocumentsInserted,
    DocumentsUpdated,
    DocumentsDeleted,
    MessagesDecompressed,
    MessagesCompressed,
    /// Commands of which statements were done already, and those statements.
    RetriedCommands,
    RetriedStatements,
    /// Records of what sessions have written.
    SessionRecords,
    /// Documents that have expired and gone, and the passes that looked for them.
    DocumentsExpired,
    TtlPasses,
}

const COUNTERS: usize = Counter::TtlPasses as usize + 1;

#[derive(Default)]
#[repr(align(128))]
struct Shard([AtomicU64; COUNTERS]);

#[derive(Default)]
pub struct Counters {
    shards: [Shard; SHARDS],
}

impl Counters {
    /// `lane` spreads the writers: the number of the connection.
    pub fn add(&self, lane: i64, counter: Counter, amount: u64) {
        let shard = &self.shards[lane.unsigned_abs() as usize % SHARDS];
        shard.0[counter as usize].fetch_add(amount, Relaxed);
    }

    pub fn get(&self, counter: Counter) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.0[counter as usize].load(Relaxed))
            .sum()
    }

    /// As BSON has no unsigned numbers.
    pub fn get_i64(&self, counter: Counter) -> i64 {
        i64::try_from(self.get(counter)).unwrap_or(i64::MAX)
    }
}
