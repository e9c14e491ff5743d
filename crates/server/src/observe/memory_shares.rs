//! The memory that the server counts, by what it is held for: `serverStatus().quarry.memory` and the metrics show it.
//!
//! Leaves out what nobody counts: stacks, and what small operations and writes hold for a moment.

use quarry_query::memory_budget::BUDGET;

use crate::server::Server;

/// The name of each share and its bytes.
pub fn of(server: &Server) -> [(&'static str, u64); 8] {
    let budget = BUDGET.in_use();
    let open = server.connections.list();
    let buffers = open
        .iter()
        .map(|connection| connection.buffer_bytes() as u64);
    let engine = server.engine.counters();
    let records = server.database.record_cache_counters();
    let staged_bytes = server.database.transaction_counters().staged_bytes;
    [
        ("requests", server.request_memory.used_bytes() as u64),
        ("operations", budget.operation_bytes as u64),
        ("replies", budget.reply_bytes as u64),
        ("connectionBuffers", buffers.sum()),
        ("transactions", staged_bytes),
        ("engineCache", engine.cache_bytes + engine.unflushed_bytes),
        ("recordCache", records.map_or(0, |counters| counters.bytes)),
        ("allocator", BUDGET.kept_by_allocator() as u64),
    ]
}
