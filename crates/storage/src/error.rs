//! The one error type of the storage floor.
//!
//! Coarse on purpose: a variant exists where a caller acts differently. Text names the thing that
//! failed. The enum is `Clone`, so that a latched failure can be reported to everybody who asks.

use std::fmt;

/// An error of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A key is empty or longer than [`crate::KEY_BYTES_MAX`]; nothing was written.
    KeyLength {
        /// The key's length.
        key_bytes: usize,
    },
    /// Bytes that should be a [`crate::WriteBatch`] are not one.
    MalformedBatch {
        /// The byte at fault.
        offset: usize,
    },
    /// The engine's files are damaged, or are not an engine's files at all.
    Corruption(String),
    /// The files belong to another engine, another format or another version of one.
    Incompatible(String),
    /// Another process or another handle of this process has the files open.
    Locked(String),
    /// The device or the engine's own limit is full; reads go on, writes may later.
    NoSpace(String),
    /// The engine cannot take a write now and will by itself.
    Stalled(String),
    /// The engine was closed.
    Closed,
    /// The operating system failed a call.
    Io(String),
    /// Anything else that the engine reports.
    Engine(String),
}

/// The result of a call to an engine.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether the call may succeed later by itself, once time has passed or space has been freed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Stalled(_) | Self::NoSpace(_))
    }

    /// Stored bytes cannot be trusted any more.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        matches!(self, Self::Corruption(_))
    }

    /// The device, or the engine's own bound, is full.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::NoSpace(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyLength { key_bytes } => {
                write!(
                    out,
                    "key of {key_bytes} bytes is not between 1 and {} bytes",
                    crate::KEY_BYTES_MAX
                )
            }
            Self::MalformedBatch { offset } => {
                write!(
                    out,
                    "write batch is malformed: no whole put or delete at byte {offset}"
                )
            }
            Self::Corruption(what) => write!(out, "stored data is damaged: {what}"),
            Self::Incompatible(what) => write!(out, "data files do not fit this engine: {what}"),
            Self::Locked(what) => write!(out, "data files are in use: {what}"),
            Self::NoSpace(what) => write!(out, "no space left: {what}"),
            Self::Stalled(what) => write!(out, "engine is stalled: {what}"),
            Self::Closed => write!(out, "engine is closed"),
            Self::Io(what) => write!(out, "input or output failed: {what}"),
            Self::Engine(what) => write!(out, "engine failed: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Self::NoSpace(error.to_string())
            }
            _ => Self::Io(error.to_string()),
        }
    }
}
