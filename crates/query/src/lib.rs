//! MQL, the query language: matching, updating, projecting, expressions and pipelines over raw BSON, and the
//! planner and executor that run them against the database.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod empty_timestamps;
pub mod error;
pub mod field_path;
pub mod interrupts;
pub mod memory;
mod name_table;
mod partial_filter;
mod plan;
mod sorter;
mod stage_memory;
mod stored_id;
mod value_set;

pub mod exec;
pub mod expression;
pub mod matcher;
pub mod pipeline;
pub mod planner;
pub mod projection;
pub mod sort;
pub mod update;

pub use error::{Error, Result};
pub use field_path::FieldPath;
pub use partial_filter::filter_language;
pub use quarry_database::{Collation, ErrorCode, error_code};
