//! The crate's one error.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of whatever a tool does.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a tool ends early, or ends well and yet fails.
#[derive(Debug)]
pub enum Error {
    /// The flags do not go together, or ask for what is not served.
    Usage(String),
    /// A server did not do what it was asked for.
    Server {
        /// The text says what the tool was at.
        at: String,
        /// The reason.
        why: quarry_client::Error,
    },
    /// A file cannot be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: io::Error,
    },
    /// A file is not what it should be.
    Damaged {
        /// The file, and the place in it.
        place: String,
        /// The fault.
        what: String,
    },
    /// Everything was tried, and not everything was done.
    Incomplete(String),
}

impl Error {
    pub(crate) fn usage(what: impl Into<String>) -> Error {
        Error::Usage(what.into())
    }

    /// The error of a build that cannot read or write Parquet.
    #[cfg(not(feature = "parquet"))]
    pub(crate) fn without_parquet() -> Error {
        Error::usage("this build has no Parquet: it was made without the feature `parquet`")
    }

    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> Error {
        move |why| Error::File {
            path: path.to_owned(),
            why,
        }
    }

    /// An error of a server while the tool was at `at`.
    pub(crate) fn server(at: impl fmt::Display) -> impl Fn(quarry_client::Error) -> Error {
        move |why| Error::Server {
            at: at.to_string(),
            why,
        }
    }

    pub(crate) fn damaged(place: impl fmt::Display, what: impl fmt::Display) -> Error {
        Error::Damaged {
            place: place.to_string(),
            what: what.to_string(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(what) | Error::Incomplete(what) => f.write_str(what),
            Error::Server { at, why } if at.is_empty() => write!(f, "{why}"),
            Error::Server { at, why } => write!(f, "{at}: {why}"),
            Error::File { path, why } => write!(f, "`{}`: {why}", path.display()),
            Error::Damaged { place, what } => write!(f, "{place}: {what}"),
        }
    }
}

impl std::error::Error for Error {}
