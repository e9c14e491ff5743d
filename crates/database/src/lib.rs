//! Collections, indexes and transactions over one keyspace, on any engine, with one commit path.
//!
//! Keeps true: every change goes through the journal before it is applied; an index never disagrees with its
//! documents; counts are exact; memory follows the log, so that replay and a live commit are one. Leaves out: the query
//! language, sockets, and which engine there is.
#![forbid(unsafe_code)]

pub mod error;
mod ident;
pub mod layout;
mod namespace;
mod operation;
pub mod payload;
mod plan_summary;

mod collection;
mod found_fields;
mod index;
mod index_entry;
mod index_keys;
mod key_buffer;
mod path_numbers;

mod catalog;
mod checkpoint;
mod epochs;
mod hold;
mod large_batches;
mod late_writes;
mod reads;
mod record_cache;
mod record_locks;
mod refusals;
mod watches;

mod background;
mod changed_records;
mod commit;
mod database;
mod view;
mod write;

mod builds;
mod database_drop;
mod database_stats;
mod ddl;
mod index_build;
mod listing;
mod reclaim;
mod stats;
mod unique_build;
mod validate;

pub use builds::InterruptedBuild;
pub use collection::{Capped, Collection, Detail};
pub use commit::Counts;
pub use database::{Database, Options, Shortcuts};
pub use database_stats::DbStats;
pub use ddl::Dropped;
pub use error::{DuplicateKey, Error, Result};
pub use ident::{Ident, Prefix};
pub use index::{Index, KeyField, KeyPattern};
pub use index_build::IndexesCreated;
pub use index_entry::{may_meet_cut_keys, meeting_cut_keys, split_unique_value};
pub use index_keys::KeyGenerator;
pub use late_writes::ReplyFirst;
pub use namespace::{Namespace, check_database};
pub use operation::{Operation, Running, check_running, run_as};
pub use path_numbers::PathNumbers;
pub use plan_summary::PlanSummary;
pub use quarry_journal::Level;
pub use quarry_storage::{Cursor, EngineCounters, KeyRange};
pub use record_cache::RecordCacheCounters;
pub use refusals::{RefusedWrites, WritesNow};
pub use stats::{CollStats, IndexStats};
pub use validate::{IndexReport, ValidateReport};
pub use view::{View, index_record_key};
pub use watches::CommitWatch;
pub use write::{Change, Inserted, Modified, PIECE_BYTES_MAX, PIECE_DOCUMENTS_MAX};
