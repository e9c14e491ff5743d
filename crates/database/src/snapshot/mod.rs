//! How the database is read: the latest state or one snapshot of it.
//!
//! A reader takes no lock and writes nothing: it stands in an epoch (`locks::epochs`). `reads` must not know the catalog;
//! `collection_snapshot` reads one collection by it.

pub(crate) mod collection_snapshot;
pub(crate) mod reads;
