//! Quarry's write-ahead log: a queue of writers, groups led by one of them, one write and one checksum
//! a group, shared syncs, segments, replay.
//!
//! Kept true: a record is applied only after the log has it, and in LSN order; LSNs are dense numbers;
//! `Committed` means what its `Level` says; a failed disk latches and is never tried again. The crate
//! knows neither what a record means nor what applies it: the owner passes `Hooks`. The log itself is a
//! small trait, `Log`: files of one machine here, something else tomorrow.
//!
//! It does not replicate, and encrypts nothing by itself: see `Seal`.
//!
//! ```
//! use std::sync::Arc;
//! use quarry_journal::{GroupBuilder, HookError, Hooks, Identity, Journal, Level, Options, Payloads, SimulatedFiles};
//!
//! struct Printer;
//! impl Hooks for Printer {
//!     fn ready(&self, _bytes: usize) -> Result<(), HookError> {
//!         Ok(())
//!     }
//!     fn finish_group(&self, _group: &mut GroupBuilder<'_>) -> Result<(), HookError> {
//!         Ok(())
//!     }
//!     fn apply(&self, _first_lsn: u64, payloads: &Payloads<'_>) -> Result<(), HookError> {
//!         for (lsn, payload) in payloads {
//!             println!("{lsn}: {payload:?}");
//!         }
//!         Ok(())
//!     }
//! }
//!
//! let files = Arc::new(SimulatedFiles::new());
//! let identity = Identity { database: [1; 16], engine: "printer".to_owned() };
//! let options = Options { segment_bytes: 64 * 1024, ..Options::default() };
//! let journal = Journal::open(files, options, identity, 0, Arc::new(Printer))?;
//! let committed = journal.commit(b"survives power loss", Level::Durable)?;
//! assert_eq!(committed.lsn, 1);
//! assert!(journal.durable_lsn() >= committed.lsn);
//! # Ok::<(), quarry_journal::Error>(())
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod append;
pub mod archive;
mod backlog;
mod chain;
mod clock;
mod compression;
mod copy;
mod error;
pub mod files;
mod group;
mod group_header;
mod hooks;
pub mod inspect;
mod journal;
mod latch;
mod log;
mod options;
mod pace;
mod pipeline;
mod primitives;
mod queue;
mod reader;
mod recovery;
pub mod renew;
mod scan;
mod seal;
mod segment;
mod segment_header;
mod segment_index;
mod segment_reader;
mod segments;
mod spares;
mod stamp;
mod sync;
mod tail;
mod ticket;
mod wakeups;

pub use copy::Pin;
pub use error::{Error, HookError, HookErrorKind, Result};
pub use files::real::RealFiles;
pub use files::simulated::SimulatedFiles;
pub use files::{File, FileEntry, Files};
pub use group_header::{GroupFormat, GroupHeader};
pub use hooks::{AbortOnPanic, GroupBuilder, Hooks, PayloadIter, Payloads};
pub use journal::{Journal, Window};
pub use log::memory::{MemoryLog, Trouble};
pub use log::{Log, LogGroup, LogReader, LogTicket, Stage};
pub use options::{ENGINE_NAME_BYTES_MAX, Identity, Options, RECORD_BYTES_MAX, Shortcuts};
pub use reader::Reader;
pub use seal::{Seal, SealedFiles, SealedPlace};
pub use segment_header::SegmentHeader;
pub use segments::WaitingForArchive;
pub use stamp::Stamp;
pub use sync::SyncCounters;
pub use ticket::{CommitReport, Committed, Level, Pending, Ticket, Until};

/// The README's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
