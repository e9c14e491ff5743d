//! The storage floor: the [`Engine`] trait, what it speaks, and the engines that need no library.
//!
//! Keeps true: a batch is visible as a whole or not at all; a snapshot never changes; keys order
//! as unsigned bytes; nothing becomes durable before the hook of the write-ahead rule has run.
//! Leaves out: what keys and values mean, any log, and any engine with files of its own: those
//! live in crates of their own and pass the [`conformance`] suite here.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod applied;
pub mod conformance;
mod counter_cells;
pub mod creation;
mod descriptors;
mod engine;
mod error;
mod faulty;
mod flush_images;
mod free_space;
mod hasty_reclaim;
mod key_range;
mod memory;
mod memory_cursor;
mod mirror;
mod overlay;
mod thread_work;
mod write_batch;

pub use applied::applied_lsn;
pub use counter_cells::CounterCells;
pub use descriptors::check_descriptors;
pub use engine::{BeforeDurable, Cursor, Engine, EngineCounters, Readiness, Reclaimed, Snapshot};
pub use error::{Error, Result};
pub use faulty::Faulty;
pub use flush_images::{FlushImages, ImagedEngine, copy_directory, copy_directory_beside};
pub use free_space::{FreeSpace, free_bytes};
pub use hasty_reclaim::HastyReclaim;
pub use key_range::KeyRange;
pub use memory::{Memory, MemoryImage};
pub use mirror::Mirror;
pub use overlay::Overlay;
pub use thread_work::{ThreadWork, add_thread_work, take_thread_work};
pub use write_batch::{Op, Ops, WriteBatch};

/// Bytes of the longest key that every engine takes: what libmdbx can keep with 4 KiB pages.
pub const KEY_BYTES_MAX: usize = 2022;

/// Where a batch puts the LSN of the group it applies: 8 bytes, little-endian.
pub const APPLIED_LSN_KEY: &[u8] = &[0x01, 0x00];
