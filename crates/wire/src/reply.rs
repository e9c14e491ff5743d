//! Replies, framed around a body that is built in place.

use crate::header::{HEADER_BYTES, Header, MESSAGE_BYTES_MAX, OpCode};
use crate::op_msg::{CHECKSUM_BYTES, CHECKSUM_PRESENT, MORE_TO_COME, SECTION_BODY};

/// A reply under construction at the end of a caller's buffer. The body, one document, is appended to
/// [`ReplyBuilder::body`]; [`ReplyBuilder::finish`] then patches the lengths.
#[derive(Debug)]
#[must_use = "a reply is a message only once it is finished"]
pub struct ReplyBuilder<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    header: Header,
    flags: u32,
}

impl<'b> ReplyBuilder<'b> {
    /// Begins an OP_MSG.
    pub fn new(out: &'b mut Vec<u8>, request_id: i32, response_to: i32) -> Self {
        let reply = Self::begin(out, request_id, response_to, OpCode::Msg);
        reply.out.extend_from_slice(&0u32.to_le_bytes());
        reply.out.push(SECTION_BODY);
        reply
    }

    /// Begins an OP_REPLY, the answer to OP_QUERY, with one document.
    pub fn op_reply(out: &'b mut Vec<u8>, request_id: i32, response_to: i32) -> Self {
        /// Set by every server for a long time; clients may rely on it.
        const AWAIT_CAPABLE: u32 = 1 << 3;
        let reply = Self::begin(out, request_id, response_to, OpCode::Reply);
        reply.out.extend_from_slice(&AWAIT_CAPABLE.to_le_bytes());
        reply.out.extend_from_slice(&0i64.to_le_bytes()); // the cursor
        reply.out.extend_from_slice(&0i32.to_le_bytes()); // starting from
        reply.out.extend_from_slice(&1i32.to_le_bytes()); // documents
        reply
    }

    fn begin(out: &'b mut Vec<u8>, request_id: i32, response_to: i32, op_code: OpCode) -> Self {
        let start = out.len();
        let header = Header {
            message_bytes: 0,
            request_id,
            response_to,
            op_code: op_code.number(),
        };
        out.extend_from_slice(&header.to_bytes());
        Self {
            out,
            start,
            header,
            flags: 0,
        }
    }

    /// Where the body goes: append exactly one document.
    pub fn body(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Says that another reply to the same request follows (OP_MSG only).
    pub fn set_more_to_come(&mut self) {
        self.flags |= MORE_TO_COME;
    }

    /// Puts a checksum behind the reply (OP_MSG only): for clients that sent one.
    pub fn set_checksum(&mut self) {
        self.flags |= CHECKSUM_PRESENT;
    }

    /// Patches lengths and flags; the buffer then ends with the whole message.
    pub fn finish(mut self) {
        let has_checksum = self.flags & CHECKSUM_PRESENT != 0;
        let trailer = if has_checksum { CHECKSUM_BYTES } else { 0 };
        self.header.message_bytes = self.out.len() - self.start + trailer;
        assert!(
            self.header.message_bytes <= MESSAGE_BYTES_MAX,
            "a reply is bounded by the largest document, far below the largest message"
        );
        let message = &mut self.out[self.start..];
        message[..HEADER_BYTES].copy_from_slice(&self.header.to_bytes());
        if self.flags != 0 && self.header.op_code == OpCode::Msg.number() {
            message[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&self.flags.to_le_bytes());
        }
        if has_checksum {
            let checksum = crc32c::crc32c(message);
            self.out.extend_from_slice(&checksum.to_le_bytes());
        }
    }
}
