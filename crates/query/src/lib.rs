//! MQL, the query language: matching, updating, projecting, expressions and pipelines over raw BSON, and the
//! planner and executor that run them against the database.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod empty_timestamps;
pub mod error;
pub mod field_path;
mod fields_kept;
mod geo_index;
mod hashed_index;
pub mod interrupts;
mod kind_table;
pub mod memory;
pub mod memory_budget;
pub mod message_text;
mod metadata;
mod name_table;
pub mod normalised;
pub mod parameters;
mod parsed_filter;
mod partial_filter;
mod plan;
mod sent_filter;
mod sorter;
pub mod spilling;
mod stage_memory;
mod stored_id;
mod text_index;
pub mod turns;
mod validator;
mod value_set;
mod wildcard_index;

pub mod exec;
pub mod expression;
pub mod matcher;
pub mod pipeline;
pub mod planner;
pub mod projection;
pub mod query_settings;
pub mod query_shape;
pub mod sort;
pub mod update;

pub use error::{Error, Result};
pub use field_path::FieldPath;
pub use kind_table::index_kinds;
pub use partial_filter::filter_language;
pub(crate) use quarry_database::encode_collated;
pub use quarry_database::{Collation, ErrorCode, error_code};
