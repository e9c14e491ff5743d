//! Collections and indexes over one keyspace, on any engine, with one commit path.
//!
//! Keeps true: every change goes through the journal before it is applied; an index never disagrees with its
//! documents; counts are exact; memory follows the log, so that replay and a live commit are one. Leaves out: the query
//! language, sockets, and which engine there is.
//!
//! Each folder is a wing; its comment says what it is, what it must not know, and who uses it. They stand here from the
//! ground up.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod collation;
pub mod error;
pub mod error_code;
mod operation;
mod plan_summary;
mod progress;
mod thread_shard;

mod keyspace;

mod index;
mod locks;

mod catalog;
mod record_cache;
mod snapshot;

mod commit;

mod definitions;
mod events;
mod sessions;

mod upkeep;
mod write;

mod build;

mod database;

pub use catalog::collection::{
    CLUSTERED_INDEX, COLLATION, Capped, Collection, CollectionDefinition, CollectionKind,
    EXPIRE_AFTER, IndexCatalog,
};
pub use catalog::plan_memory::PlanMemory;
pub use catalog::time_series::{
    BUCKETS, GRANULARITY, TIME_SERIES, TimeSeries, complete_time_series, refuse_buckets,
};
pub use catalog::validation::{OnInvalid, VALIDATION_OPTIONS, Validation};
pub use catalog::view::{VIEW_ON, VIEW_PIPELINE, View};
pub use collation::{encode_collated, parse_collation};
pub use commit::changes::ChangeKind;
pub use commit::commits::take_commit_time;
pub use commit::definition_event::{DefinitionKind, is_of_view};
pub use commit::late_writes::ReplyFirst;
pub use commit::payload;
pub use commit::refusals::{RefusedWrites, WritesNow};
pub use commit::session_section::RecordSession;
pub use commit::watches::CommitWatch;
pub use database::{
    Copied, Database, JournalRenewal, Options, PinnedFigures, PinnedSnapshot, ReplayTimes, Scope,
    Shortcuts,
};
pub use definitions::builds::InterruptedBuild;
pub use definitions::changes::Dropped;
pub use definitions::collection_stats::{CollStats, IndexStats};
pub use definitions::database_stats::DbStats;
pub use definitions::index_changes::{IndexUse, clustered_index};
pub use definitions::known_index::IndexesCreated;
pub use definitions::listing::ExpiringIndex;
pub use definitions::replacement::Temporary;
pub use error::{DuplicateKey, Error, Result, SharedKeys};
pub use error_code::ErrorCode;
pub use events::change_event::{ChangeBody, ChangeEvent, DocumentChange};
pub use events::change_point::{CHANGE_POINT_BYTES, ChangePoint};
pub use events::change_reader::{ChangeReader, ChangeScope, ChangesFrom, ChangesRead};
pub use events::update_description::{DescribedStep, describe_path, shown_description};
pub use index::access_counter::AccessCounter;
pub use index::definition::{
    ID_INDEX_NAME, Index, IndexChange, KeyField, KeyPattern, PREPARE_UNIQUE, TEXT, WILDCARD,
};
pub use index::document_filter::{
    DocumentFilter, DocumentValidator, FilterLanguage, NoFilterLanguage,
};
pub use index::entry::{
    IndexEntry, is_widened_by_cut_keys, may_meet_cut_keys, may_stand_among_cut_keys,
    meeting_cut_keys,
};
pub use index::index_filters::{IndexFilter, IndexFilters};
pub use index::keys::KeyGenerator;
pub use index::kind::{IndexKinds, NoIndexKinds, SpecialKeys, TakeKey};
pub use index::path_numbers::PathNumbers;
pub use index::plan_choices::{CachedPlan, PlanChoices, PlanOrigin, Served};
pub use keyspace::counts::Counts;
pub use keyspace::ident::{Ident, Prefix};
pub use keyspace::layout;
pub use keyspace::namespace::{DATABASE_BYTES_MAX, NAMESPACE_BYTES_MAX, Namespace, check_database};
pub use operation::{OnProgress, Operation, OperationGuard, check_running, run_as};
pub use plan_summary::PlanSummary;
pub use progress::Progress;
pub use quarry_collation::{Collation, SORT_KEYS_VERSION, holds_text};
pub use quarry_journal::Level;
pub use quarry_storage::{
    Cursor, EngineCounters, KeyRange, ThreadWork, add_thread_work, take_thread_work,
};
pub use record_cache::RecordCacheCounters;
pub use sessions::record::StatementKind;
pub use sessions::retryable_write::{RetryableWrite, SessionHistory};
pub use sessions::session_records::{RecordedStatement, StoredSession, UnusedSessions};
pub use snapshot::collection_snapshot::{CollectionSnapshot, index_entry, index_record_key};
pub use upkeep::findings::Findings;
pub use upkeep::validate::{IndexReport, ValidateReport};
pub use write::{
    Change, Inserted, Modified, NewDocument, OPEN_TRANSACTIONS_MAX, PIECE_BYTES_MAX,
    PIECE_DOCUMENTS_MAX, TRANSACTION_BYTES_MAX, TRANSACTIONS_MEMORY_BYTES_MAX, Transaction,
    TransactionCounters, UnitReads, WriteUnit,
};
