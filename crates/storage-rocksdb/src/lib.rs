//! Quarry storage-rocksdb.
