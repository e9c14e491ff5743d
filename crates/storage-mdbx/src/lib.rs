//! Quarry storage-mdbx.
