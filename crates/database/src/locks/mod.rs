//! Who waits for whom before a commit: the holds of collections, the locks of records and unique keys, and the turn of
//! large batches.
//!
//! A lock knows idents and hashes of keys. It must not know documents, the catalog or the commit path; the writes, the
//! definitions and the builds take them, in the order that the comment at the head of `commit` gives.

pub(crate) mod hold;
pub(crate) mod large_batches;
pub(crate) mod record_locks;
