//! The crate's one error: a key or type bits that no encoder made.

use std::fmt;

/// The result of every function of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Bytes that are no key, or type bits that do not belong to their key: damage. `offset` counts from
/// the start of the bytes that were given, `expected` says what should have stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The bytes are not a key.
    Key {
        /// The byte at fault, from the start of the key.
        offset: usize,
        /// The text says what should have stood there.
        expected: &'static str,
    },
    /// The type bits do not belong to the key.
    TypeBits {
        /// The byte at fault, from the start of the type bits.
        offset: usize,
        /// The text says what should have stood there.
        expected: &'static str,
    },
}

impl Error {
    /// Always: nothing that a client sends ends here, only what was stored.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        true
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, offset, expected) = match self {
            Self::Key { offset, expected } => ("key", offset, expected),
            Self::TypeBits { offset, expected } => ("type bits", offset, expected),
        };
        write!(f, "malformed {bytes} at byte {offset}: expected {expected}")
    }
}

impl std::error::Error for Error {}
