//! The error of a specification, with MongoDB's code for it.

use std::fmt;

/// The result of reading a specification.
pub type Result<T> = std::result::Result<T, Error>;

/// A specification that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    code: i32,
    text: String,
}

impl Error {
    pub(crate) fn new(code: i32, text: impl Into<String>) -> Error {
        let text = text.into();
        Error { code, text }
    }

    pub(crate) fn bad_value(text: impl Into<String>) -> Error {
        Error::new(2, text)
    }

    /// The refusal of what MongoDB takes and the library cannot do.
    pub(crate) fn not_served(what: impl fmt::Display) -> Error {
        Error::new(238, format!("{what} is not supported"))
    }

    /// MongoDB's code.
    pub fn code(&self) -> i32 {
        self.code
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
