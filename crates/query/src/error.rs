//! The errors of this crate: MongoDB's code and a message of MongoDB's shape, for a filter, update, projection, sort or
//! expression that cannot be run. An error of the database below passes through as itself: it stands within as the cause, so
//! that whoever handles it can ask what is to be done. So does an error of a stage that the server has added.

use std::fmt;
use std::sync::Arc;

use crate::error_code::ErrorCode;
use crate::message_text;

/// The result of everything that parses or evaluates the language.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error, as the client is told it.
#[derive(Debug, Clone)]
pub struct Error {
    /// MongoDB's number.
    pub code: ErrorCode,
    /// The text for the client.
    pub message: String,
    /// The error of another layer that it is; none for an error of the language.
    cause: Option<Box<Cause>>,
}

/// An error of the layer below or above, on its way through this one.
#[derive(Debug, Clone)]
enum Cause {
    Database(quarry_database::Error),
    AddedStage(Arc<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// An error with any of MongoDB's numbers.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Error {
        Error {
            code,
            message: message.into(),
            cause: None,
        }
    }

    /// The error of a stage that another layer has added: `as_added_stage` finds it again on the other side of the pipeline.
    pub fn of_added_stage<E>(code: ErrorCode, error: E) -> Error
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        Error {
            code,
            message: error.to_string(),
            cause: Some(Box::new(Cause::AddedStage(Arc::new(error)))),
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

    /// The definition of an index that there cannot be.
    pub(crate) fn cannot_create_index(message: impl Into<String>) -> Error {
        Error::new(ErrorCode::CANNOT_CREATE_INDEX, message)
    }

    /// An error with the code TypeMismatch.
    pub fn type_mismatch(message: impl Into<String>) -> Error {
        Error::new(ErrorCode::TYPE_MISMATCH, message)
    }

    /// The error with words in front that say what was being done. It stays what it is.
    pub(crate) fn in_context(mut self, context: &str) -> Error {
        self.message = format!("{context} :: caused by :: {}", self.message);
        self
    }

    /// The number as it goes over the wire.
    pub fn code(&self) -> i32 {
        self.code.0
    }

    /// The error of the database that it is.
    pub fn cause(&self) -> Option<&quarry_database::Error> {
        match self.cause.as_deref() {
            Some(Cause::Database(cause)) => Some(cause),
            Some(Cause::AddedStage(_)) | None => None,
        }
    }

    /// The error of an added stage that it is, if that is of this type.
    pub fn as_added_stage<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self.cause.as_deref() {
            Some(Cause::AddedStage(error)) => error.downcast_ref(),
            Some(Cause::Database(_)) | None => None,
        }
    }

    /// Carries the error out of what the database calls and whose errors are the database's. An error of the language keeps its
    /// code and message, one of the database is itself. Added stages do not run there.
    pub(crate) fn into_database(self) -> quarry_database::Error {
        match self.cause.map(|cause| *cause) {
            Some(Cause::Database(cause)) => cause,
            Some(Cause::AddedStage(_)) | None => {
                quarry_database::Error::invalid(self.code, self.message)
            }
        }
    }

    /// Whether the operation ends with it, whatever it was at: it was killed, or has run out of time.
    pub(crate) fn ends_operation(&self) -> bool {
        self.cause()
            .is_some_and(quarry_database::Error::ends_operation)
    }

    /// Whether the operation may succeed when it is run again as it is.
    pub fn is_retryable(&self) -> bool {
        self.cause()
            .is_some_and(quarry_database::Error::is_retryable)
    }

    /// Whether stored bytes are not what was written.
    pub fn is_corruption(&self) -> bool {
        self.cause()
            .is_some_and(quarry_database::Error::is_corruption)
    }

    /// Whether nobody can say if a write has happened.
    pub fn is_outcome_unknown(&self) -> bool {
        self.cause()
            .is_some_and(quarry_database::Error::is_outcome_unknown)
    }
}

/// Errors are equal when a client cannot tell them apart.
impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        self.code == other.code && self.message == other.message
    }
}

impl Eq for Error {}

impl From<quarry_database::Error> for Error {
    fn from(cause: quarry_database::Error) -> Error {
        Error {
            code: ErrorCode(cause.code()),
            message: message_text::of(&cause),
            cause: Some(Box::new(Cause::Database(cause))),
        }
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
