//! The catalog: which databases, collections and indexes there are, how that changes, and how large they are.
//!
//! `cache` and `collection` answer what a name means; the commit path keeps them up to date, and everybody asks them.
//! They must not know locks or commits. `ddl`, `listing` and the sizes stand above the commit path, as writes do.

pub(crate) mod cache;
pub(crate) mod collection;
pub(crate) mod collection_stats;
pub(crate) mod database_stats;
pub(crate) mod ddl;
pub(crate) mod listing;
