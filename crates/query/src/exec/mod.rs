//! Running queries and writes against the database: what the commands call.
//!
//! Keeps true: a read holds a snapshot for one batch at most; a write looks again at the latest document under its
//! lock before it changes it; every loop over documents can be interrupted. Leaves out: the wire, cursors' numbers
//! and who may do what.

mod accesses;
mod aggregate;
mod collation;
mod collections;
mod count;
mod delete;
mod distinct;
mod error;
mod executor;
mod expire;
mod explain;
mod find;
mod find_and_modify;
mod helper_thread;
mod helper_threads;
mod insert;
mod key_line;
mod measured_run;
mod modify;
mod parts;
mod plan_cache;
mod reading;
mod recorded;
mod request;
mod series;
mod settings;
mod shared_reading;
mod thread_bounds;
mod update;
mod view;
mod view_stages;
mod written;

pub use crate::error::Result;
pub use crate::metadata::MetadataKinds;
pub use aggregate::aggregate;
pub use count::count;
pub use delete::delete;
pub use distinct::distinct;
pub(crate) use error::{broken_entry, memory_exceeded, stored};
pub use executor::Executor;
pub use expire::{Expired, expire};
pub use explain::{Explained, Verbosity, explain};
pub use find::check_find;
pub use find_and_modify::find_and_modify;
pub use insert::insert;
pub use plan_cache::{PlanCacheChange, PlanCacheInfo, change_plan_cache, plan_cache_info};
pub use recorded::{find_and_modify_again, update_again};
pub use request::{
    AggregateRequest, CountRequest, DeleteRequest, DistinctRequest, FindAndModifyOutcome,
    FindAndModifyRequest, FindRequest, InsertOutcome, InsertRequest, KeyOptions, Over,
    UpdateOutcome, UpdateRequest,
};
pub use thread_bounds::ThreadBounds;
pub use update::update;
pub use view::find;
pub use view_stages::check_view;
