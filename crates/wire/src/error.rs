//! Why bytes are no message. Some of these are answered; the others end the connection that sent them.

use std::fmt;

/// The result of every function of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// `offset` counts from the start of the message; in a compressed one, of the message as unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The bytes do not hold what the protocol has there.
    Malformed {
        /// The byte at fault.
        offset: usize,
        /// The text says what should have stood there.
        expected: &'static str,
    },
    /// A length that lies outside its bounds.
    Length {
        /// The place of the length.
        offset: usize,
        /// The length as it stands.
        length: i64,
        /// The text says what the length is of.
        expected: &'static str,
    },
    /// A document in the message is not valid BSON.
    Document {
        /// The place where the document begins.
        offset: usize,
        /// The fault in the document; its own offset counts from there.
        source: quarry_bson::Error,
    },
    /// An operation that this server does not read.
    OpCode(i32),
    /// Flags of OP_MSG that a receiver must understand, and this one does not.
    Flags(u32),
    /// More document sequences than any command has.
    TooManySequences,
    /// The checksum behind the message is not that of its bytes.
    Checksum {
        /// The checksum behind the message.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// A compressor that this server does not know.
    Compressor(u8),
    /// Bytes that cannot be unpacked to the size that the message claims, or cannot be packed.
    Compression {
        /// The compressor's name.
        compressor: &'static str,
        /// The text says what went wrong.
        what: String,
    },
}

impl Error {
    pub(crate) fn malformed(offset: usize, expected: &'static str) -> Self {
        Self::Malformed { offset, expected }
    }

    /// Whether the sender can be told and the connection go on, where this was found in an OP_MSG: the message's length
    /// held, so that the next one is found. As in MongoDB, flags that the receiver must know and does not, and too many
    /// sequences, end the connection; bytes that were damaged on their way do as well, because they may be anybody's.
    #[must_use]
    pub fn is_answerable(&self) -> bool {
        matches!(
            self,
            Self::Malformed { .. } | Self::Length { .. } | Self::Document { .. }
        )
    }

    /// MongoDB's error number for it.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self {
            Self::Malformed { .. } | Self::OpCode(_) => 17,
            Self::Length { .. } => 16,
            Self::Document { source, .. } => match source {
                quarry_bson::Error::TooDeep { .. } => 15,
                quarry_bson::Error::TooLarge { .. } => 10_334,
                _ => 22,
            },
            Self::Flags(_) => 223,
            Self::TooManySequences => 233,
            Self::Checksum { .. } => 288,
            Self::Compressor(_) | Self::Compression { .. } => 2,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { offset, expected } => {
                write!(f, "malformed message at byte {offset}: expected {expected}")
            }
            Self::Length {
                offset,
                length,
                expected,
            } => {
                write!(
                    f,
                    "length {length} at byte {offset} of a message: expected {expected}"
                )
            }
            Self::Document { offset, source } => {
                write!(
                    f,
                    "invalid document at byte {offset} of a message: {source}"
                )
            }
            Self::OpCode(code) => write!(f, "operation code {code} is not supported"),
            Self::Flags(flags) => write!(f, "required OP_MSG flags {flags:#06x} are not known"),
            Self::TooManySequences => {
                write!(f, "more than {} document sequences", crate::SEQUENCES_MAX)
            }
            Self::Checksum { stored, computed } => {
                write!(
                    f,
                    "checksum {stored:#010x} of a message whose bytes have {computed:#010x}"
                )
            }
            Self::Compressor(id) => write!(f, "compressor {id} is not known"),
            Self::Compression { compressor, what } => write!(f, "{compressor}: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Document { source, .. } => Some(source),
            _ => None,
        }
    }
}
