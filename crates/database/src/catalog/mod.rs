//! The catalog: which databases, collections and indexes there are, how that changes, and how large they are.
//!
//! `cache` and `collection` answer what a name means; the commit path keeps them up to date, and everybody asks them.
//! They must not know locks or commits. `definitions`, `database_drop` and the sizes stand above the commit path, as writes
//! do: they hold collections (`collection_holds`), and have no lock of a record to take.

pub(crate) mod cache;
pub(crate) mod collection;
pub(crate) mod collection_holds;
pub(crate) mod collection_stats;
pub(crate) mod database_drop;
pub(crate) mod database_stats;
pub(crate) mod definitions;
pub(crate) mod listing;
pub(crate) mod plan_memory;
pub(crate) mod replacement;
pub(crate) mod validation;
pub(crate) mod view;
