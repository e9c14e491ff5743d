//! Quarry's default engine: RocksDB behind the [`quarry_storage::Engine`] trait.
//!
//! Keeps true: RocksDB's own log is off, so nothing is durable but by a flush, and a flush begins
//! only after the hook of the write-ahead rule has agreed to the highest LSN that can be in it.
//! RocksDB never resumes by itself after an error: what failed stays failed until [`Engine::ready`]
//! resumes it, and the commit path applies the refused group first.
//! Leaves out: what keys mean. There is one column family, no prefix extractor, no merge operator.
//!
//! With [`Options::key`] every file of the store is encrypted: RocksDB's file system is wrapped (`cpp/sealed_env.cc`), and the
//! bytes are sealed by `quarry_seal`.
//!
//! `unsafe` lives in `ffi.rs` and `ffi/` alone. docs/formats/engines.md says what is on disk.
//!
//! [`Engine::ready`]: quarry_storage::Engine::ready

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod cache_use;
mod cursor;
mod engine;
mod failure;
mod ffi;
mod foreign_files;
mod iterator_pool;
mod options;
mod reclaim;
mod snapshot;
mod write_ahead;

pub use engine::RocksDb;
pub use options::Options;
