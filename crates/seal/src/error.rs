//! Why a key, a keystore or something sealed cannot be used.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a key, a keystore or something sealed cannot be used.
#[derive(Debug)]
pub enum Error {
    /// The system refused to read or write a file.
    Io {
        /// The file.
        path: PathBuf,
        /// Its reason.
        error: io::Error,
    },
    /// The key file is not one, or others may read it.
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Says what is wrong with it.
        reason: String,
    },
    /// The key is not the one that the data directory's data key is wrapped with.
    WrongKey {
        /// The keystore.
        path: PathBuf,
    },
    /// The keystore is damaged, or of a version that this build does not know.
    Keystore {
        /// The keystore.
        path: PathBuf,
        /// Says what is wrong with it.
        reason: String,
    },
    /// A file of the engine or a block of one is not what was sealed.
    Damaged(&'static str),
    /// The system gave no random bytes.
    NoRandomness,
}

impl Error {
    pub(crate) fn io(path: &Path, error: io::Error) -> Error {
        Error::Io {
            path: path.to_owned(),
            error,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, error } => write!(out, "`{}`: {error}", path.display()),
            Error::KeyFile { path, reason } => write!(out, "`{}`: {reason}", path.display()),
            Error::WrongKey { path } => write!(
                out,
                "the key file holds another key than the one that `{}` is locked with: nothing was changed",
                path.display()
            ),
            Error::Keystore { path, reason } => {
                write!(out, "keystore `{}`: {reason}", path.display())
            }
            Error::Damaged(reason) => write!(out, "{reason}"),
            Error::NoRandomness => write!(out, "the system gives no random bytes"),
        }
    }
}

impl std::error::Error for Error {}
