//! How often a thread found its blocks in the cache.
//!
//! RocksDB counts for each thread by itself, and its counts only rise; what is read here is the difference to the look
//! before. Looks follow each get and each cursor, so that a thread's work says what its own operation met.

use std::cell::RefCell;

use quarry_storage::CounterCells;
use rust_rocksdb::perf::{PerfContext, PerfMetric};

struct CacheUse {
    context: PerfContext,
    hits: u64,
    misses: u64,
}

thread_local! {
    static SEEN: RefCell<CacheUse> = RefCell::new(CacheUse {
        context: PerfContext::default(),
        hits: 0,
        misses: 0,
    });
}

/// Counts what this thread has met since the last call.
pub(crate) fn count(counters: &CounterCells) {
    SEEN.with_borrow_mut(|seen| {
        let hits = seen.context.metric(PerfMetric::BlockCacheHitCount);
        let misses = seen.context.metric(PerfMetric::BlockReadCount);
        counters.count_cache(
            hits.saturating_sub(seen.hits),
            misses.saturating_sub(seen.misses),
        );
        (seen.hits, seen.misses) = (hits, misses);
    });
}
