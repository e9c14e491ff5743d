//! The errors below the query language. `code` gives MongoDB's number for each.

use std::fmt;

use quarry_bson::{Document, Value};
use quarry_collation::Collation;

use crate::error_code::ErrorCode;

/// The result of every function of this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error below the query language.
#[derive(Debug, Clone)]
pub enum Error {
    /// There is no such collection.
    NamespaceNotFound(String),
    /// A collection of that name exists, with other options where that matters.
    NamespaceExists(String),
    /// A name that no database or collection can have.
    InvalidNamespace(String),
    /// There is no such index.
    IndexNotFound(String),
    /// A failed option, a wrong type or value, with MongoDB's code.
    Invalid {
        /// MongoDB's number.
        code: ErrorCode,
        /// The text for the client.
        message: String,
    },
    /// A unique key is taken.
    DuplicateKey(Box<DuplicateKey>),
    /// An index cannot be made unique: documents share keys of it.
    SharedKeys(Box<SharedKeys>),
    /// A document does not suit the validator of its collection; with MongoDB's `errInfo`.
    InvalidDocument(Box<Document>),
    /// killOp, or the client has gone.
    Interrupted,
    /// The operation was ended because the server stops.
    Stopped,
    /// The operation has run out of its maxTimeMS.
    MaxTimeExpired,
    /// The collection of a running operation was dropped or renamed.
    QueryPlanKilled(String),
    /// Another writer was faster. The operation may be run again.
    WriteConflict,
    /// Writes are refused: the disk is full, or a sync or the engine has failed. With `no_space` they are taken again once
    /// there is room; otherwise a restart is needed.
    WritesRefused {
        /// The text for the client.
        message: String,
        /// The disk is full, and nothing else is wrong.
        no_space: bool,
    },
    /// The write may or may not have happened; nobody may be told that it failed.
    OutcomeUnknown(String),
    /// Stored bytes are not what was written.
    Corrupt(String),
    /// The data directory is of another database, engine or format.
    Foreign(String),
    /// The engine failed otherwise.
    Storage(quarry_storage::Error),
    /// The database is closing.
    ShuttingDown,
}

/// One refused unique key.
#[derive(Debug, Clone)]
pub struct DuplicateKey {
    /// The collection, as `database.collection`.
    pub namespace: String,
    /// The index's name.
    pub index: String,
    /// The index's key pattern.
    pub key_pattern: Document,
    /// The values that are taken, by field; sort keys in hexadecimal digits.
    pub key_value: Document,
    /// How the index tells strings apart.
    pub collation: Collation,
}

/// Documents that keep an index from being made unique.
#[derive(Debug, Clone, Default)]
pub struct SharedKeys {
    /// A document for each shared key, with the `_id`s of those that share it in `ids`.
    pub violations: Vec<Value>,
    /// There are more of them than are told.
    pub is_cut: bool,
}

impl Error {
    /// An error with MongoDB's number.
    pub fn invalid(code: ErrorCode, message: impl Into<String>) -> Error {
        Error::Invalid {
            code,
            message: message.into(),
        }
    }

    /// An `_id` that makes a longer key than engines take.
    pub(crate) fn id_too_long() -> Error {
        let message = format!(
            "the `_id` makes a key longer than {} bytes",
            quarry_storage::KEY_BYTES_MAX
        );
        Error::invalid(ErrorCode(17_280), message)
    }

