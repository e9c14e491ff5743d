//! The tools that carry data between files and servers: `quarry dump`, `restore-dump`, `import`, `export` and `migrate`.
//!
//! They are clients like any others ([`quarry_client`]), so each works with a MongoDB as well, and dumps are in mongodump's formats. A module is a
//! tool, with its flags beside it; what several need stands above them: `loader` has batches written over several connections at once,
//! `definition` reads and makes collections with their options and indexes, `namespaces` chooses and renames them.
//!
//! Keeps true: bytes of files are hostile, and a damaged one is refused with its name and the place in it; a document that a server refuses is
//! named, counted, and makes the tool fail in the end; what a format cannot say is refused and never left out silently.
//!
//! Leaves out: the server's own files, which `quarry backup` copies.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod archive;
mod bson_file;
mod change_stream;
#[cfg(feature = "parquet")]
mod column_marks;
mod definition;
pub mod dump;
mod error;
pub mod export;
mod file_name;
pub mod import;
mod loader;
mod metadata;
pub mod migrate;
mod namespaces;
pub mod narrow;
mod new_file;
mod oplog;
mod progress;
pub mod restore_dump;
mod server;
mod statements;
mod time_series;
mod users;

pub use error::{Error, Result};
pub use namespaces::SelectionFlags;
pub use progress::Progress;

use std::process::ExitCode;

/// The exit code of a tool; an error is printed.
fn ended(tool: &str, result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quarry {tool}: {error}");
            ExitCode::FAILURE
        }
    }
}
