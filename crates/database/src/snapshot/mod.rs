//! How the database is read: the latest state or one snapshot of it, and the epochs that keep what a reader may still
//! meet.
//!
//! A reader takes no lock and writes nothing. `reads` and `epochs` must not know the catalog; `collection_snapshot`
//! reads one collection by it.

pub(crate) mod collection_snapshot;
pub(crate) mod epochs;
pub(crate) mod reads;
