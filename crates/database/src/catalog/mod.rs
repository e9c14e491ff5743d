//! The catalog: which databases, collections and indexes there are, and who holds them.
//!
//! `cache` and `collection` answer what a name means; the commit path keeps them up to date, and everybody asks them.
//! They must not know commits, nor a lock of a record.

pub(crate) mod cache;
pub(crate) mod collection;
pub(crate) mod collection_holds;
pub(crate) mod plan_memory;
pub(crate) mod time_series;
pub(crate) mod validation;
pub(crate) mod view;
