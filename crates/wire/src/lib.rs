//! The MongoDB wire protocol: bytes to requests, replies to bytes.
//!
//! [`parse`] takes one whole message apart without copying documents (a compressed one is first
//! unpacked into the caller's scratch buffer) and validates every document in it, once: of what it hands
//! out only text needs a second look, which may be any bytes. [`ReplyBuilder`] frames a reply that is built in place in a caller's
//! buffer; [`compress`] packs one. Whatever the bytes are, nothing here panics, and nothing is
//! allocated that a named bound does not cover.
//!
//! This crate knows no sockets and no commands. docs/formats/wire.md describes the messages.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod compression;
mod cursor;
mod error;
mod header;
mod op_msg;
mod op_query;
mod reply;
mod request;

pub use compression::{Compressor, FRAME_BYTES, compress, unpacked_bytes};
pub use error::{Error, Result};
pub use header::{HEADER_BYTES, Header, MESSAGE_BYTES_MAX, OpCode, SEQUENCES_MAX};
pub use op_msg::{DocumentSequence, Documents, OpMsg, Refused};
pub use op_query::OpQuery;
pub use reply::ReplyBuilder;
pub use request::{Request, parse};
