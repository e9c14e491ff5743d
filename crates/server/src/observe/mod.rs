//! Everything that the server tells about itself: its log, counters, slow operations, profiler, metrics, traces, and the admin port
//! that serves them.
//!
//! This wing looks and counts. It must not change what an operation does or answers, and nothing in it may make a
//! command wait for who is watching.

pub mod admin;
pub mod admin_access;
pub mod console;
pub mod counters;
pub mod ended;
pub mod error_counts;
pub mod history;
pub mod labels;
pub mod log;
pub mod memory_shares;
pub mod metrics;
pub mod metrics_text;
pub mod mongod_sections;
pub mod operation_end;
pub mod plan_shape;
pub mod process_figures;
pub mod profile_document;
pub mod profiler;
pub mod query_shape;
pub mod query_stats;
pub mod server_facts;
pub mod slow_log;
pub mod slow_operations;
pub mod timing_collector;
pub mod timing_document;
pub mod traces;
