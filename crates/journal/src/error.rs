//! The crate's one error. It answers what a caller acts on: may the same call succeed later
//! (`is_retryable`), is it known whether the write survives (`is_outcome_unknown`), is the data on
//! disk damaged (`is_corruption`). It is cheap to clone, because one failed group answers many writers.

use std::fmt;
use std::io;

/// Every failure of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The operating system refused a file operation outside the commit path.
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file that it was for.
        file: String,
        /// The operating system's words.
        message: String,
    },
    /// No space is left. Nothing was written; the journal goes on by itself when space returns.
    NoSpace {
        /// The text says where.
        message: String,
    },
    /// The next segment could not be made, for want of a descriptor for example. Nothing was written; the next write tries
    /// again.
    SegmentUnmade {
        /// The text says why.
        message: String,
    },
    /// Bytes that were durable are not what was written: the start is refused.
    Damaged {
        /// The segment's file name.
        segment: String,
        /// The byte at which the damage was met.
        offset: u64,
        /// The rule that is broken there.
        reason: String,
    },
    /// The journal belongs to another database, or to another engine of the same database.
    ForeignJournal {
        /// The segment's file name.
        segment: String,
        /// The difference.
        reason: String,
    },
    /// A format version that this build does not read.
    UnsupportedVersion {
        /// The segment's file name.
        segment: String,
        /// The version that it says.
        version: u32,
    },
    /// The journal begins after the record that the engine needs next.
    HistoryMissing {
        /// The record that the engine needs next.
        needed_lsn: u64,
        /// The first record of the journal.
        first_lsn: u64,
    },
    /// The engine's owner refused the group before it was written. Nothing was written.
    Refused(HookError),
    /// The owner did not apply a group that the log holds. The journal has latched; the next start replays the group.
    Unapplied(HookError),
    /// An earlier failure stopped the journal. This write was not accepted.
    Latched {
        /// The failure that stopped it.
        cause: String,
    },
    /// The write may or may not survive: the disk failed while it was on its way.
    OutcomeUnknown {
        /// The failure.
        cause: String,
    },
    /// A record beyond the limit of the format.
    RecordTooLarge {
        /// The length of the record.
        record_bytes: usize,
        /// The longest record that the format has.
        record_bytes_max: usize,
    },
    /// The caller expected another position than the log's next one.
    PositionMoved {
        /// The position that the caller expected.
        expected_lsn: u64,
        /// The log's next position.
        next_lsn: u64,
    },
    /// The journal was closed.
    Closed,
    /// The caller no longer wants what it has begun.
    Interrupted,
}

/// The result of every function of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether the same call may succeed later without a restart.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::NoSpace { .. } | Error::SegmentUnmade { .. } | Error::PositionMoved { .. } => {
                true
            }
            Error::Refused(hook) => hook.kind != HookErrorKind::Failed,
            _ => false,
        }
    }

    /// Whether the caller cannot know if the write survives: never answer such a write with a plain error.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Error::OutcomeUnknown { .. } | Error::Unapplied(_))
    }

    /// Whether bytes on disk are wrong.
    pub fn is_corruption(&self) -> bool {
        matches!(self, Error::Damaged { .. })
    }

    /// Whether the disk, the journal's or the engine's, is full.
    pub fn is_no_space(&self) -> bool {
        match self {
            Error::NoSpace { .. } => true,
            Error::Refused(hook) | Error::Unapplied(hook) => hook.kind == HookErrorKind::NoSpace,
            _ => false,
        }
    }

    /// The error of a group for which no segment could be made.
    pub(crate) fn unmade(self) -> Self {
        match self {
            Error::Io { .. } => Error::SegmentUnmade {
                message: self.to_string(),
            },
            other => other,
        }
    }

    /// Whether the engine was stalled when the group was offered. Nothing was written: whoever still wants the write
    /// waits for the engine without a turn in the journal, and submits again.
    pub fn is_stalled(&self) -> bool {
        matches!(self, Error::Refused(hook) if hook.kind == HookErrorKind::Stalled)
    }

    pub(crate) fn io(action: &'static str, file: &str, error: &io::Error) -> Self {
        if is_storage_full(error) {
            return Error::NoSpace {
                message: format!("{action} `{file}`: {error}"),
            };
        }
        Error::Io {
            action,
            file: file.to_owned(),
            message: error.to_string(),
        }
    }
}

/// Full disk and exhausted quota are the two failures that end by themselves.
pub(crate) fn is_storage_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io {
                action,
                file,
                message,
            } => write!(f, "{action} `{file}`: {message}"),
            Error::SegmentUnmade { message } => {
                write!(f, "the next journal segment cannot be made: {message}")
            }
            Error::NoSpace { message } => write!(f, "no space left for the journal: {message}"),
            Error::Damaged {
                segment,
                offset,
                reason,
            } => {
                write!(
                    f,
                    "journal segment `{segment}` is damaged at offset {offset}: {reason}"
                )
            }
            Error::ForeignJournal { segment, reason } => {
                write!(
                    f,
                    "journal segment `{segment}` is not of this database: {reason}"
                )
            }
            Error::UnsupportedVersion { segment, version } => {
                write!(
                    f,
                    "journal segment `{segment}` has format version {version}, which this build does not read"
                )
            }
            Error::HistoryMissing {
                needed_lsn,
                first_lsn: 0,
            } => {
                write!(
                    f,
                    "the journal is empty but the engine needs record {needed_lsn} next"
                )
            }
            Error::HistoryMissing {
                needed_lsn,
                first_lsn,
            } => {
                write!(
                    f,
                    "the journal begins at record {first_lsn} but the engine needs record {needed_lsn} next"
                )
            }
            Error::Refused(hook) => write!(f, "write refused: {hook}"),
            Error::Unapplied(hook) => write!(f, "write accepted but not applied: {hook}"),
            Error::Latched { cause } => write!(f, "the journal refuses writes: {cause}"),
            Error::OutcomeUnknown { cause } => {
                write!(f, "the outcome of the write is unknown: {cause}")
            }
            Error::RecordTooLarge {
                record_bytes,
                record_bytes_max,
            } => {
                write!(
                    f,
                    "a record of {record_bytes} bytes exceeds the limit of {record_bytes_max}"
                )
            }
            Error::PositionMoved {
                expected_lsn,
                next_lsn,
            } => {
                write!(
                    f,
                    "expected the next record to be {expected_lsn} but it is {next_lsn}"
                )
            }
            Error::Closed => write!(f, "the journal is closed"),
            Error::Interrupted => write!(f, "the caller did not wait for the end"),
        }
    }
}

impl std::error::Error for Error {}

/// The kind of trouble that a hook reports. Only `Failed` is not expected to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookErrorKind {
    /// No space is left; it may return.
    NoSpace,
    /// The engine cannot take the group now, and will by itself.
    Stalled,
    /// The engine has failed.
    Failed,
}

/// A hook's refusal, in the owner's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookError {
    /// The kind of trouble.
    pub kind: HookErrorKind,
    /// The owner's words.
    pub message: String,
}

impl HookError {
    /// A refusal of that kind.
    pub fn new(kind: HookErrorKind, message: impl Into<String>) -> Self {
        HookError {
            kind,
            message: message.into(),
        }
    }
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for HookError {}
