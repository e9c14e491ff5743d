//! The sixteen bytes in front of every message.

use crate::error::{Error, Result};

/// The length of a header.
pub const HEADER_BYTES: usize = 16;

/// The document sequences of one message: no command has more (`bulkWrite` has two).
pub const SEQUENCES_MAX: usize = 4;

/// The largest message, compressed or not, in either direction.
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;

/// The operations of the protocol that this server meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpCode {
    /// OP_REPLY, the answer to OP_QUERY.
    Reply,
    /// OP_QUERY, answered for `hello` alone.
    Query,
    /// OP_COMPRESSED, which packs one of the others.
    Compressed,
    /// OP_MSG, which all commands and replies are.
    Msg,
}

impl OpCode {
    /// The number in a message's header.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::Reply => 1,
            Self::Query => 2004,
            Self::Compressed => 2012,
            Self::Msg => 2013,
        }
    }

    /// The operation of that number, if this server meets it.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        [Self::Reply, Self::Query, Self::Compressed, Self::Msg]
            .into_iter()
            .find(|op_code| op_code.number() == number)
    }
}

/// A message's header. `op_code` is the number as it stands, known or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The whole message, this header included.
    pub message_bytes: usize,
    /// The sender's number for this message.
    pub request_id: i32,
    /// The number of the message that this one answers; 0 in a request.
    pub response_to: i32,
    /// The number of the operation.
    pub op_code: i32,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// A length below that of a header or above [`MESSAGE_BYTES_MAX`].
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self> {
        let field = |at: usize| {
            i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let length = field(0);
        let message_bytes = usize::try_from(length)
            .ok()
            .filter(|bytes| (HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(bytes))
            .ok_or(Error::Length {
                offset: 0,
                length: i64::from(length),
                expected: "16 to 48000000 bytes",
            })?;
        Ok(Self {
            message_bytes,
            request_id: field(4),
            response_to: field(8),
            op_code: field(12),
        })
    }

    /// The header as it stands in front of a message.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&(self.message_bytes as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.request_id.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.response_to.to_le_bytes());
        bytes[12..].copy_from_slice(&self.op_code.to_le_bytes());
        bytes
    }
}
