//! The seam between an export and the formats of files.

use std::io::{self, Write};

use clap::ValueEnum;
use quarry_bson::RawDocument;

/// A file of documents that is being written.
pub trait Output {
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()>;
    fn document(&mut self, document: RawDocument<'_>, out: &mut dyn Write) -> io::Result<()>;
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
    /// Lines that the user reads about the file in the end.
    fn told(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A form of Extended JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Every type is spelled out
    Canonical,
    /// Numbers, and dates of the years 1970 to 9999, stand as people write them
    Relaxed,
}

/// How the pages of a column are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    Zstd,
    Snappy,
    Lz4,
    Gzip,
    None,
}
