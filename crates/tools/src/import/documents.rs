//! A file as the documents that it has, whatever its format.

use super::resume::Place;
use crate::error::Result;

/// A file of documents.
pub trait Documents {
    /// Appends the next document to `out`. After `Bad`, `out` is as before, and the next call reads on behind.
    fn next(&mut self, out: &mut Vec<u8>) -> Result<Next>;
    /// The place behind the last document.
    fn place(&self) -> Place;
    /// The name of what the numbers of its documents count.
    fn unit(&self) -> &'static str {
        "line"
    }
    /// Lines that the user reads about the file in the end.
    fn told(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The next thing in a file.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// A document that begins on the line, or is the row.
    Document(u64),
    /// Something on the line, or in the row, that cannot be read, and is left out.
    Bad(u64, String),
    /// A document on the line that is left out because the flags say so, and why it would be none.
    Skipped(u64, String),
    End,
}
