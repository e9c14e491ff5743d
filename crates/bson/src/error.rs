//! The crate's one error: what was expected, where in the bytes or the text, and at which path.
//!
//! Errors are made on cold paths only; the hot paths return `Option` or a size and let a second, slower
//! look find the words.

use std::fmt;

/// The result of every function of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Why bytes or text could not be read as BSON. `offset` counts bytes from the start of what was given,
/// `path` is the dotted path of the element (empty at the top), `expected` says what should have stood there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The bytes are not a BSON document or value.
    Malformed {
        /// The byte at fault.
        offset: usize,
        /// The element at fault.
        path: String,
        /// The text says what should have stood there.
        expected: String,
    },
    /// The bytes nest deeper than [`crate::DEPTH_MAX`].
    TooDeep {
        /// Where the document that is one too many begins.
        offset: usize,
        /// The element that it is the value of.
        path: String,
    },
    /// The document is larger than [`crate::DOCUMENT_BYTES_INTERNAL_MAX`].
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The size allowed.
        limit: usize,
    },
    /// The text is not what it should be: Extended JSON, a decimal, an ObjectId.
    Text {
        /// The byte at fault.
        offset: usize,
        /// The value at fault, where the text has paths.
        path: String,
        /// The text says what should have stood there.
        expected: String,
    },
    /// A value cannot be expressed in the type that was asked for.
    Unrepresentable {
        /// The value and the type.
        what: String,
    },
}

impl Error {
    pub(crate) fn malformed(offset: usize, expected: impl Into<String>) -> Self {
        Self::Malformed {
            offset,
            path: String::new(),
            expected: expected.into(),
        }
    }

    pub(crate) fn text(offset: usize, expected: impl Into<String>) -> Self {
        Self::Text {
            offset,
            path: String::new(),
            expected: expected.into(),
        }
    }

    /// The dotted path of the element at fault; empty at the top of a document or where none is known.
    pub fn path(&self) -> &str {
        match self {
            Self::Malformed { path, .. } | Self::TooDeep { path, .. } | Self::Text { path, .. } => {
                path
            }
            Self::TooLarge { .. } | Self::Unrepresentable { .. } => "",
        }
    }

    /// The byte offset of the fault, where one is known.
    pub fn offset(&self) -> Option<usize> {
        match self {
            Self::Malformed { offset, .. }
            | Self::TooDeep { offset, .. }
            | Self::Text { offset, .. } => Some(*offset),
            Self::TooLarge { .. } | Self::Unrepresentable { .. } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed {
                offset,
                path,
                expected,
            } => {
                write!(
                    f,
                    "invalid BSON at byte {offset}{}: expected {expected}",
                    At(path)
                )
            }
            Self::TooDeep { offset, path } => {
                write!(
                    f,
                    "BSON nests deeper than {} levels at byte {offset}{}",
                    crate::DEPTH_MAX,
                    At(path)
                )
            }
            Self::TooLarge { bytes, limit } => {
                write!(f, "BSON document of {bytes} bytes exceeds {limit} bytes")
            }
            Self::Text {
                offset,
                path,
                expected,
            } => {
                write!(
                    f,
                    "invalid text at byte {offset}{}: expected {expected}",
                    At(path)
                )
            }
            Self::Unrepresentable { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

struct At<'a>(&'a str);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " in `{}`", self.0)
        }
    }
}
