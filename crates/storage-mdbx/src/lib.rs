//! Quarry's second engine: libmdbx behind the [`quarry_storage::Engine`] trait.
//!
//! A memory-mapped, copy-on-write B+ tree in one file: quick to read, dear to write at random. It is
//! for read-heavy sets that fit memory.
//!
//! Keeps true: a batch is one transaction, begun and committed on the calling thread; with the
//! default [`SyncMode::SafeNoSync`] nothing becomes durable but by a steady point, which asks the
//! hook of the write-ahead rule first: by [`Engine::sync`], or on a thread of the engine when much
//! is unsynced. After an unclean end, a killed process or a power loss, the store begins at the last such point.
//! Leaves out: named tables, nested transactions and libmdbx's own timers for syncing.
//!
//! `unsafe` lives in `ffi.rs` alone. docs/formats/engines.md says what is on disk.
//!
//! [`Engine::sync`]: quarry_storage::Engine::sync

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod cursor;
mod engine;
mod failure;
mod ffi;
mod options;
mod readers;
mod snapshot;
mod steady;
mod store;

pub use engine::Mdbx;
pub use options::{Options, READERS_MAX, SyncMode};
