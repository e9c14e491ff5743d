//! How the database is read: the latest state or one snapshot of it, and the epochs that keep what a reader may still
//! meet.
//!
//! A reader takes no lock and writes nothing. `reads` and `epochs` must not know the catalog; `view` reads one
//! collection by it.

pub(crate) mod epochs;
pub(crate) mod reads;
pub(crate) mod view;
