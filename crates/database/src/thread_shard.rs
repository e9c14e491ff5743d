//! The shard of counters that a thread uses, so that threads which count at the same time do not write to one cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The shards; a thread's number is below.
pub const SHARDS: usize = 16;

/// A counter that has a cache line to itself.
#[repr(align(64))]
#[derive(Default)]
pub struct ShardCounter(pub AtomicU64);

/// The number of this thread's shard, which stays.
pub fn thread_shard() -> u8 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local!(static SHARD: Cell<u8> = const { Cell::new(u8::MAX) });
    SHARD.with(|shard| {
        if shard.get() == u8::MAX {
            shard.set((NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS as u64) as u8);
        }
        shard.get()
    })
}
