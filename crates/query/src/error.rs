//! The errors of the language: what a client is told when its filter, update, projection, sort or expression cannot be run: MongoDB's code
//! and a message of MongoDB's shape. Nothing is retried by looking at it; storage failures are the database
//! crate's own errors.

use std::fmt;

use crate::error_code::ErrorCode;

/// The result of everything that parses or evaluates the language.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the language, as the client is told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// MongoDB's number.
    pub code: ErrorCode,
    /// The text for the client.
    pub message: String,
}

impl Error {
    /// An error with any of MongoDB's numbers.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Error {
        Error {
            code,
            message: message.into(),
        }
    }

    /// An error that MongoDB gives a number but no name ("Location31254").
    pub fn location(number: i32, message: impl Into<String>) -> Error {
        Error::new(ErrorCode(number), message)
    }

    /// An error with the code BadValue.
    pub fn bad_value(message: impl Into<String>) -> Error {
        Error::new(ErrorCode::BAD_VALUE, message)
    }

    /// An error with the code FailedToParse.
    pub fn failed_to_parse(message: impl Into<String>) -> Error {
        Error::new(ErrorCode::FAILED_TO_PARSE, message)
    }

    /// An error with the code TypeMismatch.
    pub fn type_mismatch(message: impl Into<String>) -> Error {
        Error::new(ErrorCode::TYPE_MISMATCH, message)
    }

    /// The number as it goes over the wire.
    pub fn code(&self) -> i32 {
        self.code.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Bytes that were validated at the edge turn out not to be BSON: never the client's doing.
impl From<quarry_bson::Error> for Error {
    fn from(cause: quarry_bson::Error) -> Error {
        Error::new(ErrorCode::INVALID_BSON, cause.to_string())
    }
}
