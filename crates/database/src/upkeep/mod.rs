//! The upkeep of an open database: background threads, the space of what was dropped, and validation.
//!
//! It stands above the commit path and the definitions. Only `Database` starts it.

pub(crate) mod background;
pub(crate) mod database_cleaner;
pub(crate) mod findings;
pub(crate) mod reclaim;
pub(crate) mod temporary_cleaner;
pub(crate) mod validate;
