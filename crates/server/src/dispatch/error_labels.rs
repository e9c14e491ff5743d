//! The labels by which a driver knows what it may do again: a write, or a whole transaction. They stand in the reply of a
//! command with a txnNumber only.

use quarry_query::ErrorCode;

use crate::dispatch::transaction_arguments::{Part, TransactionArguments};

/// The transaction may be run again from its first command.
const TRANSIENT: &str = "TransientTransactionError";
/// The command may be sent again.
pub const RETRYABLE: &str = "RetryableWriteError";

/// The label of an error that the command ended with, if there is one.
pub fn label(arguments: TransactionArguments, code: i32) -> Option<&'static str> {
    let code = ErrorCode(code);
    match arguments.part {
        Part::RetryableWrite => is_retryable(code).then_some(RETRYABLE),
        // Sent again, a commit is answered as it ended. One that was aborted may be run again from the start.
        Part::End if code == ErrorCode::NO_SUCH_TRANSACTION || is_transient(code) => {
            Some(TRANSIENT)
        }
        Part::End => is_retryable(code).then_some(RETRYABLE),
        Part::Start | Part::Continue => {
            let is_over = code == ErrorCode::NO_SUCH_TRANSACTION;
            (is_over || is_transient(code) || is_retryable(code)).then_some(TRANSIENT)
        }
    }
}

/// Whether a transaction that met the error may be run again.
pub fn is_transient(code: ErrorCode) -> bool {
    [
        ErrorCode::WRITE_CONFLICT,
        ErrorCode::LOCK_TIMEOUT,
        ErrorCode::SNAPSHOT_TOO_OLD,
        ErrorCode::SNAPSHOT_UNAVAILABLE,
        ErrorCode::PREPARED_TRANSACTION_IN_PROGRESS,
    ]
    .contains(&code)
}

/// Whether MongoDB's drivers may send a command again that met the error.
pub fn is_retryable(code: ErrorCode) -> bool {
    [
        ErrorCode::HOST_UNREACHABLE,
        ErrorCode::HOST_NOT_FOUND,
        ErrorCode::NETWORK_TIMEOUT,
        ErrorCode::SHUTDOWN_IN_PROGRESS,
        ErrorCode::PRIMARY_STEPPED_DOWN,
        ErrorCode::EXCEEDED_TIME_LIMIT,
        ErrorCode::SOCKET_EXCEPTION,
        ErrorCode::NOT_WRITABLE_PRIMARY,
        ErrorCode::INTERRUPTED_AT_SHUTDOWN,
        ErrorCode::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
        ErrorCode::NOT_PRIMARY_NO_SECONDARY_OK,
        ErrorCode::NOT_PRIMARY_OR_SECONDARY,
    ]
    .contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(part: Part, code: i32) -> Option<&'static str> {
        label(TransactionArguments { number: 1, part }, code)
    }

    #[test]
    fn labels_stand_only_where_they_belong() {
        for part in [Part::Start, Part::Continue] {
            for code in [112, 24, 246, 251, 11_600] {
                assert_eq!(of(part, code), Some(TRANSIENT), "{code}");
            }
            assert_eq!(of(part, 11_000), None);
        }
        assert_eq!(of(Part::End, 251), Some(TRANSIENT));
        assert_eq!(of(Part::End, 11_600), Some(RETRYABLE));
        assert_eq!(of(Part::End, 256), None);
        assert_eq!(of(Part::RetryableWrite, 91), Some(RETRYABLE));
        for code in [112, 251, 11_000, 225] {
            assert_eq!(of(Part::RetryableWrite, code), None, "{code}");
        }
    }
}
