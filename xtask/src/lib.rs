//! Repository checks and code generation.
//!
//! `style` reads the sources and reports every breach of the plan's rules; `circles` finds files that
//! lead back to themselves; `functions` measures how long they are; `error_codes` turns the public table of error numbers into Rust. Neither writes anything by itself: `main` does.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod circles;
pub mod error_codes;
pub mod functions;
pub mod style;

use std::path::PathBuf;

/// The root of the repository: the folder above this crate.
#[must_use]
pub fn repository_root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .expect("the xtask crate lies one folder below the root")
        .to_path_buf()
}
