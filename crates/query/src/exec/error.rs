//! Errors on their way through the functions that the database calls back.

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// The result of reading the engine or stored bytes: bytes that are no document are damaged ones here, and no client's.
pub(crate) fn stored<T, E>(result: Result<T, E>) -> Result<T>
where
    quarry_database::Error: From<E>,
{
    result.map_err(|error| quarry_database::Error::from(error).into())
}

/// The error of an index entry whose values cannot be read.
pub(crate) fn broken_entry(error: quarry_keystring::Error) -> Error {
    quarry_database::Error::Corrupt(format!("an index entry is broken: {error}")).into()
}

/// The error of an operation that would hold more than it may.
pub(crate) fn memory_exceeded(what: &str, bytes_max: usize) -> Error {
    let text = format!(
        "{what} exceeded its memory limit of {bytes_max} bytes, and spilling to disk is not supported"
    );
    Error::new(
        ErrorCode::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
        text,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_database::Error as Below;

    #[test]
    fn an_error_is_itself_on_both_sides_of_the_database() {
        let of_language = Error::location(31_254, "no");
        let again = Error::from(of_language.clone().into_database());
        assert_eq!(again, of_language);
        for below in [Below::WriteConflict, Below::OutcomeUnknown("?".to_owned())] {
            let error = Error::from(below.clone());
            assert_eq!(error.is_retryable(), below.is_retryable());
            assert_eq!(error.is_outcome_unknown(), below.is_outcome_unknown());
            let again = error.into_database();
            assert_eq!(
                std::mem::discriminant(&again),
                std::mem::discriminant(&below)
            );
        }
        let damaged = stored(quarry_bson::RawDocument::new(&[1])).unwrap_err();
        assert!(damaged.is_corruption(), "{damaged:?}");
    }
}
