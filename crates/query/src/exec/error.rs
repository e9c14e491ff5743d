//! Query errors on their way through the database floor and back. The executor speaks the database's error: it is
//! the one that tells a refused key and an unknown outcome apart; a query's own error keeps its code and message.

use crate::error_code::ErrorCode;

/// The result of running an operation: errors of the language come as the database's own.
pub type Result<T> = std::result::Result<T, quarry_database::Error>;

impl From<crate::Error> for quarry_database::Error {
    fn from(error: crate::Error) -> quarry_database::Error {
        quarry_database::Error::invalid(error.code, error.message)
    }
}

impl From<quarry_database::Error> for crate::Error {
    fn from(error: quarry_database::Error) -> crate::Error {
        crate::Error::new(ErrorCode(error.code()), error.to_string())
    }
}

/// The error of an operation that would hold more than it may.
pub(super) fn memory_exceeded(what: &str, bytes_max: usize) -> quarry_database::Error {
    let text = format!(
        "{what} exceeded its memory limit of {bytes_max} bytes, and spilling to disk is not supported"
    );
    crate::Error::new(
        ErrorCode::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
        text,
    )
    .into()
}