    /// Whether the operation may succeed when it is run again as it is: another writer was faster, or the engine had no room
    /// for one more reader.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::WriteConflict => true,
            Error::Storage(error) => error.is_retryable(),
            _ => false,
        }
    }

    /// Whether stored bytes are not what was written.
    pub fn is_corruption(&self) -> bool {
        match self {
            Error::Corrupt(_) => true,
            Error::Storage(error) => error.is_corruption(),
            _ => false,
        }
    }

    /// Whether nobody can say if a write has happened: nobody may be told that it failed.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Error::OutcomeUnknown(_))
    }

    /// Whether the error is the operation's own end and not one of a single document: it was killed, ran out of time, or the
    /// outcome of what it wrote cannot be told.
    pub fn ends_operation(&self) -> bool {
        matches!(
            self,
            Error::OutcomeUnknown(_)
                | Error::Interrupted
                | Error::Stopped
                | Error::MaxTimeExpired
                | Error::ShuttingDown
        )
    }

    /// MongoDB's error number.
    pub fn code(&self) -> i32 {
        self.error_code().0
    }

    fn error_code(&self) -> ErrorCode {
        match self {
            Error::NamespaceNotFound(_) => ErrorCode::NAMESPACE_NOT_FOUND,
            Error::NamespaceExists(_) => ErrorCode::NAMESPACE_EXISTS,
            Error::InvalidNamespace(_) => ErrorCode::INVALID_NAMESPACE,
            Error::IndexNotFound(_) => ErrorCode::INDEX_NOT_FOUND,
            Error::Invalid { code, .. } => *code,
            Error::DuplicateKey(_) => ErrorCode::DUPLICATE_KEY,
            Error::SharedKeys(_) => ErrorCode::CANNOT_CONVERT_INDEX_TO_UNIQUE,
            Error::InvalidDocument(_) => ErrorCode::DOCUMENT_VALIDATION_FAILURE,
            Error::Interrupted => ErrorCode::INTERRUPTED,
            Error::Stopped => ErrorCode::INTERRUPTED_AT_SHUTDOWN,
            Error::MaxTimeExpired => ErrorCode::MAX_TIME_MS_EXPIRED,
            Error::QueryPlanKilled(_) => ErrorCode::QUERY_PLAN_KILLED,
            Error::WriteConflict => ErrorCode::WRITE_CONFLICT,
            Error::WritesRefused { no_space: true, .. } => ErrorCode::OUT_OF_DISK_SPACE,
            Error::WritesRefused { .. } => ErrorCode::NOT_PRIMARY_OR_SECONDARY,
            Error::OutcomeUnknown(_) => ErrorCode::SHUTDOWN_IN_PROGRESS,
            Error::Corrupt(_) => ErrorCode::FILE_STREAM_FAILED,
            // The engine has no room for one more reader, or no file descriptor: the same may succeed a moment later.
            Error::Storage(quarry_storage::Error::Stalled(_)) => ErrorCode::TEMPORARILY_UNAVAILABLE,
            Error::Storage(error) if error.is_no_space() => ErrorCode::OUT_OF_DISK_SPACE,
            Error::Foreign(_) | Error::Storage(_) => ErrorCode::UNKNOWN_ERROR,
            Error::ShuttingDown => ErrorCode::SHUTDOWN_IN_PROGRESS,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NamespaceNotFound(text)
            | Error::NamespaceExists(text)
            | Error::InvalidNamespace(text)
            | Error::IndexNotFound(text)
            | Error::QueryPlanKilled(text)
            | Error::OutcomeUnknown(text)
            | Error::Corrupt(text)
            | Error::Foreign(text) => f.write_str(text),
            Error::Invalid { message, .. } | Error::WritesRefused { message, .. } => {
                f.write_str(message)
            }
            Error::DuplicateKey(d) => {
                write!(
                    f,
                    "E11000 duplicate key error collection: {} index: {}",
                    d.namespace, d.index
                )?;
                if let Some(collation) = d.collation.specification() {
                    write!(f, " collation: {collation}")?;
                }
                write!(f, " dup key: {}", d.key_value)
            }
            Error::SharedKeys(keys) if keys.is_cut => f.write_str(
                "Cannot convert the index to unique. Too many conflicting documents were detected. Please resolve them and rerun collMod.",
            ),
            Error::SharedKeys(_) => f.write_str(
                "Cannot convert the index to unique. Please resolve conflicting documents before running collMod again.",
            ),
            Error::InvalidDocument(_) => f.write_str("Document failed validation"),
            Error::Interrupted => f.write_str("operation was interrupted"),
            Error::Stopped => f.write_str("interrupted at shutdown"),
            Error::MaxTimeExpired => f.write_str("operation exceeded time limit"),
            Error::WriteConflict => f.write_str(
                "Caused by :: Write conflict during plan execution and yielding is disabled. :: Please retry your operation or multi-document transaction.",
            ),
            Error::Storage(error) => write!(f, "storage: {error}"),
            Error::ShuttingDown => f.write_str("the server is shutting down"),
        }
    }
}

impl std::error::Error for Error {}

impl From<quarry_storage::Error> for Error {
    fn from(error: quarry_storage::Error) -> Error {
        Error::Storage(error)
    }
}

impl From<quarry_bson::Error> for Error {
    fn from(error: quarry_bson::Error) -> Error {
        Error::Corrupt(error.to_string())
    }
}

impl From<quarry_journal::Error> for Error {
    fn from(error: quarry_journal::Error) -> Error {
        use quarry_journal::Error as Journal;
        if error.is_outcome_unknown() {
            return Error::OutcomeUnknown(error.to_string());
        }
        match &error {
            Journal::Damaged { .. } => Error::Corrupt(error.to_string()),
            Journal::ForeignJournal { .. }
            | Journal::UnsupportedVersion { .. }
            | Journal::HistoryMissing { .. } => Error::Foreign(error.to_string()),
            Journal::Closed => Error::ShuttingDown,
            Journal::RecordTooLarge { .. } => {
                Error::invalid(ErrorCode::BSON_OBJECT_TOO_LARGE, error.to_string())
            }
            _ => Error::WritesRefused {
                message: error.to_string(),
                no_space: error.is_no_space(),
            },
        }
    }
}
