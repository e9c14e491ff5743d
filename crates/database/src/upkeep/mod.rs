//! The upkeep of an open database: background threads, checkpoints, the space of what was dropped, and validation.
//!
//! It stands above the commit path. Only `Database` starts it; nothing that reads or writes data uses it.

pub(crate) mod background;
pub(crate) mod checkpoint;
pub(crate) mod database_cleaner;
pub(crate) mod reclaim;
pub(crate) mod temporary_cleaner;
pub(crate) mod validate;
